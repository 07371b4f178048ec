/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Datagrams -> messages, operations, answers. Everything is checked before anything is changed. */

#ifndef BTL_IB_INPUT_H
#define BTL_IB_INPUT_H

#include "btl_ib_state.h"

/* As much of a datagram as can be looked at before the sender is known: all of it, or only what finds
 * its key. False: it is dropped, and counted. */
bool btl_ib_input_look_at(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival);

/* Are space, sequence, size and tag of a sequenced segment, which came in `datagram` bytes, what this
 * connection allows? Else it is counted. */
bool btl_ib_input_check(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint32_t datagram);

/* It is the peer's, and possible: take it in. `news`: its acknowledgements, too. True: it is a CLOSE, with which
 * this incarnation of the connection ends. */
bool btl_ib_input_take(btl_ib_conn_t *conn, const btl_ib_view_t *view, bool news);

/* Take a genuine datagram apart, and check all that needs no connection. False: counted. */
bool btl_ib_input_parse(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival);

void btl_ib_input_init(btl_ib_conn_t *conn);

/* An incarnation of the connection ended: what came in pieces and is not complete is forgotten. The next
 * progress call delivers what is complete. */
void btl_ib_input_end(btl_ib_conn_t *conn);

/* The connection ended: nothing of it is delivered any more. */
void btl_ib_input_drop(btl_ib_conn_t *conn);

/* Free what idle connections do not need. */
void btl_ib_input_shrink(btl_ib_conn_t *conn);

/* Deliver what came in kicks or was left by lives that ended. Returns how many messages that were. */
uint32_t btl_ib_input_stored(btl_ib_engine_t *engine);

#endif
