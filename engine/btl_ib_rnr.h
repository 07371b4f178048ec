/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Segments that this side refused, and when they may come again (receiver not ready, as an RNR NAK
 * of InfiniBand). Owns struct btl_ib_rnr. A sender can only retry now and then, one segment at a
 * time, because it does not know what is missing here. This side does: once the cause is gone an
 * ACK names the segment (flag READY), and the sender repeats it at once. When that is accepted, all
 * that was sent before it and is still missing follows, as after a loss. Of several with the same
 * cause the one with the lowest sequence is kept: others wait for its fragment. All are reported as
 * refused, so that the sender does not take them for lost. A segment refused for want of memory
 * counts as lost.
 */

#ifndef BTL_IB_RNR_H
#define BTL_IB_RNR_H

#include "btl_ib_state.h"

void btl_ib_refusal_init(btl_ib_conn_t *conn);

/* A segment was refused, for a message with that tag: the sender is to be told when the cause is
 * gone. */
void btl_ib_rnr_note(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint8_t tag,
                     btl_ib_refusal_cause_t cause);

/* A copy of a segment that is still missing arrived, and is about to be accepted, refused or
 * dropped. */
void btl_ib_rnr_here(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* The refusal that the acknowledgement now leaving is to name as READY, or NULL. If it leaves
 * btl_ib_rnr_told() is called. */
btl_ib_refusal_t *btl_ib_rnr_pick(btl_ib_conn_t *conn);

void btl_ib_rnr_told(btl_ib_conn_t *conn, btl_ib_refusal_t *refusal);

/* Once a turn: acknowledge at once where a cause is gone. Bounded work a turn. */
void btl_ib_rnr_turn(btl_ib_engine_t *engine);

/* The peer's incarnation ended. */
void btl_ib_rnr_forget(btl_ib_conn_t *conn);

/* Free the memory that an idle connection does not need. */
void btl_ib_rnr_shrink(btl_ib_conn_t *conn);

#endif
