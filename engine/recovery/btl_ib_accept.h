/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A new sequence is accepted: it is noted in the window of its channel, uses a credit, and is to be
 * acknowledged. Whoever accepts it has placed it, or does so within the same call.
 */

#ifndef BTL_IB_ACCEPT_H
#define BTL_IB_ACCEPT_H

#include "btl_ib_state.h"

/* The receiving side of an incarnation of the connection begins, ends; or nobody uses it for now. */
void btl_ib_accept_begin(btl_ib_conn_t *conn);
void btl_ib_accept_end(btl_ib_conn_t *conn);
void btl_ib_accept_rest(btl_ib_conn_t *conn);

/* Is there memory to accept that one? Else it is counted. */
bool btl_ib_accept_room(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Accept it. There is room. */
void btl_ib_accept(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* A SKIP: the idle peer gives up the sequences that end with this one. No traffic, and no buffer used. */
void btl_ib_accept_skip(btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
