/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_cm.h"

#include "transport.h"
#include "net_interfaces.h"
#include "verbs_device.h"
#include "verbs_rc_qp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- table of peers ---- */

/* Returns the list that has the peer with that cookie. A cookie is random, and so its own hash. */
static btl_ib_rc_peer_t **peer_bucket(const btl_ib_rc_peers_t *peers, uint64_t cookie)
{
    return &peers->bucket[cookie & (peers->room - 1)];
}

/* Returns the peer with that cookie, or NULL. */
static btl_ib_rc_peer_t *peer_find(const btl_ib_rc_peers_t *peers, uint64_t cookie)
{
    btl_ib_rc_peer_t *peer = peers->room == 0 ? NULL : *peer_bucket(peers, cookie);

    while (peer != NULL && peer->addr.cookie != cookie) {
        peer = peer->next;
    }
    return peer;
}

static void peer_put_in_bucket(const btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_peer_t **first = peer_bucket(peers, peer->addr.cookie);

    peer->next = *first;
    *first = peer;
}

static bool peers_grow(btl_ib_rc_peers_t *peers)
{
    btl_ib_addr_table_t room = {
        .count = peers->room, .entry = peers->peer, .bucket = peers->bucket};

    if (!btl_ib_addr_table_grow(&room, sizeof(*peers->peer), sizeof(*peers->bucket))) {
        return false;
    }
    peers->room = room.count;
    peers->peer = room.entry;
    peers->bucket = room.bucket;
    for (uint32_t i = 0; i < peers->room; i++) {
        if (peers->peer[i] != NULL) {
            peer_put_in_bucket(peers, peers->peer[i]);
        }
    }
    return true;
}

/* Returns the peer with that cookie; makes an unknown one if there is none. NULL: memory is
 * short. */
static btl_ib_rc_peer_t *peer_get(btl_ib_rc_peers_t *peers, uint64_t cookie)
{
    btl_ib_rc_peer_t *peer = peer_find(peers, cookie);

    if (peer != NULL) {
        return peer;
    }
    if (peers->count == peers->room && !peers_grow(peers)) {
        return NULL;
    }
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return NULL;
    }
    while (peers->peer[peers->free] != NULL) {
        peers->free++;
    }
    peer->index = peers->free;
    peer->addr.cookie = cookie;
    peers->peer[peer->index] = peer;
    peers->count++;
    peers->unknown++;
    peer_put_in_bucket(peers, peer);
    return peer;
}

btl_ib_rc_peer_t *btl_ib_rc_peer_add(btl_ib_rc_peers_t *peers, const btl_ib_rc_address_t *addr)
{
    btl_ib_rc_peer_t *peer = peer_get(peers, addr->cookie);

    if (peer != NULL) {
        peer->addr = *addr;
        peers->unknown -= peer->users == 0;
        peer->users++;
    }
    return peer;
}

/* Frees a peer that nobody uses any more, unless it has connections. */
static void peer_free_unused(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_peer_t **at;

    if (peer->users > 0 || peer->conns > 0) {
        return;
    }
    if (peer->pending) {
        for (at = &peers->pending; *at != peer; at = &(*at)->next_pending) {
        }
        *at = peer->next_pending;
    }
    for (at = peer_bucket(peers, peer->addr.cookie); *at != peer; at = &(*at)->next) {
    }
    *at = peer->next;
    peers->peer[peer->index] = NULL;
    peers->free = btl_ib_verbs_min(peer->index, peers->free);
    peers->count--;
    peers->unknown--;
    free(peer);
}

/* Closes a connection and takes it out of its peer's channel. The peer stays, even without
 * users. */
static void peer_close(btl_ib_rc_conn_t *conn)
{
    conn->peer->channel[conn->channel].conn = NULL;
    conn->peer->conns--;
    btl_ib_rc_conn_close(conn);
}

void btl_ib_rc_peer_remove(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    if (--peer->users > 0) {
        return;
    }
    peers->unknown++; /* until it is gone */
    btl_ib_rc_peer_cancel_rdma(peers, peer);
    for (uint8_t i = 0; i < BTL_IB_RC_CHANNELS; i++) {
        if (peer->channel[i].conn != NULL) {
            peer_close(peer->channel[i].conn);
        }
    }
    peer_free_unused(peers, peer);
}

void btl_ib_rc_peers_free(btl_ib_rc_peers_t *peers)
{
    for (uint32_t i = 0; i < peers->room; i++) {
        free(peers->peer[i]);
    }
    free(peers->peer);
    free(peers->bucket);
}

/* ---- connections ---- */

/* Makes a connection for a channel that has none. `id` is that of the peer's request, NULL: we ask.
 * Returns NULL if memory is short. */
static btl_ib_rc_conn_t *peer_connect(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer,
                                      uint8_t channel, struct rdma_cm_id *id)
{
    btl_ib_rc_conn_t *conn = btl_ib_rc_conn_new(peers->conns, peer, peer->addr.cookie, channel, id);

    if (conn != NULL) {
        peer->channel[channel].conn = conn;
        peer->conns++;
    }
    return conn;
}

void btl_ib_rc_peers_close_all(btl_ib_rc_peers_t *peers, bool rdma_only)
{
    for (uint32_t i = 0; i < peers->conns->slots; i++) {
        btl_ib_rc_conn_t *conn = peers->conns->slot[i].conn;
        if (conn != NULL && (conn->rdma != NULL || !rdma_only)) {
            peer_close(conn);
        }
    }
}

