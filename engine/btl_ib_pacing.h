/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Pacing: when the next segment may leave, if the congestion control sets a pace (cc.pace: ns
 * between segments; cc.burst: segments that may leave at once). */

#ifndef BTL_IB_PACING_H
#define BTL_IB_PACING_H

#include "btl_ib_cc.h"
#include "btl_ib_clock.h"
#include "btl_ib_hotel.h"

typedef struct btl_ib_pacer {
    btl_ib_timer_t timer; /* BTL_IB_TIMER_PACE */
    uint64_t at;          /* ns: when the next segment would leave without bursts */
} btl_ib_pacer_t;

/* Notes that `count` segments leave; or that the last one did not. `now` in us. */
static inline void btl_ib_pacer_spend(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now,
                                      int count)
{
    if (cc->pace != 0) {
        now *= 1000;
        pacer->at = (pacer->at > now ? pacer->at : now) + (uint64_t) count * cc->pace;
    }
}

static inline void btl_ib_pacer_take_back(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc)
{
    pacer->at -= cc->pace;
}

/* Returns how many segments may leave now. `behind`: our process was away and may be again at once,
 * so that nothing would leave later. Then only windows of less than one segment are paced. */
static inline uint32_t btl_ib_pacer_room(const btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc,
                                         uint64_t now, bool behind)
{
    if (cc->pace == 0 || (behind && cc->burst > 1)) {
        return UINT32_MAX;
    }
    now *= 1000;
    const uint64_t ahead = pacer->at > now ? (pacer->at - now - 1) / cc->pace + 1 : 0;
    return ahead < cc->burst ? cc->burst - (uint32_t) ahead : 0;
}

/* Sets the timer for when a whole burst may leave. */
static inline void btl_ib_pacer_wait(btl_ib_pacer_t *pacer, btl_ib_hotel_t *hotel)
{
    btl_ib_hotel_checkin(hotel, &pacer->timer.guest, pacer->at / 1000 + 1);
}

/* Lets what waits by a slower pace leave at the present one, which may have become faster. */
static inline void btl_ib_pacer_forgive(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc,
                                        btl_ib_hotel_t *hotel, uint64_t now)
{
    uint64_t most = now * 1000;

    if (pacer->at <= most) {
        return;
    }
    most += (uint64_t) cc->burst * cc->pace;
    if (pacer->at > most) {
        pacer->at = most;
        if (btl_ib_hotel_guest_is_in(&pacer->timer.guest)) {
            btl_ib_pacer_wait(pacer, hotel);
        }
    }
}

#endif
