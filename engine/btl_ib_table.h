/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Connections by the id that peers write into their headers, and by the peer's name and the two
 * rails. An id is a slot number and a generation, so that datagrams for an earlier user of the slot
 * are recognised. It is never 0.
 */

#ifndef BTL_IB_TABLE_H
#define BTL_IB_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_pool.h"

struct btl_ib_conn;

/* Returns both rails of a connection in one number. */
static inline uint32_t btl_ib_rails_of(uint32_t rail, uint32_t other)
{
    return rail << 8 | other;
}

/* A million connections; the other 12 bits of an id are its generation. */
enum { BTL_IB_SLOT_BITS = 20 };

typedef struct btl_ib_table_slot {
    struct btl_ib_conn *conn; /* NULL: free */
    uint64_t name;
    uint32_t rails;
    uint32_t id;   /* of the present or last user */
    uint32_t next; /* in the hash chain, or the list of free slots */
    bool named;
} btl_ib_table_slot_t;

typedef struct btl_ib_table {
    const btl_ib_mem_t *mem;
    uint32_t size; /* slots, 0 or a power of two */
    uint32_t free; /* first free slot, or size */
    btl_ib_table_slot_t *slots;
    uint32_t *buckets; /* size of them: the first slot of each hash chain, or size */
} btl_ib_table_t;

static inline void btl_ib_table_init(btl_ib_table_t *table, const btl_ib_mem_t *mem)
{
    *table = (btl_ib_table_t){.mem = mem};
}

void btl_ib_table_fini(btl_ib_table_t *table);

/* Adds a connection under a new id. Returns 0 or -ENOMEM. */
int btl_ib_table_add(btl_ib_table_t *table, struct btl_ib_conn *conn, uint64_t name, uint32_t rail,
                     uint32_t remote_rail, uint32_t *id);

/* Returns the bytes of a table with so many connections. */
uint64_t btl_ib_table_bytes(uint32_t connections);

/* Removes a connection from those found by name; its id stays valid. */
void btl_ib_table_unname(btl_ib_table_t *table, uint32_t id);

void btl_ib_table_remove(btl_ib_table_t *table, uint32_t id);

/* Returns the connection in slot `index`, below `size`; NULL: none. Both change whenever one is
 * added or removed. */
struct btl_ib_conn *btl_ib_table_at(const btl_ib_table_t *table, uint32_t index);

/* Returns the connection with that id, or NULL. Inline, as each datagram is looked up. */
static inline struct btl_ib_conn *btl_ib_table_by_id(const btl_ib_table_t *table, uint32_t id)
{
    const uint32_t index = id & ((1u << BTL_IB_SLOT_BITS) - 1);

    return index < table->size && table->slots[index].id == id ? table->slots[index].conn : NULL;
}

struct btl_ib_conn *btl_ib_table_by_name(const btl_ib_table_t *table, uint64_t name, uint32_t rail,
                                         uint32_t remote_rail);

#endif
