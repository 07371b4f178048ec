/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "addr_table.h"

#include <stdlib.h>
#include <string.h>

bool btl_ib_addr_table_grow(btl_ib_addr_table_t *table, size_t entry, size_t bucket)
{
    const uint32_t count = table->count == 0 ? BTL_IB_ADDR_TABLE_FIRST : 2 * table->count;
    void *buckets = calloc(count, bucket);
    char *entries = buckets == NULL ? NULL : realloc(table->entry, count * entry);

    if (entries == NULL) {
        free(buckets);
        return false;
    }
    memset(entries + table->count * entry, 0, (count - table->count) * entry);
    free(table->bucket);
    *table = (btl_ib_addr_table_t){.count = count, .entry = entries, .bucket = buckets};
    return true;
}
