/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Counters for people: a line at the end of a job, and a file while it runs. */

#ifndef BTL_IB_STATS_H
#define BTL_IB_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_biased_lock.h"
#include "btl_ib_counters.h"
#include "btl_ib_engine.h"
#include "btl_ib_registration_cache.h"
#include "btl_ib_ompi_compat.h"

/* ---- values ---- */

/*
 * Values of devices and of a process, besides those that the engine counts (btl_ib_counters.h).
 * Names and descriptions are in that header and this one, and nowhere else.
 */

/* Counters of a device, besides those of its rail in the engine: X(field, "what it counts"). */
#define BTL_IB_DEVICE_COUNTERS(X)                                                                  \
    X(overflows, "datagrams that found no room in a receive buffer, as far as the system tells")   \
    X(received_bursts, "bursts received: several datagrams that the system joined (UDP_GRO)")      \
    X(broken_bursts, "of them, those dropped because they cannot be taken apart")                  \
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

/* The fields of the struct, in its order; ends with a NULL name. */
extern const btl_ib_counter_info_t btl_ib_device_counter_infos[];

/* Counters of the process: `devices` is the sum over all. */
typedef struct btl_ib_process_counters {
    btl_ib_counters_t engine;
    btl_ib_device_counters_t devices;
} btl_ib_process_counters_t;

/* ---- records ---- */

/*
 * Records for the file of btl_ib_stats_file: the counters of connections, which are no more when it
 * is written, and those of the process at intervals.
 */

/* A connection that has ended, with a peer that something was exchanged with. */
typedef struct btl_ib_peer_record_info {
    uint64_t name; /* of the peer, as the engine knows it */
    uint32_t rail; /* of ours */
    bool dead;     /* it was given up */
    char host[64];
    char address[64];
    btl_ib_conn_counters_t counters;
    btl_ib_conn_levels_info_t levels;
} btl_ib_peer_record_info_t;

/* The counters of the process at a moment. */
typedef struct btl_ib_sample_info {
    uint64_t at; /* us since the start */
    btl_ib_process_counters_t counters;
} btl_ib_sample_info_t;

typedef struct btl_ib_stats_records {
    btl_ib_peer_record_info_t *peers;
    uint32_t peer_count, peer_room;
    uint32_t peers_written; /* the first ones, which were in the file of an interval already */
    btl_ib_sample_info_t *samples;
    uint32_t sample_count;
    uint32_t every;   /* intervals of which one is kept; doubled when there is no room left */
    uint32_t skipped; /* intervals since the last that was kept */
    bool incomplete;  /* memory was short */
} btl_ib_stats_records_t;

/* ---- life ---- */

/*
 * Statistics for users: the line of btl_ib_stats, the file of btl_ib_stats_file, and MPI_T. Values
 * are fetched when somebody asks, from where they are counted anyhow, so that nothing costs
 * anything before.
 */

/* Things that statistics look at, all of which are there until btl_ib_stats_end(). */
typedef struct btl_ib_stats_config {
    btl_ib_engine_t *engine;
    btl_ib_biased_lock_t *lock; /* guards the engine; taken by callers of the functions below */
    uint64_t name;              /* of this process, as the engine knows it */
    const char *host;
    const char *component; /* its version, for the file */
    const char *openmpi;   /* its version */
    uint32_t processes;    /* of the job; 0: unknown */
    uint64_t now;          /* us */
    uint64_t interval;     /* us between two lines or records; 0: only when MPI ends */
    bool prints;           /* lines */
    char *file;            /* to be written when MPI ends: malloced, and freed here; NULL: none */
} btl_ib_stats_config_t;

typedef struct btl_ib_stats {
    btl_ib_stats_config_t config; /* engine NULL: before the beginning, or after the end */
    const btl_ib_registration_cache_t *caches[BTL_IB_RAILS_MAX]; /* NULL: not any more */
    btl_ib_device_counters_t ended[BTL_IB_RAILS_MAX];            /* counters of those that ended */
    uint64_t due; /* us: when the interval ends; UINT64_MAX: never */
    btl_ib_stats_records_t records;
} btl_ib_stats_t;

