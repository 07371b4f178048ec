/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Peers of an RC transport, and when their channels may try to connect again. */

#ifndef BTL_IB_VERBS_RC_PEERS_H
#define BTL_IB_VERBS_RC_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs_rc_wire.h"
#include "verbs_rc_conn.h"

/* ---- when to connect again ---- */

/*
 * When a channel may try to connect again, and whether that is hopeless: the history of its
 * attempts and connections. Times are in us.
 */

typedef struct btl_ib_rc_backoff {
    uint32_t failures;    /* of our attempts in a row */
    bool hopeless;        /* the last of them failed for a reason that does not just pass */
    uint64_t wanted_at;   /* since when there is something to send, 0: the last connection opened */
    uint32_t short_lives; /* connections that broke right after they had been opened, in a row */
    uint64_t retry_at;    /* not before then */
    bool gave_up;         /* sends since the last connection were told that nobody can be reached */
} btl_ib_rc_backoff_t;

/* There is something to send. */
void btl_ib_rc_backoff_wanted(btl_ib_rc_backoff_t *backoff, uint64_t now);

/* Give up what waits to be sent if it is as good as lost. Returns whether it is. The attempt under
 * way began at `begun_at`; 0: there is none. */
bool btl_ib_rc_backoff_give_up(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t begun_at);

/* The peer connects itself. */
void btl_ib_rc_backoff_crossed(btl_ib_rc_backoff_t *backoff, uint64_t now);

/* An attempt failed; `passes`: that says nothing of the next one. */
void btl_ib_rc_backoff_failed(btl_ib_rc_backoff_t *backoff, uint64_t now, bool passes);

/* Is it time to tell the user that the peer cannot be reached? Once, before the third failure in a
 * row is counted: it may pass, as when the other host is still booting. */
bool btl_ib_rc_backoff_should_warn(const btl_ib_rc_backoff_t *backoff);

/* A connection opened. Returns whether sends were given up as lost before that, and have to be
 * repeated. */
bool btl_ib_rc_backoff_opened(btl_ib_rc_backoff_t *backoff);

/* A connection that opened at `opened_at` (0: it never did) broke. */
void btl_ib_rc_backoff_broke(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t opened_at);

/* ---- peers ---- */

/*
 * Peers of an RC transport, by handle and by cookie, each with its channels; and what is to be
 * reported of them. A peer that connects before it is added is "unknown": it has no address, and no
 * users.
 */

/* One queue of one peer, for as long as the peer is known. */
typedef struct btl_ib_rc_channel {
    btl_ib_rc_conn_t *conn; /* NULL: not connected */
    uint32_t peer_attempt;  /* the peer's requests up to this one are void */
    btl_ib_rc_backoff_t backoff;
} btl_ib_rc_channel_t;

typedef struct btl_ib_rc_peer {
    btl_ib_rc_address_t addr;
    uint32_t index;              /* the handle */
    uint32_t users;              /* added less removed */
    uint32_t conns;              /* not closed */
    struct btl_ib_rc_peer *next; /* of the same bucket */
    struct btl_ib_rc_peer *next_pending;
    bool pending; /* events are to be made of: */
    bool broken;  /* a connection was lost that had been open */
    int refused;  /* errno, 0: not */
    btl_ib_rc_channel_t channel[BTL_IB_RC_CHANNELS];
} btl_ib_rc_peer_t;

typedef struct btl_ib_rc_peers {
    btl_ib_rc_conns_t *conns;
    btl_ib_rc_peer_t **peer; /* by handle, NULL: free */
    uint32_t room;           /* a power of two; that many buckets */
    uint32_t count;          /* in use */
    uint32_t free;           /* none is free below it */
    btl_ib_rc_peer_t **bucket;
    uint32_t unknown; /* with no users */
    btl_ib_rc_peer_t *pending;
} btl_ib_rc_peers_t;

static inline void btl_ib_rc_peers_init(btl_ib_rc_peers_t *peers, btl_ib_rc_conns_t *conns)
{
    peers->conns = conns;
}

/* The peer with that cookie, or NULL. */
btl_ib_rc_peer_t *btl_ib_rc_peer_find(const btl_ib_rc_peers_t *peers, uint64_t cookie);

/* The same, made if there is none. NULL: no memory. */
btl_ib_rc_peer_t *btl_ib_rc_peer_get(btl_ib_rc_peers_t *peers, uint64_t cookie);

/* A peer is added or removed; a removed one loses its connections, and goes if nobody else uses it.
 * Add returns NULL if memory is short. */
btl_ib_rc_peer_t *btl_ib_rc_peer_add(btl_ib_rc_peers_t *peers, const btl_ib_rc_address_t *addr);
void btl_ib_rc_peer_remove(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer);

/* Free a peer that nobody uses any more, unless it has connections. */
void btl_ib_rc_peer_free_unused(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer);

void btl_ib_rc_peers_free(btl_ib_rc_peers_t *peers);

/* The handle that received datagrams name. */
static inline btl_ib_addr_t btl_ib_rc_peer_handle(const btl_ib_rc_peer_t *peer)
{
    return peer->users > 0 ? peer->index : BTL_IB_ADDR_UNKNOWN;
}

/* ---- connections ---- */

/* A connection for a channel that has none. `id` is that of the peer's request, NULL: we ask. NULL
 * if memory is short. */
btl_ib_rc_conn_t *btl_ib_rc_peer_connect(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer,
                                         uint8_t channel, struct rdma_cm_id *id);

/* Close a connection. The peer stays, even if nobody uses it. */
void btl_ib_rc_peer_close(btl_ib_rc_conn_t *conn);

/* Close all; or only those of operations on memory, so that the end of each operation is
 * reported. */
void btl_ib_rc_peers_close_all(btl_ib_rc_peers_t *peers, bool rdma_only);

/* All operations with a peer are over, and make no events. */
void btl_ib_rc_peer_cancel_rdma(btl_ib_rc_peers_t *peers, const btl_ib_rc_peer_t *peer);

/* Requests of the peer up to this one are void. */
static inline void btl_ib_rc_channel_void_attempts(btl_ib_rc_channel_t *channel, uint32_t attempt)
{
    channel->peer_attempt = attempt;
}

/* ---- events ---- */

/* What was sent to it may be lost; nobody is there (`error`). */
void btl_ib_rc_peer_report_broken(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer);
void btl_ib_rc_peer_report_refused(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer, int error);

/* Make events of that. Returns how many. */
int btl_ib_rc_peers_report(btl_ib_rc_peers_t *peers, btl_ib_event_t *events, int max);

#endif
