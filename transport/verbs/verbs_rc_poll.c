/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_poll.h"

#include <errno.h>
#include <string.h>

#include "verbs_device.h"
#include "verbs_rc_async_events.h"
#include "verbs_rc_cm.h"
#include "verbs_rc_rail.h"

enum { FULL_POLLS = 64 }; /* that found something, between two looks at the connection manager */

/* ---- giving buffers back ---- */

/* All peers are short of shared buffers for good if that fails. */
static void post_shared(btl_ib_rc_t *rc, const btl_ib_verbs_rx_pool_t *pool)
{
    const int posted = btl_ib_rc_rxqs_post_shared(&rc->rxqs, pool);

    if (posted < 0) {
        (void) btl_ib_verbs_failed(&rc->port.verbs, "ibv_post_srq_recv", -posted);
        btl_ib_rc_events_fail(rc, -posted);
    }
}

/* What messages took is replaced before they are handed up, so that no sender is refused (RNR)
 * because that takes long. */
static void replace_shared(btl_ib_rc_t *rc)
{
    for (uint32_t i = 0; i < rc->rxqs.count; i++) {
        if (rc->rxqs.queue[i].shared) {
            post_shared(rc, &rc->rxqs.queue[i].rx.pool);
        }
    }
}

/* A connection's own wait until few are posted: its peer sends only what there are buffers for. */
static void post_own(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    const int posted = btl_ib_rc_rxqs_post_own(&rc->rxqs, conn->channel, &conn->rx);

    if (posted < 0) {
        btl_ib_rc_cm_broke(rc, conn, "a receive buffer cannot be posted");
        return;
    }
    btl_ib_rc_credit_repost(&conn->credit, (uint32_t) posted);
    btl_ib_rc_credit_update(&conn->credit);
}

/* Post them, and tell the peer: with the next poll, as an answer to the message goes first, unless
 * the peer waits for it. */
static void post_own_soon(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    if (btl_ib_rc_rx_is_low(&conn->rx) && !btl_ib_rc_credit_peer_is_out(&conn->credit)) {
        conn = btl_ib_rc_conn_owe(conn);
    }
    if (conn != NULL) {
        post_own(rc, conn);
    }
}

/* Give back buffers of one pool. */
static void repost_run(btl_ib_rc_t *rc, void *const *buffers, int n)
{
    btl_ib_verbs_rx_pool_t *pool = ((btl_ib_verbs_rx_buffer_t *) buffers[0])->pool;
    btl_ib_rc_conn_t *conn = pool->owner;

    if (conn != NULL && !btl_ib_rc_conn_unhold(conn, n)) {
        return;
    }
    if (conn != NULL && pool != &conn->rx.pool) {
        btl_ib_rc_eager_repost(conn->eager, buffers, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        btl_ib_verbs_rx_pool_put(buffers[i]);
    }
    if (conn != NULL) {
        post_own_soon(rc, conn);
    } else {
        post_shared(rc, pool);
    }
}

void btl_ib_rc_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int first = 0, next; first < n; first = next) {
        const btl_ib_verbs_rx_pool_t *pool = ((btl_ib_verbs_rx_buffer_t *) buffers[first])->pool;
        next = first + 1;
        while (next < n && next - first < BTL_IB_RC_BATCH
               && ((btl_ib_verbs_rx_buffer_t *) buffers[next])->pool == pool) {
            next++;
        }
        repost_run(btl_ib_rc_of(t), buffers + first, next - first);
    }
}

/* ---- completions ---- */

/* The buffer that a completion is about; `conn` is not looked at if it is shared. */
static btl_ib_verbs_rx_buffer_t *buffer_of(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, uint64_t id)
{
    const uint32_t number = (uint32_t) id & ~BTL_IB_RC_RECV;

    if (!btl_ib_rc_wr_id_is_shared(id)) {
        return &conn->rx.buffer[number];
    }
    return &rc->rxqs.queue[number >> BTL_IB_RC_INDEX_BITS]
                .rx.buffer[number & ((1u << BTL_IB_RC_INDEX_BITS) - 1)];
}

