/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_ack_read.h"

#include "btl_ib_accept.h"
#include "btl_ib_ack_write.h"
#include "btl_ib_incast.h"
#include "btl_ib_ecn.h"
#include "btl_ib_rnr_sender.h"
#include "btl_ib_state.h"
#include "btl_ib_gso.h"
#include "btl_ib_loss.h"
#include "btl_ib_path_health.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"

/* True if all that is acknowledged was sent. */
static bool check_sent(btl_ib_conn_t *conn, uint32_t channel, uint32_t ack, uint32_t highest)
{
    btl_ib_counters_t *count = &conn->engine->count;

    if (channel >= conn->peer_queues->count) {
        count->dropped_channel++;
        return false;
    }
    const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    if (btl_ib_seq_before(window->next, ack) || btl_ib_seq_before(window->next, highest)) {
        count->dropped_ack++;
        return false;
    }
    return true;
}

static bool check_limit(btl_ib_conn_t *conn, uint32_t channel, uint32_t limit)
{
    if (!btl_ib_ack_is_limit_possible(conn, channel, limit)) {
        conn->engine->count.dropped_credit++;
        return false;
    }
    return true;
}

bool btl_ib_ack_rx_check(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (view->type != BTL_IB_TYPE_ACK) {
        return !(view->flags & BTL_IB_FLAG_ACK)
               || (check_sent(conn, view->ack_channel, view->ack, view->ack)
                   && check_limit(conn, view->ack_channel, view->limit));
    }
    if ((view->flags
         & BTL_IB_FLAG_READY) /* names a segment that got RNR, which must have been sent */
        && !check_sent(conn, view->channel, view->seq + 1, view->seq + 1)) {
        return false;
    }
    btl_ib_ack_block_t block;
    uint32_t offset = 0;
    while (btl_ib_wire_next_block(view, &offset, &block)) {
        uint32_t from, to = block.ack;
        if (block.channel == BTL_IB_CHANNEL_ECN && conn->ecn.agreed) {
            continue;
        }
        if (block.ranges > 0) { /* ranges ascend: the last is the highest */
            btl_ib_wire_range(&block, block.ranges - 1, &from, &to);
        }
        if (!check_sent(conn, block.channel, block.ack, to)
            || (!block.rnr && !check_limit(conn, block.channel, block.limit))) {
            return false;
        }
    }
    return true;
}

/* True if the arrival of `next` says all that the arrival of `segment` does. Both were sent once,
 * `next` later. */
static bool is_newer(const btl_ib_segment_t *next, const btl_ib_segment_t *segment)
{
    return next != NULL && next->type == segment->type && next->order > segment->order
           && segment->copies == 1 && !segment->lost && next->copies == 1 && !next->lost
           && next->path == segment->path;
}

/* Takes in that sequences [from, to) of a channel arrived. Returns how many of them are
 * acknowledged for the first time. */
static uint32_t range_arrived(btl_ib_conn_t *conn, uint32_t channel, uint32_t from, uint32_t to,
                              const btl_ib_view_t *view)
{
    btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    bool echo_valid = view->flags & BTL_IB_FLAG_ECHO;
    uint32_t acked = 0;

    if (btl_ib_seq_before(from, window->first)) {
        from = window->first;
    }
    btl_ib_segment_t *next = btl_ib_tx_window_at(window, from);
    for (uint32_t seq = from, run; btl_ib_seq_before(seq, to); seq += run) {
        btl_ib_segment_t *segment = next;
        btl_ib_segment_t *last = segment;
        run = 1;
        next = seq + 1 == to ? NULL : btl_ib_tx_window_at(window, seq + 1);
        if (segment == NULL) {
            continue;
        }
        if (next != NULL && next->continues) {
            run = btl_ib_sentmap_run(window, segment, to - seq, &last);
            next = seq + run == to ? NULL : btl_ib_tx_window_at(window, seq + run);
        }
        if (!is_newer(next, last)) {
            btl_ib_loss_update_rack(conn, last, echo_valid, view->echo);
        }
        btl_ib_rnr_sender_acked(conn, last);
        btl_ib_pmtud_arrived(conn, last); /* which is as long as the others */
        if (conn->gso.watched) {
            btl_ib_gso_watched_arrived(conn, last);
        }
        btl_ib_sentmap_acked(conn, segment, last, run);
        acked += run;
    }
    return acked;
}

