/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Accounting of our one-sided operations with one peer (conn->ops). An operation is counted from
 * start to end. One that goes as segments waits until one of config.ops_max slots is free. The slot
 * is part of the id by which the peer names the operation in its answer.
 */

#ifndef BTL_IB_OP_SLOTS_H
#define BTL_IB_OP_SLOTS_H

#include "btl_ib_state.h"

void btl_ib_op_slots_init(btl_ib_conn_t *conn);

/* An operation was admitted. It is on no list yet. */
void btl_ib_op_begin(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* It goes as segments: it waits for a slot. It is on no list yet. */
void btl_ib_op_queue(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* Give free slots to waiting operations, and queue their segments. */
void btl_ib_op_run(btl_ib_conn_t *conn);

/* The operation with this id if it has a slot, else NULL. The id may be any number. */
btl_ib_op_t *btl_ib_op_find(const btl_ib_conn_t *conn, uint32_t id);

/* The request was sent, or the device took it; or it came back without an answer. */
void btl_ib_op_asked(btl_ib_op_t *op);
void btl_ib_op_not_asked(btl_ib_op_t *op);

/* So many bytes of what a GET asked for have arrived. */
static inline void btl_ib_op_got(btl_ib_op_t *op, uint32_t bytes)
{
    op->got += bytes;
}

/* The peer, or its device, works for us: it is not silent. The wait for answers starts again. */
void btl_ib_op_answered(btl_ib_conn_t *conn);

/* An operation is over: take it off all accounts. */
void btl_ib_op_leaves(btl_ib_op_t *op, int status);

/* Free what idle connections do not need. */
void btl_ib_op_shrink(btl_ib_conn_t *conn);

#endif