/* A message came. Returns how many events that makes. */
static int received(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const struct ibv_wc *wc,
                    btl_ib_event_t *event)
{
    btl_ib_verbs_rx_buffer_t *buffer = buffer_of(rc, conn, wc->wr_id);

    if (conn->stage == BTL_IB_RC_ACCEPTED) {
        btl_ib_rc_cm_opened(rc, conn, "connected by the peer");
    }
    btl_ib_verbs_rx_pool_taken(buffer->pool);
    if (buffer->pool->owner != NULL) {
        btl_ib_rc_credit_fill(&conn->credit);
        btl_ib_rc_conn_hold(conn, 1);
    }
    if (conn->eager != NULL) {
        btl_ib_rc_eager_received(&rc->eagers, conn->eager, wc->byte_len > 0);
    }
    if (wc->byte_len == 0) { /* the one that opens the connection */
        void *empty = buffer;
        repost_run(rc, &empty, 1);
        return 0;
    }
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = wc->byte_len,
        .from = btl_ib_rc_peer_handle(conn->peer),
        .data = btl_ib_verbs_rx_data(buffer),
        .buffer = buffer,
    };
    return 1;
}

/* Send requests up to this one are over. */
static void sent(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const struct ibv_wc *wc)
{
    btl_ib_rc_conn_sent(conn, btl_ib_rc_sq_number(&conn->sq, wc->wr_id) + 1, 0);
    if (conn->rdma == NULL) {
        btl_ib_rc_credit_update(&conn->credit);
        return;
    }
    const int error = btl_ib_rc_rdma_flush(conn->rdma);
    if (error != 0) {
        btl_ib_rc_cm_broke(rc, conn, strerror(error));
    }
}

/* A request failed, or its connection is closed (NULL). After one failure all that follow fail. */
static void failed(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const struct ibv_wc *wc)
{
    const bool recv = btl_ib_rc_wr_id_is_recv(wc->wr_id);

    if (recv && btl_ib_rc_wr_id_is_shared(wc->wr_id)) {
        btl_ib_verbs_rx_buffer_t *buffer = buffer_of(rc, NULL, wc->wr_id);
        void *unused = buffer;
        btl_ib_verbs_rx_pool_taken(buffer->pool);
        repost_run(rc, &unused, 1);
    }
    /* While it is being connected the connection manager decides: it knows more. */
    if (conn == NULL || conn->stage < BTL_IB_RC_ACCEPTED) {
        return;
    }
    if (conn->rdma != NULL && !recv) {
        btl_ib_rc_rdma_failed(conn->rdma, btl_ib_rc_sq_number(&conn->sq, wc->wr_id), wc->status);
    }
    /* So do soft-RoCE's sends fail just before their port is known to be down. */
    if (wc->status == IBV_WC_LOC_QP_OP_ERR || conn->suspect_until != 0) {
        btl_ib_rc_conn_suspect(conn);
    } else {
        btl_ib_rc_cm_broke(rc, conn, ibv_wc_status_str(wc->status));
    }
}

static int take_eager(btl_ib_rc_t *rc, btl_ib_rc_eager_t *eager, btl_ib_event_t *events, int max)
{
    const btl_ib_addr_t from = btl_ib_rc_peer_handle(eager->conn->peer);
    const int count = btl_ib_rc_eager_take(&rc->eagers, eager, from, events, max);

    btl_ib_rc_conn_hold(eager->conn, count);
    return count;
}

/* Make at most `max` events, of which there is room for one at least, of completions. Returns how
 * many; *done says how many completions that took: all, unless datagrams in eager rings, which were
 * sent before, left no room. */
static int take(btl_ib_rc_t *rc, const struct ibv_wc *wc, int n, btl_ib_event_t *events, int max,
                int *done)
{
    int count = 0;

    for (*done = 0; *done < n; wc++, ++*done) {
        btl_ib_rc_conn_t *conn = btl_ib_rc_conns_of(&rc->conns, wc);
        const bool recv = btl_ib_rc_wr_id_is_recv(wc->wr_id);
        if (recv && conn != NULL && conn->eager != NULL) {
            count += take_eager(rc, conn->eager, events + count, max - count);
        }
        if (count == max) {
            break;
        }
        if (conn == NULL || wc->status != IBV_WC_SUCCESS) {
            failed(rc, conn, wc);
        } else if (recv) {
            count += received(rc, conn, wc, &events[count]);
        } else {
            sent(rc, conn, wc);
        }
    }
    return count;
}

/* Take what was saved. What the queues have is newer: none of them is polled before all of this was
 * taken. If some of it stays `max` events are there. */
