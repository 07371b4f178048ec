/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_cm.h"

#include "verbs_open.h"
#include "verbs_device.h"
#include "verbs_rc_async_events.h"
#include "verbs_rc_conn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- open, failed, broken ---- */

/* Log what happens to a channel; `detail` may be empty. */
static void rc_cm_log(const btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer, uint8_t channel,
                      const char *what, const char *detail)
{
    char text[BTL_IB_RC_ADDRESS_TEXT];
    char queue[16] = "RDMA";

    if (channel != BTL_IB_RC_RDMA_CHANNEL) {
        snprintf(queue, sizeof(queue), "queue %u", channel);
    }
    BTL_IB_VERBS_LOG(&rc->port.verbs, 10, "%s: peer %s, %s: %s%s%s", rc->port.verbs.base.name,
                     btl_ib_rc_address_format(&peer->addr, text, sizeof(text)), queue, what,
                     detail[0] != '\0' ? ": " : "", detail);
}

static btl_ib_rc_backoff_t *backoff_of(const btl_ib_rc_conn_t *conn)
{
    return &conn->peer->channel[conn->channel].backoff;
}

/* An attempt failed: it is closed. `refused`: because nobody is there. */
static void rc_cm_failed(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, bool refused, const char *what,
                         int error)
{
    btl_ib_rc_peer_t *peer = conn->peer;

    rc_cm_log(rc, peer, conn->channel, what, error != 0 ? strerror(error) : "");
    if (conn->initiator) {
        btl_ib_rc_backoff_failed(backoff_of(conn), btl_ib_rc_now_us(),
                                 !refused && (error == ETIMEDOUT || error == EAGAIN));
    }
    btl_ib_rc_peer_close(conn);
    if (refused) {
        btl_ib_rc_peer_report_refused(&rc->peers, peer, ECONNREFUSED);
    }
    btl_ib_rc_peer_free_unused(&rc->peers, peer);
}

/* What was sent over a connection may be lost: report it. */
static void rc_cm_lost(btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn)
{
    if (conn->rdma == NULL) { /* operations on memory report their ends themselves */
        btl_ib_rc_peer_report_broken(&rc->peers, conn->peer);
    }
}

void btl_ib_rc_cm_broke(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *why)
{
    btl_ib_rc_peer_t *peer = conn->peer;

    if (btl_ib_rc_events_port_down(rc)) {
        return;
    }
    rc_cm_log(rc, peer, conn->channel, "the connection broke", why);
    btl_ib_rc_backoff_broke(backoff_of(conn), btl_ib_rc_now_us(), conn->opened_at);
    rc_cm_lost(rc, conn);
    btl_ib_rc_peer_close(conn);
    btl_ib_rc_peer_free_unused(&rc->peers, peer);
}

/* Those that were suspected for long enough are broken. */
static void rc_cm_end_suspicions(btl_ib_rc_t *rc)
{
    const uint64_t now = btl_ib_rc_now_us();

    for (uint32_t i = 0; i < rc->conns.slots && !btl_ib_rc_events_port_down(rc); i++) {
        btl_ib_rc_conn_t *conn = rc->conns.slot[i].conn;
        if (conn != NULL && conn->suspect_until != 0 && now >= conn->suspect_until) {
            btl_ib_rc_cm_broke(rc, conn, ibv_wc_status_str(IBV_WC_LOC_QP_OP_ERR));
        }
    }
}

/* The port was down: all connections are broken. Soft-RoCE's may stand still for ever after that,
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
    rc_cm_log(rc, conn->peer, conn->channel, how, after);
    if (btl_ib_rc_backoff_opened(backoff_of(conn))) {
        rc_cm_lost(rc, conn); /* what was given up as lost is sent again now */
    }
}

/* ---- requests of peers ---- */

/* Requests of peers: accepted or rejected. */

static void reject(struct rdma_cm_id *id, btl_ib_rc_reject_t reason)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];

    (void) rdma_reject(id, bytes, btl_ib_rc_reject_pack(reason, bytes));
}

/* Reject a request that is no connection's yet. */
static void refuse(const btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_reject_t reason)
{
    BTL_IB_VERBS_LOG(&rc->port.verbs, 10, "%s: a request was refused, reason %d",
                     rc->port.verbs.base.name, reason);
    reject(id, reason);
    (void) rdma_destroy_id(id);
}

/* Close what stands in the way of a peer's new request. Returns whether it may go on. */
static bool make_way(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, const btl_ib_rc_params_t *params)
{
    btl_ib_rc_conn_t *conn = peer->channel[params->channel].conn;

    if (conn == NULL) {
        return true;
    }
    if (conn->stage < BTL_IB_RC_ACCEPTED) {
        if (rc->self.cookie < params->from) {
            return false;
        }
        rc_cm_log(rc, peer, params->channel, "its request goes before our own", "");
    } else { /* it would not ask again if it had not lost the connection */
        rc_cm_log(rc, peer, params->channel, "connects anew", "");
        rc_cm_lost(rc, conn);
    }
    btl_ib_rc_peer_close(conn);
    return true;
}

