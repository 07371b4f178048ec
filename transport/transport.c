/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "transport.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const btl_ib_estimate_owners[BTL_IB_ESTIMATE_OWNERS] = {"process", "kernel", "device"};

void btl_ib_estimate_add(btl_ib_memory_estimate_t *estimate, btl_ib_estimate_owner_t owner,
                         uint64_t held, uint64_t most, const char *what, ...)
{
    btl_ib_estimate_part_t *part = &estimate->part[BTL_IB_ESTIMATE_PARTS - 1];
    va_list args;

    most = most < held ? held : most;
    if (estimate->count < BTL_IB_ESTIMATE_PARTS) {
        part = &estimate->part[estimate->count++];
        *part = (btl_ib_estimate_part_t){.owner = owner};
        va_start(args, what);
        vsnprintf(part->what, sizeof(part->what), what, args);
        va_end(args);
    }
    part->bytes.held += held;
    part->bytes.most += most;
    estimate->all[owner].held += held;
    estimate->all[owner].most += most;
}

void btl_ib_estimate_queues(btl_ib_memory_estimate_t *estimate, uint64_t endpoints,
                            uint32_t completion_queues)
{
    estimate->endpoints = endpoints;
    estimate->completion_queues = completion_queues;
}

/* ---- tables of addresses ---- */

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
