/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma_region.h"

#include <errno.h>
#include <string.h>

enum { SLOTS_FIRST = 16, SLOTS_MAX = 1 << BTL_IB_REGION_SLOT_BITS };

/* Allocates twice as many slots. */
static int grow_slots(btl_ib_regions_t *regions)
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
        slots[i - 1].next = regions->free;
        regions->free = i;
    }
    btl_ib_free(regions->mem, regions->slots);
    regions->slots = slots;
    regions->count = count;
    return 0;
}

/* ---- the list of windows ---- */

static void enlist(btl_ib_regions_t *regions, uint32_t slot)
{
    btl_ib_region_t *region = &regions->slots[slot];

    region->next = regions->windows;
    if (region->next != 0) {
        regions->slots[region->next - 1].previous = slot + 1;
    }
    regions->windows = slot + 1;
}

static void delist(btl_ib_regions_t *regions, const btl_ib_region_t *region)
{
    if (region->next != 0) {
        regions->slots[region->next - 1].previous = region->previous;
    }
    if (region->previous != 0) {
        regions->slots[region->previous - 1].next = region->next;
    } else {
        regions->windows = region->next;
    }
}

/* ---- removed regions of windows ---- */

static bool is_retired(const btl_ib_region_t *region)
{
    return region->access == BTL_IB_ACCESS_WINDOW;
}

static void release_slot(btl_ib_regions_t *regions, uint32_t slot)
{
    regions->slots[slot] = (btl_ib_region_t){.next = regions->free};
    regions->free = slot + 1;
}

static void forget_oldest(btl_ib_regions_t *regions)
{
    const uint32_t oldest = regions->retired_first - 1;

    regions->retired_first = regions->slots[oldest].next;
    regions->retired--;
    release_slot(regions, oldest);
}

static void retire_slot(btl_ib_regions_t *regions, uint32_t slot)
{
    btl_ib_region_t *region = &regions->slots[slot];

    *region = (btl_ib_region_t){
        .id = region->id,
        .secret = region->secret,
        .base = region->base,
        .access = BTL_IB_ACCESS_WINDOW,
    };
    if (regions->retired == 0) {
        regions->retired_first = slot + 1;
    } else {
        regions->slots[regions->retired_last - 1].next = slot + 1;
    }
    regions->retired_last = slot + 1;
    if (++regions->retired > BTL_IB_REGIONS_RETIRED_MAX) {
        forget_oldest(regions);
    }
}

/* ---- regions come and go ---- */

int btl_ib_regions_add(btl_ib_regions_t *regions, void *base, uint64_t size, uint32_t access,
                       btl_ib_region_key_t *key)
{
    if ((access & BTL_IB_ACCESS_ALL) == 0
        || (access & ~(uint32_t) (BTL_IB_ACCESS_ALL | BTL_IB_ACCESS_WINDOW)) != 0
        || size > UINTPTR_MAX - (uintptr_t) base) {
        return -EINVAL;
    }
    int rc = regions->free == 0 ? grow_slots(regions) : 0;
    if (rc != 0 && regions->retired == 0) {
        return rc;
    }
    if (rc != 0) {
        forget_oldest(regions);
    }
    uint32_t slot = regions->free - 1;
    btl_ib_region_t *region = &regions->slots[slot];
    regions->free = region->next;
    uint64_t id = ++regions->serial << BTL_IB_REGION_SLOT_BITS | slot;
    *region = (btl_ib_region_t){
        .id = id,
        .secret = btl_ib_siphash(&regions->secret, &id, sizeof(id)),
        .base = base,
        .size = size,
        .access = access,
    };
    if (access & BTL_IB_ACCESS_WINDOW) {
        enlist(regions, slot);
    }
    *key = (btl_ib_region_key_t){.id = id, .secret = region->secret};
    regions->used++;
    return 0;
}

static btl_ib_region_t *find_region(const btl_ib_regions_t *regions, const btl_ib_region_key_t *key)
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
    const btl_ib_region_t *region = find_region(regions, key);

    if (region == NULL || is_retired(region)) {
        return;
    }
    const uint32_t slot = (uint32_t) (region - regions->slots);
    regions->used--;
    if (region->access & BTL_IB_ACCESS_WINDOW) {
        delist(regions, region);
        retire_slot(regions, slot);
    } else {
        release_slot(regions, slot);
    }
}

static btl_ib_region_t *region_slot(const btl_ib_regions_t *regions, uint64_t id)
{
    return &regions->slots[id & (SLOTS_MAX - 1)];
}