/* Returns 0 or a negative errno. */
static int accept_conn(const btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn,
                       const btl_ib_rc_params_t *params)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    const int error = conn->id->verbs == rc->port.verbs.context
                          ? btl_ib_rc_conn_equip(conn, &conn->peer->addr)
                          : -ENODEV;

    if (error != 0) {
        return error;
    }
    const int unset = btl_ib_rc_qp_set_ack_timeout(&rc->port, conn->id);
    if (unset != 0) {
        rc_cm_log(rc, conn->peer, conn->channel, "its timeout cannot be set", strerror(unset));
    }
    btl_ib_rc_conn_join(conn, params);
    struct rdma_conn_param reply = btl_ib_rc_conn_offer(conn, params->from, bytes);
    return -btl_ib_rc_qp_accept(&rc->port, conn->id, params->mtu, &reply);
}

static void take_request(btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_peer_t *peer,
                         const btl_ib_rc_params_t *params)
{
    btl_ib_rc_conn_t *conn = btl_ib_rc_peer_connect(&rc->peers, peer, params->channel, id);

    if (conn == NULL) {
        refuse(rc, id, BTL_IB_RC_SHORTAGE);
        btl_ib_rc_peer_free_unused(&rc->peers, peer);
        return;
    }
    btl_ib_rc_channel_void_attempts(&peer->channel[params->channel], params->attempt);
    const int error = accept_conn(rc, conn, params);
    if (error != 0) {
        reject(id, BTL_IB_RC_SHORTAGE);
        rc_cm_failed(rc, conn, false, "its request cannot be accepted", -error);
    }
}

/*
 * Who asks? NULL if it may not. An unknown peer may, unless there are too many. So may we: for
 * operations on our own memory that have to be done by the device. The other end of that is a peer
 * whose cookie nobody has but by a chance of 2^-64.
 */
static btl_ib_rc_peer_t *find_asker(btl_ib_rc_t *rc, const btl_ib_rc_params_t *params)
{
    btl_ib_rc_peer_t *peer = btl_ib_rc_peer_find(&rc->peers, params->from);

    if (params->from == rc->self.cookie) {
        return peer != NULL && params->channel == BTL_IB_RC_RDMA_CHANNEL
                   ? btl_ib_rc_peer_get(&rc->peers, ~rc->self.cookie)
                   : NULL;
    }
    return peer == NULL && rc->peers.unknown < rc->port.unknown_max
               ? btl_ib_rc_peer_get(&rc->peers, params->from)
               : peer;
}

/* A peer asks for a connection; `bytes` is the private data. */
static void rc_cm_requested(btl_ib_rc_t *rc, struct rdma_cm_id *id, const void *bytes, size_t len)
{
    btl_ib_rc_params_t params;

    if (btl_ib_rc_params_unpack(bytes, len, &params) != 0 || params.to != rc->self.cookie) {
        refuse(rc, id, BTL_IB_RC_NOT_OURS);
        return;
    }
    btl_ib_rc_peer_t *peer = find_asker(rc, &params);
    if (peer == NULL) {
        refuse(rc, id, BTL_IB_RC_SHORTAGE);
    } else if ((int32_t) (params.attempt - peer->channel[params.channel].peer_attempt) <= 0) {
        refuse(rc, id, BTL_IB_RC_STALE);
    } else if (!make_way(rc, peer, &params)) {
        refuse(rc, id, BTL_IB_RC_CROSSING);
    } else {
        take_request(rc, id, peer, &params);
    }
}

/* ---- requests of ours ---- */

enum {
    RESOLVE_MS = 2000,
    NO_LISTENER = 8,  /* IB_CM_REJ_INVALID_SERVICE_ID (IBTA 12.6.7.2) */
    BY_CONSUMER = 28, /* IB_CM_REJ_CONSUMER_DEFINED */
};

/* An option of the queue pair could not be set, which leaves the default. */
static void log_option(const btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn, const char *what,
                       int error)
{
    if (error != 0) {
        rc_cm_log(rc, conn->peer, conn->channel, what, strerror(error));
    }
}

/* The system knows no route to the peer. */
static void rc_cm_no_route(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what, int error)
{
    const btl_ib_rc_peer_t *peer = conn->peer;
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    char text[BTL_IB_RC_ADDRESS_TEXT];

    if (btl_ib_rc_backoff_should_warn(&peer->channel[conn->channel].backoff)) {
        btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_UNREACHABLE, verbs->base.name,
                          btl_ib_rc_address_format(&peer->addr, text, sizeof(text)));
    }
    rc_cm_failed(rc, conn, false, what, error);
}

