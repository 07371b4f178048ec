/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_table.h"

#include <errno.h>

enum { SLOTS_FIRST = 16 };

void btl_ib_table_fini(btl_ib_table_t *table)
{
    btl_ib_free(table->mem, table->slots);
    btl_ib_free(table->mem, table->buckets);
    table->slots = NULL;
    table->buckets = NULL;
    table->size = 0;
}

/* Returns the bucket. Names come from the runtime, not from an attacker: mixing is enough. */
static uint32_t *bucket_of(const btl_ib_table_t *table, uint64_t name, uint32_t rails)
{
    uint64_t hash = (name ^ ((uint64_t) rails << 48)) * UINT64_C(0x9e3779b97f4a7c15);
    return &table->buckets[(hash >> 32) & (table->size - 1)];
}

static void chain(btl_ib_table_t *table, uint32_t index)
{
    btl_ib_table_slot_t *slot = &table->slots[index];
    uint32_t *bucket = bucket_of(table, slot->name, slot->rails);

    slot->next = *bucket;
    *bucket = index;
    slot->named = true;
}

static int grow_table(btl_ib_table_t *table)
{
    uint32_t size = table->size == 0 ? SLOTS_FIRST : table->size * 2;

    if (size > 1u << BTL_IB_SLOT_BITS) {
        return -ENOMEM;
    }
    btl_ib_table_slot_t *slots = btl_ib_zalloc(table->mem, size * sizeof(*slots));
    uint32_t *buckets = btl_ib_zalloc(table->mem, size * sizeof(*buckets));
    if (slots == NULL || buckets == NULL) {
        btl_ib_free(table->mem, slots);
        btl_ib_free(table->mem, buckets);
        return -ENOMEM;
    }
    btl_ib_table_slot_t *old = table->slots;
    uint32_t old_size = table->size;
    btl_ib_free(table->mem, table->buckets);
    table->slots = slots;
    table->buckets = buckets;
    table->size = size;
    for (uint32_t i = 0; i < size; i++) {
        buckets[i] = size;
        slots[i].next = i + 1; /* the list of free slots */
    }
    for (uint32_t i = 0; i < old_size; i++) { /* the old table is full */
        slots[i] = old[i];
        if (slots[i].named) {
            chain(table, i);
        }
    }
    table->free = old_size;
    btl_ib_free(table->mem, old);
    return 0;
}

uint64_t btl_ib_table_bytes(uint32_t connections)
{
    return btl_ib_estimate_doubled(SLOTS_FIRST, connections)
           * (sizeof(btl_ib_table_slot_t) + sizeof(uint32_t));
}

int btl_ib_table_add(btl_ib_table_t *table, struct btl_ib_conn *conn, uint64_t name, uint32_t rail,
                     uint32_t remote_rail, uint32_t *id)
{
    if (table->free == table->size) {
        int rc = grow_table(table);
        if (rc != 0) {
            return rc;
        }
    }
    uint32_t index = table->free;
    btl_ib_table_slot_t *slot = &table->slots[index];
    table->free = slot->next;
    slot->conn = conn;
    slot->name = name;
    slot->rails = btl_ib_rails_of(rail, remote_rail);
    uint32_t generation = (slot->id >> BTL_IB_SLOT_BITS) + 1;
    slot->id = generation << BTL_IB_SLOT_BITS | index;
    if (slot->id == 0) { /* slot 0 after 4096 users */
        slot->id = 1u << BTL_IB_SLOT_BITS;
    }
    chain(table, index);
    *id = slot->id;
    return 0;
}

/* Returns the slot of a connection in the table; NULL: there is none of that id. */
static btl_ib_table_slot_t *slot_of(const btl_ib_table_t *table, uint32_t id)
{
    return btl_ib_table_by_id(table, id) == NULL
               ? NULL
               : &table->slots[id & ((1u << BTL_IB_SLOT_BITS) - 1)];
}

void btl_ib_table_unname(btl_ib_table_t *table, uint32_t id)
{
    btl_ib_table_slot_t *slot = slot_of(table, id);

    if (slot == NULL || !slot->named) {
        return;
    }
    uint32_t index = (uint32_t) (slot - table->slots);
    uint32_t *link = bucket_of(table, slot->name, slot->rails);
    while (*link != index) {
        link = &table->slots[*link].next;
    }
    *link = slot->next;
    slot->named = false;
}

void btl_ib_table_remove(btl_ib_table_t *table, uint32_t id)
{
    btl_ib_table_slot_t *slot = slot_of(table, id);

    if (slot == NULL) {
        return;
    }
    btl_ib_table_unname(table, id);
    slot->conn = NULL;
    slot->next = table->free;
    table->free = (uint32_t) (slot - table->slots);
}

struct btl_ib_conn *btl_ib_table_at(const btl_ib_table_t *table, uint32_t index)
{
    return table->slots[index].conn;
}

struct btl_ib_conn *btl_ib_table_by_name(const btl_ib_table_t *table, uint64_t name, uint32_t rail,
                                         uint32_t remote_rail)
{
    uint32_t rails = btl_ib_rails_of(rail, remote_rail);

    if (table->size == 0) {
        return NULL;
    }
    for (uint32_t i = *bucket_of(table, name, rails); i != table->size; i = table->slots[i].next) {
        if (table->slots[i].name == name && table->slots[i].rails == rails) {
            return table->slots[i].conn;
        }
    }
    return NULL;
}