void btl_ib_rc_peer_cancel_rdma(btl_ib_rc_peers_t *peers, const btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_conn_t *conn = peer->channel[BTL_IB_RC_RDMA_CHANNEL].conn;

    if (conn != NULL && conn->stage >= BTL_IB_RC_OPEN) {
        peer_close(conn);
    }
    for (conn = peers->conns->closed; conn != NULL; conn = conn->next_closed) {
        if (conn->rdma != NULL && conn->peer_cookie == peer->addr.cookie) {
            btl_ib_verbs_send_ring_forget(&conn->sq.ring);
        }
    }
}

/* ---- events of peers ---- */

static void peer_add_pending(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    if (!peer->pending && peer->users > 0) {
        peer->pending = true;
        peer->next_pending = peers->pending;
        peers->pending = peer;
    }
}

int btl_ib_rc_peers_report(btl_ib_rc_peers_t *peers, btl_ib_event_t *events, int max)
{
    int count = 0;

    while (peers->pending != NULL && count < max) {
        btl_ib_rc_peer_t *peer = peers->pending;

        if (peer->broken) {
            events[count++] = (btl_ib_event_t){.type = BTL_IB_EVENT_BROKEN, .from = peer->index};
            peer->broken = false;
        } else if (peer->refused != 0) {
            events[count++] = (btl_ib_event_t){
                .type = BTL_IB_EVENT_REFUSED,
                .error = peer->refused,
                .origin = BTL_IB_ORIGIN_LOCAL,
                .from = peer->index,
            };
            peer->refused = 0;
        } else {
            peers->pending = peer->next_pending;
            peer->pending = false;
        }
    }
    return count;
}

/* ---- when to connect again ---- */

enum {
    RETRY_US = 10 * 1000, /* the pause after a failure; doubled after each further one */
    RETRY_DOUBLINGS = 7,
    CROSSING_US = 100 * 1000,    /* until our next attempt while the peer's request is on its way */
    WARN_AFTER = 2,              /* failures in a row, before the one of which the user is told */
    SHORT_LIFE_US = 1000 * 1000, /* a connection that breaks sooner is likely to break again */
    /* Sends that wait longer than this are reported as lost. The kernel repeats a lost request each
     * 4.3 s, and many processes that share a processor are slow to answer. */
    PATIENCE_US = 10 * 1000 * 1000,
    STALL_PAUSE_US = 60 * 1000 * 1000, /* after the second stall in a row; doubled after each */
    STALL_DOUBLINGS = 5,
    UNANSWERED = 2,                   /* the MTU is lowered after this many connections in a row */
    UNANSWERED_US = 60 * 1000 * 1000, /* that broke no further apart than this, unanswered */
    MTU_LEAST = IBV_MTU_1024,
};

/* Gives up what waits to be sent if there is no hope for a connection, or none of use. Returns
 * whether it did. The attempt under way began at `begun_at`; 0: there is none. */
static bool backoff_give_up(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t begun_at)
{
    const bool hopeless = begun_at != 0
                              ? now >= begun_at + PATIENCE_US
                              : (backoff->failures > 0
                                 && (backoff->hopeless || now >= backoff->wanted_at + PATIENCE_US))
                                    || (backoff->call != NULL && backoff->short_lives > WARN_AFTER);

    backoff->gave_up = backoff->gave_up || hopeless;
    return hopeless;
}

/* Notes that an attempt failed; `passes`: the reason may pass, so that the next one may succeed. */
static void backoff_failed(btl_ib_rc_backoff_t *backoff, uint64_t now, bool passes)
{
    backoff->retry_at = now + ((uint64_t) RETRY_US << backoff->failures);
    backoff->failures += backoff->failures < RETRY_DOUBLINGS;
    backoff->hopeless = !passes;
}

/* Notes that a connection opened. Returns true if sends were given up since the last one, and have
 * to be repeated. */
static bool backoff_opened(btl_ib_rc_backoff_t *backoff)
{
    const bool gave_up = backoff->gave_up;

    backoff->call = NULL;
    backoff->failures = 0;
    backoff->wanted_at = 0;
    backoff->gave_up = false;
    return gave_up;
}

/* Notes that a connection broke which had opened at `opened_at` (0: it never did). The next one is
 * made at once; but after several that broke soon only after a pause, so that connecting and
 * sending all anew does not become a tight loop. */
static void backoff_broke(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t opened_at)
{
    if (opened_at != 0 && now - opened_at >= SHORT_LIFE_US) {
        backoff->short_lives = 0;
        return;
    }
    if (backoff->short_lives > 0) {
        backoff->retry_at = now + ((uint64_t) RETRY_US << (backoff->short_lives - 1));
    }
    backoff->short_lives += backoff->short_lives <= RETRY_DOUBLINGS;
}

/* Notes that a connection was given up because it stood still; `none` of its requests had
 * completed. */
static void backoff_stalled(btl_ib_rc_backoff_t *backoff, uint64_t now, bool none)
{
    const uint32_t before = none ? backoff->stalls : 0;

    backoff->stalls = before < STALL_DOUBLINGS ? before + 1 : before;
    if (before > 0) {
        backoff_failed(backoff, now, false);
        backoff->retry_at = now + ((uint64_t) STALL_PAUSE_US << (before - 1));
    }
}

/* ---- events of the device ---- */

/* All RC transports of this process. A caller of one holds the lock of all of them. */
static btl_ib_rc_t *rails;

void btl_ib_rc_events_join(btl_ib_rc_t *rc)
{
    rc->next_rail = rails;
    rails = rc;
}

void btl_ib_rc_events_leave(btl_ib_rc_t *rc)
{
    btl_ib_rc_t **at = &rails;

    while (*at != NULL && *at != rc) {
        at = &(*at)->next_rail;
    }
    if (*at != NULL) {
        *at = rc->next_rail;
    }
}

