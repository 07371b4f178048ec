/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A timer of a connection: a guest of the engine's hotel (btl_ib_hotel.h) with its purpose. */

#ifndef BTL_IB_TIMER_H
#define BTL_IB_TIMER_H

#include "btl_ib_hotel.h"

struct btl_ib_conn;

typedef enum btl_ib_timer_kind {
    BTL_IB_TIMER_LOSS, /* loss and silence; of a closing connection: the next CLOSE */
    BTL_IB_TIMER_IDLE, /* to free what an idle connection does not need */
    BTL_IB_TIMER_PACE, /* the next segments may leave */
} btl_ib_timer_kind_t;

typedef struct btl_ib_timer {
    btl_ib_guest_t guest;
    btl_ib_timer_kind_t kind;
    struct btl_ib_conn *conn;
} btl_ib_timer_t;

static inline void btl_ib_timer_init(btl_ib_timer_t *timer, btl_ib_timer_kind_t kind,
                                     struct btl_ib_conn *conn)
{
    btl_ib_guest_init(&timer->guest);
    timer->kind = kind;
    timer->conn = conn;
}

#endif
