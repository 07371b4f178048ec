/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_BENCH_COUNTED_H
#define BTL_IB_BENCH_COUNTED_H

#include <stdint.h>
#include <string.h>

#include "btl_ib_counters.h"

/* How many received datagrams the counters account for: each must be in exactly one of them, so this
 * is received_datagrams. (What is refused while draining was received as well.) */
static inline uint64_t bench_counted(const btl_ib_counters_t *count)
{
    uint64_t sum = count->received_segments + count->received_parts + count->received_skips
                   + count->received_acks + count->received_refusals + count->received_responses
                   + count->received_unidentified + count->connections_closed
                   - count->refused_draining;

    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; info->name != NULL; info++) {
        if (strncmp(info->name, "dropped_", 8) == 0 || strncmp(info->name, "refused_", 8) == 0) {
            sum += *(const uint64_t *) (const void *) ((const char *) count + info->offset);
        }
    }
    return sum;
}

#endif
