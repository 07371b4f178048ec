/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The hotel of retransmit timers, as usnic calls it: a guest checks in until a due time, checks out
 * when what it waits for has happened, and is evicted if that time comes first.
 *
 * It is a hierarchical timing wheel (G. Varghese and A. Lauck, "Hashed and Hierarchical Timing
 * Wheels", SOSP 1987, scheme 7), because opal_hotel arms one timer of libevent for each room. Rooms
 * of the lowest floor are one microsecond. Each floor has a bitmap of its occupied rooms, so the
 * cost of a jump of the clock depends on the guests, not on the time that passed. A room holds any
 * number of guests; checking in and checking out take constant time.
 *
 * Guests are embedded in what they time; nothing is allocated. All times are microseconds of one
 * monotonic clock. A guest is evicted neither before its due time, nor later than by the first
 * btl_ib_hotel_evictions_begin() (and enough calls of btl_ib_hotel_evict()) after it.
 *
 * The engine links this file, which knows neither the engine's state nor Open MPI.
 */

#ifndef BTL_IB_HOTEL_H
#define BTL_IB_HOTEL_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"

/* Eleven floors of six bits hold every 64-bit time: there is no longest stay. */
#define BTL_IB_HOTEL_FLOORS 11
#define BTL_IB_HOTEL_ROOMS  64

typedef struct btl_ib_hotel_guest {
    btl_ib_list_t link;
    uint64_t due;  /* us; valid from checking in, also after the eviction */
    uint32_t room; /* floor * BTL_IB_HOTEL_ROOMS + room of that floor; private */
} btl_ib_hotel_guest_t;

/* About 11 KiB. Must not be moved while it has guests. All members are private. */
typedef struct btl_ib_hotel {
    uint64_t now;    /* us: the latest time that a caller passed */
    uint64_t turned; /* us: position of the wheel: guests due before it are in `leaving` or gone */
    uint64_t next;   /* us: no guest is due before; 0: `leaving` or `late` may hold guests */
    uint64_t count;  /* guests that are in */
    uint32_t floors; /* a bit for each floor with guests */
    btl_ib_list_t leaving; /* guests that are due, by time, for btl_ib_hotel_evict() */
    btl_ib_list_t late;    /* guests that were due when they checked in, for the next evictions */
    uint64_t occupied[BTL_IB_HOTEL_FLOORS]; /* a bit for each room with guests */
    btl_ib_list_t rooms[BTL_IB_HOTEL_FLOORS][BTL_IB_HOTEL_ROOMS];
} btl_ib_hotel_t;

void btl_ib_hotel_init(btl_ib_hotel_t *hotel, uint64_t now);

/* Prepares a guest; to be called once, before anything else is done with it. */
static inline void btl_ib_hotel_guest_init(btl_ib_hotel_guest_t *guest)
{
    btl_ib_list_init(&guest->link);
    guest->due = 0;
    guest->room = 0;
}

/* True from checking in until checking out or the eviction. */
static inline bool btl_ib_hotel_guest_is_in(const btl_ib_hotel_guest_t *guest)
{
    return !btl_ib_list_empty(&guest->link);
}

/* Checks a guest in until `due`; one that is in moves. `due` may be in the past: then the guest is
 * evicted by the next btl_ib_hotel_evictions_begin(). */
void btl_ib_hotel_checkin(btl_ib_hotel_t *hotel, btl_ib_hotel_guest_t *guest, uint64_t due);

/* Checks a guest out. Does nothing if it is not in. */
void btl_ib_hotel_checkout(btl_ib_hotel_t *hotel, btl_ib_hotel_guest_t *guest);

/* Advances the hotel's time; for btl_ib_hotel_evictions_begin() only. */
void btl_ib_hotel_advance(btl_ib_hotel_t *hotel, uint64_t now);

/*
 * Begins evictions, and returns true, if a guest may be due: then the caller evicts guests one by
 * one, the earliest first, and calls btl_ib_hotel_evictions_end(). Meanwhile the caller may check
 * any guest in and out, free what a guest is embedded in, and begin again. A guest that checks in
 * with a time that has passed waits for the next beginning; so do guests that were due and not
 * evicted. A `now` below an earlier one counts as that earlier one. Returns false if no guest is
 * due: then btl_ib_hotel_evictions_end() must not be called.
 */
static inline bool btl_ib_hotel_evictions_begin(btl_ib_hotel_t *hotel, uint64_t now)
{
    if (now >= hotel->next) {
        btl_ib_hotel_advance(hotel, now);
        return true;
    }
    /* The wheel is not turned before a guest is due. */
    if (now > hotel->now) {
        hotel->now = now;
    }
    return false;
}

/* Evicts and returns the next due guest, which is then no longer in. NULL: no guest is due any
 * more. */
btl_ib_hotel_guest_t *btl_ib_hotel_evict(btl_ib_hotel_t *hotel);

/* Ends evictions: corrects the time of the next ones. */
void btl_ib_hotel_evictions_end(btl_ib_hotel_t *hotel);

/*
 * Returns when to begin evictions, us: never later than the first guest is due, perhaps earlier
 * (then the next evictions correct it). 0 if a guest may be due already, UINT64_MAX if there are no
 * guests.
 */
static inline uint64_t btl_ib_hotel_next_due(const btl_ib_hotel_t *hotel)
{
    return hotel->next;
}

/* Returns how many guests are in. */
static inline uint64_t btl_ib_hotel_guests(const btl_ib_hotel_t *hotel)
{
    return hotel->count;
}

#endif
