/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_identity.h"

#include "btl_ib_engine_internal.h"
#include "btl_ib_seq_window.h"
#include "transport.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <stddef.h>

/* ---- the table of connections ---- */

enum {
    SLOT_BITS = 20, /* a million connections; 12 bits of generation */
    SLOTS_FIRST = 16,
};

typedef struct btl_ib_table_slot {
    struct btl_ib_conn *conn; /* NULL: free */
    uint64_t name;
    uint32_t rails;
    uint32_t id;   /* of the present or last user */
    uint32_t next; /* in the hash chain, or the list of free slots */
    bool named;
} slot_t;

void btl_ib_table_fini(btl_ib_table_t *table)
{
    btl_ib_free(table->mem, table->slots);
    btl_ib_free(table->mem, table->buckets);
    table->slots = NULL;
    table->buckets = NULL;
    table->size = 0;
}

/* Names come from the runtime, not from an attacker: mixing is enough. */
static uint32_t *bucket_of(const btl_ib_table_t *table, uint64_t name, uint32_t rails)
{
    uint64_t hash = (name ^ ((uint64_t) rails << 48)) * UINT64_C(0x9e3779b97f4a7c15);
    return &table->buckets[(hash >> 32) & (table->size - 1)];
}

static void chain(btl_ib_table_t *table, uint32_t index)
{
    slot_t *slot = &table->slots[index];
    uint32_t *bucket = bucket_of(table, slot->name, slot->rails);

    slot->next = *bucket;
    *bucket = index;
    slot->named = true;
}

static int grow_table(btl_ib_table_t *table)
{
    uint32_t size = table->size == 0 ? SLOTS_FIRST : table->size * 2;

    if (size > 1u << SLOT_BITS) {
        return -ENOMEM;
    }
    slot_t *slots = btl_ib_zalloc(table->mem, size * sizeof(*slots));
    uint32_t *buckets = btl_ib_zalloc(table->mem, size * sizeof(*buckets));
    if (slots == NULL || buckets == NULL) {
        btl_ib_free(table->mem, slots);
        btl_ib_free(table->mem, buckets);
        return -ENOMEM;
    }
    slot_t *old = table->slots;
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
    return btl_ib_estimate_doubled(SLOTS_FIRST, connections) * (sizeof(slot_t) + sizeof(uint32_t));
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
    slot_t *slot = &table->slots[index];
    table->free = slot->next;
    slot->conn = conn;
    slot->name = name;
    slot->rails = btl_ib_rails_of(rail, remote_rail);
    uint32_t generation = (slot->id >> SLOT_BITS) + 1;
    slot->id = generation << SLOT_BITS | index;
    if (slot->id == 0) { /* slot 0 after 4096 users */
        slot->id = 1u << SLOT_BITS;
    }
    chain(table, index);
    *id = slot->id;
    return 0;
}

static slot_t *slot_of(const btl_ib_table_t *table, uint32_t id)
{
    uint32_t index = id & ((1u << SLOT_BITS) - 1);

    if (index >= table->size || table->slots[index].id != id || table->slots[index].conn == NULL) {
        return NULL;
    }
    return &table->slots[index];
}

