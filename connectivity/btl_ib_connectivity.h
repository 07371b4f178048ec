/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The connectivity map, and its file. */

#ifndef BTL_IB_CONNECTIVITY_H
#define BTL_IB_CONNECTIVITY_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_biased_lock.h"
#include "btl_ib_ompi_compat.h"
#include "btl_ib_engine.h"
#include "btl_ib_modex_codec.h"

/* A rail of ours with a rail of a peer; or a peer without any that fits. */
typedef struct btl_ib_pair_info {
    uint64_t name; /* of the peer, as the engine knows it */
    char host[64];
    uint32_t rail;        /* ours */
    uint32_t remote_rail; /* the peer's */
    char device[64];      /* ours, "-": none */
    char address[64];     /* ours */
    char remote[64];      /* the peer's */
    char why[96];         /* there is no connection: the reason; empty: there is one, or was */
    btl_ib_path_info_t path;
} btl_ib_pair_info_t;

/*
 * The connectivity map: which pairs of rails reach which processes of the job, and with which
 * datagrams. It has no packets of its own: it makes the connections that add_procs would make
 * later, has the engine contact each (btl_ib_conn_check_path), and writes down what came of it.
 *
 * The moment is the first add_procs, in MPI_Init: all processes have published by then what is to
 * be known of them, and all of them are in the same place, so that each answers at once. Open MPI
 * itself adds most processes at the first message only. Connections that worked stay, and add_procs
 * adopts them; others are closed again.
 */

/* Things that the map needs, all of which are there until btl_ib_connectivity_end(). */
typedef struct btl_ib_connectivity_config {
    btl_ib_engine_t *engine;
    btl_ib_biased_lock_t *lock; /* guards the engine */
    const btl_ib_modex_t *self; /* what we published */
    opal_process_name_t name;
    uint32_t processes; /* of the job */
    uint64_t timeout;   /* us: so long it waits for answers */
    int burst;          /* datagrams received in one turn */
    char *file;         /* malloced, and freed at the end; NULL: no map is wanted */
} btl_ib_connectivity_config_t;

typedef struct btl_ib_connectivity {
    btl_ib_connectivity_config_t config;
    bool begun;
    bool changed;     /* since the file was written */
    bool failed;      /* the user was told that it cannot be written */
    uint64_t started; /* us */
    btl_ib_pair_info_t *pairs;
    uint32_t count, room;
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

/* Contacts all processes of the job, waits for what comes of it, and writes the file. Called
 * without the lock; no callback runs meanwhile. */
void btl_ib_connectivity_run(btl_ib_connectivity_t *map);

/* Returns the host of a process, as it published it; NULL: the map does not know it. With the lock
 * held. */
const char *btl_ib_connectivity_host(const btl_ib_connectivity_t *map, uint64_t name);

/* Called with the lock held when a connection is about to end; and when MPI ends, which writes the
 * file again if anything is different now. */
void btl_ib_connectivity_note(btl_ib_connectivity_t *map, const btl_ib_conn_t *conn);
void btl_ib_connectivity_end(btl_ib_connectivity_t *map);

#endif
