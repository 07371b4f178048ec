/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Acknowledgements and credit limits that the peer tells us: checked, and taken in. */

#ifndef BTL_IB_ACK_RX_H
#define BTL_IB_ACK_RX_H

#include "btl_ib_state.h"

/* Does it acknowledge something, or give credit, that is not known yet? What does not is possible, and needs
 * not be taken in: in a stream, where nothing goes the other way, most of its datagrams. */
bool btl_ib_ack_rx_tells_news(const btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Are all acknowledgements and limits in this datagram possible? (Counted if not.) */
bool btl_ib_ack_rx_check(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Take them in. */
void btl_ib_ack_rx_process(btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
