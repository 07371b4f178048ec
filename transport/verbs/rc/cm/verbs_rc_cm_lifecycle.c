/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_cm_lifecycle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "verbs_rc_async_events.h"

void btl_ib_rc_cm_log(const btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer, uint8_t channel,
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

void btl_ib_rc_cm_failed(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, bool refused, const char *what,
                         int error)
{
    btl_ib_rc_peer_t *peer = conn->peer;

    btl_ib_rc_cm_log(rc, peer, conn->channel, what, error != 0 ? strerror(error) : "");
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

void btl_ib_rc_cm_lost(btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn)
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
    btl_ib_rc_cm_log(rc, peer, conn->channel, "the connection broke", why);
    btl_ib_rc_backoff_broke(backoff_of(conn), btl_ib_rc_now_us(), conn->opened_at);
    btl_ib_rc_cm_lost(rc, conn);
    btl_ib_rc_peer_close(conn);
    btl_ib_rc_peer_free_unused(&rc->peers, peer);
}

void btl_ib_rc_cm_end_suspicions(btl_ib_rc_t *rc)
{
    const uint64_t now = btl_ib_rc_now_us();

    for (uint32_t i = 0; i < rc->conns.slots && !btl_ib_rc_events_port_down(rc); i++) {
        btl_ib_rc_conn_t *conn = rc->conns.slot[i].conn;
        if (conn != NULL && conn->suspect_until != 0 && now >= conn->suspect_until) {
            btl_ib_rc_cm_broke(rc, conn, ibv_wc_status_str(IBV_WC_LOC_QP_OP_ERR));
        }
    }
}

void btl_ib_rc_cm_restart(btl_ib_rc_t *rc)
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
    btl_ib_rc_cm_log(rc, conn->peer, conn->channel, how, after);
    if (btl_ib_rc_backoff_opened(backoff_of(conn))) {
        btl_ib_rc_cm_lost(rc, conn); /* what was given up as lost is sent again now */
    }
}
