/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Connections by rdma_cm: peers, requests of ours and of theirs, connections that open, fail and
 * break, and the device's events. */

#ifndef BTL_IB_VERBS_RC_CM_H
#define BTL_IB_VERBS_RC_CM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs_device.h"
#include "verbs_rc_qp.h"
#include "verbs_rc_work_queues.h"
#include "verbs_formats.h"

/* ---- when to connect again ---- */

/*
 * The history of a channel's attempts and connections, from which follows when it may try to
 * connect again, and whether that is hopeless. Times are in us.
 */

typedef struct btl_ib_rc_backoff {
    uint32_t failures;    /* of our attempts in a row */
    bool hopeless;        /* the last of them failed for a reason that does not just pass */
    uint64_t wanted_at;   /* since when there is something to send, 0: the last connection opened */
    uint32_t short_lives; /* connections that broke right after they had been opened, in a row */
    uint64_t retry_at;    /* the next attempt is not made before */
    bool gave_up;         /* sends since the last connection were told that nobody can be reached */
    uint32_t stalls; /* connections, in a row, that were given up before any request completed */
} btl_ib_rc_backoff_t;

/* ---- peers ---- */

/*
 * Peers of an RC transport, by handle and by cookie, each with its channels and the events that are
 * to be reported. A peer that connects before it is added is "unknown": it has no address, and no
 * users.
 */

/* A queue of a peer, for as long as the peer is known. */
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
    bool pending;           /* events are to be made of `broken` or `refused` */
    bool broken;            /* a connection was lost that had been open */
    int refused;            /* errno, 0: not */
    uint8_t mtu_most;       /* enum ibv_mtu: larger packets seem to get lost; 0: none do */
    uint32_t unanswered;    /* connections that ended for want of an answer, in a row */
    uint64_t unanswered_at; /* the last of them, us */
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

/* Adds and removes a user of a peer. A peer without users loses its connections, and goes. Add
 * returns NULL if memory is short. */
btl_ib_rc_peer_t *btl_ib_rc_peer_add(btl_ib_rc_peers_t *peers, const btl_ib_rc_address_t *addr);
void btl_ib_rc_peer_remove(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer);

void btl_ib_rc_peers_free(btl_ib_rc_peers_t *peers);

/* Returns the handle that received datagrams name. */
static inline btl_ib_addr_t btl_ib_rc_peer_handle(const btl_ib_rc_peer_t *peer)
{
    return peer->users > 0 ? peer->index : BTL_IB_ADDR_UNKNOWN;
}

/* ---- connections ---- */

/* Closes all connections; or only those for operations on memory, so that the end of each operation
 * is reported. */
void btl_ib_rc_peers_close_all(btl_ib_rc_peers_t *peers, bool rdma_only);

/* Ends all operations with a peer; they make no events. */
void btl_ib_rc_peer_cancel_rdma(btl_ib_rc_peers_t *peers, const btl_ib_rc_peer_t *peer);

/* ---- events ---- */

/* Makes the events of pending peers. Returns how many. */
int btl_ib_rc_peers_report(btl_ib_rc_peers_t *peers, btl_ib_event_t *events, int max);

/* ---- the transport ---- */

/* An RC transport as a whole: its parts, each of which is written by the file of that name only. */

/* Owned by verbs_rc_cm.c. */
typedef struct btl_ib_rc_cm {
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener;
    uint32_t polls;     /* left before its events are read */
    uint64_t last_tick; /* ns of the coarse clock when they were read last */
} btl_ib_rc_cm_t;

/* Owned by verbs_rc_watch.c. */
typedef struct btl_ib_rc_watch {
    uint64_t looked_at; /* us, of poll()'s clock */
} btl_ib_rc_watch_t;

/* Datagrams of a batch that go by eager RDMA, at most: it saves completions, which longer batches
 * share anyway. */
enum { BTL_IB_RC_EAGER_BATCH = 4 };

/* Owned by verbs_rc.c. */
typedef struct btl_ib_rc_traffic {
    uint32_t full_polls; /* polls with events, since the connection manager was polled */
    /* Slots that datagrams by eager RDMA write, until they are posted. */
    uint64_t staged[BTL_IB_RC_EAGER_BATCH][BTL_IB_RC_EAGER_SLOT / sizeof(uint64_t)];
    struct ibv_sge pieces[BTL_IB_RC_EAGER_BATCH][2]; /* of those that the device fetches */
    btl_ib_rc_moved_t moved;
} btl_ib_rc_traffic_t;

