/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Tombstones of connections that ended: a late or replayed CONNECT of an ended incarnation is no
 * first contact. The incarnations of a peer are ordered (epoch), so the latest that ended stands
 * for all before it. Kept are the peers whose connections ended last, a few hundred.
 */

#ifndef BTL_IB_TOMBSTONES_H
#define BTL_IB_TOMBSTONES_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_pool.h"

typedef struct btl_ib_tombstone {
    uint64_t name;
    uint64_t secret; /* half of the peer's: the same name with another one is a new process */
    uint32_t rail;
    uint32_t remote_rail;
    uint32_t epoch; /* of its latest incarnation that ended */
    uint64_t order; /* grows with each that is added */
} btl_ib_tombstone_t;

/* There are as many once there are peers. */
enum {
    BTL_IB_TOMBSTONES = 512,
    BTL_IB_TOMBSTONES_BYTES = BTL_IB_TOMBSTONES * sizeof(btl_ib_tombstone_t),
};

typedef struct btl_ib_tombstones {
    const btl_ib_mem_t *mem;
    btl_ib_tombstone_t *list;
    uint32_t count;
    uint64_t order; /* of the newest */
} btl_ib_tombstones_t;

static inline void btl_ib_tombstones_init(btl_ib_tombstones_t *tombstones, const btl_ib_mem_t *mem)
{
    *tombstones = (btl_ib_tombstones_t){.mem = mem};
}

static inline void btl_ib_tombstones_fini(btl_ib_tombstones_t *tombstones)
{
    btl_ib_free(tombstones->mem, tombstones->list);
    btl_ib_tombstones_init(tombstones, tombstones->mem);
}

/* Allocates the memory. Returns 0 or -ENOMEM. Called before the first connection is made: no
 * tombstone may be lost for want of memory later. */
int btl_ib_tombstones_prepare(btl_ib_tombstones_t *tombstones);

void btl_ib_tombstones_add(btl_ib_tombstones_t *tombstones, const btl_ib_tombstone_t *tombstone);

/* Returns the lowest epoch that is valid for that peer (name, rails, secret); 0: any. */
uint32_t btl_ib_tombstones_floor(const btl_ib_tombstones_t *tombstones,
                                 const btl_ib_tombstone_t *peer);

/* True if that epoch of a peer (name, rails), or a later one, ended, whatever its secret. */
bool btl_ib_tombstones_ended(const btl_ib_tombstones_t *tombstones, const btl_ib_tombstone_t *peer);

#endif
