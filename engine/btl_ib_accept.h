/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A new sequence is accepted: it is marked in the window of its channel, uses a credit, and is to
 * be acknowledged. The caller has placed its contents, or does so within the same call.
 */

#ifndef BTL_IB_ACCEPT_H
#define BTL_IB_ACCEPT_H

#include "btl_ib_ack_write.h"
#include "btl_ib_incast.h"
#include "btl_ib_state.h"
#include "btl_ib_sched.h"

/* Begins or ends the receiving side of an incarnation; or notes that the connection becomes
 * idle. */
void btl_ib_accept_begin(btl_ib_conn_t *conn);
void btl_ib_accept_end(btl_ib_conn_t *conn);
void btl_ib_accept_rest(btl_ib_conn_t *conn);

/* True if there is memory to accept this sequence. If not that is counted. */
bool btl_ib_accept_room(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Accepts a sequence for which there is room, and those of the burst that it begins. */
void btl_ib_accept(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Accepts a SKIP: the idle peer gives up the sequences that end with this one. It is no traffic,
 * and uses no buffer. */
void btl_ib_accept_skip(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Accepts one DATA segment with `size` bytes that is the next of its channel, where nothing is
 * ahead of a gap, no segment came in parts, and which is no retransmission. It needs no room. */
static inline void btl_ib_accept_next(btl_ib_conn_t *conn, uint32_t channel, uint32_t size)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_rx_channel_t *rx = &conn->rx[channel];

    if (channel > 0) {
        btl_ib_incast_arriving(conn, channel, rx->window.top, 1, false);
    }
    btl_ib_rx_window_advance(&rx->window, 1);
    engine->count.received_segments++;
    engine->count.received_bytes += size;
    conn->count.received_bytes += size;
    rx->accept.received++;
    btl_ib_idle_active(&conn->idle, conn, conn->engine->clock.now);
    if (conn->rail->queues.q[channel].type == BTL_IB_QUEUE_PER_PEER) {
        btl_ib_credit_use(&rx->credit, &conn->rail->credit[channel], &conn->rail->queues.q[channel],
                          1, false);
    }
    btl_ib_ack_tx_accepted(conn, channel, BTL_IB_TYPE_DATA, 1, false);
}

#endif