void btl_ib_table_unname(btl_ib_table_t *table, uint32_t id)
{
    slot_t *slot = slot_of(table, id);

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
    slot_t *slot = slot_of(table, id);

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

struct btl_ib_conn *btl_ib_table_by_id(const btl_ib_table_t *table, uint32_t id)
{
    slot_t *slot = slot_of(table, id);
    return slot == NULL ? NULL : slot->conn;
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

/* ---- tombstones ---- */

int btl_ib_tombstones_prepare(btl_ib_tombstones_t *tombstones)
{
    if (tombstones->list == NULL) {
        tombstones->list = btl_ib_zalloc(tombstones->mem, BTL_IB_TOMBSTONES_BYTES);
    }
    return tombstones->list == NULL ? -ENOMEM : 0;
}

static bool same_rails(const btl_ib_tombstone_t *of, const btl_ib_tombstone_t *peer)
{
    return of->name == peer->name && of->rail == peer->rail && of->remote_rail == peer->remote_rail;
}

static btl_ib_tombstone_t *find_tombstone(const btl_ib_tombstones_t *tombstones,
                                          const btl_ib_tombstone_t *peer)
{
    for (uint32_t i = 0; i < tombstones->count; i++) {
        btl_ib_tombstone_t *of = &tombstones->list[i];
        if (same_rails(of, peer) && of->secret == peer->secret) {
            return of;
        }
    }
    return NULL;
}

/* A free place, or that of the peer whose last connection ended longest ago. */
static btl_ib_tombstone_t *tombstone_place(btl_ib_tombstones_t *tombstones)
{
    btl_ib_tombstone_t *oldest = &tombstones->list[0];

    if (tombstones->count < BTL_IB_TOMBSTONES) {
        return &tombstones->list[tombstones->count++];
    }
    for (uint32_t i = 1; i < tombstones->count; i++) {
        if (tombstones->list[i].order < oldest->order) {
            oldest = &tombstones->list[i];
        }
    }
    return oldest;
}

void btl_ib_tombstones_add(btl_ib_tombstones_t *tombstones, const btl_ib_tombstone_t *tombstone)
{
    btl_ib_tombstone_t *old = find_tombstone(tombstones, tombstone);

    if (old == NULL) {
        old = tombstone_place(tombstones);
        *old = *tombstone;
    } else if (btl_ib_seq_before(old->epoch, tombstone->epoch)) {
        old->epoch = tombstone->epoch;
    }
    old->order = ++tombstones->order;
}

uint32_t btl_ib_tombstones_floor(const btl_ib_tombstones_t *tombstones,
                                 const btl_ib_tombstone_t *peer)
{
    const btl_ib_tombstone_t *tombstone = find_tombstone(tombstones, peer);

    return tombstone == NULL ? 0 : tombstone->epoch + 1;
}

bool btl_ib_tombstones_ended(const btl_ib_tombstones_t *tombstones, const btl_ib_tombstone_t *peer)
{
    for (uint32_t i = 0; i < tombstones->count; i++) {
        const btl_ib_tombstone_t *of = &tombstones->list[i];
        if (same_rails(of, peer) && !btl_ib_seq_before(of->epoch, peer->epoch)) {
            return true;
        }
    }
    return false;
}

/* ---- the two ends of a connection ---- */

void btl_ib_identity_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info,
                          btl_ib_protection_keys_t *keys)
{
    conn->identity.name = info->name;
    conn->identity.secret = info->secret;
    conn->identity.version = btl_ib_versions_common(conn->engine->config.wire, info->wire);
    conn->identity.keys = keys;
    if (keys != NULL) {
        btl_ib_protection_keys_init(keys, &info->key);
    }
    conn->identity.remote_rail = (uint8_t) info->rail;
    conn->identity.peer_ack_delay = info->ack_delay;
}

int btl_ib_identity_register(btl_ib_conn_t *conn)
{
    return btl_ib_table_add(&conn->engine->table, conn, conn->identity.name, conn->rail->index,
                            conn->identity.remote_rail, &conn->identity.id);
}

void btl_ib_identity_fini(btl_ib_conn_t *conn)
{
    btl_ib_table_remove(&conn->engine->table, conn->identity.id);
    if (conn->identity.keys != NULL) {
        explicit_bzero(conn->identity.keys, sizeof(*conn->identity.keys));
    }
}

static btl_ib_tombstone_t tombstone_of(const btl_ib_conn_t *conn)
{
    return (btl_ib_tombstone_t){
        .name = conn->identity.name,
        .secret = conn->identity.secret.k[0],
        .rail = conn->rail->index,
        .remote_rail = conn->identity.remote_rail,
        .epoch = conn->identity.peer_epoch,
    };
}

void btl_ib_identity_begin(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    const btl_ib_engine_config_t *config = &engine->config;
    btl_ib_identity_t *identity = &conn->identity;
    const btl_ib_tombstone_t tombstone = tombstone_of(conn);
    const uint32_t floor = btl_ib_tombstones_floor(&engine->tombstones, &tombstone);

    identity->contacted = false;
    if (floor != 0) { /* else it may have had a tombstone, whose place another one took */
        identity->peer_floor = floor;
    }
    identity->epoch = ++engine->incarnations.newest;
    identity->tx_token =
        btl_ib_token(&identity->secret, config->name, &config->secret, identity->epoch,
                     btl_ib_rails_of(conn->rail->index, identity->remote_rail));
    if (identity->keys != NULL) {
        btl_ib_protection_renew(identity->keys, config->first_number);
    }
}

void btl_ib_identity_bind(btl_ib_conn_t *conn, const btl_ib_arrival_t *arrival)
{
    btl_ib_identity_t *identity = &conn->identity;
    const btl_ib_view_t *view = &arrival->view;

    identity->peer_id = view->connect.connection;
    identity->peer_epoch = view->connect.epoch;
    identity->rx_token = view->token;
    identity->bound = true;
    if (identity->keys != NULL) {
        btl_ib_protection_accept(identity->keys, &arrival->way,
                                 btl_ib_protection_number(arrival->data, arrival->size));
    }
}

void btl_ib_identity_add_tombstone(const btl_ib_conn_t *conn)
{
    const btl_ib_tombstone_t tombstone = tombstone_of(conn);

    if (conn->identity.bound) {
        btl_ib_tombstones_add(&conn->engine->tombstones, &tombstone);
    }
}
