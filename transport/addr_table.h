/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Memory of a table of addresses: entries that are found by index, and by hash through the lists
 * that begin in its buckets. */

#ifndef BTL_IB_ADDR_TABLE_H
#define BTL_IB_ADDR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "footprint.h"

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
