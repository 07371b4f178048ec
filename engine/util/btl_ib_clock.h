/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The engine's time, in us. It advances only when a caller passes the time. `awake` counts the time
 * in which this process could listen: of a long pause between two turns only a part counts. So
 * silence of peers is not measured while this process did not poll.
 */

#ifndef BTL_IB_CLOCK_H
#define BTL_IB_CLOCK_H

#include <stdint.h>

typedef struct btl_ib_clock {
    uint64_t now; /* us: never goes back */
    uint64_t
        turned_at;  /* us: the last progress call, of the application or of the progress thread */
    uint64_t awake; /* us, starts at 1: advances in turns only, not for a long pause */
    uint32_t turns; /* number of these calls; wraps */
    uint32_t gap;   /* us between this turn and the one before */
} btl_ib_clock_t;

/* us: the longest part of a pause between two turns that counts in `awake`. */
#define BTL_IB_CLOCK_LONG_PAUSE 1000000u

/* Nothing has happened yet; all is zero. */
static inline void btl_ib_clock_init(btl_ib_clock_t *clock)
{
    clock->awake = 1;
}

/* Take `now` from a caller. Time never goes back. */
static inline void btl_ib_clock_set(btl_ib_clock_t *clock, uint64_t now)
{
    if (now > clock->now) {
        clock->now = now;
    }
}

/* A turn begins at `now`. */
void btl_ib_clock_turn(btl_ib_clock_t *clock, uint64_t now);

/* `awake` as it will be if a turn comes at `now`. */
uint64_t btl_ib_clock_awake_at(const btl_ib_clock_t *clock, uint64_t now);

/* `awake` as it will be if a turn comes now. What begins to wait between two turns does so after
 * the pause, not before it. */
static inline uint64_t btl_ib_clock_awake(const btl_ib_clock_t *clock)
{
    return clock->now == clock->turned_at ? clock->awake : btl_ib_clock_awake_at(clock, clock->now);
}

#endif
