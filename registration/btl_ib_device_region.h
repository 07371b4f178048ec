/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Memory that a device may access. Devices have limits on what they register at once, in some
 * cases of 2 GiB, and the system may find no room for the tables of a large region. So what is too
 * large is registered in pieces, each with keys of its own, that begin at multiples of a power of
 * two of the process's addresses: from an address and that power anybody can tell the piece. An
 * operation that lies on two pieces is for processors. No OPAL in here.
 */

#ifndef BTL_IB_DEVICE_REGION_H
#define BTL_IB_DEVICE_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_list.h"
#include "transport.h"

/* Pieces of a region at most: of an eighth of it, where both ends may lie within one. */
#define BTL_IB_PIECES_MAX 9

typedef struct btl_ib_device_region {
    btl_ib_list_t link; /* in a list of the caller's */
    atomic_bool fresh;  /* nobody has got it yet */
    uintptr_t base;
    size_t size;
    uint8_t shift; /* pieces begin at multiples of 2^shift; 0: there is one */
    uint8_t count; /* of pieces */
    struct {
        void *mem; /* the transport's handle */
        uint32_t key;
    } piece[]; /* in the order of addresses */
} btl_ib_device_region_t;

/* How to cut a region of `size` bytes, so that no piece has more than `piece_max` if so many pieces
 * are enough; else with more. Returns 0 (not at all), or the power of two. */
uint8_t btl_ib_device_region_plan(size_t size, uint64_t piece_max);

/* Into how many pieces that cuts it. */
uint8_t btl_ib_device_region_pieces(uintptr_t base, size_t size, uint8_t shift);

/* Which piece an address lies on, counted from the one of `base`. */
static inline size_t btl_ib_device_region_piece(uintptr_t base, uintptr_t address, uint8_t shift)
{
    return (size_t) ((address >> shift) - (base >> shift));
}

/* Do bytes lie on one piece? There is at least one. */
static inline bool btl_ib_device_region_is_whole(uintptr_t address, uint64_t size, uint8_t shift)
{
    return 0 == shift || address >> shift == (address + size - 1) >> shift;
}

/* Register all pieces, with `access` as of btl_ib_rdma_ops_t.expose(). Returns NULL and what the
 * device said, an errno, in *error. */
btl_ib_device_region_t *btl_ib_device_region_new(btl_ib_transport_t *transport, void *base,
                                                 size_t size, unsigned access, uint8_t shift,
                                                 int *error);

/* The device knows them no more. */
void btl_ib_device_region_free(btl_ib_transport_t *transport, btl_ib_device_region_t *region);

#endif
