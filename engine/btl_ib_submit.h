/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The top of the send path: what the component sends, and what leaves when its turn has come. The
 * component's own calls (btl_ib_engine_send() and others) are in btl_ib_engine.h. */

#ifndef BTL_IB_SUBMIT_H
#define BTL_IB_SUBMIT_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* Begins a new connection: nothing waits in any channel. */
void btl_ib_submit_init(btl_ib_conn_t *conn);

/* Completes all messages and operations of the connection with `status`, messages that left
 * entirely with `left_status`. */
void btl_ib_send_give_back(btl_ib_conn_t *conn, int left_status, int status);

/* Sends what the limits allow. */
void btl_ib_flush(btl_ib_conn_t *conn);

/* Lets an operation of `size` bytes, which was queued, wait for others to travel with. False: it is
 * to leave now. */
bool btl_ib_submit_hold(btl_ib_conn_t *conn, uint64_t size);

/* Ends a call that sends, after btl_ib_engine_enter(). Within a callback the call further out calls
 * those that are due: if each sends the next of a long queue, the stack must not grow with all of
 * them. */
void btl_ib_submit_end(btl_ib_engine_t *engine);

/* Gives back the credits of a P channel beyond what an idle peer holds. Nothing may be in
 * flight. */
void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t channel);

#endif
