/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations, the target's side: what peers may do with our regions.
 *
 * PUT: placed from the receive buffer. A refused one is not acknowledged, because its acknowledgement
 * would say that it was placed: its sender is told by a REFUSED, and makes the segments void. That is
 * no segment that needs credit or window, because both may be used up by segments that the peer refuses
 * likewise. If it is lost, the segment that comes again leads to the next one.
 *
 * GET becomes a stream of GOT segments. ATOMIC is executed when its sequence is accepted, so once; the
 * result is in a REPLY, which is a segment like any other, kept and repeated until it is acknowledged.
 *
 * A peer has at most BTL_IB_OPS_MAX operations running, and there is room for so many replies and
 * streams. So a request never waits for answers to leave: else two processes could wait for each other,
 * their windows full of requests. Only a peer that breaks that rule finds no room: what it asks for is
 * not acknowledged.
 */

#ifndef BTL_IB_TARGET_H
#define BTL_IB_TARGET_H

#include "btl_ib_state.h"

/* Requests of the peer. False if one was not accepted: it must come again. */
bool btl_ib_target_put(btl_ib_conn_t *conn, const btl_ib_view_t *view);
bool btl_ib_target_get(btl_ib_conn_t *conn, const btl_ib_view_t *view);
bool btl_ib_target_atomic(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Forget what the peer asked for and was not sent yet. */
void btl_ib_target_drop(btl_ib_conn_t *conn);

#endif
