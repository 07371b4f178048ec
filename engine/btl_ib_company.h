/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which messages and operations wait for others to travel with (as TCP_CORK or Nagle's algorithm, but by turns of progress and not by
 * time).
 */

#ifndef BTL_IB_COMPANY_H
#define BTL_IB_COMPANY_H

#include "btl_ib_state.h"

/* Would what comes now wait for the next turn? */
static inline bool btl_ib_company_waits(btl_ib_conn_t *conn)
{
    if (conn->coalesce.turn != conn->engine->clock.turns) {
        conn->coalesce.turn = conn->engine->clock.turns;
        conn->coalesce.left_alone = 0;
    }
    return conn->coalesce.left_alone >= conn->coalesce.alone;
}

/* Something leaves by itself. */
static inline void btl_ib_company_none(btl_ib_conn_t *conn)
{
    conn->coalesce.left_alone++;
    conn->coalesce.alone_at = conn->engine->clock.now;
}

/* `size` bytes more would wait. Let them; false: they are many with those that wait already, and none
 * waits any longer. */
bool btl_ib_company_hold(btl_ib_conn_t *conn, uint64_t size);

/* Are those that were held, with `size` bytes more, enough to fill what the transport joins? */
bool btl_ib_company_fills_train(const btl_ib_conn_t *conn, uint64_t size);

/* Of these, `left` bytes did leave, in full trains; the rest does with the next turn. */
void btl_ib_company_trains_left(btl_ib_conn_t *conn, uint64_t size, uint64_t left);

/* Those that were held leave now. */
void btl_ib_company_let_go(btl_ib_conn_t *conn);

#endif
