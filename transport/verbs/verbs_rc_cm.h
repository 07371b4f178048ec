/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Connections by rdma_cm, made and ended: peers, requests of both sides, connections that open,
 * fail and break, and the device's events. */

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
 * The history of a channel's attempts and connections, which decides when the next attempt is made,
 * and whether sends wait for it or get EHOSTUNREACH. Times are in us.
 */

typedef struct btl_ib_rc_backoff {
    uint32_t failures;    /* attempts of ours, in a row, that failed */
    bool hopeless;        /* the last attempt failed for a reason that does not pass by itself */
    uint64_t wanted_at;   /* since when something waits to be sent; 0: nothing since it opened */
    uint32_t short_lives; /* connections, in a row, that broke right after they had opened */
    uint64_t retry_at;    /* no attempt is made before this */
    bool gave_up;         /* EHOSTUNREACH was returned to sends since the last connection */
    /* What our system refused last, which ended an attempt or a connection: the call (a literal),
     * NULL: nothing, and its errno. */
    const char *call;
    int error;
    uint32_t stalls; /* connections, in a row, that were given up before any request completed */
} btl_ib_rc_backoff_t;

/* ---- peers ---- */

/*
 * The peers of an RC transport, found by handle or by cookie. Each has channels, and events that
 * are still to be reported. A peer that connects before it is added is "unknown": it has no address
 * and no users.
 */

/* A channel to a peer. It outlives connections, and exists as long as the peer. */
typedef struct btl_ib_rc_channel {
    btl_ib_rc_conn_t *conn; /* NULL: not connected */
    uint32_t peer_attempt;  /* requests of the peer with this number or less are void */
    uint32_t unaccepted; /* requests of the peer, in a row, that our system did not let us accept */
    btl_ib_rc_backoff_t backoff;
} btl_ib_rc_channel_t;

typedef struct btl_ib_rc_peer {
    btl_ib_rc_address_t addr;
    uint32_t index;              /* the handle */
    uint32_t users;              /* how often it was added, less how often removed; 0: unknown */
    uint32_t conns;              /* connections that are not closed */
    struct btl_ib_rc_peer *next; /* in a bucket */
    struct btl_ib_rc_peer *next_pending;
    bool pending;        /* it is in peers->pending: `broken` or `refused` is to become an event */
    bool broken;         /* an open connection was lost, which is not reported yet */
    int refused;         /* errno of an attempt that failed, which is not reported yet; 0: none */
    uint8_t mtu_most;    /* enum ibv_mtu: larger packets seem to get lost; 0: none do */
    uint32_t unanswered; /* connections, in a row, that broke because nothing was answered */
    uint64_t unanswered_at; /* us: when the last of them broke */
    btl_ib_rc_channel_t channel[BTL_IB_RC_CHANNELS];
} btl_ib_rc_peer_t;

typedef struct btl_ib_rc_peers {
    btl_ib_rc_conns_t *conns;
    btl_ib_rc_peer_t **peer;   /* by handle; NULL: free */
    uint32_t room;             /* places of `peer`, a power of two; as many buckets */
    uint32_t count;            /* places in use */
    uint32_t free;             /* no place below this one is free */
    btl_ib_rc_peer_t **bucket; /* by cookie */
    uint32_t unknown;          /* number of peers without users */
    btl_ib_rc_peer_t *pending; /* the first of a list */
} btl_ib_rc_peers_t;

/* Finds the peer with that address, or makes it, and adds a user to it. Returns NULL if memory is
 * short. */
btl_ib_rc_peer_t *btl_ib_rc_peer_add(btl_ib_rc_peers_t *peers, const btl_ib_rc_address_t *addr);

/* Removes a user of a peer. With the last user the peer's connections are closed, and it is
 * freed. */
void btl_ib_rc_peer_remove(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer);

void btl_ib_rc_peers_free(btl_ib_rc_peers_t *peers);

/* Returns the peer's handle, for events; BTL_IB_ADDR_UNKNOWN: the peer was not added yet. */
static inline btl_ib_addr_t btl_ib_rc_peer_handle(const btl_ib_rc_peer_t *peer)
{
    return peer->users > 0 ? peer->index : BTL_IB_ADDR_UNKNOWN;
}

/* ---- connections ---- */

/* Closes all connections; with `rdma_only` only those for operations on memory, so that the end of
 * each operation is reported. */
void btl_ib_rc_peers_close_all(btl_ib_rc_peers_t *peers, bool rdma_only);

/* Ends all operations with a peer; they make no events. */
void btl_ib_rc_peer_cancel_rdma(btl_ib_rc_peers_t *peers, const btl_ib_rc_peer_t *peer);

/* ---- events ---- */

/* Makes events of pending peers, at most `max`. Returns how many. */
int btl_ib_rc_peers_report(btl_ib_rc_peers_t *peers, btl_ib_event_t *events, int max);

/* ---- the transport ---- */

/* An RC transport as a whole. Each part is changed by the file of its name only. */

/* Owned by verbs_rc_cm.c. */
typedef struct btl_ib_rc_cm {
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener;
    uint32_t polls;     /* polls that are left until its events are read */
    uint64_t last_tick; /* ns of the coarse clock: when its events were last read */
} btl_ib_rc_cm_t;