static int take_saved(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    btl_ib_rc_cqs_t *cqs = &rc->cqs;
    int done;

    if (cqs->saved_count == 0) {
        return 0;
    }
    const int count =
        take(rc, &cqs->saved[cqs->saved_first], (int) cqs->saved_count, events, max, &done);
    btl_ib_rc_cqs_saved_done(cqs, done);
    return count;
}

/* Take all that one queue has, up to `max` events. */
static int take_queue(btl_ib_rc_t *rc, btl_ib_rc_cq_t *cq, btl_ib_event_t *events, int max)
{
    struct ibv_wc *wc = rc->polling.wc;
    int count = 0;

    while (count < max) {
        const int wanted = max - count < BTL_IB_RC_BATCH ? max - count : BTL_IB_RC_BATCH;
        const int n = ibv_poll_cq(cq->cq, wanted, wc);
        if (n < 0) {
            btl_ib_rc_events_fail(rc, -btl_ib_verbs_failed(&rc->port.verbs, "ibv_poll_cq", EIO));
            break;
        }
        int done;
        count += take(rc, wc, n, events + count, max - count, &done);
        if (done < n) { /* max events are there */
            btl_ib_rc_cqs_save(&rc->cqs, wc + done, n - done);
            break;
        }
        if (n < wanted) {
            btl_ib_rc_cq_found_empty(cq);
            if (rc->conns.draining > 0) {
                btl_ib_rc_conns_drained(&rc->conns, cq);
            }
            break;
        }
    }
    return count;
}

/* ---- eager rings ---- */

/* Poll the rings of those who might write, and may no longer. */
static int poll_eager_off(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    const uint64_t now = rc->eagers.fading > 0 ? btl_ib_rc_now_us() : 0;
    int count = 0;

    for (btl_ib_rc_eager_t *eager = rc->eagers.off; eager != NULL; eager = eager->next_off) {
        count += take_eager(rc, eager, events + count, max - count);
        if (eager->fading) {
            btl_ib_rc_eager_fade(&rc->eagers, eager, now);
        }
    }
    return count;
}

static int poll_eager(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    int count = 0;

    for (uint32_t i = 0; i < rc->eagers.count; i++) {
        count += take_eager(rc, rc->eagers.on[i], events + count, max - count);
    }
    if (rc->eagers.fading > 0) {
        count += poll_eager_off(rc, events + count, max - count);
    }
    return count;
}

/* ---- poll ---- */

int btl_ib_rc_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    int count = 0;

    if (rc->conns.owing != NULL) {
        post_own(rc, btl_ib_rc_conns_pay(&rc->conns));
    }
    /* While the port is down nothing is looked at: connections that ended could not be
     * disconnected. */
    if (!rc->state.down) {
        count = take_saved(rc, events, max);
    }
    for (uint32_t i = 0; i < rc->cqs.count && count < max && !rc->state.down; i++) {
        count += take_queue(rc, &rc->cqs.cq[i], events + count, max - count);
    }
    if (count > 0 && rc->rxqs.any_shared) {
        replace_shared(rc);
    }
    if (rc->eagers.count + rc->eagers.fading > 0 && !rc->state.down) {
        count += poll_eager(rc, events + count, max - count);
    }
    /* What arrived before a connection ended goes up before that, unless there is always more; and
     * whoever waits for it is not kept waiting. */
    if (count == 0 || ++rc->polling.full >= FULL_POLLS) {
        rc->polling.full = 0;
        count += btl_ib_rc_cm_progress(rc) ? poll_eager_off(rc, events + count, max - count) : 0;
    }
    if (rc->state.error != 0 && !rc->state.error_reported) { /* nobody polls after that */
        btl_ib_rc_peers_close_all(&rc->peers, true);
    }
    if (rc->conns.reporting != NULL) {
        count += btl_ib_rc_conns_report(&rc->conns, events + count, max - count);
    }
    if (rc->peers.pending != NULL) {
        count += btl_ib_rc_peers_report(&rc->peers, events + count, max - count);
    }
    if (btl_ib_verbs_state_changed(&rc->state)) {
        count += btl_ib_verbs_state_report(&rc->state, events + count, max - count);
    }
    return count;
}

int btl_ib_rc_wait_fd(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    /* A port that is down is not polled, and a ring makes no event of the channel. */
    if (rc->state.down || !btl_ib_rc_eagers_turn_off(&rc->eagers)) {
        return -1;
    }
    return btl_ib_rc_cqs_arm(&rc->cqs);
}
