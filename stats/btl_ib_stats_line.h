/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_STATS_LINE_H
#define BTL_IB_STATS_LINE_H

#include <stdint.h>

#include "btl_ib_counters.h"

/* ---- values ---- */

/*
 * What statistics show of devices and of a process, besides what the engine counts
 * (btl_ib_counters.h). Names and descriptions are in these two headers, and nowhere else.
 */

/* Of a device, besides what the engine counts of its rail: X(field, "what it counts"). */
#define BTL_IB_DEVICE_COUNTERS(X)                                                                  \
    X(overflows, "datagrams that found no room in a receive buffer, as far as the system tells")   \
    X(registration_hits, "requests for memory that was registered with the device already")        \
    X(registration_misses, "times that memory was registered with the device")                     \
    X(registration_evictions, "registrations given up to make room for others")                    \
    X(registration_unmapped, "registrations given up because the memory is gone")                  \
    X(registration_failures, "times that memory was not registered, so that processors copy")

typedef struct btl_ib_device_counters {
#define BTL_IB_COUNTER_FIELD(field, text) uint64_t field;
    BTL_IB_DEVICE_COUNTERS(BTL_IB_COUNTER_FIELD)
#undef BTL_IB_COUNTER_FIELD
} btl_ib_device_counters_t;

/* All of the struct, in its order; ends with a NULL name. */
extern const btl_ib_counter_info_t btl_ib_device_counter_infos[];

/* Of the process: `devices` is the sum over all. */
typedef struct btl_ib_process_counters {
    btl_ib_counters_t engine;
    btl_ib_device_counters_t devices;
} btl_ib_process_counters_t;

/* ---- the line ---- */

/* The line of counters that btl_ib_stats prints. */

/* `when` stands behind the host: "", or for instance " after 10 s,". */
void btl_ib_stats_print(uint32_t rank, const char *host, const char *when,
                        const btl_ib_process_counters_t *counters);

#endif
