/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Reads what the peer acknowledges: whether it is possible, and what it changes. */

#ifndef BTL_IB_ACK_READ_H
#define BTL_IB_ACK_READ_H

#include "btl_ib_state.h"
#include "btl_ib_loss.h"

/* True if a datagram acknowledges anything, or gives credit, beyond what is known. If not, it is
 * valid and needs no processing: so are most datagrams of a one-way stream. */
bool btl_ib_ack_rx_is_new(const btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* True if all acknowledgements and limits in this datagram are possible. If not, that is
 * counted. */
bool btl_ib_ack_rx_check(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Processes them. They must have passed the check. */
void btl_ib_ack_received(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* True if the peer may give credit up to `limit` on a channel. */
static inline bool btl_ib_ack_is_limit_possible(const btl_ib_conn_t *conn, uint32_t channel,
                                                uint32_t limit)
{
    const btl_ib_queue_t *queue = &conn->peer_queues->q[channel];

    return queue->type != BTL_IB_QUEUE_PER_PEER
           || !btl_ib_seq_before(conn->tx[channel].sentmap.window.next + queue->num, limit);
}

/* True if a limit gives more credit than is known. */
static inline bool btl_ib_ack_is_more_credit(const btl_ib_conn_t *conn, uint32_t channel,
                                             uint32_t limit)
{
    return conn->peer_queues->q[channel].type == BTL_IB_QUEUE_PER_PEER
           && btl_ib_seq_before(conn->tx[channel].limit, limit);
}

/* Raises the limit of a channel to one that gives more credit. */
static inline void btl_ib_ack_raise_limit(btl_ib_conn_t *conn, uint32_t channel, uint32_t limit)
{
    conn->tx[channel].limit = limit;
    btl_ib_loss_unblocked(&conn->loss);
}

/* True if the window is what holds the sender back. */
static inline bool btl_ib_ack_is_limited(const btl_ib_conn_t *conn)
{
    const uint32_t in_flight = conn->sentmap.in_flight;

    /* room for less than a burst may not have been used: btl_ib_batch.c */
    return in_flight + conn->cc.gso_segments > conn->cc.window
           && in_flight + in_flight / 3 >= conn->cc.window;
}

#endif