typedef struct btl_ib_rc {
    btl_ib_rc_port_t port;
    btl_ib_rc_address_t self;
    btl_ib_verbs_state_t state;
    struct btl_ib_rc *next_rail; /* in the list of verbs_rc_cm.c */
    btl_ib_rc_cm_t cm;
    btl_ib_rc_rxqs_t rxqs;
    btl_ib_rc_cqs_t cqs;
    btl_ib_rc_eagers_t eagers;
    btl_ib_rc_conns_t conns;
    btl_ib_rc_peers_t peers;
    btl_ib_rc_traffic_t traffic;
    btl_ib_rc_watch_t watch;
} btl_ib_rc_t;

static inline btl_ib_rc_t *btl_ib_rc_of(btl_ib_transport_t *t)
{
    return (btl_ib_rc_t *) t;
}

/* ---- events of the device ---- */

/*
 * Asynchronous events of a device (ibv_get_async_event(3)). rdma_cm opens each device once for a
 * process, so all transports on one device have one stream of events, and the one that reads it
 * hands each event to all of them. (Events that another user of rdma_cm in the process reads are
 * lost to us.)
 */

/* Enters and removes a transport that gets events. One that did not join may leave. */
void btl_ib_rc_events_join(btl_ib_rc_t *rc);
void btl_ib_rc_events_leave(btl_ib_rc_t *rc);

/* ---- the connection manager ---- */

/*
 * The connection manager: where peers can ask for connections, and the events of rdma_cm, alike on
 * InfiniBand, RoCE and iWARP.
 *
 *      a side that has something to send            the other
 *      RESOLVING  address
 *      ROUTING    route; queue pair, buffers
 *      ASKING     request --------------------->    queue pair, buffers
 *      OPEN       <-------------------- reply       ACCEPTED
 *                 empty first message ---------->   OPEN
 *
 * The first message is there for iWARP, where the side that accepted must not be the first to send
 * (RFC 6581); it does no harm elsewhere.
 *
 * Both at once: each request names both sides by their cookies. A side that has a request of its
 * own on its way when one comes in rejects it if its cookie is the smaller one (CROSSING), else
 * gives up its own and accepts. Requests are numbered (`attempt`), and a reply says which of its
 * sender's are void: one that was given up, and comes late, is told from the next one.
 */

/* Listens at rc->self, whose port it sets, by the device of that name. Returns 0 or a negative
 * errno after logging why; close follows in either case. */
int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params);
void btl_ib_rc_cm_close(btl_ib_rc_t *rc);

/* Handles the events of rdma_cm and of the device, if it is time to. Returns true if it did, and
 * the port is up. */
bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc);

/* ---- requests of ours ---- */

/* Asks for a connection of a channel that has no open one, unless it is too soon. Returns EAGAIN,
 * or EHOSTUNREACH if it is hopeless. */
int btl_ib_rc_cm_connect(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel);

/* Returns the open connection of a channel, or NULL after asking for one; *error says why not, as
 * btl_ib_rc_cm_connect() does. */
static inline btl_ib_rc_conn_t *btl_ib_rc_cm_conn(btl_ib_rc_t *rc, btl_ib_addr_t to,
                                                  uint8_t channel, int *error)
{
    btl_ib_rc_peer_t *peer = rc->peers.peer[to];
    btl_ib_rc_conn_t *conn = peer->channel[channel].conn;

    if (conn != NULL && conn->stage == BTL_IB_RC_OPEN) { /* not AGREED */
        *error = EAGAIN;
        return conn->suspect_until == 0 ? conn : NULL;
    }
    *error = btl_ib_rc_cm_connect(rc, peer, channel);
    return NULL;
}

/* ---- open, failed, broken ---- */

/* Opens a connection that both sides have accepted. */
void btl_ib_rc_cm_opened(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *how);

/*
 * Closes a connection that broke, and reports what was sent as perhaps lost. While the port is down
 * that waits until it is up again: soft-RoCE's connection manager never sends again after it had to
 * disconnect while its interface was down.
 */
void btl_ib_rc_cm_broke(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *why);

/* Closes a connection that nobody uses, as both sides have agreed (verbs_rc_idle.h). */
void btl_ib_rc_cm_close_idle(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn);

/* Opens a connection again that this side had agreed to have closed. */
void btl_ib_rc_cm_resume(btl_ib_rc_conn_t *conn);

/*
 * Notes that an open connection is about to break because the peer's device answered none of its
 * retransmissions. If that happens again within a minute, though the peer can be connected to, the
 * path may carry packets of less than the ports' MTU (a switch): they are smaller from then on,
 * down to the 1024 bytes that fit any Ethernet.
 */
void btl_ib_rc_cm_unanswered(btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn);

/* Gives up a connection that does not end what it has under way (`what`), as if it had broken. If
 * it was for operations on memory, the one before it was given up, too, and neither ended anything,
 * the next one is made after a minute; that time doubles. Meanwhile operations are told that the
 * peer cannot be reached. */
void btl_ib_rc_cm_stalled(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what);

#endif
