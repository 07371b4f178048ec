/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The connections of a process by what names them (ids, peers), and which processes their two ends
 * are. What proves that: names, ids, epochs, tokens, keys; tombstones of incarnations that ended.
 */

#ifndef BTL_IB_IDENTITY_H
#define BTL_IB_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* ---- the table of connections ---- */

/*
 * Connections by the id that peers write into their headers, and by the peer's name and the two
 * rails. An id is a slot number and a generation, so that datagrams for an earlier user of the slot
 * are recognised. It is never 0.
 */

struct btl_ib_conn;

/* Both rails of a connection in one number. */
static inline uint32_t btl_ib_rails_of(uint32_t rail, uint32_t other)
{
    return rail << 8 | other;
}

typedef struct btl_ib_table {
    const btl_ib_mem_t *mem;
    uint32_t size; /* slots, 0 or a power of two */
    uint32_t free; /* first free slot, or size */
    struct btl_ib_table_slot *slots;
    uint32_t *buckets; /* size of them: the first slot of each hash chain, or size */
} btl_ib_table_t;

static inline void btl_ib_table_init(btl_ib_table_t *table, const btl_ib_mem_t *mem)
{
    *table = (btl_ib_table_t){.mem = mem};
}

void btl_ib_table_fini(btl_ib_table_t *table);

/* Add a connection under a new id. Returns 0 or -ENOMEM. */
int btl_ib_table_add(btl_ib_table_t *table, struct btl_ib_conn *conn, uint64_t name, uint32_t rail,
                     uint32_t remote_rail, uint32_t *id);

/* Bytes of one with so many connections. */
uint64_t btl_ib_table_bytes(uint32_t connections);

/* It can no longer be found by name; its id stays valid. */
void btl_ib_table_unname(btl_ib_table_t *table, uint32_t id);

/* Remove it. */
void btl_ib_table_remove(btl_ib_table_t *table, uint32_t id);

/* The connection in slot `index`, below `size`; NULL: none. Both change whenever one is added or
 * removed. */
struct btl_ib_conn *btl_ib_table_at(const btl_ib_table_t *table, uint32_t index);

struct btl_ib_conn *btl_ib_table_by_id(const btl_ib_table_t *table, uint32_t id);
struct btl_ib_conn *btl_ib_table_by_name(const btl_ib_table_t *table, uint64_t name, uint32_t rail,
                                         uint32_t remote_rail);

/* ---- tombstones ---- */

/*
 * Tombstones of connections that ended: a late or replayed CONNECT of an ended incarnation is no
 * first contact. The incarnations of a peer are ordered (epoch), so the latest that ended stands
 * for all before it. Kept are the peers whose connections ended last, a few hundred.
 */

typedef struct btl_ib_tombstone {
    uint64_t name;
    uint64_t secret; /* half of the peer's: the same name with another one is a new process */
    uint32_t rail;
    uint32_t remote_rail;
    uint32_t epoch; /* of its latest incarnation that ended */
    uint64_t order; /* grows with each that is added */
} btl_ib_tombstone_t;

/* There are as many once there are peers. */
enum {
    BTL_IB_TOMBSTONES = 512,
    BTL_IB_TOMBSTONES_BYTES = BTL_IB_TOMBSTONES * sizeof(btl_ib_tombstone_t),
};

typedef struct btl_ib_tombstones {
    const btl_ib_mem_t *mem;
    btl_ib_tombstone_t *list;
    uint32_t count;
    uint64_t order; /* of the newest */
} btl_ib_tombstones_t;

static inline void btl_ib_tombstones_init(btl_ib_tombstones_t *tombstones, const btl_ib_mem_t *mem)
{
    *tombstones = (btl_ib_tombstones_t){.mem = mem};
}

static inline void btl_ib_tombstones_fini(btl_ib_tombstones_t *tombstones)
{
    btl_ib_free(tombstones->mem, tombstones->list);
    btl_ib_tombstones_init(tombstones, tombstones->mem);
}

