/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A hierarchical timing wheel (G. Varghese and A. Lauck, "Hashed and Hierarchical Timing Wheels",
 * SOSP 1987, scheme 7); usnic calls its own a hotel. Slots of the lowest level
 * are one microsecond. Each level has a bitmap of its slots, so the cost of a jump of the clock
 * depends on the timers that are armed, not on the time that passed.
 *
 * Timers are embedded in what they time; nothing is allocated. All times are microseconds of one
 * monotonic clock. Timers are exact: one expires neither early, nor later than with the first
 * btl_ib_timer_wheel_begin() (and enough calls of _pop()) after its due time.
 */

#ifndef BTL_IB_TIMER_WHEEL_H
#define BTL_IB_TIMER_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"

/* Eleven levels of six bits hold every 64-bit time: there is no longest timer. */
#define BTL_IB_TIMER_WHEEL_LEVELS 11
#define BTL_IB_TIMER_WHEEL_SLOTS  64

typedef struct btl_ib_wheel_timer {
    btl_ib_list_t link;
    uint64_t due;  /* us; valid while it is armed and after it expired */
    uint32_t slot; /* place in the wheel; private */
} btl_ib_wheel_timer_t;

/* About 11 KiB. Must not be moved while timers are armed. All members are private. */
typedef struct btl_ib_timer_wheel {
    uint64_t now;        /* the latest time heard of */
    uint64_t turned;     /* position of the wheel: all before it is in `ready` or gone */
    uint64_t next;       /* nothing is due before; 0: `ready` or `late` may have some */
    uint64_t count;      /* timers that are armed */
    uint32_t levels;     /* a bit for each level in use */
    btl_ib_list_t ready; /* due, in order of time, waiting for budget */
    btl_ib_list_t late;  /* were due when they were armed: for the next turn */
    uint64_t occupied[BTL_IB_TIMER_WHEEL_LEVELS];
    btl_ib_list_t slots[BTL_IB_TIMER_WHEEL_LEVELS][BTL_IB_TIMER_WHEEL_SLOTS];
} btl_ib_timer_wheel_t;

void btl_ib_timer_wheel_init(btl_ib_timer_wheel_t *wheel, uint64_t now);

/* Once, before anything else is done with a timer. */
static inline void btl_ib_wheel_timer_init(btl_ib_wheel_timer_t *timer)
{
    btl_ib_list_init(&timer->link);
    timer->due = 0;
    timer->slot = 0;
}

/* Does it run? (One that expired does not.) */
static inline bool btl_ib_wheel_timer_armed(const btl_ib_wheel_timer_t *timer)
{
    return !btl_ib_list_empty(&timer->link);
}

/* Arm a timer; one that is armed is moved. `due` may be in the past: then it expires with the next
 * btl_ib_timer_wheel_begin(). */
void btl_ib_timer_wheel_add(btl_ib_timer_wheel_t *wheel, btl_ib_wheel_timer_t *timer, uint64_t due);

/* Cancel it. Does nothing if it is not armed. */
void btl_ib_timer_wheel_remove(btl_ib_timer_wheel_t *wheel, btl_ib_wheel_timer_t *timer);

/* The part of btl_ib_timer_wheel_begin() that has something to do. */
void btl_ib_timer_wheel_turn(btl_ib_timer_wheel_t *wheel, uint64_t now);

/*
 * Expiry: begin, take due timers one by one (the earliest first), end. A timer that is taken is
 * armed no more. Its taker may arm and cancel any timer, free what it is embedded in, and begin
 * again meanwhile. A timer that is armed again with a time that has passed waits for the next
 * beginning; so do timers not taken. A `now` below an earlier one counts as that earlier one.
 * If nothing is due begin() returns false, and there is nothing to take nor to end.
 */
static inline bool btl_ib_timer_wheel_begin(btl_ib_timer_wheel_t *wheel, uint64_t now)
{
    if (now >= wheel->next) {
        btl_ib_timer_wheel_turn(wheel, now);
        return true;
    }
    /* The wheel is not turned before a timer is due. */
    if (now > wheel->now) {
        wheel->now = now;
    }
    return false;
}

/* The next due timer, or NULL. */
btl_ib_wheel_timer_t *btl_ib_timer_wheel_pop(btl_ib_timer_wheel_t *wheel);

void btl_ib_timer_wheel_end(btl_ib_timer_wheel_t *wheel);

/*
 * When to begin: never later than the first timer is due, perhaps earlier (then that call updates
 * this time). 0 if one may be due already, UINT64_MAX if none is armed.
 */
static inline uint64_t btl_ib_timer_wheel_next_due(const btl_ib_timer_wheel_t *wheel)
{
    return wheel->next;
}

/* Timers that are armed. */
static inline uint64_t btl_ib_timer_wheel_count(const btl_ib_timer_wheel_t *wheel)
{
    return wheel->count;
}

#endif
