/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_hotel.h"

/*
 * Invariant: a guest is on the floor of the highest digit (base 64) in which its due time differs
 * from `turned`, in the room of its digit there. Hence all occupied rooms lie ahead of `turned`
 * without wrapping, and all of a floor are due before all of the next. `turned` never
 * passes the beginning of an occupied room without emptying it: its guests move down, those of
 * floor 0 to `leaving`.
 */

#define DIGIT_BITS 6u
#define DIGIT_MASK 63u

/* Gives a room to a guest that is on no list; hotel->turned <= guest->due. */
static void give_room(btl_ib_hotel_t *hotel, btl_ib_hotel_guest_t *guest)
{
    /* The lowest digit differs at least: that makes equal times floor 0. */
    uint64_t differs = (hotel->turned ^ guest->due) | 1u;
    uint32_t floor = (63u - (uint32_t) __builtin_clzll(differs)) / DIGIT_BITS;
    uint32_t room = (uint32_t) (guest->due >> (floor * DIGIT_BITS)) & DIGIT_MASK;

    assert(hotel->turned <= guest->due);
    guest->room = floor * BTL_IB_HOTEL_ROOMS + room;
    hotel->occupied[floor] |= UINT64_C(1) << room;
    hotel->floors |= 1u << floor;
    btl_ib_list_push_tail(&hotel->rooms[floor][room], &guest->link);
}

static void mark_empty(btl_ib_hotel_t *hotel, uint32_t floor, uint32_t room)
{
    hotel->occupied[floor] &= ~(UINT64_C(1) << room);
    if (hotel->occupied[floor] == 0) {
        hotel->floors &= ~(1u << floor);
    }
}

/* Finds the occupied room that is due first, and where its time begins. False if there is none. */
static bool first_room(const btl_ib_hotel_t *hotel, uint32_t *floor, uint32_t *room,
                       uint64_t *begin)
{
    uint32_t shift;
    uint64_t above;

    if (hotel->floors == 0) {
        return false;
    }
    *floor = (uint32_t) __builtin_ctz(hotel->floors);
    *room = (uint32_t) __builtin_ctzll(hotel->occupied[*floor]);
    shift = *floor * DIGIT_BITS;
    /* The top floor has no digits above it, and a shift by 66 bits is undefined. */
    above = *floor + 1 < BTL_IB_HOTEL_FLOORS ? ~UINT64_C(0) << (shift + DIGIT_BITS) : 0;
    *begin = (hotel->turned & above) | (uint64_t) *room << shift;
    return true;
}

void btl_ib_hotel_init(btl_ib_hotel_t *hotel, uint64_t now)
{
    hotel->now = now;
    hotel->turned = now;
    hotel->next = UINT64_MAX;
    hotel->count = 0;
    hotel->floors = 0;
    btl_ib_list_init(&hotel->leaving);
    btl_ib_list_init(&hotel->late);
    for (uint32_t floor = 0; floor < BTL_IB_HOTEL_FLOORS; floor++) {
        hotel->occupied[floor] = 0;
        for (uint32_t room = 0; room < BTL_IB_HOTEL_ROOMS; room++) {
            btl_ib_list_init(&hotel->rooms[floor][room]);
        }
    }
}

void btl_ib_hotel_checkin(btl_ib_hotel_t *hotel, btl_ib_hotel_guest_t *guest, uint64_t due)
{
    btl_ib_hotel_checkout(hotel, guest);
    guest->due = due;
    hotel->count++;
    if (due <= hotel->now) {
        btl_ib_list_push_tail(&hotel->late, &guest->link);
        hotel->next = 0;
        return;
    }
    give_room(hotel, guest);
    if (due < hotel->next) {
        hotel->next = due;
    }
}

void btl_ib_hotel_checkout(btl_ib_hotel_t *hotel, btl_ib_hotel_guest_t *guest)
{
    uint32_t floor = guest->room / BTL_IB_HOTEL_ROOMS;
    uint32_t room = guest->room % BTL_IB_HOTEL_ROOMS;

    if (!btl_ib_hotel_guest_is_in(guest)) {
        return;
    }
    btl_ib_list_remove(&guest->link);
    /* Marks the last room of the guest if it is empty; a guest in `leaving` still names it. */
    if (btl_ib_list_empty(&hotel->rooms[floor][room])) {
        mark_empty(hotel, floor, room);
    }
    hotel->count--;
    /* Else `next` may now be too early: finding the true one here would cost each checkout. */
    if (hotel->count == 0) {
        hotel->next = UINT64_MAX;
    }
}

void btl_ib_hotel_advance(btl_ib_hotel_t *hotel, uint64_t now)
{
    uint32_t floor;
    uint32_t room;
    uint64_t begin;

    btl_ib_list_splice_tail(&hotel->leaving, &hotel->late);
    if (now > hotel->now) {
        hotel->now = now;
    }
    while (first_room(hotel, &floor, &room, &begin) && begin <= hotel->now) {
        btl_ib_list_t moving;
        btl_ib_list_t *link;

        hotel->turned = begin;
        mark_empty(hotel, floor, room);
        if (floor == 0) {
            btl_ib_list_splice_tail(&hotel->leaving, &hotel->rooms[0][room]);
            continue;
        }
        btl_ib_list_init(&moving);
        btl_ib_list_splice_tail(&moving, &hotel->rooms[floor][room]);
        while ((link = btl_ib_list_pop(&moving)) != NULL) {
            give_room(hotel, BTL_IB_CONTAINER(link, btl_ib_hotel_guest_t, link));
        }
    }
    hotel->turned = hotel->now;
}

btl_ib_hotel_guest_t *btl_ib_hotel_evict(btl_ib_hotel_t *hotel)
{
    btl_ib_list_t *link = btl_ib_list_pop(&hotel->leaving);

    if (link == NULL) {
        return NULL;
    }
    hotel->count--;
    return BTL_IB_CONTAINER(link, btl_ib_hotel_guest_t, link);
}

void btl_ib_hotel_evictions_end(btl_ib_hotel_t *hotel)
{
    uint32_t floor;
    uint32_t room;

    if (!btl_ib_list_empty(&hotel->leaving) || !btl_ib_list_empty(&hotel->late)) {
        hotel->next = 0;
    } else if (!first_room(hotel, &floor, &room, &hotel->next)) {
        hotel->next = UINT64_MAX;
    }
}
