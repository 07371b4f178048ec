/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Connections that ended here, by the peer's part in them: a late copy of a CONNECT of the same
 * life of that connection is no first contact. The last few hundred are remembered; a CONNECT that
 * is later than that finds a peer that would have to be slower than all their successors.
 */

#ifndef BTL_IB_GRAVES_H
#define BTL_IB_GRAVES_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_mem.h"

typedef struct btl_ib_grave {
    uint64_t name;
    uint64_t secret; /* half of the peer's: the same name with another one is a new process */
    uint64_t token;  /* of the peer in that life */
    uint32_t rail;
    uint32_t remote_rail;
    uint32_t epoch;
} btl_ib_grave_t;

typedef struct btl_ib_graves {
    const btl_ib_mem_t *mem;
    btl_ib_grave_t *ring;
    uint32_t count;
    uint32_t next;
} btl_ib_graves_t;

void btl_ib_graves_init(btl_ib_graves_t *graves, const btl_ib_mem_t *mem);
void btl_ib_graves_fini(btl_ib_graves_t *graves);

/* Have the memory that is needed. Returns 0 or -ENOMEM. Before the first connection is made: none
 * may be forgotten for want of memory later. */
int btl_ib_graves_prepare(btl_ib_graves_t *graves);

/* Remember a connection that ended. */
void btl_ib_graves_add(btl_ib_graves_t *graves, const btl_ib_grave_t *grave);

/* Is a CONNECT (with all of this but the secret) of a connection that ended? */
bool btl_ib_graves_has(const btl_ib_graves_t *graves, const btl_ib_grave_t *grave);

/* The epoch that the same peer (name, rails, secret) must have at least; 0: any. */
uint32_t btl_ib_graves_floor(const btl_ib_graves_t *graves, const btl_ib_grave_t *peer);

#endif
