/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The life of a connection: made, reset, drained, closed, dead. */

#ifndef BTL_IB_CONN_H
#define BTL_IB_CONN_H

#include "btl_ib_state.h"

/* As btl_ib_conn_create(), for a connection that the peer asked for. */
int btl_ib_conn_make(btl_ib_engine_t *engine, btl_ib_rail_t *rail, const btl_ib_peer_info_t *info,
                     btl_ib_conn_t **conn);

/* The peer left or began anew: messages that left count as acknowledged, what was not sent yet and
 * operations fail, and the connection is as if just made. */
void btl_ib_conn_reset(btl_ib_conn_t *conn);

/* The peer's part of the connection ended: forget what came from it. What goes to it stays: if its
 * next part never saw any of that, it can have it. */
void btl_ib_conn_lose_peer(btl_ib_conn_t *conn);

/* Is nothing due to the peer, and nothing of its begun? */
bool btl_ib_conn_is_quiet(const btl_ib_conn_t *conn);

/* The idle timer went off: shrink. False if it is not idle, and is to be looked at again later. */
bool btl_ib_conn_idle(btl_ib_conn_t *conn);

/* Nothing is known of the way that carries it now: what it bears (congestion control, pace), how long it is and
 * whether it keeps the order. */
void btl_ib_conn_begin_way(btl_ib_conn_t *conn);

/* Send the next CLOSE of a connection that is leaving, or end its life after the last. */
void btl_ib_conn_linger(btl_ib_conn_t *conn);

/* Give back all that a connection holds, without callbacks to come. */
void btl_ib_conn_strip(btl_ib_conn_t *conn);

#endif
