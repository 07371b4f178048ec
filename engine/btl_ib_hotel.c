/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_hotel.h"

/*
 * A guest lives on the level of the highest digit (base 64) in which its time differs from
 * `turned`, in the slot of its digit there. Hence all slots in use lie ahead of `turned` without
 * wrapping, and everything on a level is due before anything on the next. `turned` never passes the
 * beginning of a slot in use without emptying it: the guests move down, those of level 0 out.
 */

#define DIGIT_BITS 6u
#define DIGIT_MASK 63u

/* Put a guest that is on no list into the wheel; hotel->turned <= guest->due. */
static void place(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest)
{
    /* The lowest digit differs at least: that makes equal times level 0. */
    uint64_t differs = (hotel->turned ^ guest->due) | 1u;
    uint32_t level = (63u - (uint32_t) __builtin_clzll(differs)) / DIGIT_BITS;
    uint32_t slot = (uint32_t) (guest->due >> (level * DIGIT_BITS)) & DIGIT_MASK;

    assert(hotel->turned <= guest->due);
    guest->room = level * BTL_IB_HOTEL_SLOTS + slot;
    hotel->occupied[level] |= UINT64_C(1) << slot;
    hotel->levels |= 1u << level;
    btl_ib_list_push_tail(&hotel->slots[level][slot], &guest->link);
}

static void mark_empty(btl_ib_hotel_t *hotel, uint32_t level, uint32_t slot)
{
    hotel->occupied[level] &= ~(UINT64_C(1) << slot);
    if (hotel->occupied[level] == 0) {
        hotel->levels &= ~(1u << level);
    }
}

/* The first slot in use. Returns false if there is none; else *begin is where it begins. */
static bool first_slot(const btl_ib_hotel_t *hotel, uint32_t *level, uint32_t *slot,
                       uint64_t *begin)
{
    uint32_t shift;
    uint64_t above;

    if (hotel->levels == 0) {
        return false;
    }
    *level = (uint32_t) __builtin_ctz(hotel->levels);
    *slot = (uint32_t) __builtin_ctzll(hotel->occupied[*level]);
    shift = *level * DIGIT_BITS;
    /* The top level has no digits above it, and a shift by 66 bits is undefined. */
    above = *level + 1 < BTL_IB_HOTEL_LEVELS ? ~UINT64_C(0) << (shift + DIGIT_BITS) : 0;
    *begin = (hotel->turned & above) | (uint64_t) *slot << shift;
    return true;
}

/* Bring the wheel to `now`: what is due by then goes to the end of `ready`, in order of time. */
static void turn(btl_ib_hotel_t *hotel, uint64_t now)
{
    uint32_t level;
    uint32_t slot;
    uint64_t begin;

    while (first_slot(hotel, &level, &slot, &begin) && begin <= now) {
        btl_ib_list_t moving;
        btl_ib_list_t *link;

        hotel->turned = begin;
        mark_empty(hotel, level, slot);
        if (level == 0) {
            btl_ib_list_splice_tail(&hotel->ready, &hotel->slots[0][slot]);
            continue;
        }
        btl_ib_list_init(&moving);
        btl_ib_list_splice_tail(&moving, &hotel->slots[level][slot]);
        while ((link = btl_ib_list_pop(&moving)) != NULL) {
            place(hotel, BTL_IB_CONTAINER(link, btl_ib_guest_t, link));
        }
    }
    hotel->turned = now;
}

void btl_ib_hotel_init(btl_ib_hotel_t *hotel, uint64_t now)
{
    hotel->now = now;
    hotel->turned = now;
    hotel->next = UINT64_MAX;
    hotel->guests = 0;
    hotel->levels = 0;
    btl_ib_list_init(&hotel->ready);
    btl_ib_list_init(&hotel->late);
    for (uint32_t level = 0; level < BTL_IB_HOTEL_LEVELS; level++) {
        hotel->occupied[level] = 0;
        for (uint32_t slot = 0; slot < BTL_IB_HOTEL_SLOTS; slot++) {
            btl_ib_list_init(&hotel->slots[level][slot]);
        }
    }
}

void btl_ib_hotel_check_in(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest, uint64_t due)
{
    btl_ib_hotel_check_out(hotel, guest);
    guest->due = due;
    hotel->guests++;
    if (due <= hotel->now) {
        btl_ib_list_push_tail(&hotel->late, &guest->link);
        hotel->next = 0;
        return;
    }
    place(hotel, guest);
    if (due < hotel->next) {
        hotel->next = due;
    }
}

void btl_ib_hotel_check_out(btl_ib_hotel_t *hotel, btl_ib_guest_t *guest)
{
    uint32_t level = guest->room / BTL_IB_HOTEL_SLOTS;
    uint32_t slot = guest->room % BTL_IB_HOTEL_SLOTS;

    if (!btl_ib_hotel_staying(guest)) {
        return;
    }
    btl_ib_list_remove(&guest->link);
    /* A guest in `ready` or `late` still names its last slot: if that is empty, it is marked so. */
    if (btl_ib_list_empty(&hotel->slots[level][slot])) {
        mark_empty(hotel, level, slot);
    }
    hotel->guests--;
    /* Else `next` may now be too early: finding the true one here would cost every check-out. */
    if (hotel->guests == 0) {
        hotel->next = UINT64_MAX;
    }
}

void btl_ib_hotel_begin_due(btl_ib_hotel_t *hotel, uint64_t now)
{
    btl_ib_list_splice_tail(&hotel->ready, &hotel->late);
    if (now > hotel->now) {
        hotel->now = now;
    }
    turn(hotel, hotel->now);
}

btl_ib_guest_t *btl_ib_hotel_evict(btl_ib_hotel_t *hotel)
{
    btl_ib_list_t *link = btl_ib_list_pop(&hotel->ready);

    if (link == NULL) {
        return NULL;
    }
    hotel->guests--;
    return BTL_IB_CONTAINER(link, btl_ib_guest_t, link);
}

void btl_ib_hotel_end_evictions(btl_ib_hotel_t *hotel)
{
    uint32_t level;
    uint32_t slot;

    if (!btl_ib_list_empty(&hotel->ready) || !btl_ib_list_empty(&hotel->late)) {
        hotel->next = 0;
    } else if (!first_slot(hotel, &level, &slot, &hotel->next)) {
        hotel->next = UINT64_MAX;
    }
}
