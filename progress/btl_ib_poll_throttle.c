/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_poll_throttle.h"

#define LOAD(field)         atomic_load_explicit(&pace->field, memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(&pace->field, (value), memory_order_relaxed)

void btl_ib_pace_init(btl_ib_pace_t *pace, const btl_ib_pace_limits_t *limits)
{
    STORE(left, 1);
    STORE(rest, 0);
    STORE(turns, 0);
    STORE(looked_at, 0);
    pace->came_at = 0;
    pace->stride = 1;
    pace->alone = true;
    pace->limits = *limits;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Count down from `calls`, reading the clock now and then. */
static void count_down(btl_ib_pace_t *pace, int calls)
{
    const int left = calls < BTL_IB_PACE_CLOCK ? calls : BTL_IB_PACE_CLOCK;

    STORE(rest, calls - left);
    STORE(left, left);
}

bool btl_ib_pace_due(btl_ib_pace_t *pace, uint64_t (*clock)(void))
{
    const int rest = LOAD(rest);

    STORE(turns, LOAD(turns) + 1);
    if (rest <= 0 || clock() - LOAD(looked_at) > BTL_IB_PACE_PATIENCE) {
        return true;
    }
    count_down(pace, rest);
    return false;
}

static uint32_t limit(const btl_ib_pace_t *pace, uint64_t now, bool busy)
{
    if (busy) {
        return pace->limits.busy;
    }
    return now - pace->came_at < BTL_IB_PACE_RECENT ? pace->limits.recent : pace->limits.idle;
}

/* How many calls come in as long as we are patient, judging by the `calls` that came in `us`. */
static uint32_t affordable(uint32_t calls, uint64_t us)
{
    const uint64_t count = us > 0 ? (uint64_t) calls * BTL_IB_PACE_PATIENCE / us : UINT32_MAX;

    return 0 == count ? 1 : count < UINT32_MAX ? (uint32_t) count : UINT32_MAX;
}

void btl_ib_pace_looked(btl_ib_pace_t *pace, uint64_t now, bool came, bool busy)
{
    const int ahead = LOAD(rest) > 0 ? LOAD(rest) : 0; /* of the calls that were to come before */
    const uint32_t calls = pace->stride > (uint32_t) ahead ? pace->stride - (uint32_t) ahead : 1;

    if (came) {
        pace->came_at = now;
    }
    if (pace->alone || came) {
        pace->stride = 1;
    } else {
        pace->stride = least(2 * pace->stride, limit(pace, now, busy));
        pace->stride = least(pace->stride, affordable(calls, now - LOAD(looked_at)));
    }
    STORE(looked_at, now);
    count_down(pace, (int) pace->stride);
}
