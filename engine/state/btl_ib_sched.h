/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which connections may have something to send (engine->ready), and which have been idle for
 * long. */

#ifndef BTL_IB_SCHED_H
#define BTL_IB_SCHED_H

#include "btl_ib_state.h"

/* A new connection: nothing to send, and idle. */
void btl_ib_sched_init(btl_ib_conn_t *conn);

/* Note that `conn` may have something to send. */
void btl_ib_conn_ready(btl_ib_conn_t *conn);

/* It waits for the limits on all connections. Until it has nothing unacknowledged it becomes ready
 * only together with all that do. */
void btl_ib_conn_starve(btl_ib_conn_t *conn);

/* It need not wait for them any more: btl_ib_conn_ready() makes it ready. */
void btl_ib_conn_fed(btl_ib_conn_t *conn);

/* The next of a list of ready connections; NULL: there is none. */
btl_ib_conn_t *btl_ib_sched_pop(btl_ib_list_t *turn);

/* A sequenced segment was sent or received: the idle timer starts again. */
void btl_ib_conn_active(btl_ib_conn_t *conn);

/* The idle timer expired. True: nothing happened for config.idle_after and `drained` says that
 * nothing is left to do, so the connection is idle now. False: the timer was set again. */
bool btl_ib_conn_rests(btl_ib_conn_t *conn, bool drained);

/* An incarnation of the connection ends: nothing to send, and no timer runs. */
void btl_ib_conn_unschedule(btl_ib_conn_t *conn);

#endif
