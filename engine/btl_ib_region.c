/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_region.h"

#include <errno.h>
#include <string.h>

enum { SLOTS_FIRST = 16, SLOTS_MAX = 1 << BTL_IB_REGION_SLOT_BITS };

void btl_ib_regions_init(btl_ib_regions_t *regions, const btl_ib_mem_t *mem,
                         const btl_ib_secret_t *secret)
{
    *regions = (btl_ib_regions_t){.mem = mem, .secret = *secret};
}

void btl_ib_regions_fini(btl_ib_regions_t *regions)
{
    btl_ib_free(regions->mem, regions->slots);
    *regions = (btl_ib_regions_t){.mem = regions->mem};
}

/* Twice as many slots. */
static int grow(btl_ib_regions_t *regions)
{
    uint32_t count = regions->count == 0 ? SLOTS_FIRST : 2 * regions->count;

    if (count > SLOTS_MAX) {
        return -ENOSPC;
    }
    btl_ib_region_t *slots = btl_ib_zalloc(regions->mem, count * sizeof(*slots));
    if (slots == NULL) {
        return -ENOMEM;
    }
    if (regions->count > 0) {
        memcpy(slots, regions->slots, regions->count * sizeof(*slots));
    }
    for (uint32_t i = count; i > regions->count; i--) {
        slots[i - 1].next_free = regions->free;
        regions->free = i;
    }
    btl_ib_free(regions->mem, regions->slots);
    regions->slots = slots;
    regions->count = count;
    return 0;
}

int btl_ib_regions_add(btl_ib_regions_t *regions, void *base, uint64_t size, uint32_t access,
                       btl_ib_region_key_t *key)
{
    if (access == 0 || (access & ~(uint32_t) BTL_IB_ACCESS_ALL) != 0
        || size > UINTPTR_MAX - (uintptr_t) base) {
        return -EINVAL;
    }
    if (regions->free == 0) {
        int rc = grow(regions);
        if (rc != 0) {
            return rc;
        }
    }
    uint32_t slot = regions->free - 1;
    btl_ib_region_t *region = &regions->slots[slot];
    regions->free = region->next_free;
    uint64_t id = ++regions->serial << BTL_IB_REGION_SLOT_BITS | slot;
    *region = (btl_ib_region_t){
        .id = id,
        .secret = btl_ib_siphash(&regions->secret, &id, sizeof(id)),
        .base = base,
        .size = size,
        .access = access,
    };
    *key = (btl_ib_region_key_t){.id = id, .secret = region->secret};
    regions->used++;
    return 0;
}

static btl_ib_region_t *find(const btl_ib_regions_t *regions, const btl_ib_region_key_t *key)
{
    uint64_t slot = key->id & (SLOTS_MAX - 1);

    if (slot >= regions->count) {
        return NULL;
    }
    btl_ib_region_t *region = &regions->slots[slot];
    bool same = key->id != 0 && region->id == key->id && region->secret == key->secret;
    return same ? region : NULL;
}

void btl_ib_regions_remove(btl_ib_regions_t *regions, const btl_ib_region_key_t *key)
{
    btl_ib_region_t *region = find(regions, key);

    if (region != NULL) {
        *region = (btl_ib_region_t){.next_free = regions->free};
        regions->free = (uint32_t) (region - regions->slots) + 1;
        regions->used--;
    }
}

static btl_ib_region_t *slot_of(const btl_ib_regions_t *regions, uint64_t id)
{
    return &regions->slots[id & (SLOTS_MAX - 1)];
}

void btl_ib_regions_lend(btl_ib_regions_t *regions, uint64_t id)
{
    slot_of(regions, id)->lent++;
}

void btl_ib_regions_return(btl_ib_regions_t *regions, uint64_t id)
{
    slot_of(regions, id)->lent--;
}

bool btl_ib_regions_lent(const btl_ib_regions_t *regions, const btl_ib_region_key_t *key)
{
    const btl_ib_region_t *region = find(regions, key);

    return region != NULL && region->lent > 0;
}

btl_ib_region_result_t btl_ib_regions_check(const btl_ib_regions_t *regions,
                                            const btl_ib_region_key_t *key, uint64_t offset,
                                            uint64_t size, uint32_t access, uint8_t **memory)
{
    const btl_ib_region_t *region = find(regions, key);

    if (region == NULL) {
        return BTL_IB_REGION_UNKNOWN;
    }
    if (!(region->access & access)) {
        return BTL_IB_REGION_RIGHT;
    }
    if (offset > region->size || size > region->size - offset) {
        return BTL_IB_REGION_BOUNDS;
    }
    *memory = region->base + offset;
    return BTL_IB_REGION_OK;
}
