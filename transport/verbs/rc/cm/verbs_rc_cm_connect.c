/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_cm_connect.h"

#include <string.h>

#include "verbs_diagnostics.h"
#include "verbs_rc_cm_lifecycle.h"
#include "verbs_rc_qp.h"

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
        btl_ib_rc_cm_log(rc, conn->peer, conn->channel, what, strerror(error));
    }
}

void btl_ib_rc_cm_no_route(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what, int error)
{
    const btl_ib_rc_peer_t *peer = conn->peer;
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    char text[BTL_IB_RC_ADDRESS_TEXT];

    if (btl_ib_rc_backoff_should_warn(&peer->channel[conn->channel].backoff)) {
        btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_UNREACHABLE, verbs->base.name,
                          btl_ib_rc_address_format(&peer->addr, text, sizeof(text)));
    }
    btl_ib_rc_cm_failed(rc, conn, false, what, error);
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
        btl_ib_rc_cm_failed(rc, conn, false, "rdma_create_id", error);
        return;
    }
    log_option(rc, conn, "its traffic class cannot be set",
               btl_ib_rc_qp_set_traffic_class(&rc->port, conn->id));
    btl_ib_rc_address_set_port(&from, 0);
    if (rdma_resolve_addr(conn->id, &from.any, &peer->addr.any, RESOLVE_MS) != 0) {
        btl_ib_rc_cm_no_route(rc, conn, "rdma_resolve_addr", errno);
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
    return btl_ib_rc_backoff_hopeless(&channel->backoff, now, begun_at) ? EHOSTUNREACH : EAGAIN;
}

void btl_ib_rc_cm_address_resolved(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    if (conn->id->verbs != rc->port.verbs.context) {
        btl_ib_rc_cm_no_route(rc, conn, "the way to it begins at another device", 0);
        return;
    }
    btl_ib_rc_conn_set_stage(conn, BTL_IB_RC_ROUTING);
    log_option(rc, conn, "its timeout cannot be set",
               btl_ib_rc_qp_set_ack_timeout(&rc->port, conn->id));
    if (rdma_resolve_route(conn->id, RESOLVE_MS) != 0) {
        btl_ib_rc_cm_failed(rc, conn, false, "rdma_resolve_route", errno);
    }
}

void btl_ib_rc_cm_route_resolved(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    const btl_ib_rc_address_t *peer = &conn->peer->addr;
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    int error = btl_ib_rc_conn_equip(conn, peer);

    if (error != 0) {
        btl_ib_rc_cm_failed(rc, conn, false, "no queue pair", -error);
        return;
    }
    btl_ib_rc_conn_set_stage(conn, BTL_IB_RC_ASKING);
    struct rdma_conn_param param = btl_ib_rc_conn_offer(conn, peer->cookie, bytes);
    error = btl_ib_rc_qp_connect(&rc->port, conn->id, peer->mtu, &param);
    if (error != 0) {
        /* Soft-iWARP asks for a TCP connection there and then. */
        btl_ib_rc_cm_failed(rc, conn, error == ECONNREFUSED, "rdma_connect", error);
    } else if (rc->port.iwarp) {
        btl_ib_rc_conn_expect_answer(conn);
    }
}

void btl_ib_rc_cm_responded(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes, size_t len)
{
    const int error = btl_ib_rc_qp_establish(&rc->port, conn->id, conn->peer->addr.mtu, conn->qp);

    if (error != 0) {
        btl_ib_rc_cm_failed(rc, conn, false, "its queue pair cannot be made ready", error);
    } else {
        btl_ib_rc_cm_accepted(rc, conn, bytes, len);
    }
}

void btl_ib_rc_cm_accepted(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes, size_t len)
{
    btl_ib_rc_params_t params;

    if (btl_ib_rc_params_unpack(bytes, len, &params) != 0 || params.channel != conn->channel
        || params.from != conn->peer->addr.cookie || params.to != rc->self.cookie) {
        btl_ib_rc_cm_failed(rc, conn, false, "its reply is none of ours", 0);
        return;
    }
    btl_ib_rc_channel_void_attempts(&conn->peer->channel[conn->channel], params.attempt);
    btl_ib_rc_conn_join(conn, &params);
    btl_ib_rc_cm_opened(rc, conn, "connected");
    if (btl_ib_rc_conn_send_first(conn) != 0) {
        btl_ib_rc_cm_broke(rc, conn, "the first message cannot be posted");
    }
}

/* Does the status of a rejection say that no process of ours is there? */
static bool nobody_there(int status)
{
    return status == NO_LISTENER || status == BY_CONSUMER || status == -ECONNREFUSED
           || status == -ECONNRESET;
}

void btl_ib_rc_cm_rejected(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, int status, const void *bytes,
                           size_t len)
{
    btl_ib_rc_backoff_t *backoff = &conn->peer->channel[conn->channel].backoff;

    switch (btl_ib_rc_reject_unpack(bytes, len)) {
    case BTL_IB_RC_CROSSING:
        btl_ib_rc_backoff_crossed(backoff, btl_ib_rc_now_us());
        btl_ib_rc_cm_log(rc, conn->peer, conn->channel, "its own request goes first", "");
        btl_ib_rc_peer_close(conn); /* the peer was added, or we would not have asked: it stays */
        break;
    case BTL_IB_RC_NOT_OURS:
        btl_ib_rc_cm_failed(rc, conn, true, "another process is there", 0);
        break;
    case BTL_IB_RC_STALE:
        btl_ib_rc_cm_failed(rc, conn, false, "a newer request came before ours", EAGAIN);
        break;
    case BTL_IB_RC_SHORTAGE:
        btl_ib_rc_cm_failed(rc, conn, false, "it is short of memory", 0);
        break;
    default:
        btl_ib_rc_cm_failed(rc, conn, nobody_there(status), "refused", 0);
        break;
    }
}
