/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The file of btl_ib_connectivity_map: what is known of each pair of rails, one a line, as
 * docs/guide/connectivity.md says. tools/connectivity reads it. No OPAL in here, so that it can be
 * tested by itself.
 */

#ifndef BTL_IB_CONNECTIVITY_FILE_H
#define BTL_IB_CONNECTIVITY_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "btl_ib_engine.h"

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

/* The process that writes. */
typedef struct btl_ib_map_info {
    const char *host;
    uint32_t job;
    uint32_t rank;
    uint32_t processes;
    uint64_t took; /* us, from the first contact until this is written */
    bool complete; /* nothing more is to be found */
} btl_ib_map_info_t;

/* One word, a literal:
 *   ok          both found each other, and the largest datagrams get there
 *   mtu         smaller datagrams get there only
 *   one-way     the peer is heard, but what is sent from here does not get there
 *   no-answer   nothing that the peer sends comes here
 *   refused     its host says that nobody is there, or a firewall does
 *   unfinished  it answers, but sizes were not found in time
 *   no-path     there is no connection: the reason is told at the end of the line
 */
const char *btl_ib_connectivity_verdict(const btl_ib_pair_info_t *pair);

/* Make the file `name` anew, with these pairs. Returns 0 or an errno. */
int btl_ib_connectivity_file_write(const char *name, const btl_ib_map_info_t *info,
                                   const btl_ib_pair_info_t *pairs, uint32_t count);

#endif
