/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_backlog.h"

void btl_ib_backlog_init(btl_ib_backlog_t *store, const btl_ib_mem_t *mem, uint64_t bytes_max)
{
    *store = (btl_ib_backlog_t){.mem = mem, .bytes_max = bytes_max};
    btl_ib_list_init(&store->messages);
}

void btl_ib_backlog_fini(btl_ib_backlog_t *store)
{
    btl_ib_backlog_entry_t *stored;

    while ((stored = btl_ib_backlog_pop(store)) != NULL) {
        btl_ib_backlog_put(store, stored);
    }
}

btl_ib_backlog_entry_t *btl_ib_backlog_get(btl_ib_backlog_t *store, uint32_t size)
{
    /* Whole pieces of 16 bytes, as in a receive buffer: Open MPI's callbacks copy headers by vector
     * instructions, which read on behind a short one. */
    uint64_t cost = sizeof(btl_ib_backlog_entry_t) + ((uint64_t) size + 15) / 16 * 16;

    if (store->bytes + cost > store->bytes_max) {
        return NULL;
    }
    btl_ib_backlog_entry_t *stored = btl_ib_zalloc(store->mem, cost);
    if (stored != NULL) {
        btl_ib_list_init(&stored->link);
        stored->size = size;
        stored->cost = (uint32_t) cost;
    }
    return stored;
}

void btl_ib_backlog_add(btl_ib_backlog_t *store, btl_ib_backlog_entry_t *stored)
{
    store->bytes += stored->cost;
    btl_ib_list_push_tail(&store->messages, &stored->link);
}

void btl_ib_backlog_take_over(btl_ib_backlog_t *store, btl_ib_backlog_t *from)
{
    store->bytes += from->bytes;
    from->bytes = 0;
    btl_ib_list_splice_tail(&store->messages, &from->messages);
}

static void take_out(btl_ib_backlog_t *store, btl_ib_backlog_entry_t *stored)
{
    btl_ib_list_remove(&stored->link);
    store->bytes -= stored->cost;
}

btl_ib_backlog_entry_t *btl_ib_backlog_pop(btl_ib_backlog_t *store)
{
    btl_ib_list_t *item = btl_ib_list_first(&store->messages);

    if (item == NULL) {
        return NULL;
    }
    btl_ib_backlog_entry_t *stored = BTL_IB_CONTAINER(item, btl_ib_backlog_entry_t, link);
    take_out(store, stored);
    return stored;
}

void btl_ib_backlog_put(btl_ib_backlog_t *store, btl_ib_backlog_entry_t *stored)
{
    btl_ib_free(store->mem, stored);
}

void btl_ib_backlog_drop(btl_ib_backlog_t *store, const struct btl_ib_conn *conn)
{
    btl_ib_list_t *item = btl_ib_list_first(&store->messages);

    while (item != NULL) {
        btl_ib_backlog_entry_t *stored = BTL_IB_CONTAINER(item, btl_ib_backlog_entry_t, link);
        item = btl_ib_list_next(&store->messages, item);
        if (stored->conn == conn) {
            take_out(store, stored);
            btl_ib_backlog_put(store, stored);
        }
    }
}
