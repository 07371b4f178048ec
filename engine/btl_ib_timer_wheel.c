/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_timer_wheel.h"

/*
 * A timer is on the level of the highest digit (base 64) in which its time differs from
 * `turned`, in the slot of its digit there. Hence all slots in use lie ahead of `turned` without
 * wrapping, and everything on a level is due before anything on the next. `turned` never passes the
 * beginning of a slot in use without emptying it: the timers move down, those of level 0 out.
 */

#define DIGIT_BITS 6u
#define DIGIT_MASK 63u

/* Put a timer that is on no list into the wheel; wheel->turned <= timer->due. */
static void place(btl_ib_timer_wheel_t *wheel, btl_ib_wheel_timer_t *timer)
{
    /* The lowest digit differs at least: that makes equal times level 0. */
    uint64_t differs = (wheel->turned ^ timer->due) | 1u;
    uint32_t level = (63u - (uint32_t) __builtin_clzll(differs)) / DIGIT_BITS;
    uint32_t slot = (uint32_t) (timer->due >> (level * DIGIT_BITS)) & DIGIT_MASK;

    assert(wheel->turned <= timer->due);
    timer->slot = level * BTL_IB_TIMER_WHEEL_SLOTS + slot;
    wheel->occupied[level] |= UINT64_C(1) << slot;
    wheel->levels |= 1u << level;
    btl_ib_list_push_tail(&wheel->slots[level][slot], &timer->link);
}

static void mark_empty(btl_ib_timer_wheel_t *wheel, uint32_t level, uint32_t slot)
{
    wheel->occupied[level] &= ~(UINT64_C(1) << slot);
    if (wheel->occupied[level] == 0) {
        wheel->levels &= ~(1u << level);
    }
}

/* The first slot in use. Returns false if there is none; else *begin is where it begins. */
static bool first_slot(const btl_ib_timer_wheel_t *wheel, uint32_t *level, uint32_t *slot,
                       uint64_t *begin)
{
    uint32_t shift;
    uint64_t above;

    if (wheel->levels == 0) {
        return false;
    }
    *level = (uint32_t) __builtin_ctz(wheel->levels);
    *slot = (uint32_t) __builtin_ctzll(wheel->occupied[*level]);
    shift = *level * DIGIT_BITS;
    /* The top level has no digits above it, and a shift by 66 bits is undefined. */
    above = *level + 1 < BTL_IB_TIMER_WHEEL_LEVELS ? ~UINT64_C(0) << (shift + DIGIT_BITS) : 0;
    *begin = (wheel->turned & above) | (uint64_t) *slot << shift;
    return true;
}

/* Bring the wheel to `now`: what is due by then goes to the end of `ready`, in order of time. */
static void turn_wheel(btl_ib_timer_wheel_t *wheel, uint64_t now)
{
    uint32_t level;
    uint32_t slot;
    uint64_t begin;

    while (first_slot(wheel, &level, &slot, &begin) && begin <= now) {
        btl_ib_list_t moving;
        btl_ib_list_t *link;

        wheel->turned = begin;
        mark_empty(wheel, level, slot);
        if (level == 0) {
            btl_ib_list_splice_tail(&wheel->ready, &wheel->slots[0][slot]);
            continue;
        }
        btl_ib_list_init(&moving);
        btl_ib_list_splice_tail(&moving, &wheel->slots[level][slot]);
        while ((link = btl_ib_list_pop(&moving)) != NULL) {
            place(wheel, BTL_IB_CONTAINER(link, btl_ib_wheel_timer_t, link));
        }
    }
    wheel->turned = now;
}

void btl_ib_timer_wheel_init(btl_ib_timer_wheel_t *wheel, uint64_t now)
{
    wheel->now = now;
    wheel->turned = now;
    wheel->next = UINT64_MAX;
    wheel->count = 0;
    wheel->levels = 0;
    btl_ib_list_init(&wheel->ready);
    btl_ib_list_init(&wheel->late);
    for (uint32_t level = 0; level < BTL_IB_TIMER_WHEEL_LEVELS; level++) {
        wheel->occupied[level] = 0;
        for (uint32_t slot = 0; slot < BTL_IB_TIMER_WHEEL_SLOTS; slot++) {
            btl_ib_list_init(&wheel->slots[level][slot]);
        }
    }
}

void btl_ib_timer_wheel_add(btl_ib_timer_wheel_t *wheel, btl_ib_wheel_timer_t *timer, uint64_t due)
{
    btl_ib_timer_wheel_remove(wheel, timer);
    timer->due = due;
    wheel->count++;
    if (due <= wheel->now) {
        btl_ib_list_push_tail(&wheel->late, &timer->link);
        wheel->next = 0;
        return;
    }
    place(wheel, timer);
    if (due < wheel->next) {
        wheel->next = due;
    }
}

void btl_ib_timer_wheel_remove(btl_ib_timer_wheel_t *wheel, btl_ib_wheel_timer_t *timer)
{
    uint32_t level = timer->slot / BTL_IB_TIMER_WHEEL_SLOTS;
    uint32_t slot = timer->slot % BTL_IB_TIMER_WHEEL_SLOTS;

    if (!btl_ib_wheel_timer_armed(timer)) {
        return;
    }
    btl_ib_list_remove(&timer->link);
    /* A timer in `ready` or `late` still names its last slot: if that is empty, it is marked so. */
    if (btl_ib_list_empty(&wheel->slots[level][slot])) {
        mark_empty(wheel, level, slot);
    }
    wheel->count--;
    /* Else `next` may now be too early: finding the true one here would cost each cancellation. */
    if (wheel->count == 0) {
        wheel->next = UINT64_MAX;
    }
}

void btl_ib_timer_wheel_turn(btl_ib_timer_wheel_t *wheel, uint64_t now)
{
    btl_ib_list_splice_tail(&wheel->ready, &wheel->late);
    if (now > wheel->now) {
        wheel->now = now;
    }
    turn_wheel(wheel, wheel->now);
}

btl_ib_wheel_timer_t *btl_ib_timer_wheel_pop(btl_ib_timer_wheel_t *wheel)
{
    btl_ib_list_t *link = btl_ib_list_pop(&wheel->ready);

    if (link == NULL) {
        return NULL;
    }
    wheel->count--;
    return BTL_IB_CONTAINER(link, btl_ib_wheel_timer_t, link);
}

void btl_ib_timer_wheel_end(btl_ib_timer_wheel_t *wheel)
{
    uint32_t level;
    uint32_t slot;

    if (!btl_ib_list_empty(&wheel->ready) || !btl_ib_list_empty(&wheel->late)) {
        wheel->next = 0;
    } else if (!first_slot(wheel, &level, &slot, &wheel->next)) {
        wheel->next = UINT64_MAX;
    }
}
