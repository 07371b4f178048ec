/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The connectivity map (btl_ib_connectivity_map), and its file. */

#ifndef BTL_IB_CONNECTIVITY_H
#define BTL_IB_CONNECTIVITY_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_biased_lock.h"
#include "btl_ib_ompi_compat.h"
#include "btl_ib_engine.h"
#include "btl_ib_modex_codec.h"

/* A line of the map: a pair of a rail of ours and a rail of a peer; or a peer for which no pair
 * fits. */
typedef struct btl_ib_pair_info {
    uint64_t name; /* of the peer, as the engine knows it */
    char host[64];
    uint32_t rail;        /* ours */
    uint32_t remote_rail; /* the peer's */
    char device[64];      /* ours; "-": no pair fits */
    char address[64];     /* ours */
    char remote[64];      /* the peer's address */
    char why[96];         /* why there is no connection; "": there is or was one */
    btl_ib_path_info_t path;
} btl_ib_pair_info_t;

/*
 * The connectivity map says which pairs of rails reach which processes of the job, and with how
 * large datagrams. It has no packets of its own: it makes the connections that add_procs would make
 * later, has the engine contact each (btl_ib_conn_check_path()), and writes down the results.
 *
 * It is made in the first add_procs, in MPI_Init: then all processes have published what peers have
 * to know, and all are at the same point, so that each answers at once. (Open MPI itself adds most
 * processes only at the first message.) Connections that work stay, and add_procs adopts them. The
 * others are closed again.
 */

/* What the map needs. All that the pointers name stays until btl_ib_connectivity_end(). */
typedef struct btl_ib_connectivity_config {
    btl_ib_engine_t *engine;
    btl_ib_biased_lock_t *lock; /* guards the engine */
    const btl_ib_modex_t *self; /* what we published */
    opal_process_name_t name;
    uint32_t processes; /* of the job */
    uint64_t timeout;   /* us to wait for answers, at most */
    int burst;          /* datagrams received in one turn, at most */
    char *file;         /* malloced, and freed at the end; NULL: no map is wanted */
} btl_ib_connectivity_config_t;

typedef struct btl_ib_connectivity {
    btl_ib_connectivity_config_t config;
    bool begun;       /* btl_ib_connectivity_run() was called */
    bool changed;     /* the map changed since the file was written */
    bool failed;      /* reported that the file cannot be written */
    uint64_t started; /* us */
    btl_ib_pair_info_t *pairs;
    uint32_t count; /* of pairs */
    uint32_t room;  /* pairs that there is memory for */
} btl_ib_connectivity_t;

static inline void btl_ib_connectivity_init(btl_ib_connectivity_t *map,
                                            const btl_ib_connectivity_config_t *config)
{
    *map = (btl_ib_connectivity_t){.config = *config};
}

/* True if a map is wanted that was not made yet. */
static inline bool btl_ib_connectivity_due(const btl_ib_connectivity_t *map)
{
    return map->config.file != NULL && !map->begun;
}

/* Contacts all processes of the job, waits for their answers, and writes the file. Called without
 * the lock; no callback of the PML runs meanwhile. */
void btl_ib_connectivity_run(btl_ib_connectivity_t *map);

/* Returns the name of a process's host; NULL: the map does not have the process. Called with the
 * lock held. */
const char *btl_ib_connectivity_host(const btl_ib_connectivity_t *map, uint64_t name);

/* Records the state of a connection that is about to end. Called with the lock held. */
void btl_ib_connectivity_note(btl_ib_connectivity_t *map, const btl_ib_conn_t *conn);

/* Ends the map: writes the file again if anything has changed. Called with the lock held when MPI
 * ends. */
void btl_ib_connectivity_end(btl_ib_connectivity_t *map);

#endif
