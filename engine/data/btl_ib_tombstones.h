/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Connections that ended here: a late or replayed CONNECT of a life that is over is no first contact.
 * A peer's lives are in order (epoch), so that the latest of each peer stands for all before it. The
 * few hundred peers are remembered whose lives ended last.
 */

#ifndef BTL_IB_TOMBSTONES_H
#define BTL_IB_TOMBSTONES_H

#include <stdint.h>

#include "btl_ib_mem.h"

typedef struct btl_ib_tombstone {
    uint64_t name;
    uint64_t secret; /* half of the peer's: the same name with another one is a new process */
    uint32_t rail;
    uint32_t remote_rail;
    uint32_t epoch; /* of its latest life that ended */
    uint64_t order; /* grows with each burial */
} btl_ib_tombstone_t;

typedef struct btl_ib_tombstones {
    const btl_ib_mem_t *mem;
    btl_ib_tombstone_t *list;
    uint32_t count;
    uint64_t order; /* of the last burial */
} btl_ib_tombstones_t;

void btl_ib_tombstones_init(btl_ib_tombstones_t *graves, const btl_ib_mem_t *mem);
void btl_ib_tombstones_fini(btl_ib_tombstones_t *graves);

/* Have the memory that is needed. Returns 0 or -ENOMEM. Before the first connection is made: none
 * may be forgotten for want of memory later. */
int btl_ib_tombstones_prepare(btl_ib_tombstones_t *graves);

/* Remember a connection that ended. */
void btl_ib_tombstones_add(btl_ib_tombstones_t *graves, const btl_ib_tombstone_t *grave);

/* The epoch that the same peer (name, rails, secret) must have at least; 0: any. */
uint32_t btl_ib_tombstones_floor(const btl_ib_tombstones_t *graves, const btl_ib_tombstone_t *peer);

#endif