/* Make a connection, and take the first step. */
static void begin(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel)
{
    btl_ib_rc_conn_t *conn = btl_ib_rc_peer_connect(&rc->peers, peer, channel, NULL);
    btl_ib_rc_address_t from = rc->self;

    if (conn == NULL) {
        return;
    }
    const int error = btl_ib_rc_conn_create_id(conn, rc->cm.events);
    if (error != 0) {
        rc_cm_failed(rc, conn, false, "rdma_create_id", error);
        return;
    }
    log_option(rc, conn, "its traffic class cannot be set",
               btl_ib_rc_qp_set_traffic_class(&rc->port, conn->id));
    btl_ib_rc_address_set_port(&from, 0);
    if (rdma_resolve_addr(conn->id, &from.any, &peer->addr.any, RESOLVE_MS) != 0) {
        rc_cm_no_route(rc, conn, "rdma_resolve_addr", errno);
    }
}

int btl_ib_rc_cm_connect(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t number)
{
    btl_ib_rc_channel_t *channel = &peer->channel[number];
    const uint64_t now = btl_ib_rc_now_us();

    btl_ib_rc_backoff_wanted(&channel->backoff, now);
    if (channel->conn == NULL && now >= channel->backoff.retry_at) {
        begin(rc, peer, number);
    }
    const uint64_t begun_at = channel->conn != NULL ? channel->conn->begun_at : 0;
    return btl_ib_rc_backoff_give_up(&channel->backoff, now, begun_at) ? EHOSTUNREACH : EAGAIN;
}

/* What becomes of a request, step by step. */
static void rc_cm_address_resolved(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    if (conn->id->verbs != rc->port.verbs.context) {
        rc_cm_no_route(rc, conn, "the way to it begins at another device", 0);
        return;
    }
    btl_ib_rc_conn_set_stage(conn, BTL_IB_RC_ROUTING);
    log_option(rc, conn, "its timeout cannot be set",
               btl_ib_rc_qp_set_ack_timeout(&rc->port, conn->id));
    if (rdma_resolve_route(conn->id, RESOLVE_MS) != 0) {
        rc_cm_failed(rc, conn, false, "rdma_resolve_route", errno);
    }
}

/* What becomes of a request, step by step. */
static void rc_cm_route_resolved(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    const btl_ib_rc_address_t *peer = &conn->peer->addr;
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    int error = btl_ib_rc_conn_equip(conn, peer);

    if (error != 0) {
        rc_cm_failed(rc, conn, false, "no queue pair", -error);
        return;
    }
    btl_ib_rc_conn_set_stage(conn, BTL_IB_RC_ASKING);
    struct rdma_conn_param param = btl_ib_rc_conn_offer(conn, peer->cookie, bytes);
    error = btl_ib_rc_qp_connect(&rc->port, conn->id, peer->mtu, &param);
    if (error != 0) {
        /* Soft-iWARP asks for a TCP connection there and then. */
        rc_cm_failed(rc, conn, error == ECONNREFUSED, "rdma_connect", error);
    } else if (rc->port.iwarp) {
        btl_ib_rc_conn_expect_answer(conn);
    }
}

/* What becomes of a request, step by step. */
static void rc_cm_accepted(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes, size_t len)
{
    btl_ib_rc_params_t params;

    if (btl_ib_rc_params_unpack(bytes, len, &params) != 0 || params.channel != conn->channel
        || params.from != conn->peer->addr.cookie || params.to != rc->self.cookie) {
        rc_cm_failed(rc, conn, false, "its reply is none of ours", 0);
        return;
    }
    btl_ib_rc_channel_void_attempts(&conn->peer->channel[conn->channel], params.attempt);
    btl_ib_rc_conn_join(conn, &params);
    btl_ib_rc_cm_opened(rc, conn, "connected");
    if (btl_ib_rc_conn_send_first(conn) != 0) {
        btl_ib_rc_cm_broke(rc, conn, "the first message cannot be posted");
    }
}

static void rc_cm_responded(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes, size_t len)
{
    const int error = btl_ib_rc_qp_establish(&rc->port, conn->id, conn->peer->addr.mtu, conn->qp);

    if (error != 0) {
        rc_cm_failed(rc, conn, false, "its queue pair cannot be made ready", error);
    } else {
        rc_cm_accepted(rc, conn, bytes, len);
    }
}

/* Does the status of a rejection say that no process of ours is there? */
static bool nobody_there(int status)
{
    return status == NO_LISTENER || status == BY_CONSUMER || status == -ECONNREFUSED
           || status == -ECONNRESET;
}

