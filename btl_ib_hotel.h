/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The hotel of timers: a guest checks in with the time at which it is to be thrown out, and checks
 * out if what it waited for came first. A hierarchical timing wheel (G. Varghese and A. Lauck,
 * "Hashed and Hierarchical Timing Wheels", SOSP 1987, scheme 7) whose lowest level has slots of one
 * microsecond, with a bitmap for each level, so that a jump of the clock costs by the guests and
 * not by the time that passed.
 *
 * Guests are embedded in what they time; nothing is allocated. All times are microseconds of one
 * monotonic clock. Timers are exact: nobody is thrown out early, nor later than the first evict
 * call (with budget) after its time.
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
    uint32_t room; /* where it was put; the hotel's business */
} btl_ib_guest_t;

/* About 11 KiB. Must not be moved while it has guests. All of it is the hotel's business. */
typedef struct btl_ib_hotel {
    uint64_t now;        /* the latest time heard of */
    uint64_t turned;     /* where the wheel stands: up to here everything is in `ready` or gone */
    uint64_t next;       /* nothing is due before; 0: something may be in `ready` or `late` */
    uint64_t guests;     /* how many stay */
    uint32_t levels;     /* a bit for each level that has guests */
    btl_ib_list_t ready; /* due, in order of time, waiting for budget */
    btl_ib_list_t late;  /* were due when they checked in: for the next evict call */
    uint64_t occupied[BTL_IB_HOTEL_LEVELS];
    btl_ib_list_t slots[BTL_IB_HOTEL_LEVELS][BTL_IB_HOTEL_SLOTS];
} btl_ib_hotel_t;

void btl_ib_hotel_init(btl_ib_hotel_t *hotel, uint64_t now);

/* Once, before anything else is done with a guest. */
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

/* Check in, or move if it stays already. A `due` in the past is right: it goes with the next
 * evictions that begin. */
void btl_ib_hotel_check_in(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest, uint64_t due);

/* Check out. Harmless if the guest does not stay. */
void btl_ib_hotel_check_out(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest);

/* The part of btl_ib_hotel_begin_evictions() that has something to do. */
void btl_ib_hotel_begin_due(btl_ib_hotel_t *hotel, uint64_t now);

/*
 * Evictions: begin, take guests whose time has come one by one (the earliest first) as long as you
 * like, end. A guest that is taken has checked out already; whoever takes it may check any guest in
 * or out, free what it is embedded in, and begin evictions anew meanwhile. One that checks in again
 * with a time that has passed waits for the next beginning; so does what was not taken. A `now`
 * below an earlier one is taken as that earlier one. If nobody is due begin() returns false, and
 * there is nothing to take nor to end.
 */
static inline bool btl_ib_hotel_begin_evictions(btl_ib_hotel_t *hotel, uint64_t now)
{
    if (now >= hotel->next) {
        btl_ib_hotel_begin_due(hotel, now);
        return true;
    }
    /* The wheel stays where it is: it is turned when somebody is due. */
    if (now > hotel->now) {
        hotel->now = now;
    }
    return false;
}

/* The next guest whose time has come, or NULL. */
btl_ib_guest_t *btl_ib_hotel_evict(btl_ib_hotel_t *hotel);

void btl_ib_hotel_end_evictions(btl_ib_hotel_t *hotel);

/*
 * When to begin evictions: never later than the first guest is due, perhaps earlier (and then that
 * call brings this time forward). 0 if somebody may be due already, UINT64_MAX if nobody stays.
 */
static inline uint64_t btl_ib_hotel_next_due(const btl_ib_hotel_t *hotel)
{
    return hotel->next;
}

/* How many stay. */
static inline uint64_t btl_ib_hotel_guests(const btl_ib_hotel_t *hotel)
{
    return hotel->guests;
}

#endif
