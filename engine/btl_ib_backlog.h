/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Messages of one segment that arrived in btl_ib_engine_async_progress(): acknowledged, but not
 * delivered yet. The next progress call delivers them in the order of their arrival. Their memory
 * is bounded by the configuration's backlog_max. Messages in chunks wait where they are
 * reassembled.
 */

#ifndef BTL_IB_BACKLOG_H
#define BTL_IB_BACKLOG_H

#include <stdint.h>

#include "btl_ib_list.h"
#include "btl_ib_pool.h"

struct btl_ib_conn;

/* One message. */
typedef struct btl_ib_backlog_entry {
    btl_ib_list_t link;
    struct btl_ib_conn *conn;
    uint32_t size;
    uint32_t cost; /* bytes of memory */
    uint8_t tag;
    uint8_t data[] __attribute__((aligned(8)));
} btl_ib_backlog_entry_t;

typedef struct btl_ib_backlog {
    const btl_ib_mem_t *mem;
    uint64_t bytes_max;
    uint64_t bytes; /* of memory that the messages in it take */
    btl_ib_list_t messages;
} btl_ib_backlog_t;

static inline void btl_ib_backlog_init(btl_ib_backlog_t *backlog, const btl_ib_mem_t *mem,
                                       uint64_t bytes_max)
{
    *backlog = (btl_ib_backlog_t){.mem = mem, .bytes_max = bytes_max};
    btl_ib_list_init(&backlog->messages);
}

void btl_ib_backlog_fini(btl_ib_backlog_t *backlog);

/*
 * Returns an entry for a message of `size` bytes from `conn`; the caller copies it to `data`. NULL
 * if there is no room or no memory: then the message must be sent again. It becomes part of the
 * backlog by btl_ib_backlog_add().
 */
btl_ib_backlog_entry_t *btl_ib_backlog_get(btl_ib_backlog_t *backlog, struct btl_ib_conn *conn,
                                           uint8_t tag, uint32_t size);

static inline void btl_ib_backlog_add(btl_ib_backlog_t *backlog, btl_ib_backlog_entry_t *entry)
{
    backlog->bytes += entry->cost;
    btl_ib_list_push_tail(&backlog->messages, &entry->link);
}

/* Adds all messages of `from`, which uses the same memory and is empty then. */
static inline void btl_ib_backlog_take_over(btl_ib_backlog_t *backlog, btl_ib_backlog_t *from)
{
    backlog->bytes += from->bytes;
    from->bytes = 0;
    btl_ib_list_splice_tail(&backlog->messages, &from->messages);
}

/* Removes the oldest message; NULL if there is none. */
btl_ib_backlog_entry_t *btl_ib_backlog_pop(btl_ib_backlog_t *backlog);

/* Frees a message that is not part of the backlog, or no longer. */
static inline void btl_ib_backlog_put(btl_ib_backlog_t *backlog, btl_ib_backlog_entry_t *entry)
{
    btl_ib_free(backlog->mem, entry);
}

/* Frees all that came from `conn`. */
void btl_ib_backlog_drop(btl_ib_backlog_t *backlog, const struct btl_ib_conn *conn);

#endif
