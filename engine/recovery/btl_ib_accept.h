/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A new sequence is accepted: it is marked in the window of its channel, uses a credit, and is to
 * be acknowledged. The caller has placed its contents, or does so within the same call.
 */

#ifndef BTL_IB_ACCEPT_H
#define BTL_IB_ACCEPT_H

#include "btl_ib_state.h"

/* The receiving side of an incarnation begins or ends; or the connection becomes idle. */
void btl_ib_accept_begin(btl_ib_conn_t *conn);
void btl_ib_accept_end(btl_ib_conn_t *conn);
void btl_ib_accept_rest(btl_ib_conn_t *conn);

/* Is there memory to accept this sequence? If not that is counted. */
bool btl_ib_accept_room(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Accept a sequence for which there is room, and those of the burst that it begins. */
void btl_ib_accept(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Accept a SKIP: the idle peer gives up the sequences that end with this one. It is no traffic, and
 * uses no buffer. */
void btl_ib_accept_skip(btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
