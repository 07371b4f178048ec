/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Registration handles describe a registered region to peers. Open MPI copies them into its packets
 * as they are, in the byte order of the process: it offers RDMA only between processes with the
 * same one (bml r2).
 */

#ifndef BTL_IB_MEMORY_HANDLE_H
#define BTL_IB_MEMORY_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_registration_cache.h"

struct mca_btl_base_registration_handle_t {
    uint64_t base;           /* address of the first byte in the owner's memory */
    btl_ib_region_key_t key; /* for the owner's engine */
    uint64_t size;           /* bytes (the device registers whole pages) */
    uint32_t device_key;     /* for peers' devices; of the first piece, if there are several */
    uint8_t rail;            /* rail of the owner on which the device keys are valid */
    uint8_t piece_shift;     /* of btl_ib_device_region_t; 0: there is one piece */
    uint8_t pinned;          /* BTL_IB_ACCESS_* by the owner's device; processors do the rest.
                              * BTL_IB_ACCESS_WINDOW: the region is one of a window */
    uint8_t device_atomic;   /* devices execute its atomics; else processors do */
    uint64_t check;          /* checksum of all else, as osc/rdma may read a handle half-written */
    uint32_t more_keys[BTL_IB_PIECES_MAX - 1]; /* device keys of the other pieces, in order */
};
typedef struct mca_btl_base_registration_handle_t btl_ib_memory_handle_t;

/* Sets `check`. Called when all else is set. */
void btl_ib_memory_handle_seal(btl_ib_memory_handle_t *handle);

/*
 * Copies a handle as it was at one moment, and sets *handle to the copy (NULL stays NULL). Returns
 * an OPAL status; BAD_PARAM if the handle stays damaged for a second.
 *
 * osc/rdma keeps the handles of a dynamic window in memory that all processes of a host share, and
 * reads them there without a lock while their owner attaches and detaches memory. So a handle may
 * be that of another region by now (docs/architecture.md), or half of one and half of another. Such
 * halves would name memory that nobody meant; they are gone a moment later.
 */
int btl_ib_memory_handle_read(const btl_ib_memory_handle_t **handle, btl_ib_memory_handle_t *copy);

/* True if the owner's device may carry out an operation: it is within the region, on one piece, and
 * its access is allowed. We have to ask, as the device itself would allow bytes behind the region
 * in the same page, and rights that the cache gave to another registration of that page. (An
 * operation that is not allowed here goes to the owner's engine, which rejects it.) */
bool btl_ib_memory_handle_allows(const btl_ib_memory_handle_t *handle, const btl_ib_op_t *op);

/* Returns the device key of the piece that an allowed operation is on. */
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

/* Returns how many bytes of its target an operation accesses. */
static inline uint64_t btl_ib_memory_size_of(const btl_ib_op_t *op)
{
    return op->kind == BTL_IB_OP_ATOMIC ? btl_ib_atomic_size(op->type) : op->size;
}

/* Returns the access that an operation needs: BTL_IB_ACCESS_*. */
uint32_t btl_ib_memory_access_of(const btl_ib_op_t *op);

#endif
