/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_BENCH_COUNTED_H
#define BTL_IB_BENCH_COUNTED_H

#include <stdint.h>
#include <string.h>

#include "btl_ib_engine.h"

/* How many received datagrams the counters account for: each must be in exactly one of them, so
 * this is received_datagrams. */
static inline uint64_t bench_counted(const btl_ib_counters_t *count)
{
    uint64_t sum = count->received_segments + count->received_parts + count->received_skips
                   + count->received_acks + count->received_rejections + count->received_responses
                   + count->received_challenges + count->connections_closed + count->unplaced_puts;

    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; info->name != NULL; info++) {
        if (strncmp(info->name, "dropped_", 8) == 0 || strncmp(info->name, "rnr_", 4) == 0) {
            sum += btl_ib_counter_value(info, count);
        }
    }
    return sum;
}

/* Segments of all channels of a rail: sent, or received. */
static inline uint64_t bench_of_channels(const btl_ib_engine_t *engine, uint32_t rail, bool sent)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < BTL_IB_QUEUES_MAX; i++) {
        const btl_ib_channel_counters_t count = btl_ib_engine_channel_counters(engine, rail, i);
        sum += sent ? count.sent_segments : count.received_segments;
    }
    return sum;
}

/* A counter that is not the sum of what rails count under that name, or channels of one; NULL:
 * there is none. */
static inline const char *bench_miscounted(const btl_ib_engine_t *engine)
{
    for (const btl_ib_counter_info_t *of_rail = btl_ib_rail_counter_infos; of_rail->name != NULL;
         of_rail++) {
        const btl_ib_counter_info_t *info = btl_ib_counter_infos;
        uint64_t sum = 0;
        while (strcmp(info->name, of_rail->name) != 0) {
            info++;
        }
        for (uint32_t i = 0; i < btl_ib_engine_rails(engine); i++) {
            btl_ib_rail_counters_t rail;
            btl_ib_engine_rail_counters(engine, i, &rail);
            if (bench_of_channels(engine, i, true) != rail.sent_segments
                || bench_of_channels(engine, i, false) != rail.received_segments) {
                return "segments of channels";
            }
            sum += btl_ib_counter_value(of_rail, &rail);
        }
        if (sum != btl_ib_counter_value(info, btl_ib_engine_counters(engine))) {
            return info->name;
        }
    }
    return NULL;
}

#endif
