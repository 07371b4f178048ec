/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which processes the two ends of a connection are, and what proves that: names, ids, epochs,
 * tokens, keys.
 */

#ifndef BTL_IB_IDENTITY_H
#define BTL_IB_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

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

/* Begins the identity of a connection with the process that published `info`. `keys`: memory for
 * its keys; NULL if the protection is not keyed. */
void btl_ib_identity_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info,
                          btl_ib_protection_keys_t *keys);

/* Ends the id and keys of a connection that is about to be freed. */
void btl_ib_identity_fini(btl_ib_conn_t *conn);

/* Gives it an id by which the peer names it. Returns 0 or -errno; cannot fail after
 * btl_ib_table_remove(). */
int btl_ib_identity_register(btl_ib_conn_t *conn);

/* Begins a new incarnation of the connection: our epoch and token, and the lowest epoch allowed to
 * the peer. */
void btl_ib_identity_begin(btl_ib_conn_t *conn);

/* Takes the id, epoch and token that a CONNECT of the peer, already checked, gave. */
void btl_ib_identity_bind(btl_ib_conn_t *conn, const btl_ib_arrival_t *arrival);

/* Leaves a tombstone of the peer's incarnation, which ended, by which late copies of its first
 * datagrams are recognised (they must not create the connection again), and forgets the peer's
 * id. */
void btl_ib_identity_add_tombstone(const btl_ib_conn_t *conn);
static inline void btl_ib_identity_unbind(btl_ib_identity_t *identity)
{
    identity->bound = false;
    identity->peer_knows = false;
    identity->peer_id = 0;
}

/* Notes that the peer used our id: CONNECT blocks are not needed any more. */
static inline void btl_ib_identity_known(btl_ib_identity_t *identity)
{
    identity->peer_knows = true;
}

/* Notes that something was sent to the peer in this incarnation. */
static inline void btl_ib_identity_contacted(btl_ib_identity_t *identity)
{
    identity->contacted = true;
}

/* Decides whether segments made from now on carry a CONNECT block although the peer has our id. */
static inline void btl_ib_identity_force_connect(btl_ib_identity_t *identity, bool yes)
{
    identity->force_connect = yes;
}

#endif