/* Owned by verbs_rc_watch.c. */
typedef struct btl_ib_rc_watch {
    uint64_t looked_at; /* us: the last look, by the time that poll() gets */
} btl_ib_rc_watch_t;

/* Batches of at most this many datagrams go by eager RDMA. It saves completions, which the
 * datagrams of longer batches share anyway. */
enum { BTL_IB_RC_EAGER_BATCH = 4 };

/* Owned by verbs_rc.c. */
typedef struct btl_ib_rc_traffic {
    uint32_t full_polls; /* polls with events since the connection manager was last polled */
    /* Of datagrams by eager RDMA, until they are posted: what goes inline, and the pieces that the
     * device fetches. */
    uint64_t staged[BTL_IB_RC_EAGER_BATCH][BTL_IB_RC_EAGER_SLOT / sizeof(uint64_t)];
    struct ibv_sge pieces[BTL_IB_RC_EAGER_BATCH][2];
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
 * process, so all transports on a device share one stream of events. The transport that reads an
 * event hands it to all of them. (Events that another user of rdma_cm in the process reads are lost
 * to us.)
 */

/* Adds a transport to those that get the events of its device, and removes it. A transport that did
 * not join may leave. */
void btl_ib_rc_events_join(btl_ib_rc_t *rc);
void btl_ib_rc_events_leave(btl_ib_rc_t *rc);

/* ---- the connection manager ---- */

/*
 * The connection manager listens for requests of peers, and handles the events of rdma_cm. It works
 * alike on InfiniBand, RoCE and iWARP.
 *
 *      a side that has something to send            the other
 *      RESOLVING  address
 *      ROUTING    route; queue pair, buffers
 *      ASKING     request --------------------->    queue pair, buffers
 *      OPEN       <-------------------- reply       ACCEPTED
 *                 empty first message ---------->   OPEN
 *
 * The first message is for iWARP, where the side that accepted must not send first (RFC 6581); it
 * does no harm elsewhere.
 *
 * If both sides ask at once, the side with the smaller cookie wins (a request has both sides'
 * cookies): it rejects the other's request (CROSSING). The other side gives up its own request and
 * accepts. Requests are numbered (`attempt`). A reply says up to which number its sender's own
 * requests are void, so that a request which was given up, and arrives late, is not taken for a new
 * one.
 */

/* Listens at rc->self on the device of that name, and sets the port in rc->self. Returns 0, or a
 * negative errno after logging why; close follows in either case. */
int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params);
void btl_ib_rc_cm_close(btl_ib_rc_t *rc);

/* Handles the events of rdma_cm and of the device, if that is due. Returns true if it was due and
 * the port is up. */
bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc);

/* ---- requests of ours ---- */

/* Asks for a connection of a channel that has no open one, unless it is too soon for that. Returns
 * what a send is to get: EAGAIN; or EHOSTUNREACH, if there is no hope for a connection. */
int btl_ib_rc_cm_connect(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel);

/* Returns the open connection of a channel. If there is none, asks for one, and returns NULL and
 * what btl_ib_rc_cm_connect() returned in *error. */
static inline btl_ib_rc_conn_t *btl_ib_rc_cm_conn(btl_ib_rc_t *rc, btl_ib_addr_t to,
                                                  uint8_t channel, int *error)
{
    btl_ib_rc_peer_t *peer = rc->peers.peer[to];
    btl_ib_rc_conn_t *conn = peer->channel[channel].conn;

    if (conn != NULL && conn->stage == BTL_IB_RC_OPEN) { /* on an AGREED one nothing is sent */
        *error = EAGAIN;
        return conn->suspect_until == 0 ? conn : NULL;
    }
    *error = btl_ib_rc_cm_connect(rc, peer, channel);
    return NULL;
}

/* ---- open, failed, broken ---- */

/* Opens a connection that both sides have accepted; `how`, for the log. */
void btl_ib_rc_cm_opened(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *how);

/*
 * Closes a connection that broke, and reports that what was sent may be lost; `why`, for the log.
 * While the port is down it waits: soft-RoCE's connection manager never sends again if it has to
 * disconnect while its interface is down.
 */
void btl_ib_rc_cm_broke(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *why);

/* Does the same for a connection for which our system has refused a call (a literal) with that
 * errno. If it refuses that for the next ones, too, senders are told. */
void btl_ib_rc_cm_refused(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *call, int error);

/* Closes an unused connection, after both sides have agreed (verbs_rc_idle.h). */
void btl_ib_rc_cm_close_idle(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn);

/* Makes an AGREED connection OPEN again. */
void btl_ib_rc_cm_resume(btl_ib_rc_conn_t *conn);

/*
 * Notes that an open connection is about to break because the peer's device answered no
 * retransmission. If that happens twice within a minute, though the peer accepts connections, a
 * switch on the path may not carry packets of the ports' MTU. So the peer's next connections have
 * smaller packets, down to 1024 bytes, which fit any Ethernet.
 */
void btl_ib_rc_cm_unanswered(btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn);

/* Gives up a connection that stands still, as if it had broken; `what` does not go on, for the log.
 * If this is the second connection in a row for operations on memory on which nothing completed,
 * the next one is made only after a minute, and each time after twice as long; until then
 * operations get EHOSTUNREACH. */
void btl_ib_rc_cm_stalled(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what);

#endif