/* Returns whether the port has, or may have, the address that peers know. On Ethernet the port's
 * table has all of the interface. On InfiniBand rdma_cm looks, and over iWARP TCP: here it may. */
static bool events_find_address(const btl_ib_rc_t *rc)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    btl_ib_verbs_gid_t *gids;
    bool found = false;

    if (rc->port.iwarp || !btl_ib_verbs_ethernet(verbs)) {
        return true;
    }
    const int count = btl_ib_verbs_gids(verbs->context, verbs->port, -1, &gids, NULL);
    for (int i = 0; i < count && !found; i++) {
        found = btl_ib_ip_same((const struct sockaddr *) &gids[i].ip, &rc->self.any);
    }
    free(gids);
    return found || count < 0 || count == BTL_IB_VERBS_GIDS_MAX; /* or not known */
}

/* Returns the errno that an event means for a transport; 0: it goes on. A failure of a queue pair
 * shows in its completions, of a queue that many share only here. A changed LID, partition or
 * subnet manager breaks connections; rdma_cm learns of it when it connects again. */
static int events_error(const btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        return ENETDOWN;
    case IBV_EVENT_GID_CHANGE:
        return !btl_ib_verbs_port_up(&rc->port.verbs) ? ENETDOWN
               : events_find_address(rc)              ? 0
                                                      : EADDRNOTAVAIL;
    case IBV_EVENT_DEVICE_FATAL:
        return ENODEV;
    case IBV_EVENT_CQ_ERR:
        return btl_ib_rc_cqs_has(&rc->cqs, event->element.cq) ? EIO : 0;
    case IBV_EVENT_SRQ_ERR:
        return btl_ib_rc_rxqs_find(&rc->rxqs, event->element.srq) < rc->rxqs.count ? EIO : 0;
    default:
        return 0;
    }
}

/* True if an event may be about this transport: others on the device have ports and connections of
 * their own. */
static bool events_concern(const btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    if (event->event_type == IBV_EVENT_PATH_MIG || event->event_type == IBV_EVENT_PATH_MIG_ERR) {
        return event->element.qp->pd == rc->port.verbs.pd;
    }
    return btl_ib_verbs_event_is_ours(&rc->port.verbs, event);
}

static void events_handle(btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    if (!events_concern(rc, event)) {
        return;
    }
    int error = events_error(rc, event);

    btl_ib_verbs_event_log(&rc->port.verbs, event, error);
    if (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
        btl_ib_rc_conns_last_wqe(&rc->conns, event->element.qp);
    }
    if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED && rc->state.error == 0) {
        error = -btl_ib_rc_rxqs_ran_low(&rc->rxqs, &rc->port.verbs, event->element.srq);
        rc->port.verbs.base.refused = error != 0 ? "ibv_post_srq_recv" : NULL;
        rc->port.verbs.base.overflows = btl_ib_rc_rxqs_emptied(&rc->rxqs);
    }
    if (error == ENETDOWN || error == EADDRNOTAVAIL) {
        btl_ib_verbs_state_down(&rc->state, error);
    } else if (error != 0) {
        btl_ib_verbs_state_fail(&rc->state, error);
    }
}

/* Asks the device whether its port is down, as a connection may fail before the event that says
 * why. Sets the state, and returns whether it is down. (If the query fails the device is gone,
 * which an event says.) */
static bool events_port_down(btl_ib_rc_t *rc)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    struct ibv_port_attr attr;

    if (!rc->state.down && rc->state.error == 0
        && ibv_query_port(verbs->context, verbs->port, &attr) == 0
        && attr.state != IBV_PORT_ACTIVE) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: a connection failed because the port is down",
                         verbs->base.name);
        btl_ib_verbs_state_down(&rc->state, ENETDOWN);
    }
    return rc->state.down != 0;
}

/* Reads the events of the device, and sets the states of all transports on it. Returns true if the
 * port of this one came back up: then its connections have to be made anew. */
static bool events_read(btl_ib_rc_t *rc)
{
    struct ibv_context *context = rc->port.verbs.context;
    const bool was_down = rc->state.down != 0;
    struct ibv_async_event event;

    while (ibv_get_async_event(context, &event) == 0) {
        for (btl_ib_rc_t *rail = rails; rail != NULL; rail = rail->next_rail) {
            if (rail->port.verbs.context == context) {
                events_handle(rail, &event);
            }
        }
        ibv_ack_async_event(&event);
    }
    if (!was_down || !btl_ib_verbs_port_up(&rc->port.verbs) || !events_find_address(rc)) {
        return false;
    }
    btl_ib_verbs_state_up(&rc->state);
    return true;
}

/* ---- open, failed, broken ---- */

/* Logs what happens to a channel; `detail` may be empty. */
static void cm_log_at(int level, const btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer,
                      uint8_t channel, const char *what, const char *detail)
{
    char text[BTL_IB_RC_ADDRESS_TEXT];
    char queue[16] = "RDMA";

    if (channel != BTL_IB_RC_RDMA_CHANNEL) {
        snprintf(queue, sizeof(queue), "queue %u", channel);
    }
    BTL_IB_VERBS_LOG(&rc->port.verbs, level, "%s: peer %s, %s: %s%s%s", rc->port.verbs.base.name,
                     btl_ib_rc_address_format(&peer->addr, text, sizeof(text)), queue, what,
                     detail[0] != '\0' ? ": " : "", detail);
}

static void cm_log(const btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer, uint8_t channel,
                   const char *what, const char *detail)
{
    cm_log_at(10, rc, peer, channel, what, detail);
}

