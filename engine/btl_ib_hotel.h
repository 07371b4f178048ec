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

/* Called with a guest that has checked out already. It may check any guest in or out, this one
 * included, free what this one is embedded in, and call btl_ib_hotel_evict(). */
typedef void (*btl_ib_hotel_evicted_fn_t)(void *context, btl_ib_guest_t *guest);

void btl_ib_hotel_init(btl_ib_hotel_t *hotel, uint64_t now);

/* Once, before anything else is done with a guest. */
static inline void btl_ib_guest_init(btl_ib_guest_t *guest)
{
    btl_ib_list_init(&guest->link);
    guest->due = 0;
    guest->room = 0;
}

/* Is the guest checked in? (From the callback's point of view an evicted guest is not.) */
static inline bool btl_ib_hotel_staying(const btl_ib_guest_t *guest)
{
    return !btl_ib_list_empty(&guest->link);
}

/* Check in, or move if it stays already. A `due` in the past is right: the next evict call (not the
 * one that may be running) throws it out. */
void btl_ib_hotel_check_in(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest, uint64_t due);

/* Check out. Harmless if the guest does not stay. */
void btl_ib_hotel_check_out(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest);

/* The part of btl_ib_hotel_evict() that has something to do. */
uint32_t btl_ib_hotel_evict_due(btl_ib_hotel_t *hotel, uint64_t now, uint32_t budget,
                                btl_ib_hotel_evicted_fn_t evicted, void *context);

/*
 * Throw out at most `budget` guests whose time has come, the earliest first; what the budget leaves
 * over comes first the next time. A guest that checks in again from the callback with a time that
 * has passed waits for the next call. A `now` below an earlier one is taken as that earlier one.
 * Returns how many were thrown out.
 */
static inline uint32_t btl_ib_hotel_evict(btl_ib_hotel_t *hotel, uint64_t now, uint32_t budget,
                                          btl_ib_hotel_evicted_fn_t evicted, void *context)
{
    if (now >= hotel->next) {
        return btl_ib_hotel_evict_due(hotel, now, budget, evicted, context);
    }
    /* The wheel stays where it is: it is turned when somebody is due. */
    if (now > hotel->now) {
        hotel->now = now;
    }
    return 0;
}

/*
 * When to call evict: never later than the first guest is due, perhaps earlier (and then that call
 * brings this time forward). 0 if somebody may be due already, UINT64_MAX if nobody stays.
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