bool btl_ib_ack_rx_is_new(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (view->type == BTL_IB_TYPE_ACK) {
        return true;
    }
    return (view->flags & BTL_IB_FLAG_ACK)
           && (view->ack_channel >= conn->peer_queues->count
               || view->ack != conn->tx[view->ack_channel].sentmap.window.first
               || btl_ib_ack_is_more_credit(conn, view->ack_channel, view->limit));
}

/* Takes in the limit that the peer gives on a channel. Returns whether it gives more credit. */
static bool ack_take_limit(btl_ib_conn_t *conn, uint32_t channel, uint32_t limit)
{
    if (!btl_ib_ack_is_more_credit(conn, channel, limit)) {
        return false;
    }
    btl_ib_ack_raise_limit(conn, channel, limit);
    return true;
}

void btl_ib_ack_received(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const bool limited = btl_ib_ack_is_limited(conn);
    const bool is_ack = view->type == BTL_IB_TYPE_ACK;
    btl_ib_ack_block_t block;
    uint32_t offset = 0;
    uint32_t acked = 0;
    bool credit = false;

    if (!is_ack) {
        const uint32_t first = conn->tx[view->ack_channel].sentmap.window.first;
        acked = range_arrived(conn, view->ack_channel, first, view->ack, view);
        credit = ack_take_limit(conn, view->ack_channel, view->limit);
    }
    if (is_ack && btl_ib_incast_received(conn, view->tag, view->stamp)) {
        credit = true;
    }
    while (is_ack && btl_ib_wire_next_block(view, &offset, &block)) {
        const uint32_t channel = block.channel;
        if (channel == BTL_IB_CHANNEL_ECN) {
            btl_ib_ecn_told(conn, block.ack, block.limit);
        }
        if (channel >= conn->peer_queues->count) { /* it was checked, but is read anew */
            continue;
        }
        if (!block.rnr) {
            const uint32_t first = conn->tx[channel].sentmap.window.first;
            btl_ib_loss_duplicates(conn, channel, block.duplicates);
            acked += range_arrived(conn, channel, first, block.ack, view);
            credit = ack_take_limit(conn, channel, block.limit) || credit;
        } else if (block.duplicates > 0) { /* more got RNR than are named */
            btl_ib_pmtud_unknown(conn);
        }
        for (uint32_t i = 0; i < block.ranges; i++) {
            uint32_t from, to;
            btl_ib_wire_range(&block, i, &from, &to);
            if (block.rnr) {
                btl_ib_rnr_sender_add(conn, channel, from, to, view);
            } else {
                acked += range_arrived(conn, channel, from, to, view);
            }
        }
    }
    if (is_ack && btl_ib_pmtud_answered(conn, view)) {
        btl_ib_loss_restart_pto(&conn->loss); /* smaller datagrams may well be answered */
    }
    /* A header acknowledges only what is below the first gap of one channel; the peer may report
     * the rest later. An ACK reports all, and a header with nothing new does not change that. */
    if (is_ack || acked > 0) {
        btl_ib_loss_acked_by_header(&conn->loss, !is_ack);
    }
    if (acked > 0 || credit) {
        btl_ib_loss_restart_pto(&conn->loss);
        btl_ib_pending_wake(conn);
    }
    if (acked > 0) {
        btl_ib_loss_acked(conn, acked, limited);
        btl_ib_rnr_sender_retry(conn);
        btl_ib_loss_detect(conn);
        if (conn->capped.watched || limited) {
            btl_ib_path_health_look(conn, limited);
        }
    }
}
