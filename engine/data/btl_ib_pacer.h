/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Pacing: when the next segment may leave, if the congestion control sets a pace (cc.pace: ns
 * between segments; cc.burst: segments that may leave at once). */

#ifndef BTL_IB_PACER_H
#define BTL_IB_PACER_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_cc.h"
#include "btl_ib_timer.h"

typedef struct btl_ib_pacer {
    btl_ib_timer_t timer; /* BTL_IB_TIMER_PACE */
    uint64_t at;          /* ns: when the next segment would leave without bursts */
} btl_ib_pacer_t;

/* The timer of a new connection. */
static inline void btl_ib_pacer_init(btl_ib_pacer_t *pacer, struct btl_ib_conn *conn)
{
    btl_ib_timer_init(&pacer->timer, BTL_IB_TIMER_PACE, conn);
}

/* A new route: nothing was sent by it yet. */
void btl_ib_pacer_begin(btl_ib_pacer_t *pacer);

/* `count` segments leave; or: the last one did not. `now` in us. */
void btl_ib_pacer_spend(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now, int count);
void btl_ib_pacer_take_back(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc);

/* How many segments may leave now. `behind`: our process was away and may be again at once, so that
 * nothing would leave later. Then only windows of less than one segment are paced. */
uint32_t btl_ib_pacer_room(const btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now,
                           bool behind);

/* Set the timer for when a whole burst may leave. */
void btl_ib_pacer_wait(btl_ib_pacer_t *pacer, btl_ib_hotel_t *hotel);

/* The pace may have become faster: what waits by a slower one leaves at the present one. */
void btl_ib_pacer_forgive(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, btl_ib_hotel_t *hotel,
                          uint64_t now);

#endif
