/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations, the initiator's side. An operation waits for a slot (btl_ib_op_slots.h),
 * then its bytes or its request are sent like a message, unless the device executes it
 * (btl_ib_offload.h). A PUT is over with the acknowledgement of its last segment; GET and ATOMIC
 * are over with their answer.
 */

#ifndef BTL_IB_INITIATOR_H
#define BTL_IB_INITIATOR_H

#include "btl_ib_state.h"

/* May it be started? `offload`: by the device only. Returns 0 or -errno as btl_ib_op_start(). */
int btl_ib_op_admit(const btl_ib_conn_t *conn, const btl_ib_op_t *op, bool offload);

/* End the operations that wait for a slot, or for an answer, with `status`. */
void btl_ib_op_give_up(btl_ib_conn_t *conn, int status);
void btl_ib_op_give_up_answers(btl_ib_conn_t *conn, int status);

/* Answers of the peer: pieces of what a GET asked for, a rejected PUT, results of GETs and
 * ATOMICs. */
void btl_ib_op_recv_got(btl_ib_conn_t *conn, const btl_ib_view_t *view);
void btl_ib_op_recv_rejected(btl_ib_conn_t *conn, const btl_ib_view_t *view);
void btl_ib_op_recv_replies(btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
