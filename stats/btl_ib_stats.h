/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Statistics for users: lines (btl_ib_stats), a file (btl_ib_stats_file), and MPI_T. */

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

/* The names and descriptions of all counters stand in two places only: those of the engine in
 * btl_ib_counters.h, those of devices here. */

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

/* The fields of btl_ib_device_counters_t, in order. The last name is NULL. */
extern const btl_ib_counter_info_t btl_ib_device_counter_infos[];

/* Counters of the process: `devices` is the sum over all. */
typedef struct btl_ib_process_counters {
    btl_ib_counters_t engine;
    btl_ib_device_counters_t devices;
} btl_ib_process_counters_t;

/* ---- records ---- */

/*
 * Records for the file of btl_ib_stats_file: the counters of connections, as these may have ended
 * when it is written, and the counters of the process at intervals.
 */

/* The counters of a connection on which something was sent or received. */
typedef struct btl_ib_peer_record_info {
    uint64_t name; /* of the peer, as the engine knows it */
    uint32_t rail; /* of ours */
    bool dead;     /* the peer was given up */
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
    uint32_t peer_count;    /* of peers */
    uint32_t peer_room;     /* peers for which there is memory */
    uint32_t peers_written; /* the first ones, which the file of an interval had already */
    btl_ib_sample_info_t *samples;
    uint32_t sample_count;
    uint32_t every;   /* one of this many intervals is kept; doubled when there is no room left */
    uint32_t skipped; /* intervals since the last one that was kept */
    bool incomplete;  /* records are missing, as memory was short */
} btl_ib_stats_records_t;

/* ---- life ---- */

/* Values are read only when they are reported, from where the engine and others count them anyway.
 * So statistics cost nothing in between. */

/* What statistics need. All that the pointers name stays until btl_ib_stats_end(). */
typedef struct btl_ib_stats_config {
    btl_ib_engine_t *engine;
    btl_ib_biased_lock_t *lock; /* guards the engine; taken by callers of the functions below */
    uint64_t name;              /* of this process, as the engine knows it */
    const char *host;
    const char *component; /* version of the component, for the file */
    const char *openmpi;   /* version of Open MPI, for the file */
    uint32_t processes;    /* of the job; 0: unknown */
    uint64_t now;          /* us: the start */
    uint64_t interval;     /* us between two lines or records; 0: only when MPI ends */
    bool prints;           /* lines are wanted */
    char *file;            /* name, malloced, freed by btl_ib_stats_end(); NULL: no file */
} btl_ib_stats_config_t;

typedef struct btl_ib_stats {
    btl_ib_stats_config_t config; /* engine NULL: before the beginning, or after the end */
    const btl_ib_registration_cache_t *caches[BTL_IB_RAILS_MAX]; /* by rail; NULL: removed */
    btl_ib_device_counters_t ended[BTL_IB_RAILS_MAX];            /* counters of removed caches */
    uint64_t due; /* us: when the interval ends; UINT64_MAX: never */
    btl_ib_stats_records_t records;
} btl_ib_stats_t;

/* All but btl_ib_stats_begin() are called with the lock held. */

void btl_ib_stats_begin(btl_ib_stats_t *stats, const btl_ib_stats_config_t *config);
void btl_ib_stats_end(btl_ib_stats_t *stats);

/* Adds the registration cache of a rail. */
static inline void btl_ib_stats_add_device(btl_ib_stats_t *stats, uint32_t rail,
                                           const btl_ib_registration_cache_t *cache)
{
    stats->caches[rail] = cache;
}

/* Removes the registration cache of a rail, which is about to be freed, but keeps its counters. */
void btl_ib_stats_remove_device(btl_ib_stats_t *stats, uint32_t rail);

/* Records the counters of a connection: before it ends, or, if it goes on, before the file is
 * written. */
void btl_ib_stats_end_peer(btl_ib_stats_t *stats, const btl_ib_conn_t *conn, const char *host,
                           const char *address);

/* Prints the line of an interval that has ended (stats->due), if lines are wanted, and records a
 * sample. */
void btl_ib_stats_interval(btl_ib_stats_t *stats, uint64_t now);

/* Prints the last line, if lines are wanted; and, at verbose 1, which rails carried how much.
 * Called when MPI ends. */
void btl_ib_stats_last(const btl_ib_stats_t *stats);

/* ---- the file ---- */

/* The file of btl_ib_stats_file is JSON, as docs/guide/counters.md says. */

/* Creates the file, empty, so that an error shows early. Returns 0 or an errno. */
int btl_ib_stats_file_create(const char *name);

/* Writes the file, if one is wanted, when MPI ends, at `now` (us). A reader sees either the old
 * file or the whole new one. Returns 0 or an errno. */
int btl_ib_stats_file_last(const btl_ib_stats_t *stats, uint64_t now);

/* Writes the file at an interval: with the last two samples only, and without peers that had ended
 * before the last interval, so that these are not written again and again. Then keeps the first
 * `ended` records of peers, and forgets the others, which are of connections that go on. Ignores
 * errors: btl_ib_stats_file_last() reports one that persists. */
void btl_ib_stats_file_update(btl_ib_stats_t *stats, uint64_t now, uint32_t ended);

/* ---- a signal that asks for what a process waits for ---- */

/*
 * The user may choose a signal (btl_ib_dump_signal) that asks a process what it waits for. The
 * handler only notes it: the next progress call of the application prints the answer. A signal that
 * the application or a library handles is not taken over.
 */

/* Handles signal `number`, which is SIGUSR1, SIGUSR2 or a real-time signal, from now on. Returns
 * NULL, or why it cannot. */
const char *btl_ib_dump_signal_watch(int number);

/* Removes the handler, unless the application has installed another one meanwhile. */
void btl_ib_dump_signal_ignore(void);

/* Returns whether the signal came since the last call. */
bool btl_ib_dump_signal_take(void);

/* ---- MPI_T: performance variables ---- */

/*
 * Performance variables of MPI_T have all counters, while the job runs. All are read-only,
 * continuous, bound to no object, and of type unsigned long long:
 *
 *   btl_ib_<counter>         one value, of the process
 *   btl_ib_device_<counter>  BTL_IB_RAILS_MAX values, one for each device, over its rail
 *   btl_ib_channel_<counter> BTL_IB_QUEUES_MAX values, one for each channel, of all devices
 *   btl_ib_peer_<counter>    one value for each process of the job, by its rank in MPI_COMM_WORLD
 *   btl_ib_peer_<level>      one value for each process of the job
 *
 * Counters are of class COUNTER: a handle shows what was counted since it was made. Levels are of
 * class LEVEL. A BTL knows no communicator, so peers are indexed by their ranks in the job, and
 * handles for them can be made only when MPI is initialized.
 */

/* Registers all variables. `stats` must live as long as the component. */
void btl_ib_pvars_register(const mca_base_component_t *component, btl_ib_stats_t *stats);

#endif