/* Sets an option of the queue pair that is to be made. If `value` is 0, or the call fails, the
 * default stays. The traffic class has to be set before the peer's address is resolved (the side
 * that accepts takes the request's), the ACK timeout before the route is resolved, or the request
 * accepted. */
static void set_option(const btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn, int option,
                       uint8_t value, const char *what)
{
    if (value != 0
        && rdma_set_option(conn->id, RDMA_OPTION_ID, option, &value, sizeof(value)) != 0) {
        cm_log(rc, conn->peer, conn->channel, what, strerror(errno));
    }
}

/* Sets the ACK timeout of the queue pair that is to be made. (iWARP has TCP's.) */
static void set_ack_timeout(const btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn)
{
    set_option(rc, conn, RDMA_OPTION_ID_ACK_TIMEOUT, rc->port.iwarp ? 0 : rc->port.ack_timeout,
               "its timeout cannot be set");
}

static btl_ib_rc_backoff_t *backoff_of(const btl_ib_rc_conn_t *conn)
{
    return &conn->peer->channel[conn->channel].backoff;
}

/* Ends an attempt that failed, by `what`: the call, or what came in its place (a literal), and
 * `error` (errno; 0: none). `refused`: it failed because nobody is there, which is reported. */
static void rc_cm_failed(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, bool refused, const char *what,
                         int error)
{
    btl_ib_rc_peer_t *peer = conn->peer;

    cm_log(rc, peer, conn->channel, what, error != 0 ? strerror(error) : "");
    if (conn->initiator) {
        backoff_failed(backoff_of(conn), btl_ib_rc_now_us(),
                       !refused && (error == ETIMEDOUT || error == EAGAIN));
        backoff_of(conn)->call = what;
        backoff_of(conn)->error = error;
    }
    peer_close(conn);
    if (refused) {
        peer->refused = ECONNREFUSED;
        peer_add_pending(&rc->peers, peer);
    }
    peer_free_unused(&rc->peers, peer);
}

/* Reports that what was sent over a connection may be lost. */
static void rc_cm_lost(btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn)
{
    /* Operations on memory report their ends themselves. On an AGREED connection nothing is under
     * way. */
    if (conn->rdma == NULL && conn->stage != BTL_IB_RC_AGREED) {
        conn->peer->broken = true;
        peer_add_pending(&rc->peers, conn->peer);
    }
}

void btl_ib_rc_cm_broke(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *why)
{
    btl_ib_rc_peer_t *peer = conn->peer;

    if (events_port_down(rc)) {
        return;
    }
    if (conn->stage == BTL_IB_RC_AGREED) {
        btl_ib_rc_cm_close_idle(rc, conn);
        return;
    }
    cm_log(rc, peer, conn->channel, "the connection broke", why);
    backoff_broke(backoff_of(conn), btl_ib_rc_now_us(), conn->opened_at);
    rc_cm_lost(rc, conn);
    peer_close(conn);
    peer_free_unused(&rc->peers, peer);
}

void btl_ib_rc_cm_refused(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *call, int error)
{
    char why[128];

    backoff_of(conn)->call = call;
    backoff_of(conn)->error = error;
    snprintf(why, sizeof(why), "%s: %s", call, strerror(error));
    btl_ib_rc_cm_broke(rc, conn, why);
}

void btl_ib_rc_cm_close_idle(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    btl_ib_rc_peer_t *peer = conn->peer;

    cm_log(rc, peer, conn->channel, "closed, as nobody used it", "");
    backoff_of(conn)->wanted_at = 0; /* PATIENCE_US begins anew with the next message */
    peer_close(conn);
    peer_free_unused(&rc->peers, peer);
}

void btl_ib_rc_cm_resume(btl_ib_rc_conn_t *conn)
{
    backoff_of(conn)->wanted_at = 0;
    conn->stage = BTL_IB_RC_OPEN;
}

void btl_ib_rc_cm_stalled(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what)
{
    const btl_ib_rc_peer_t *peer = conn->peer;

    if (!events_port_down(rc)) {
        cm_log_at(1, rc, peer, conn->channel, "the connection stands still and is given up", what);
        if (conn->rdma != NULL) { /* messages have no other way */
            backoff_stalled(backoff_of(conn), btl_ib_rc_now_us(), conn->sq.ring.completed == 0);
        }
        btl_ib_rc_cm_broke(rc, conn, what);
    }
}

/* Returns the MTU that a peer told, or a smaller one if its path seems to carry less; 0: not
 * known. */
static uint8_t mtu_of(const btl_ib_rc_peer_t *peer, uint8_t told)
{
    return peer->mtu_most != 0 && (told == 0 || peer->mtu_most < told) ? peer->mtu_most : told;
}

void btl_ib_rc_cm_unanswered(btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn)
{
    btl_ib_rc_peer_t *peer = conn->peer;
    const uint8_t most = mtu_of(peer, peer->addr.mtu);
    const uint8_t mtu = most != 0 && most < rc->port.verbs.mtu ? most : rc->port.verbs.mtu;
    const uint64_t now = btl_ib_rc_now_us();
    char text[128];

    if (rc->port.iwarp || events_port_down(rc)) { /* TCP finds its segments' size itself */
        return;
    }
    peer->unanswered = now - peer->unanswered_at < UNANSWERED_US ? peer->unanswered + 1 : 1;
    peer->unanswered_at = now;
    if (peer->unanswered != UNANSWERED) {
        return;
    }
    const bool lower = mtu > MTU_LEAST;
    if (lower) {
        peer->mtu_most = mtu - 1;
        peer->unanswered = 0;
    }
    snprintf(text, sizeof(text),
             lower ? "packets have %u bytes now: is the MTU of a switch on the path less than the "
                     "ports' (btl_ib_mtu)?"
                   : "packets of %u bytes get lost, which any network carries",
             btl_ib_verbs_mtu_bytes(mtu_of(peer, mtu)));
    cm_log_at(1, rc, peer, conn->channel, "what is sent is not answered, again and again", text);
}

