/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The top of the send path: what the component sends, what leaves when its turn has come, and which
 * short messages wait to be coalesced. The component's own calls (btl_ib_engine_send() and others)
 * are in btl_ib_engine.h. */

#ifndef BTL_IB_SUBMIT_H
#define BTL_IB_SUBMIT_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* Messages and operations that leave at once in a turn, before anything is learned: the application
 * may send two and then compute. */
#define BTL_IB_AT_ONCE_FIRST 2u

/* Messages and operations that wait for others to travel with. */
typedef struct btl_ib_coalesce {
    uint32_t turn;        /* the turn to which `at_once` belongs */
    uint32_t at_once;     /* messages and operations that left at once in it */
    uint32_t at_once_max; /* how many may leave at once */
    uint32_t held;        /* messages and operations held */
    uint64_t held_bytes;
    uint64_t last_at; /* us: when the last left at once */
} btl_ib_coalesce_t;

/* The peer's incarnation ended: nothing is held any more. */
static inline void btl_ib_coalesce_forget(btl_ib_coalesce_t *coalesce)
{
    coalesce->held = 0;
    coalesce->held_bytes = 0;
}

/* An incarnation of the connection begins. */
static inline void btl_ib_coalesce_begin(btl_ib_coalesce_t *coalesce)
{
    coalesce->at_once_max = BTL_IB_AT_ONCE_FIRST;
    btl_ib_coalesce_forget(coalesce);
}

/* Nothing waits in any channel of a new connection. */
void btl_ib_submit_init(btl_ib_conn_t *conn);

/* All messages and operations of the connection complete with `status`, messages that left entirely
 * with `left_status`. */
void btl_ib_send_give_back(btl_ib_conn_t *conn, int left_status, int status);

/* Send what the limits allow. */
void btl_ib_send_push(btl_ib_conn_t *conn);

/* Give back the credits of a P channel beyond what an idle peer holds. Nothing may be in flight. */
void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t channel);

#endif
