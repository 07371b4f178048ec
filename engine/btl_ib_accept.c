/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_accept.h"

#include "btl_ib_ack_write.h"
#include "btl_ib_burst.h"
#include "btl_ib_state.h"
#include "btl_ib_refragment.h"
#include "btl_ib_sched.h"

static bool is_per_peer(const btl_ib_conn_t *conn, uint32_t channel)
{
    return conn->rail->queues.q[channel].type == BTL_IB_QUEUE_PER_PEER;
}

void btl_ib_accept_begin(btl_ib_conn_t *conn)
{
    const btl_ib_engine_config_t *config = &conn->engine->config;
    btl_ib_rail_t *rail = conn->rail;

    for (uint32_t i = 0; i < rail->queues.count; i++) {
        const btl_ib_queue_t *queue = &rail->queues.q[i];
        btl_ib_rx_window_init(&conn->rx[i].window, config->first_seq);
        if (is_per_peer(conn, i)) {
            btl_ib_credit_init(&conn->rx[i].credit, &rail->credit[i], queue, queue->init,
                               config->first_seq,
                               btl_ib_credit_cost(&rail->credit[i], queue, rail->transport,
                                                  config->credit_pool, conn->pmtud.carries));
        }
    }
}

void btl_ib_accept_end(btl_ib_conn_t *conn)
{
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        btl_ib_rx_window_drop(&conn->rx[i].window, &conn->engine->mem);
        if (is_per_peer(conn, i)) {
            btl_ib_credit_fini(&conn->rx[i].credit, &conn->rail->credit[i]);
        }
    }
}

void btl_ib_accept_rest(btl_ib_conn_t *conn)
{
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        btl_ib_rx_window_shrink(&conn->rx[i].window, &conn->engine->mem);
        btl_ib_credit_rest(&conn->rx[i].credit, &conn->rail->credit[i]);
    }
}

bool btl_ib_accept_room(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;

    if (btl_ib_rx_window_reserve(&conn->rx[view->channel].window, view->seq, &engine->mem) != 0) {
        engine->count.rnr_memory++;
        return false;
    }
    return true;
}

void btl_ib_accept(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_rx_channel_t *rx = &conn->rx[view->channel];
    const uint32_t count = btl_ib_burst_count(view);
    bool at_once = (view->flags & BTL_IB_FLAG_ACK_NOW) != 0 || view->more.asks;
    /* What extends the highest range tells nothing new of a gap, so it needs no ACK at once; what
     * fills the last gap is acknowledged like any other segment. */
    bool in_order = view->seq == rx->window.top;

    btl_ib_ack_tx_accepting(conn, view);
    if (view->channel > 0) {
        btl_ib_incast_arriving(conn, view->channel, view->seq, count,
                               view->flags & BTL_IB_FLAG_RETRANSMISSION);
    }
    if (!btl_ib_list_empty(&conn->input.parts)) {
        btl_ib_refragment_forget(&conn->input.parts, &engine->mem, view->channel, view->seq);
    }
    btl_ib_rx_window_mark(&rx->window, view->seq);
    btl_ib_rx_window_advance(&rx->window, view->more.count);
    const uint64_t bytes =
        view->type == BTL_IB_TYPE_BUNDLE ? view->bytes : btl_ib_burst_bytes(view);

    engine->count.received_segments += count;
    engine->count.received_bytes += bytes;
    conn->count.received_bytes += bytes;
    rx->accept.received += count;
    btl_ib_idle_active(&conn->idle, conn, conn->engine->clock.now);
    if (rx->window.above > 0) {
        engine->count.received_out_of_order++;
        at_once = at_once || !in_order;
    }
    if (is_per_peer(conn, view->channel)) {
        btl_ib_credit_use(&rx->credit, &conn->rail->credit[view->channel],
                          &conn->rail->queues.q[view->channel], count, rx->window.above > 0);
    }
    btl_ib_ack_tx_accepted(conn, view->channel, view->type, count, at_once);
}

void btl_ib_accept_skip(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_rx_channel_t *rx = &conn->rx[view->channel];
    uint32_t first = view->seq - view->skip + 1;
    uint32_t received = first, end;

    /* Later traffic may have overtaken it, but none of the sequences that it gives up can have
     * arrived. */
    bool clash = first == rx->window.next && btl_ib_rx_window_range(&rx->window, &received, &end)
                 && !btl_ib_seq_before(view->seq, received);
    if (!is_per_peer(conn, view->channel) || first != rx->window.next || clash
        || view->skip > rx->credit.grant - rx->credit.used || view->skip == rx->credit.grant) {
        conn->engine->count.dropped_sequence++;
        return;
    }
    for (uint32_t i = 0; i < view->skip; i++) {
        btl_ib_rx_window_mark(&rx->window, first + i);
    }
    conn->engine->count.received_skips++;
    btl_ib_credit_give_back(&rx->credit, &conn->rail->credit[view->channel],
                            &conn->rail->queues.q[view->channel], view->skip);
    btl_ib_ack_tx_set_pending(conn, view->channel, true);
}