/* Ends connections whose suspect_until has passed. */
static void rc_cm_end_suspicions(btl_ib_rc_t *rc)
{
    const uint64_t now = btl_ib_rc_now_us();

    for (uint32_t i = 0; i < rc->conns.slots && !events_port_down(rc); i++) {
        btl_ib_rc_conn_t *conn = rc->conns.slot[i].conn;
        if (conn != NULL && conn->suspect_until != 0 && now >= conn->suspect_until) {
            btl_ib_rc_cm_broke(rc, conn, ibv_wc_status_str(IBV_WC_LOC_QP_OP_ERR));
        }
    }
}

/* Ends all connections after the port was down: those of soft-RoCE may stand still for ever,
 * without an error. */
static void rc_cm_restart(btl_ib_rc_t *rc)
{
    for (uint32_t i = 0; i < rc->conns.slots; i++) {
        btl_ib_rc_conn_t *conn = rc->conns.slot[i].conn;
        if (conn != NULL && conn->stage >= BTL_IB_RC_ACCEPTED) {
            btl_ib_rc_cm_broke(rc, conn, "the port was down");
        }
    }
}

void btl_ib_rc_cm_opened(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *how)
{
    char after[32];

    btl_ib_rc_conn_open(conn);
    snprintf(after, sizeof(after), "after %" PRIu64 " ms",
             (uint64_t) (conn->opened_at - conn->begun_at) / 1000);
    cm_log(rc, conn->peer, conn->channel, how, after);
    conn->peer->channel[conn->channel].unaccepted = 0;
    if (backoff_opened(backoff_of(conn))) {
        rc_cm_lost(rc, conn); /* what was given up as lost is sent again now */
    }
}

/* ---- requests of peers ---- */

static void request_reject(struct rdma_cm_id *id, btl_ib_rc_reject_t reason)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];

    (void) rdma_reject(id, bytes, btl_ib_rc_reject_pack(reason, bytes));
}

/* Rejects a request for which no connection was made yet. */
static void request_refuse(const btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_reject_t reason)
{
    BTL_IB_VERBS_LOG(&rc->port.verbs, 10, "%s: a request was refused, reason %d",
                     rc->port.verbs.base.name, reason);
    request_reject(id, reason);
    (void) rdma_destroy_id(id);
}

/* Closes the connection or attempt that a peer's new request replaces. Returns false if our own
 * request goes first. */
static bool request_make_way(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer,
                             const btl_ib_rc_params_t *params)
{
    btl_ib_rc_conn_t *conn = peer->channel[params->channel].conn;

    if (conn == NULL) {
        return true;
    }
    if (conn->stage < BTL_IB_RC_ACCEPTED) {
        if (rc->self.cookie < params->from) {
            return false;
        }
        cm_log(rc, peer, params->channel, "its request goes before our own", "");
    } else { /* the peer asks because it has lost the connection */
        cm_log(rc, peer, params->channel, "connects anew", "");
        rc_cm_lost(rc, conn);
    }
    peer_close(conn);
    return true;
}

/* True if the sender of a request would send packets that are too large for the path. No reply can
 * change that, but a request of our own can. */
static bool request_wants_larger(const btl_ib_rc_peer_t *peer, const btl_ib_rc_params_t *params)
{
    return peer->mtu_most != 0 && (params->mtu == 0 || params->mtu > peer->mtu_most);
}

/* Asks for a connection in place of the one that a peer asked for. */
static void request_ask_instead(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel)
{
    btl_ib_rc_conn_t *conn = peer->channel[channel].conn;

    if (conn != NULL && conn->stage >= BTL_IB_RC_ACCEPTED) {
        rc_cm_lost(rc, conn);
        peer_close(conn);
    }
    (void) btl_ib_rc_cm_connect(rc, peer, channel);
}

/* Makes the queue pair for a peer's request, and accepts it. Returns 0 or a negative errno. */
static int request_accept(const btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn,
                          const btl_ib_rc_params_t *params)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    const int error = conn->id->verbs == rc->port.verbs.context
                          ? btl_ib_rc_conn_equip(conn, &conn->peer->addr)
                          : -ENODEV;

    if (error != 0) {
        return error;
    }
    set_ack_timeout(rc, conn);
    btl_ib_rc_conn_join(conn, params);
    struct rdma_conn_param reply =
        btl_ib_rc_conn_offer(conn, params->from, conn->peer->mtu_most, bytes);
    return -btl_ib_rc_qp_accept(&rc->port, conn->id, mtu_of(conn->peer, params->mtu), &reply);
}

/* Tells the user, at the third failure in a row, that a peer's requests cannot be accepted. */
static void request_tell_refused(const btl_ib_rc_t *rc, btl_ib_rc_channel_t *channel, int error)
{
    char text[128];

    if (channel->unaccepted++ == WARN_AFTER) {
        snprintf(text, sizeof(text), "%s: %s", btl_ib_verbs_failed_call(&rc->port.verbs),
                 strerror(error));
        btl_ib_verbs_diag(&rc->port.verbs.log, BTL_IB_DIAG_REFUSED, rc->port.verbs.base.name, text);
    }
}

