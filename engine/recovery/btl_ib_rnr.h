/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What was refused, and when it may come again. A sender can only ask for it now and then, one segment at
 * a time, because it does not know what is missing here. We do: once the cause is gone an ACK names the
 * segment (flag READY), and its sender sends it at once. When that is taken in all that was sent before
 * it and is still missing follows, as after a loss. Of several with the same cause the one with the lowest
 * sequence is kept: it is the one whose fragment others wait for. All are told as refused, so that their sender
 * does not take them for lost. What was refused for want of memory counts as lost.
 */

#ifndef BTL_IB_RNR_H
#define BTL_IB_RNR_H

#include "btl_ib_state.h"

void btl_ib_refusal_init(btl_ib_conn_t *conn);

/* A segment was refused, for a message with that tag: its sender is to be told when the cause is gone. */
void btl_ib_rnr_note(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint8_t tag,
                     btl_ib_refusal_cause_t cause);

/* A segment that is still missing is here, and about to be taken in, refused or dropped. */
void btl_ib_rnr_here(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* The one that the acknowledgement now leaving is to name, or NULL. If it leaves btl_ib_rnr_told() hears of it. */
btl_ib_refusal_t *btl_ib_rnr_pick(btl_ib_conn_t *conn);

void btl_ib_rnr_told(btl_ib_conn_t *conn, btl_ib_refusal_t *refusal);

/* In this turn: whose cause is gone is acknowledged at once. */
void btl_ib_rnr_turn(btl_ib_engine_t *engine);

/* The peer's part of the connection ended. */
void btl_ib_rnr_forget(btl_ib_conn_t *conn);

/* Free what idle connections do not need. */
void btl_ib_rnr_shrink(btl_ib_conn_t *conn);

#endif
