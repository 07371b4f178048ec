/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Acknowledgements and credit limits from the peer: checked, then processed. */

#ifndef BTL_IB_ACK_RX_H
#define BTL_IB_ACK_RX_H

#include "btl_ib_state.h"

/* A new incarnation: the peer's initial credits of a channel end at `limit`. */
static inline void btl_ib_ack_rx_begin_space(btl_ib_tx_space_t *space, uint32_t limit)
{
    space->limit = limit;
}

/* Does it acknowledge anything or give credit beyond what is known? If not, it is valid and
 * needs no processing: so are most datagrams of a one-way stream. */
bool btl_ib_ack_rx_is_new(const btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Are all acknowledgements and limits in this datagram possible? If not, that is counted. */
bool btl_ib_ack_rx_check(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Process them. They must have passed the check. */
void btl_ib_ack_rx_process(btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