static void request_take(btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_peer_t *peer,
                         const btl_ib_rc_params_t *params)
{
    btl_ib_rc_conn_t *conn = peer_connect(&rc->peers, peer, params->channel, id);

    if (conn == NULL) {
        request_refuse(rc, id, BTL_IB_RC_SHORTAGE);
        peer_free_unused(&rc->peers, peer);
        return;
    }
    peer->channel[params->channel].peer_attempt = params->attempt;
    btl_ib_verbs_forget_call(&rc->port.verbs);
    const int error = request_accept(rc, conn, params);
    if (error != 0) {
        request_reject(id, BTL_IB_RC_SHORTAGE);
        request_tell_refused(rc, &peer->channel[params->channel], -error);
        rc_cm_failed(rc, conn, false, btl_ib_verbs_failed_call(&rc->port.verbs), -error);
    }
}

/*
 * Returns the peer that sent a request; NULL: it is not admitted. An unknown peer is made, unless
 * there are too many. This process itself may ask as well, for operations on its own memory that
 * the device has to do. The accepting end of that connection needs a peer of its own: its cookie is
 * the complement of ours, which no other process has (but by a chance of 2^-64).
 */
static btl_ib_rc_peer_t *request_find_asker(btl_ib_rc_t *rc, const btl_ib_rc_params_t *params)
{
    btl_ib_rc_peer_t *peer = peer_find(&rc->peers, params->from);

    if (params->from == rc->self.cookie) {
        return peer != NULL && params->channel == BTL_IB_RC_RDMA_CHANNEL
                   ? peer_get(&rc->peers, ~rc->self.cookie)
                   : NULL;
    }
    return peer == NULL && rc->peers.unknown < rc->port.unknown_max
               ? peer_get(&rc->peers, params->from)
               : peer;
}

/* Answers a peer's request for a connection; `bytes` is the private data. */
static void rc_cm_requested(btl_ib_rc_t *rc, struct rdma_cm_id *id, const void *bytes, size_t len)
{
    btl_ib_rc_params_t params;

    if (btl_ib_rc_params_unpack(bytes, len, &params) != 0 || params.to != rc->self.cookie) {
        request_refuse(rc, id, BTL_IB_RC_NOT_OURS);
        return;
    }
    const uint32_t unknown = rc->peers.unknown;
    btl_ib_rc_peer_t *peer = request_find_asker(rc, &params);
    if (peer == NULL) {
        request_refuse(rc, id, BTL_IB_RC_SHORTAGE);
    } else if ((int32_t) (params.attempt - peer->channel[params.channel].peer_attempt) <= 0) {
        request_refuse(rc, id, BTL_IB_RC_STALE);
        if (rc->peers.unknown > unknown) { /* the peer was made for this request */
            peer_free_unused(&rc->peers, peer);
        }
    } else if (request_wants_larger(peer, &params)) {
        request_refuse(rc, id, BTL_IB_RC_CROSSING);
        request_ask_instead(rc, peer, params.channel);
    } else if (!request_make_way(rc, peer, &params)) {
        request_refuse(rc, id, BTL_IB_RC_CROSSING);
    } else {
        request_take(rc, id, peer, &params);
    }
}

/* ---- requests of ours ---- */

enum {
    RESOLVE_MS = 2000,
    NO_LISTENER = 8,  /* IB_CM_REJ_INVALID_SERVICE_ID (IBTA 12.6.7.2) */
    BY_CONSUMER = 28, /* IB_CM_REJ_CONSUMER_DEFINED */
};

/* Ends an attempt because the system knows no route to the peer. */
static void rc_cm_no_route(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what, int error)
{
    const btl_ib_rc_peer_t *peer = conn->peer;
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    char text[BTL_IB_RC_ADDRESS_TEXT];

    /* Users are told once, at the third failure in a row: the first ones may pass, as when the
     * other host is still booting. */
    if (backoff_of(conn)->failures == WARN_AFTER) {
        btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_UNREACHABLE, verbs->base.name,
                          btl_ib_rc_address_format(&peer->addr, text, sizeof(text)));
    }
    rc_cm_failed(rc, conn, false, what, error);
}

/* Makes a connection, and takes the first step. */
static void conn_begin(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel)
{
    btl_ib_rc_conn_t *conn = peer_connect(&rc->peers, peer, channel, NULL);
    btl_ib_rc_address_t from = rc->self;

    if (conn == NULL) {
        return;
    }
    if (rdma_create_id(rc->cm.events, &conn->id, conn, RDMA_PS_TCP) != 0) {
        conn->id = NULL;
        rc_cm_failed(rc, conn, false, "rdma_create_id", errno);
        return;
    }
    set_option(rc, conn, RDMA_OPTION_ID_TOS, rc->port.tos, "its traffic class cannot be set");
    btl_ib_rc_address_set_port(&from, 0);
    if (rdma_resolve_addr(conn->id, &from.any, &peer->addr.any, RESOLVE_MS) != 0) {
        rc_cm_no_route(rc, conn, "rdma_resolve_addr", errno);
    }
}

int btl_ib_rc_cm_connect(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t number)
{
    btl_ib_rc_channel_t *channel = &peer->channel[number];
    const uint64_t now = btl_ib_rc_now_us();

    channel->backoff.wanted_at = channel->backoff.wanted_at == 0 ? now : channel->backoff.wanted_at;
    if (channel->conn == NULL && now >= channel->backoff.retry_at) {
        conn_begin(rc, peer, number);
    }
    const uint64_t begun_at = channel->conn != NULL ? channel->conn->begun_at : 0;
    if (channel->conn != NULL && channel->conn->stage == BTL_IB_RC_AGREED) {
        return EAGAIN; /* the peer is about to close it */
    }
    if (!backoff_give_up(&channel->backoff, now, begun_at)) {
        return EAGAIN;
    }
    rc->port.verbs.base.unsent_call = channel->backoff.call;
    rc->port.verbs.base.unsent_error = channel->backoff.error;
    return EHOSTUNREACH;
}

