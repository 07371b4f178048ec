/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What is counted, for whoever wants to see it: the line of btl_ib_stats, the file of
 * btl_ib_stats_file, and MPI_T. Values are fetched when somebody asks, from where they are counted
 * anyhow, so that nothing costs anything before. Their names and descriptions are in
 * btl_ib_counters.h and below, and nowhere else.
 */

#ifndef BTL_IB_STATS_H
#define BTL_IB_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_biased_lock.h"
#include "btl_ib_counters.h"
#include "btl_ib_engine.h"
#include "btl_ib_registration_cache.h"

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

/* What it looks at, all of which is there until btl_ib_stats_end(). */
typedef struct btl_ib_stats_config {
    btl_ib_engine_t *engine;
    btl_ib_biased_lock_t *lock; /* guards the engine; taken by callers of the functions below */
    uint64_t name;              /* of this process, as the engine knows it */
    const char *host;
    uint32_t processes; /* of the job; 0: unknown */
} btl_ib_stats_config_t;

typedef struct btl_ib_stats {
    btl_ib_stats_config_t config; /* engine NULL: before the beginning, or after the end */
    uint32_t
        processes; /* of the job; stays when the rest has ended, as what was bound to it does */
    const btl_ib_registration_cache_t *caches[BTL_IB_RAILS_MAX]; /* NULL: not any more */
    btl_ib_device_counters_t ended[BTL_IB_RAILS_MAX];            /* what those counted */
} btl_ib_stats_t;

/* All but btl_ib_stats_begin() are called with the lock held. */

void btl_ib_stats_begin(btl_ib_stats_t *stats, const btl_ib_stats_config_t *config);
void btl_ib_stats_end(btl_ib_stats_t *stats);

/* The registration cache of a rail, and that it is about to go. */
void btl_ib_stats_add_device(btl_ib_stats_t *stats, uint32_t rail,
                             const btl_ib_registration_cache_t *cache);
void btl_ib_stats_remove_device(btl_ib_stats_t *stats, uint32_t rail);

/* What was counted; zeros after the end. */
void btl_ib_stats_process(const btl_ib_stats_t *stats, btl_ib_process_counters_t *out);
void btl_ib_stats_device(const btl_ib_stats_t *stats, uint32_t rail, btl_ib_device_counters_t *out);

#endif
