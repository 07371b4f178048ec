/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_clock.h"

#include "btl_ib_list.h"

/* ---- clock ---- */

uint64_t btl_ib_clock_awake_at(const btl_ib_clock_t *clock, uint64_t now)
{
    uint64_t away = now > clock->turned_at ? now - clock->turned_at : 0;

    if (clock->turned_at == 0) { /* no turn, and no pause: the clock may have run for any time */
        return clock->awake;
    }
    return clock->awake + (away < BTL_IB_CLOCK_LONG_PAUSE ? away : BTL_IB_CLOCK_LONG_PAUSE);
}

void btl_ib_clock_turn(btl_ib_clock_t *clock, uint64_t now)
{
    uint64_t away = now > clock->turned_at ? now - clock->turned_at : 0;

    clock->turns++;
    clock->awake = btl_ib_clock_awake_at(clock, now);
    clock->gap = btl_ib_clip_u32(away, UINT32_MAX);
    clock->turned_at += away;
    btl_ib_clock_set(clock, now);
}