/* What becomes of a request, step by step. */
static void rc_cm_rejected(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, int status, const void *bytes,
                           size_t len)
{
    btl_ib_rc_backoff_t *backoff = &conn->peer->channel[conn->channel].backoff;

    switch (btl_ib_rc_reject_unpack(bytes, len)) {
    case BTL_IB_RC_CROSSING:
        btl_ib_rc_backoff_crossed(backoff, btl_ib_rc_now_us());
        rc_cm_log(rc, conn->peer, conn->channel, "its own request goes first", "");
        btl_ib_rc_peer_close(conn); /* the peer was added, or we would not have asked: it stays */
        break;
    case BTL_IB_RC_NOT_OURS:
        rc_cm_failed(rc, conn, true, "another process is there", 0);
        break;
    case BTL_IB_RC_STALE:
        rc_cm_failed(rc, conn, false, "a newer request came before ours", EAGAIN);
        break;
    case BTL_IB_RC_SHORTAGE:
        rc_cm_failed(rc, conn, false, "it is short of memory", 0);
        break;
    default:
        rc_cm_failed(rc, conn, nobody_there(status), "refused", 0);
        break;
    }
}

/* ---- the connection manager ---- */

enum {
    BACKLOG = 1024,
    EVENTS = 64,       /* in one go */
    POLLS = 64,        /* without a look at the connection manager */
    POLLS_PENDING = 8, /* the same while a connection is being made */
};

/* An event that was read and acknowledged: nothing of it is the library's any more. */
typedef struct cm_event {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    size_t len;
} cm_event_t;

/* ---- events ---- */

static bool is_answer(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED
           || type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE
           || type == RDMA_CM_EVENT_DISCONNECTED;
}

/* What an event means for the connection that it is about, which is not closed. */
static void handle_conn(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const cm_event_t *event)
{
    const int error = event->status < 0 ? -event->status : 0;

    switch (event->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        rc_cm_address_resolved(rc, conn);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        rc_cm_route_resolved(rc, conn);
        break;
    case RDMA_CM_EVENT_ESTABLISHED: /* who accepted learns that sooner, by the first message */
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

static void handle(btl_ib_rc_t *rc, const cm_event_t *event)
{
    if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        btl_ib_rc_events_fail(rc, ENODEV);
    } else if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        rc_cm_requested(rc, event->id, event->bytes, event->len);
    } else if (event->id != rc->cm.listener) {
        btl_ib_rc_conn_t *conn = event->id->context;
        const bool closed = conn->stage == BTL_IB_RC_CLOSED;
        if (is_answer(event->type)) {
            btl_ib_rc_conn_answered(conn); /* a closed one may be gone now */
        }
        if (!closed) {
            handle_conn(rc, conn, event);
        }
    }
}

/* Returns whether there was one. */
static bool read_event(btl_ib_rc_t *rc, cm_event_t *out)
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

/* Count a poll. A look is a system call, so not each poll has one; but a process that polls seldom
 * must not wait for that. Returns whether this one has. */
static bool count_poll(btl_ib_rc_t *rc)
{
    const bool busy = rc->conns.pending + rc->conns.suspected > 0;
    struct timespec now;

    if (++rc->cm.polls < (busy ? POLLS_PENDING : POLLS)) {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        const uint64_t tick = (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
        if (tick == rc->cm.last_tick) {
            return false;
        }
        rc->cm.last_tick = tick;
    }
    rc->cm.polls = 0;
    return true;
}

/* Switch off eager rings that are used too little, if it is time to look. */
static void review_eager(btl_ib_rc_t *rc)
{
    if (rc->eagers.peers == 0 || !btl_ib_rc_eagers_review(&rc->eagers, btl_ib_rc_now_us())) {
        return;
    }
    for (uint32_t i = 0; i < rc->conns.slots; i++) {
        const btl_ib_rc_conn_t *conn = rc->conns.slot[i].conn;
        if (conn != NULL && conn->eager != NULL) {
            btl_ib_rc_eager_reset(conn->eager);
        }
    }
}

bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc)
{
    cm_event_t event;

    if (rc->state.error != 0 || !count_poll(rc)) {
        return false;
    }
    if (btl_ib_rc_events_read(rc)) {
        rc_cm_restart(rc);
    }
    if (rc->conns.suspected > 0 && !rc->state.down) {
        rc_cm_end_suspicions(rc);
    }
    review_eager(rc);
    for (int i = 0; i < EVENTS && rc->state.error == 0 && !rc->state.down && read_event(rc, &event);
         i++) {
        handle(rc, &event);
    }
    return !rc->state.down;
}

/* ---- opening ---- */

/* Take a port from the range that was asked for, or any. Returns 0 or an errno. */
static int bind_listener(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
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
    error = bind_listener(rc, params);
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
