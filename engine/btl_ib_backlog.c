/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_backlog.h"

void btl_ib_backlog_fini(btl_ib_backlog_t *backlog)
{
    btl_ib_backlog_entry_t *entry;

    while ((entry = btl_ib_backlog_pop(backlog)) != NULL) {
        btl_ib_backlog_put(backlog, entry);
    }
}

btl_ib_backlog_entry_t *btl_ib_backlog_get(btl_ib_backlog_t *backlog, struct btl_ib_conn *conn,
                                           uint8_t tag, uint32_t size)
{
    /* Rounded up to 16 bytes, as a receive buffer is: Open MPI's callbacks copy headers by vector
     * instructions, which read beyond the end of a short one. */
    uint64_t cost = sizeof(btl_ib_backlog_entry_t) + ((uint64_t) size + 15) / 16 * 16;

    if (backlog->bytes + cost > backlog->bytes_max) {
        return NULL;
    }
    btl_ib_backlog_entry_t *entry = btl_ib_zalloc(backlog->mem, (size_t) cost);
    if (entry != NULL) {
        btl_ib_list_init(&entry->link);
        entry->conn = conn;
        entry->tag = tag;
        entry->size = size;
        entry->cost = (uint32_t) cost;
    }
    return entry;
}

btl_ib_backlog_entry_t *btl_ib_backlog_pop(btl_ib_backlog_t *backlog)
{
    btl_ib_backlog_entry_t *entry =
        BTL_IB_LIST_POP(btl_ib_backlog_entry_t, &backlog->messages, link);

    if (entry != NULL) {
        backlog->bytes -= entry->cost;
    }
    return entry;
}

void btl_ib_backlog_drop(btl_ib_backlog_t *backlog, const struct btl_ib_conn *conn)
{
    btl_ib_list_t *item = btl_ib_list_first(&backlog->messages);

    while (item != NULL) {
        btl_ib_backlog_entry_t *entry = BTL_IB_CONTAINER(item, btl_ib_backlog_entry_t, link);
        item = btl_ib_list_next(&backlog->messages, item);
        if (entry->conn == conn) {
            btl_ib_list_remove(&entry->link);
            backlog->bytes -= entry->cost;
            btl_ib_backlog_put(backlog, entry);
        }
    }
}
