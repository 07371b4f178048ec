/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Registration handles: what Open MPI gives to peers of a registered region, and copies into
 * packets as it is. All processes of a job have the same byte order: bml r2 offers no RDMA between
 * others.
 */

#ifndef BTL_IB_MEMORY_HANDLE_H
#define BTL_IB_MEMORY_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_registration_cache.h"

struct mca_btl_base_registration_handle_t {
    uint64_t base; /* the address of the first byte in its owner's memory */
    btl_ib_region_key_t key;
    uint64_t size;         /* bytes; the device knows whole pages */
    uint32_t device_key;   /* for peers' devices; of the first piece, if there are several */
    uint8_t rail;          /* of the owner, for that key */
    uint8_t piece_shift;   /* of btl_ib_device_region_t; 0: there is one piece */
    uint8_t pinned;        /* BTL_IB_ACCESS_* that its device allows: processors do the others.
                            * BTL_IB_ACCESS_WINDOW: it is one of a window */
    uint8_t device_atomic; /* its words are changed by devices only; else by processors only */
    uint64_t check;        /* of all else: osc/rdma reads handles that their owner changes */
    uint32_t more_keys[BTL_IB_PIECES_MAX - 1]; /* of the other pieces, in order */
};
typedef struct mca_btl_base_registration_handle_t btl_ib_memory_handle_t;

/* Computes `check`, when all else is set. */
void btl_ib_memory_handle_seal(btl_ib_memory_handle_t *handle);

/*
 * Copies a handle (NULL stays NULL) as it was at one moment, and lets *handle be the copy. Returns
 * an OPAL status: BAD_PARAM if the handle stays damaged.
 *
 * osc/rdma keeps the handles of a dynamic window in memory that all processes of a host share, and
 * reads them there without a lock while their owner attaches and detaches memory. What is read may
 * be another region's (docs/architecture.md), or half of one and half of another. The latter would
 * name memory that nobody meant, and passes in a moment.
 */
int btl_ib_memory_handle_read(const btl_ib_memory_handle_t **handle, btl_ib_memory_handle_t *copy);

/* True if the owner's device may be asked for an operation, which must not lie on two pieces. The
 * device would not refuse bytes beyond the region but in its last page, nor what the cache allowed
 * somebody else; the owner's engine does. */
bool btl_ib_memory_handle_allows(const btl_ib_memory_handle_t *handle, const btl_ib_op_t *op);

/* Returns the key of the piece that an operation, which is allowed, is about. */
static inline uint32_t btl_ib_memory_handle_key(const btl_ib_memory_handle_t *handle,
                                                const btl_ib_op_t *op)
{
    size_t piece = 0;

    if (handle->piece_shift != 0) {
        piece = btl_ib_device_region_piece(handle->base, handle->base + op->offset,
                                           handle->piece_shift);
    }
    return piece == 0 ? handle->device_key : handle->more_keys[piece - 1];
}

/* Returns the bytes of the target that an operation is about. */
static inline uint64_t btl_ib_memory_size_of(const btl_ib_op_t *op)
{
    return op->kind == BTL_IB_OP_ATOMIC ? btl_ib_atomic_size(op->type) : op->size;
}

/* Returns the access that an operation needs: BTL_IB_ACCESS_*. */
uint32_t btl_ib_memory_access_of(const btl_ib_op_t *op);

#endif