/* Takes the next step of our request: this and the following functions, by rdma_cm's events. */
static void rc_cm_address_resolved(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    if (conn->id->verbs != rc->port.verbs.context) {
        rc_cm_no_route(rc, conn, "the way to it begins at another device", 0);
        return;
    }
    conn->stage = BTL_IB_RC_ROUTING;
    set_ack_timeout(rc, conn);
    if (rdma_resolve_route(conn->id, RESOLVE_MS) != 0) {
        rc_cm_failed(rc, conn, false, "rdma_resolve_route", errno);
    }
}

static void rc_cm_route_resolved(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    const btl_ib_rc_address_t *peer = &conn->peer->addr;
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];

    btl_ib_verbs_forget_call(&rc->port.verbs);
    int error = btl_ib_rc_conn_equip(conn, peer);

    if (error != 0) {
        rc_cm_failed(rc, conn, false, btl_ib_verbs_failed_call(&rc->port.verbs), -error);
        return;
    }
    conn->stage = BTL_IB_RC_ASKING;
    struct rdma_conn_param param =
        btl_ib_rc_conn_offer(conn, peer->cookie, conn->peer->mtu_most, bytes);
    error = btl_ib_rc_qp_connect(&rc->port, conn->id, mtu_of(conn->peer, peer->mtu), &param);
    if (error != 0) {
        /* Soft-iWARP connects by TCP within rdma_connect(), which may be refused. */
        rc_cm_failed(rc, conn, error == ECONNREFUSED, "rdma_connect", error);
    } else if (rc->port.iwarp) {
        conn->answer_due = true;
    }
}

static void rc_cm_accepted(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes, size_t len)
{
    struct ibv_send_wr first = {.opcode = IBV_WR_SEND}; /* empty */
    btl_ib_rc_params_t params;

    if (btl_ib_rc_params_unpack(bytes, len, &params) != 0 || params.channel != conn->channel
        || params.from != conn->peer->addr.cookie || params.to != rc->self.cookie) {
        rc_cm_failed(rc, conn, false, "its reply is none of ours", 0);
        return;
    }
    conn->peer->channel[conn->channel].peer_attempt = params.attempt;
    btl_ib_rc_conn_join(conn, &params);
    btl_ib_rc_cm_opened(rc, conn, "connected");
    conn->credit.used++;
    const int error = btl_ib_rc_sq_post_own(&conn->sq, &first);
    if (error != 0) {
        btl_ib_rc_cm_refused(rc, conn, "ibv_post_send", error);
    }
}

static void rc_cm_responded(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes, size_t len)
{
    btl_ib_verbs_forget_call(&rc->port.verbs);
    const int error = btl_ib_rc_qp_establish(&rc->port, conn->id,
                                             mtu_of(conn->peer, conn->peer->addr.mtu), conn->qp);

    if (error != 0) {
        rc_cm_failed(rc, conn, false, btl_ib_verbs_failed_call(&rc->port.verbs), error);
    } else {
        rc_cm_accepted(rc, conn, bytes, len);
    }
}

/* True if the status of a rejection says that no process of ours is there. */
static bool reject_means_absent(int status)
{
    return status == NO_LISTENER || status == BY_CONSUMER || status == -ECONNREFUSED
           || status == -ECONNRESET;
}

static void rc_cm_rejected(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, int status, const void *bytes,
                           size_t len)
{
    btl_ib_rc_backoff_t *backoff = backoff_of(conn);

    switch (btl_ib_rc_reject_unpack(bytes, len)) {
    case BTL_IB_RC_CROSSING:
        backoff->retry_at = btl_ib_rc_now_us() + CROSSING_US;
        cm_log(rc, conn->peer, conn->channel, "its own request goes first", "");
        peer_close(conn); /* the peer has users, as we asked: it stays */
        break;
    case BTL_IB_RC_NOT_OURS:
        rc_cm_failed(rc, conn, true, "another process is there", 0);
        break;
    case BTL_IB_RC_STALE:
        rc_cm_failed(rc, conn, false, "a newer request came before ours", EAGAIN);
        break;
    case BTL_IB_RC_SHORTAGE:
        rc_cm_failed(rc, conn, false, "it rejects connections: its device refuses them", 0);
        break;
    default:
        rc_cm_failed(rc, conn, reject_means_absent(status), "refused", 0);
        break;
    }
}

/* ---- events of rdma_cm ---- */

enum {
    BACKLOG = 1024,
    EVENTS = 64,       /* events that are handled in one call */
    POLLS = 64,        /* polls until events are read again */
    POLLS_PENDING = 8, /* the same while a connection is being made, or suspected */
};

/* A copy of an event, which was acknowledged: the library may have freed the original. */
typedef struct cm_event {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    size_t len;
} cm_event_t;

static bool cm_is_answer(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED
           || type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE
           || type == RDMA_CM_EVENT_DISCONNECTED;
}

