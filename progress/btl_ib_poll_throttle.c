/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_poll_throttle.h"

#define LOAD(field)         atomic_load_explicit(&throttle->field, memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(&throttle->field, (value), memory_order_relaxed)

void btl_ib_poll_throttle_init(btl_ib_poll_throttle_t *throttle)
{
    *throttle = (btl_ib_poll_throttle_t){
        .to_clock = 1,
        .interval = 1,
        .alone = true,
    };
}

/* Sets how many calls there are until one polls, and, if they are many, until one reads the
 * clock. */
static void count_down(btl_ib_poll_throttle_t *throttle, int calls)
{
    const int to_clock = calls < BTL_IB_POLL_CLOCK ? calls : BTL_IB_POLL_CLOCK;

    STORE(after_clock, calls - to_clock);
    STORE(to_clock, to_clock);
}

bool btl_ib_poll_throttle_count(btl_ib_poll_throttle_t *throttle, uint64_t now)
{
    const int left = LOAD(after_clock);

    STORE(calls, LOAD(calls) + 1);
    if (left <= 0 || now - LOAD(polled_at) > BTL_IB_POLL_PERIOD) {
        return true;
    }
    count_down(throttle, left);
    return false;
}

void btl_ib_poll_throttle_empty(btl_ib_poll_throttle_t *throttle, uint64_t now, bool busy)
{
    /* Calls of the interval that were not made, as the clock said that it was time to poll. */
    const int early = LOAD(after_clock) > 0 ? LOAD(after_clock) : 0;
    const uint32_t calls =
        throttle->interval > (uint32_t) early ? throttle->interval - (uint32_t) early : 1;
    const uint64_t us = now - LOAD(polled_at);
    const uint64_t in_period = us > 0 ? (uint64_t) calls * BTL_IB_POLL_PERIOD / us : UINT32_MAX;
    uint32_t limit = BTL_IB_POLL_CALLS_IDLE;

    if (busy) {
        limit = BTL_IB_POLL_CALLS_BUSY;
    } else if (now - throttle->arrived_at < BTL_IB_POLL_RECENT) {
        limit = BTL_IB_POLL_CALLS_RECENT;
    }
    throttle->interval = 2 * throttle->interval < limit ? 2 * throttle->interval : limit;
    if (in_period < throttle->interval) {
        throttle->interval = in_period > 0 ? (uint32_t) in_period : 1;
    }
    STORE(polled_at, now);
    count_down(throttle, (int) throttle->interval);
}

/* ---- when a progress call may sleep ---- */

bool btl_ib_poll_sleep_count(btl_ib_poll_sleep_t *sleep, uint64_t now, uint64_t cpu)
{
    if (sleep->calls == 0) { /* the first measured call: time before it does not count */
        sleep->since = now;
    } else if (cpu - sleep->cpu > BTL_IB_POLL_SLEEP_CPU) {
        btl_ib_poll_sleep_reset(sleep, now);
        return false;
    }
    if (sleep->calls < BTL_IB_POLL_SLEEP_CALLS) {
        ++sleep->calls;
    }
    return sleep->calls == BTL_IB_POLL_SLEEP_CALLS && now - sleep->since >= BTL_IB_POLL_SLEEP_HALF;
}

/* ---- when several threads leave the processor to each other ---- */

void btl_ib_poll_yield_took(btl_ib_poll_yield_t *yield, uint64_t begun, uint64_t ended)
{
    const uint64_t last = atomic_load_explicit(&yield->long_at, memory_order_relaxed);

    if (ended - begun < BTL_IB_POLL_YIELD_LONG) {
        return;
    }
    /* A yield of another thread may have ended after this one began. */
    if (last != 0 && (begun <= last || begun - last <= BTL_IB_POLL_YIELD_AGAIN)) {
        atomic_store_explicit(&yield->crowded_until, ended + BTL_IB_POLL_YIELD_CROWDED,
                              memory_order_relaxed);
    }
    atomic_store_explicit(&yield->long_at, ended, memory_order_relaxed);
}
