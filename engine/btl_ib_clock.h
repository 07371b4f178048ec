/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_CLOCK_H
#define BTL_IB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_hotel.h"

/* ---- clock ---- */

/*
 * The engine's time, in us. It advances only when a caller passes the time. `awake` counts the time
 * in which this process could listen: of a long pause between two turns only a part counts. So
 * silence of peers is not measured while this process did not poll. `ran` is what this process has
 * surely run for: where it waits for a processor between any two turns, so do its peers' answers.
 */

typedef struct btl_ib_clock {
    uint64_t now; /* us: never goes back */
    uint64_t
        turned_at;  /* us: the last progress call, of the application or of the progress thread */
    uint64_t awake; /* us, starts at 1: advances in turns only, not for a long pause */
    uint64_t ran;   /* the same, but for a pause of any length at most BTL_IB_CLOCK_SLICE */
    uint32_t turns; /* number of these calls; wraps */
    uint32_t gap;   /* us between this turn and the one before */
    uint32_t away;  /* us of it without any call, at a stretch: a process that sends one message
                     * after the other polls late, but is not away */
    uint32_t away_next; /* the same since this turn */
} btl_ib_clock_t;

/* us: the longest part of a pause between two turns that counts in `awake`. */
#define BTL_IB_CLOCK_LONG_PAUSE 1000000u

/* us: the longest part of one that counts in `ran`: a process that waits in progress polls more
 * often, unless others have the processor. */
#define BTL_IB_CLOCK_SLICE 50000u

/* Takes `now` from a caller. Time never goes back. */
static inline void btl_ib_clock_set(btl_ib_clock_t *clock, uint64_t now)
{
    if (now > clock->now) {
        const uint64_t away = now - clock->now;
        if (away > clock->away_next) {
            clock->away_next = away < UINT32_MAX ? (uint32_t) away : UINT32_MAX;
        }
        clock->now = now;
    }
}

/* Takes `now` at the end of a call: the time since the clock was last set is that of the call, not
 * spent away. */
static inline void btl_ib_clock_advance(btl_ib_clock_t *clock, uint64_t now)
{
    if (now > clock->now) {
        clock->now = now;
    }
}

/* Returns `awake` as it will be if a turn comes at `now`. */
static inline uint64_t btl_ib_clock_awake_at(const btl_ib_clock_t *clock, uint64_t now)
{
    const uint64_t away = now > clock->turned_at ? now - clock->turned_at : 0;

    if (clock->turned_at == 0) { /* no turn, and no pause: the clock may have run for any time */
        return clock->awake;
    }
    return clock->awake + (away < BTL_IB_CLOCK_LONG_PAUSE ? away : BTL_IB_CLOCK_LONG_PAUSE);
}

/* Notes that a turn begins at `now`. */
static inline void btl_ib_clock_turn(btl_ib_clock_t *clock, uint64_t now)
{
    const uint64_t away = now > clock->turned_at ? now - clock->turned_at : 0;

    clock->turns++;
    if (away < BTL_IB_CLOCK_SLICE && clock->turned_at != 0) { /* mostly */
        clock->ran += away;
        clock->awake += away;
    } else {
        if (clock->turned_at != 0) {
            clock->ran += away < BTL_IB_CLOCK_SLICE ? away : BTL_IB_CLOCK_SLICE;
        }
        clock->awake = btl_ib_clock_awake_at(clock, now);
    }
    clock->gap = away < UINT32_MAX ? (uint32_t) away : UINT32_MAX;
    const bool called = clock->now != clock->turned_at;
    clock->turned_at += away;
    if (called) {
        btl_ib_clock_set(clock, now);
        clock->away = clock->away_next;
        clock->away_next = 0;
    } else {
        clock->away = clock->gap;
        clock->now = clock->turned_at;
    }
}

/* Returns `awake` as it will be if a turn comes now. What begins to wait between two turns does so
 * after the pause, not before it. */
static inline uint64_t btl_ib_clock_awake(const btl_ib_clock_t *clock)
{
    return clock->now == clock->turned_at ? clock->awake : btl_ib_clock_awake_at(clock, clock->now);
}

/* us: stamps this far apart are not compared, because 32-bit stamps wrap, and none as old is
 * echoed. */
#define BTL_IB_STAMP_AGE (UINT64_C(1) << 30)

/* turn.poll_gap: it is unknown how long a datagram waited at this host. Its stamp is not echoed. */
#define BTL_IB_POLL_GAP_UNKNOWN UINT32_MAX

/* Returns when the stamp was written here that a datagram echoes now. So echoes are compared with
 * times of any age: a stamp itself tells the order only within half of its range, 35.8 minutes. */
static inline uint64_t btl_ib_clock_stamped_at(const btl_ib_clock_t *clock, uint32_t stamp)
{
    const uint32_t age = (uint32_t) clock->now - stamp;

    return age < clock->now ? clock->now - age : 0;
}

/* ---- timers of a connection ---- */

/* A timer of a connection: a guest of the engine's hotel, with its purpose. */

struct btl_ib_conn;

typedef enum btl_ib_timer_kind {
    BTL_IB_TIMER_LOSS, /* loss and silence; of a closing connection: the next CLOSE */
    BTL_IB_TIMER_IDLE, /* to free what an idle connection does not need */
    BTL_IB_TIMER_PACE, /* the next segments may leave */
} btl_ib_timer_kind_t;

typedef struct btl_ib_timer {
    btl_ib_hotel_guest_t guest;
    btl_ib_timer_kind_t kind;
    struct btl_ib_conn *conn;
} btl_ib_timer_t;

static inline void btl_ib_timer_init(btl_ib_timer_t *timer, btl_ib_timer_kind_t kind,
                                     struct btl_ib_conn *conn)
{
    btl_ib_hotel_guest_init(&timer->guest);
    timer->kind = kind;
    timer->conn = conn;
}

#endif