/* All but btl_ib_stats_begin() are called with the lock held. */

void btl_ib_stats_begin(btl_ib_stats_t *stats, const btl_ib_stats_config_t *config);
void btl_ib_stats_end(btl_ib_stats_t *stats);

/* Adds the registration cache of a rail; remove keeps its counters, as it is about to go. */
static inline void btl_ib_stats_add_device(btl_ib_stats_t *stats, uint32_t rail,
                                           const btl_ib_registration_cache_t *cache)
{
    stats->caches[rail] = cache;
}

void btl_ib_stats_remove_device(btl_ib_stats_t *stats, uint32_t rail);

/* Records the counters of a connection that is about to end, or that goes on while the file is
 * written. */
void btl_ib_stats_end_peer(btl_ib_stats_t *stats, const btl_ib_conn_t *conn, const char *host,
                           const char *address);

/* Tells and records an interval, which has ended (stats->due). */
void btl_ib_stats_interval(btl_ib_stats_t *stats, uint64_t now);

/* Prints, as MPI ends, the last line, if lines are wanted, and at verbose 1 who carried what. */
void btl_ib_stats_last(const btl_ib_stats_t *stats);

/* ---- the file ---- */

/* The file of btl_ib_stats_file is JSON, as docs/guide/counters.md says. */

/* Creates the file, empty, to see whether that is possible. Returns 0 or an errno. */
int btl_ib_stats_file_create(const char *name);

/* Writes the file, if one is wanted, as MPI ends at `now` (us). A reader sees the old file or the
 * new one, never a part. Returns 0 or an errno. */
int btl_ib_stats_file_last(const btl_ib_stats_t *stats, uint64_t now);

/* Writes the file at an interval, with the last two samples only, and without peers that had ended
 * before the last interval, or each would be written again and again. Forgets all records of peers
 * but the first `ended` then. An error is not told: if it stays, btl_ib_stats_file_last() tells
 * it. */
void btl_ib_stats_file_update(btl_ib_stats_t *stats, uint64_t now, uint32_t ended);

/* ---- a signal that asks for what a process waits for ---- */

/*
 * The user may choose a signal by which a process is asked what it waits for. The handler only
 * notes that: the next progress call of the application writes the answer. A signal that somebody
 * else handles stays theirs.
 */

/* Handles signal `number`: SIGUSR1, SIGUSR2 or a real-time signal. Returns NULL, or why not. */
const char *btl_ib_dump_signal_watch(int number);

/* Removes the handler, unless the application has its own by now. */
void btl_ib_dump_signal_ignore(void);

/* Returns whether the signal came since the last call. */
bool btl_ib_dump_signal_take(void);

/* ---- MPI_T: performance variables ---- */

/*
 * Performance variables of MPI_T have all that btl_ib_stats.h knows, while the job runs. All are
 * read-only, continuous, bound to no object, and of type unsigned long long:
 *
 *   btl_ib_<counter>         one value, of the process
 *   btl_ib_device_<counter>  BTL_IB_RAILS_MAX values, one for each device, over its rail
 *   btl_ib_channel_<counter> BTL_IB_QUEUES_MAX values, one for each channel, of all devices
 *   btl_ib_peer_<counter>    one value for each process of the job, by its rank in MPI_COMM_WORLD
 *   btl_ib_peer_<level>      one value for each process of the job
 *
 * Counters are of class COUNTER: a handle shows what was counted since it was made. Levels are of
 * class LEVEL. A BTL knows no communicator, so peers go by their ranks in the job, and handles of
 * theirs can be made once MPI is initialized.
 */

/* Registers all variables. `stats` is there as long as the component is. */
void btl_ib_pvars_register(const mca_base_component_t *component, btl_ib_stats_t *stats);

#endif
