/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations, at the process that asks: their start (btl_ib_op_start(), btl_ib_rma.h) and
 * the peer's answers.
 *
 * A device executes an operation (btl_ib_rma_offload.h), or it goes as segments: then it waits for
 * a slot (btl_ib_rma_requests.h), and its bytes or its request are sent like a message. A PUT is
 * over with the acknowledgement of its last segment; GET and ATOMIC are over with their answer.
 */

#ifndef BTL_IB_RMA_INITIATOR_H
#define BTL_IB_RMA_INITIATOR_H

#include "btl_ib_engine.h"

/* Takes in answers of the peer: a piece of what a GET asked for, the rejection of a PUT, results of
 * GETs and ATOMICs. */
void btl_ib_op_recv_got(btl_ib_conn_t *conn, const btl_ib_view_t *view);
void btl_ib_op_recv_rejected(btl_ib_conn_t *conn, const btl_ib_view_t *view);
void btl_ib_op_recv_replies(btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
