/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_stats_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the line ---- */

/* The sum of all counters that begin so, and each of them: "12 (stranger 10, token 2)", or "0". */
static void format_causes(const btl_ib_counters_t *counters, const char *prefix, char *out,
                          size_t size)
{
    const size_t skip = strlen(prefix);
    uint64_t sum = 0;
    char causes[512] = "";
    size_t len = 0;

    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; NULL != info->name; ++info) {
        const uint64_t value = btl_ib_counter_value(info, counters);

        if (0 == value || 0 != strncmp(info->name, prefix, skip) || len >= sizeof(causes)) {
            continue;
        }
        sum += value;
        len += (size_t) snprintf(causes + len, sizeof(causes) - len, "%s%s %" PRIu64,
                                 len > 0 ? ", " : "", info->name + skip, value);
    }
    if (0 == sum) {
        snprintf(out, size, "0");
    } else {
        snprintf(out, size, "%" PRIu64 " (%s)", sum, causes);
    }
}

void btl_ib_stats_print(uint32_t rank, const char *host, const char *when,
                        const btl_ib_process_counters_t *counters)
{
    const btl_ib_counters_t *c = &counters->engine;
    char rejected[576];
    char dropped[576];
    char blocked[576];

    format_causes(c, "rejected_", rejected, sizeof(rejected));
    format_causes(c, "dropped_", dropped, sizeof(dropped));
    format_causes(c, "blocked_", blocked, sizeof(blocked));
    fprintf(stderr,
            "btl_ib: rank %u host %s%s sent %" PRIu64 " segments %" PRIu64
            " bytes, received %" PRIu64 " segments %" PRIu64 " bytes, retransmitted %" PRIu64
            " (%" PRIu64 " spurious), timeouts %" PRIu64 ", copied late %" PRIu64
            ", failovers %" PRIu64 ", async turns %" PRIu64 ", datagrams sent %" PRIu64
            " received %" PRIu64 ", puts %" PRIu64 ", gets %" PRIu64 ", atomics %" PRIu64
            ", by device: puts %" PRIu64 " gets %" PRIu64 " atomics %" PRIu64 " returned %" PRIu64
            ", not pinned %" PRIu64 ", served elsewhere %" PRIu64 ", overflows %" PRIu64
            ", blocked %s, rejected %s, dropped %s\n",
            rank, host, when, c->sent_segments, c->sent_bytes, c->received_segments,
            c->received_bytes, c->retransmits, c->retransmits_spurious, c->timeouts, c->zcopy_kept,
            c->failovers, c->async_turns, c->sent_datagrams, c->received_datagrams, c->started_puts,
            c->started_gets, c->started_atomics, c->offload_puts, c->offload_gets,
            c->offload_atomics, c->offload_returned, counters->devices.registration_failures,
            c->served_elsewhere, counters->devices.overflows, blocked, rejected, dropped);
}

/* ---- values ---- */

const btl_ib_counter_info_t btl_ib_device_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field, text) {#field, offsetof(btl_ib_device_counters_t, field), text},
    BTL_IB_DEVICE_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};
