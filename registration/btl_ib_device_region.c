/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_device_region.h"

#include <errno.h>
#include <stdlib.h>

/* Whole pages are registered; the smallest there are. */
enum { PAGE_SHIFT = 12 };

uint8_t btl_ib_device_region_plan(size_t size, uint64_t piece_max)
{
    uint8_t shift = PAGE_SHIFT;

    if (size <= piece_max) {
        return 0;
    }
    while (UINT64_C(2) << shift <= piece_max || size > (BTL_IB_PIECES_MAX - UINT64_C(1)) << shift) {
        ++shift;
    }
    return shift;
}

uint8_t btl_ib_device_region_pieces(uintptr_t base, size_t size, uint8_t shift)
{
    return 0 == shift ? 1
                      : (uint8_t) (btl_ib_device_region_piece(base, base + size - 1, shift) + 1);
}

btl_ib_device_region_t *btl_ib_device_region_new(btl_ib_transport_t *transport, void *base,
                                                 size_t size, unsigned access, uint8_t shift,
                                                 int *error)
{
    const uint8_t count = btl_ib_device_region_pieces((uintptr_t) base, size, shift);
    const uintptr_t end = (uintptr_t) base + size;
    btl_ib_device_region_t *region = malloc(sizeof(*region) + count * sizeof(region->piece[0]));
    uintptr_t from = (uintptr_t) base;

    *error = ENOMEM;
    if (NULL == region) {
        return NULL;
    }
    btl_ib_list_init(&region->link);
    atomic_init(&region->fresh, true);
    region->base = from;
    region->size = size;
    region->shift = shift;
    for (region->count = 0; region->count < count; ++region->count) {
        const uintptr_t to = region->count == count - 1 ? end : ((from >> shift) + 1) << shift;
        const int rc = transport->ops->rdma->expose(transport, (void *) from, to - from, access,
                                                    &region->piece[region->count].mem,
                                                    &region->piece[region->count].key);
        if (0 != rc) {
            *error = -rc;
            btl_ib_device_region_free(transport, region);
            return NULL;
        }
        from = to;
    }
    return region;
}

void btl_ib_device_region_free(btl_ib_transport_t *transport, btl_ib_device_region_t *region)
{
    for (uint8_t i = 0; i < region->count; ++i) {
        transport->ops->rdma->withdraw(transport, region->piece[i].mem);
    }
    free(region);
}
