/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A connection: its life from the first datagram to the last. */

#ifndef BTL_IB_CONN_H
#define BTL_IB_CONN_H

#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* The life cycle of a connection: made, reset, drained, closed, dead. Writes those fields of struct
 * btl_ib_conn that are in no structure of their own. */

/* Makes a connection as btl_ib_conn_create(), but one that the peer asked for. */
int btl_ib_conn_make(btl_ib_engine_t *engine, btl_ib_rail_t *rail, const btl_ib_peer_info_t *info,
                     btl_ib_conn_t **conn);

/* Resets a connection, as the peer closed it or began a new incarnation. Messages that left count
 * as acknowledged; what was not sent yet, and operations, fail. The connection is as if just
 * made. */
void btl_ib_conn_reset(btl_ib_conn_t *conn);

/* Forgets what came from the peer, as its incarnation ended. What goes to it stays, because the
 * peer's next incarnation may have it if the last one saw nothing of it. */
void btl_ib_conn_lose_peer(btl_ib_conn_t *conn);

/* True if nothing is due to the peer, and nothing that came from it is incomplete. */
bool btl_ib_conn_is_quiet(const btl_ib_conn_t *conn);

/* Releases memory when the idle timer expired. Returns false if the connection is not idle; then
 * the timer was set again. */
bool btl_ib_conn_shrink(btl_ib_conn_t *conn);

/* Begins a route of which nothing is known: congestion control, pacing and the estimates of loss
 * begin anew. */
void btl_ib_conn_begin_route(btl_ib_conn_t *conn);

/* Sends the next CLOSE of a connection that is closing; after the last one it ends. */
void btl_ib_conn_linger(btl_ib_conn_t *conn);

/* Releases all that a connection holds; no callback follows. */
void btl_ib_conn_strip(btl_ib_conn_t *conn);

#endif