/* Allocate the memory. Returns 0 or -ENOMEM. Called before the first connection is made: no
 * tombstone may be lost for want of memory later. */
int btl_ib_tombstones_prepare(btl_ib_tombstones_t *tombstones);

/* Add a tombstone. */
void btl_ib_tombstones_add(btl_ib_tombstones_t *tombstones, const btl_ib_tombstone_t *tombstone);

/* The lowest epoch that is valid for that peer (name, rails, secret); 0: any. */
uint32_t btl_ib_tombstones_floor(const btl_ib_tombstones_t *tombstones,
                                 const btl_ib_tombstone_t *peer);

/* Did that epoch of a peer (name, rails) end, or a later one, of whatever secret? */
bool btl_ib_tombstones_ended(const btl_ib_tombstones_t *tombstones, const btl_ib_tombstone_t *peer);

/* ---- the two ends of a connection ---- */

/* Incarnations of all connections of this process. */
typedef struct btl_ib_incarnations {
    uint32_t newest; /* the epoch of the last that began */
} btl_ib_incarnations_t;

/* Which the two processes are, and what a datagram of this connection must carry. */
typedef struct btl_ib_identity {
    uint64_t name;                  /* the peer process */
    btl_ib_secret_t secret;         /* the peer's */
    btl_ib_protection_keys_t *keys; /* NULL if the protection is not keyed */
    uint64_t tx_token;
    uint64_t rx_token;
    uint32_t id;      /* ours: what the peer writes into its headers */
    uint32_t epoch;   /* of this incarnation of the connection */
    uint32_t peer_id; /* the peer's id for the connection; 0: not known yet */
    uint32_t peer_epoch;
    uint32_t peer_floor; /* incarnations of the peer with epochs below this have ended; 0: none */
    uint32_t peer_ack_delay; /* us */
    uint8_t remote_rail;
    uint8_t version;    /* of all datagrams, of both sides */
    bool bound;         /* peer_id and rx_token are valid */
    bool peer_knows;    /* the peer has our id: CONNECT blocks are not needed */
    bool contacted;     /* something was sent to it in this incarnation */
    bool force_connect; /* write CONNECT blocks although peer_knows */
} btl_ib_identity_t;

/* A connection with the process that published `info`. `keys`: memory for its keys; NULL if the
 * protection is not keyed. */
void btl_ib_identity_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info,
                          btl_ib_protection_keys_t *keys);

/* The connection is about to be freed: its id and keys are no more. */
void btl_ib_identity_fini(btl_ib_conn_t *conn);

/* Give it an id by which the peer names it. Returns 0 or -errno; cannot fail after
 * btl_ib_table_remove(). */
int btl_ib_identity_register(btl_ib_conn_t *conn);

/* Begin a new incarnation of the connection: our epoch and token, and the lowest epoch allowed
 * to the peer. */
void btl_ib_identity_begin(btl_ib_conn_t *conn);

/* A CONNECT of the peer, already checked, gave its id, epoch and token. */
void btl_ib_identity_bind(btl_ib_conn_t *conn, const btl_ib_arrival_t *arrival);

/* The peer's incarnation ended. Leave a tombstone, by which late copies of its first datagrams
 * are recognised (they must not create the connection again), and forget the peer's id. */
void btl_ib_identity_add_tombstone(const btl_ib_conn_t *conn);
static inline void btl_ib_identity_unbind(btl_ib_identity_t *identity)
{
    identity->bound = false;
    identity->peer_knows = false;
    identity->peer_id = 0;
}

/* The peer used our id: CONNECT blocks are not needed any more. */
static inline void btl_ib_identity_known(btl_ib_identity_t *identity)
{
    identity->peer_knows = true;
}

/* Something was sent to it in this incarnation. */
static inline void btl_ib_identity_contacted(btl_ib_identity_t *identity)
{
    identity->contacted = true;
}

/* Do segments made from now on carry a CONNECT block although the peer has our id? */
static inline void btl_ib_identity_force_connect(btl_ib_identity_t *identity, bool yes)
{
    identity->force_connect = yes;
}

#endif