/* Handles an event of a connection that is not closed. */
static void cm_handle_conn(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const cm_event_t *event)
{
    const int error = event->status < 0 ? -event->status : 0;

    switch (event->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        rc_cm_address_resolved(rc, conn);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        rc_cm_route_resolved(rc, conn);
        break;
    case RDMA_CM_EVENT_ESTABLISHED: /* the accepting side learns it by the first message */
        if (conn->stage == BTL_IB_RC_ASKING) {
            rc_cm_accepted(rc, conn, event->bytes, event->len);
        }
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        rc_cm_responded(rc, conn, event->bytes, event->len);
        break;
    case RDMA_CM_EVENT_REJECTED:
        rc_cm_rejected(rc, conn, event->status, event->bytes, event->len);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        if (conn->stage >= BTL_IB_RC_ACCEPTED) {
            btl_ib_rc_cm_broke(rc, conn, "the peer ended it");
        } else {
            rc_cm_failed(rc, conn, false, "the peer ended it", 0);
        }
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        rc_cm_no_route(rc, conn, rdma_event_str(event->type), error);
        break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        rc_cm_failed(rc, conn, error == ECONNREFUSED, rdma_event_str(event->type), error);
        break;
    default:
        break;
    }
}

static void cm_handle(btl_ib_rc_t *rc, const cm_event_t *event)
{
    if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        btl_ib_verbs_state_fail(&rc->state, ENODEV);
    } else if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        rc_cm_requested(rc, event->id, event->bytes, event->len);
    } else if (event->id != rc->cm.listener) {
        btl_ib_rc_conn_t *conn = event->id->context;
        const bool closed = conn->stage == BTL_IB_RC_CLOSED;
        if (cm_is_answer(event->type)) {
            btl_ib_rc_conn_answered(conn); /* a closed one may be gone now */
        }
        if (!closed) {
            cm_handle_conn(rc, conn, event);
        }
    }
}

/* Reads an event. Returns whether there was one. */
static bool cm_read_event(btl_ib_rc_t *rc, cm_event_t *out)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(rc->cm.events, &event) != 0) {
        return false;
    }
    const struct rdma_conn_param *param = &event->param.conn;
    *out = (cm_event_t){.type = event->event, .id = event->id, .status = event->status};
    if (param->private_data != NULL) {
        out->len = btl_ib_verbs_min(param->private_data_len, sizeof(out->bytes));
        memcpy(out->bytes, param->private_data, out->len);
    }
    (void) rdma_ack_cm_event(event); /* before its id may be destroyed, which would wait for that */
    return true;
}

/* Counts a poll. Returns true if it is to read events, which takes a system call: each POLLS-th
 * does, and the first in each tick of the coarse clock, for processes that poll seldom. */
static bool cm_count_poll(btl_ib_rc_t *rc)
{
    struct timespec now;

    if (rc->cm.polls > 0) {
        rc->cm.polls--;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        const uint64_t tick = (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
        if (tick == rc->cm.last_tick) {
            return false;
        }
        rc->cm.last_tick = tick;
    }
    rc->cm.polls = rc->conns.pending + rc->conns.suspected > 0 ? POLLS_PENDING : POLLS;
    return true;
}

bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc)
{
    cm_event_t event;

    if (rc->state.error != 0 || !cm_count_poll(rc)) {
        return false;
    }
    if (events_read(rc)) {
        rc_cm_restart(rc);
    }
    if (rc->conns.suspected > 0 && !rc->state.down) {
        rc_cm_end_suspicions(rc);
    }
    for (int i = 0;
         i < EVENTS && rc->state.error == 0 && !rc->state.down && cm_read_event(rc, &event); i++) {
        cm_handle(rc, &event);
    }
    return !rc->state.down;
}

/* ---- opening ---- */

/* Takes a port from the range that was asked for, or any. Returns 0 or an errno. */
static int cm_bind_listener(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    const uint32_t more = params->port_count > 0 ? params->port_count - 1 : 0;
    const uint32_t last =
        params->port_min == 0 ? 0 : btl_ib_verbs_min(params->port_min + more, UINT16_MAX);
    int error = EADDRINUSE;

    for (uint32_t port = params->port_min; port <= last && error == EADDRINUSE; port++) {
        btl_ib_rc_address_set_port(&rc->self, htons((uint16_t) port));
        error = rdma_bind_addr(rc->cm.listener, &rc->self.any) == 0 ? 0 : errno;
    }
    return error;
}

int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;

    rc->cm.events = rdma_create_event_channel();
    if (rc->cm.events == NULL) {
        return btl_ib_verbs_failed(verbs, "rdma_create_event_channel", errno);
    }
    int error = btl_ib_verbs_nonblocking(verbs, rc->cm.events->fd);
    if (error != 0) {
        return error;
    }
    if (rdma_create_id(rc->cm.events, &rc->cm.listener, NULL, RDMA_PS_TCP) != 0) {
        rc->cm.listener = NULL;
        return btl_ib_verbs_failed(verbs, "rdma_create_id", errno);
    }
    error = cm_bind_listener(rc, params);
    if (error != 0) {
        return btl_ib_verbs_failed(verbs, "rdma_bind_addr", error);
    }
    const struct ibv_context *context = rc->cm.listener->verbs;
    if (context == NULL || strcmp(ibv_get_device_name(context->device), device) != 0) {
        return btl_ib_verbs_failed(verbs, "its address belongs to another device", ENODEV);
    }
    if (rdma_listen(rc->cm.listener, BACKLOG) != 0) {
        return btl_ib_verbs_failed(verbs, "rdma_listen", errno);
    }
    btl_ib_rc_address_set_port(&rc->self, rdma_get_src_port(rc->cm.listener));
    return 0;
}

void btl_ib_rc_cm_close(btl_ib_rc_t *rc)
{
    if (rc->cm.listener != NULL) {
        (void) rdma_destroy_id(rc->cm.listener);
    }
    if (rc->cm.events != NULL) {
        rdma_destroy_event_channel(rc->cm.events);
    }
}
