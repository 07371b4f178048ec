/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the peer acknowledges: is it possible, and what does it change? */

#ifndef BTL_IB_ACK_READ_H
#define BTL_IB_ACK_READ_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* A new incarnation: the peer's initial credits of a channel end at `limit`. */
void btl_ib_ack_rx_begin_channel(btl_ib_tx_channel_t *channel, uint32_t limit);

/* Does it acknowledge anything or give credit beyond what is known? If not, it is valid and
 * needs no processing: so are most datagrams of a one-way stream. */
bool btl_ib_ack_rx_is_new(const btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Are all acknowledgements and limits in this datagram possible? If not, that is counted. */
bool btl_ib_ack_rx_check(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Process them. They must have passed the check. */
void btl_ib_ack_rx_process(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* The header of a DATA segment that echoes a stamp, and is the next of its channel (no gap, no
 * parts, no retransmission): does it say nothing new, give credit, or acknowledge the oldest
 * segment of a channel alone, a message that was sent once, with nothing deferred or suspect? Then
 * all that is taken in and the segment accepted; false: nothing was done. */
bool btl_ib_ack_predicted(btl_ib_conn_t *conn, const btl_ib_wire_header_at_t *header);

#endif
