/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The hotel: timers. A guest checks in with its due time, and checks out if what it waited for came
 * first; else it is evicted. A hierarchical timing wheel (G. Varghese and A. Lauck, "Hashed and
 * Hierarchical Timing Wheels", SOSP 1987, scheme 7). Slots of the lowest level are one microsecond.
 * Each level has a bitmap of its slots, so the cost of a jump of the clock depends on the guests,
 * not on the time that passed.
 *
 * Guests are embedded in what they time; nothing is allocated. All times are microseconds of one
 * monotonic clock. Timers are exact: a guest is evicted neither early, nor later than the first
 * evict call (with budget) after its due time.
 */

#ifndef BTL_IB_HOTEL_H
#define BTL_IB_HOTEL_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"

/* Eleven levels of six bits hold every 64-bit time: there is no longest timer. */
#define BTL_IB_HOTEL_LEVELS 11
#define BTL_IB_HOTEL_SLOTS  64

typedef struct btl_ib_guest {
    btl_ib_list_t link;
    uint64_t due;  /* us; valid while it stays and after its eviction */
    uint32_t room; /* slot it was put in; private to the hotel */
} btl_ib_guest_t;

/* About 11 KiB. Must not be moved while it has guests. All members are private. */
typedef struct btl_ib_hotel {
    uint64_t now;        /* the latest time heard of */
    uint64_t turned;     /* position of the wheel: all before it is in `ready` or gone */
    uint64_t next;       /* nothing is due before; 0: `ready` or `late` may have guests */
    uint64_t guests;     /* number of guests */
    uint32_t levels;     /* a bit for each level that has guests */
    btl_ib_list_t ready; /* due, in order of time, waiting for budget */
    btl_ib_list_t late;  /* were due when they checked in: for the next evict call */
    uint64_t occupied[BTL_IB_HOTEL_LEVELS];
    btl_ib_list_t slots[BTL_IB_HOTEL_LEVELS][BTL_IB_HOTEL_SLOTS];
} btl_ib_hotel_t;

void btl_ib_hotel_init(btl_ib_hotel_t *hotel, uint64_t now);

/* Must be called once, before anything else is done with a guest. */
static inline void btl_ib_guest_init(btl_ib_guest_t *guest)
{
    btl_ib_list_init(&guest->link);
    guest->due = 0;
    guest->room = 0;
}

/* Is the guest checked in? (One that was evicted is not.) */
static inline bool btl_ib_hotel_staying(const btl_ib_guest_t *guest)
{
    return !btl_ib_list_empty(&guest->link);
}

/* Check in; a guest that is checked in is moved. `due` may be in the past: then it is evicted
 * with the next evictions that begin. */
void btl_ib_hotel_check_in(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest, uint64_t due);

/* Check out. Does nothing if the guest is not checked in. */
void btl_ib_hotel_check_out(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest);

/* The part of btl_ib_hotel_begin_evictions() that has something to do. */
void btl_ib_hotel_begin_due(btl_ib_hotel_t *hotel, uint64_t now);

/*
 * Evictions: begin, take due guests one by one (the earliest first), end. A guest that is taken has
 * checked out. Its taker may check any guest in or out, free what it is embedded in, and begin
 * evictions again meanwhile. A guest that checks in again with a time that has passed waits for the
 * next beginning; so do guests not taken. A `now` below an earlier one counts as that earlier one.
 * If nothing is due begin() returns false, and there is nothing to take nor to end.
 */
static inline bool btl_ib_hotel_begin_evictions(btl_ib_hotel_t *hotel, uint64_t now)
{
    if (now >= hotel->next) {
        btl_ib_hotel_begin_due(hotel, now);
        return true;
    }
    /* The wheel is not turned before a guest is due. */
    if (now > hotel->now) {
        hotel->now = now;
    }
    return false;
}

/* The next due guest, or NULL. */
btl_ib_guest_t *btl_ib_hotel_evict(btl_ib_hotel_t *hotel);

void btl_ib_hotel_end_evictions(btl_ib_hotel_t *hotel);

/*
 * When to begin evictions: never later than the first guest is due, perhaps earlier (then that call
 * updates this time). 0 if a guest may be due already, UINT64_MAX if there are no guests.
 */
static inline uint64_t btl_ib_hotel_next_due(const btl_ib_hotel_t *hotel)
{
    return hotel->next;
}

/* Number of guests. */
static inline uint64_t btl_ib_hotel_guests(const btl_ib_hotel_t *hotel)
{
    return hotel->guests;
}

#endif
