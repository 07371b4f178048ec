/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The limits that may stop a new segment, and what is waited for then. */

#ifndef BTL_IB_SEND_LIMITS_H
#define BTL_IB_SEND_LIMITS_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* Says whether a new segment may leave, and if not, why. */
typedef enum btl_ib_verdict {
    BTL_IB_GO,
    BTL_IB_NO_CREDIT,
    BTL_IB_NO_WINDOW, /* congestion control's, or max_pending_sends of the peer */
    BTL_IB_NO_SHARE,  /* what the peer allows, as many send to it */
    BTL_IB_NO_DEPTH,  /* a limit on all connections together */
    BTL_IB_TOO_SOON,  /* the congestion control paces */
    BTL_IB_NO_ANSWER, /* the route is not validated yet, but another one is */
} btl_ib_verdict_t;

/* Returns how many new segments the windows and the peer's buffers for a channel allow. */
uint32_t btl_ib_send_limits_way(const btl_ib_conn_t *conn, uint32_t channel);

/* Returns how many new segments may leave on a channel. It may be fewer than the limits allow, so
 * the caller asks again when they have left. 0: none may, and *verdict says why. */
uint32_t btl_ib_send_limits_room(const btl_ib_conn_t *conn, uint32_t channel,
                                 btl_ib_verdict_t *verdict);

/* True if the connections together have as much unacknowledged as they may. */
bool btl_ib_send_limits_full(const btl_ib_engine_t *engine);

/* Returns whether a new segment may leave on a channel, and if not, what stops it. */
btl_ib_verdict_t btl_ib_send_limits_check(const btl_ib_conn_t *conn, uint32_t channel);

/* True if what was lost on a channel may leave again, behind `count` others. */
bool btl_ib_send_limits_may_retransmit(const btl_ib_conn_t *conn, uint32_t channel, uint32_t count);

/* Waits for what stopped the connection: the transport or memory (`full`: try again in the next
 * turn), the other connections, or an acknowledgement, which makes the connection ready again by
 * itself. */
void btl_ib_send_limits_wait(btl_ib_conn_t *conn, btl_ib_verdict_t verdict, bool full);

#endif
