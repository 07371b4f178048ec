/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What memory something takes, part by part, and tables that grow. The allocating code computes it
 * by the same sizes, so that it can be told before anything is allocated.
 */

#ifndef BTL_IB_FOOTPRINT_H
#define BTL_IB_FOOTPRINT_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#define BTL_IB_FOOTPRINT_PARTS 40

/* Whose memory. */
typedef enum btl_ib_footprint_owner {
    BTL_IB_FOOTPRINT_PROCESS, /* this process, by allocations of ours */
    BTL_IB_FOOTPRINT_KERNEL,  /* the kernel: what sockets may hold */
    BTL_IB_FOOTPRINT_DEVICE,  /* queues of a device, which its library or the device has: about */
    BTL_IB_FOOTPRINT_OWNERS,
} btl_ib_footprint_owner_t;

typedef struct btl_ib_footprint_part {
    char what[48];
    btl_ib_footprint_owner_t owner;
    uint64_t held; /* bytes once messages went over every queue, both ways, and none is under way */
    uint64_t most; /* bytes that it may grow to under load; at least `held` */
} btl_ib_footprint_part_t;

/* All zero: nothing. */
typedef struct btl_ib_footprint {
    uint32_t count;
    btl_ib_footprint_part_t part[BTL_IB_FOOTPRINT_PARTS];
} btl_ib_footprint_t;

/* Add a part; what finds no place is added to the last one. `most` below `held` counts as that. */
void btl_ib_footprint_add(btl_ib_footprint_t *footprint, btl_ib_footprint_owner_t owner,
                          uint64_t held, uint64_t most, const char *what, ...)
    __attribute__((format(printf, 5, 6)));

/* Sums over the parts of an owner. */
uint64_t btl_ib_footprint_held(const btl_ib_footprint_t *footprint, btl_ib_footprint_owner_t owner);
uint64_t btl_ib_footprint_most(const btl_ib_footprint_t *footprint, btl_ib_footprint_owner_t owner);

/* Places of a table that doubles from `first` on until `count` fit; 0 if none are needed. */
static inline uint64_t btl_ib_footprint_doubled(uint64_t first, uint64_t count)
{
    uint64_t places = count > 0 ? first : 0;

    while (places < count) {
        places *= 2;
    }
    return places;
}

/* Bytes that are mapped: whole pages. */
static inline uint64_t btl_ib_footprint_pages(uint64_t bytes, uint64_t page)
{
    return (bytes + page - 1) / page * page;
}

/* ---- tables of addresses ---- */

/* Memory of a table of addresses: entries that are found by index, and by hash through the lists
 * that begin in its buckets. */

/* Entries that there are at first. */
#define BTL_IB_ADDR_TABLE_FIRST 16u

/* All zero: empty. */
typedef struct btl_ib_addr_table {
    uint32_t count; /* entries that fit; 0 or a power of 2 */
    void *entry;
    void *bucket;
} btl_ib_addr_table_t;

/*
 * Make it twice as large (or give it its first entries). Entries have `entry` bytes each, the new
 * ones are zero; buckets have `bucket` bytes for each entry, all of them are zero: the caller links
 * its entries anew. False if memory is short; then nothing has changed.
 */
bool btl_ib_addr_table_grow(btl_ib_addr_table_t *table, size_t entry, size_t bucket);

/* Entries of a table that holds so many. */
static inline uint64_t btl_ib_addr_table_places(uint32_t count)
{
    return btl_ib_footprint_doubled(BTL_IB_ADDR_TABLE_FIRST, count);
}

#endif