void btl_ib_regions_lend(btl_ib_regions_t *regions, uint64_t id, uint32_t count)
{
    region_slot(regions, id)->lent += count;
}

void btl_ib_regions_return(btl_ib_regions_t *regions, uint64_t id, uint32_t count)
{
    region_slot(regions, id)->lent -= count;
}

bool btl_ib_regions_lent(const btl_ib_regions_t *regions, const btl_ib_region_key_t *key)
{
    const btl_ib_region_t *region = find_region(regions, key);

    return region != NULL && region->lent > 0;
}

/* ---- what peers may do ---- */

static bool contains(const btl_ib_region_t *region, uint64_t offset, uint64_t size)
{
    return offset <= region->size && size <= region->size - offset;
}

static bool allows(const btl_ib_region_t *region, uint64_t offset, uint64_t size, uint32_t access)
{
    return (region->access & access) && contains(region, offset, size);
}

/*
 * Returns, if `named` does not hold all the bytes and is, or was, a region of a window, the region
 * of a window that holds them all and allows `access`; else NULL.
 */
static const btl_ib_region_t *find_other(const btl_ib_regions_t *regions,
                                         const btl_ib_region_t *named, uint64_t offset,
                                         uint64_t size, uint32_t access)
{
    const uint64_t base = (uintptr_t) named->base;
    const bool below = offset >> 63 != 0;

    if (!(named->access & BTL_IB_ACCESS_WINDOW)
        || (below ? -offset > base : offset > UINTPTR_MAX - base)) {
        return NULL;
    }
    for (uint32_t slot = regions->windows; slot != 0; slot = regions->slots[slot - 1].next) {
        const btl_ib_region_t *region = &regions->slots[slot - 1];

        /* For bytes before it the difference wraps to more than the size of any region. */
        if (allows(region, base + offset - (uintptr_t) region->base, size, access)) {
            return region;
        }
    }
    return NULL;
}

/* Returns the offset of the same bytes in the other region. */
static uint64_t offset_in(const btl_ib_region_t *other, const btl_ib_region_t *named,
                          uint64_t offset)
{
    return (uintptr_t) named->base + offset - (uintptr_t) other->base;
}

/* Computes an address without arithmetic on pointers, which is undefined where a region is near an
 * end of the address space. */
static uint8_t *address_in(const btl_ib_region_t *region, uint64_t offset)
{
    return (uint8_t *) ((uintptr_t) region->base + (uintptr_t) offset);
}

/* Looks for a region in place of `named`, which does not allow the access. Rare, and kept out of
 * the way of requests that name the right region. */
static __attribute__((noinline)) btl_ib_region_result_t
look_elsewhere(const btl_ib_regions_t *regions, const btl_ib_region_t *named, uint64_t offset,
               uint64_t size, uint32_t access, uint8_t **memory)
{
    const bool own = !is_retired(named) && contains(named, offset, size);
    const btl_ib_region_t *other = own ? NULL : find_other(regions, named, offset, size, access);

    if (other != NULL) {
        *memory = address_in(other, offset_in(other, named, offset));
        return BTL_IB_REGION_ELSEWHERE;
    }
    if (is_retired(named)) {
        return BTL_IB_REGION_UNKNOWN;
    }
    return named->access & access ? BTL_IB_REGION_BOUNDS : BTL_IB_REGION_RIGHT;
}

btl_ib_region_result_t btl_ib_regions_check(const btl_ib_regions_t *regions,
                                            const btl_ib_region_key_t *key, uint64_t offset,
                                            uint64_t size, uint32_t access, uint8_t **memory)
{
    const btl_ib_region_t *named = find_region(regions, key);

    if (named == NULL) {
        return BTL_IB_REGION_UNKNOWN;
    }
    if (!allows(named, offset, size, access)) {
        return look_elsewhere(regions, named, offset, size, access, memory);
    }
    *memory = address_in(named, offset);
    return BTL_IB_REGION_OK;
}

btl_ib_region_result_t btl_ib_regions_resolve(const btl_ib_regions_t *regions,
                                              btl_ib_region_key_t *key, uint64_t *offset,
                                              uint64_t size, uint32_t access, uint8_t **memory)
{
    const btl_ib_region_result_t result =
        btl_ib_regions_check(regions, key, *offset, size, access, memory);

    if (result == BTL_IB_REGION_ELSEWHERE) {
        const btl_ib_region_t *named = find_region(regions, key);
        const btl_ib_region_t *other = find_other(regions, named, *offset, size, access);

        *offset = offset_in(other, named, *offset);
        *key = (btl_ib_region_key_t){.id = other->id, .secret = other->secret};
    }
    return result;
}
