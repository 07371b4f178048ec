/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which connections may have something to send, and which have been idle for long: what all others tell when that changes. */

#ifndef BTL_IB_SCHED_H
#define BTL_IB_SCHED_H

#include "btl_ib_state.h"

/* A connection is made: it has nothing to send, and counts as idle. */
void btl_ib_sched_init(btl_ib_conn_t *conn);

/* Put `conn` on the list of those that may have something sendable. */
void btl_ib_conn_ready(btl_ib_conn_t *conn);

/* Something sequenced came or went: the idle timer begins anew. */
void btl_ib_conn_active(btl_ib_conn_t *conn);

/* The idle timer went off. True if nothing happened since for long, and nothing is left to do: the connection counts as
 * idle from now on. Else the timer is set again. */
bool btl_ib_conn_rests(btl_ib_conn_t *conn, bool drained);

/* An incarnation of the connection ends: it has nothing to send, and no timer runs. */
void btl_ib_conn_unschedule(btl_ib_conn_t *conn);

#endif
