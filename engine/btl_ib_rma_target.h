/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations, the target's side: what peers may do with our regions.
 *
 * PUT: placed from the receive buffer. A rejected one is not acknowledged, because that would say
 * that it was placed. Its sender is told by a REJECTED, and makes the segments void. REJECTED needs
 * no credit or window: both may be used up by segments that the peer rejects likewise. If it is
 * lost, the retransmitted segment leads to the next one.
 *
 * GET is answered by a stream of GOT segments. ATOMIC is executed when its sequence is accepted, so
 * once. The result is in a REPLY: a segment like any other, kept and retransmitted until it is
 * acknowledged.
 *
 * A peer has at most BTL_IB_OPS_MAX operations running, and there is room for so many replies and
 * streams. So a request never waits for answers to leave, else two processes with windows full of
 * requests could wait for each other. Only a peer that breaks that rule finds no room: its request
 * is not acknowledged.
 */

#ifndef BTL_IB_RMA_TARGET_H
#define BTL_IB_RMA_TARGET_H

#include "btl_ib_engine.h"

/* The peer's one-sided operations on our memory. */
typedef struct btl_ib_target {
    uint32_t rejected;    /* id of the last PUT that was rejected */
    uint32_t rejected_in; /* turn.batch in which it was */
} btl_ib_target_t;

/* Requests of the peer. False: not accepted; it must be sent again. */
bool btl_ib_target_put(btl_ib_conn_t *conn, const btl_ib_view_t *view);
bool btl_ib_target_get(btl_ib_conn_t *conn, const btl_ib_view_t *view);
bool btl_ib_target_atomic(btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
