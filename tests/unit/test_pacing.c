/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The pacer: how many segments may leave now, at 10 us each on average, in bursts of four. */

#include "btl_ib_pacing.h"
#include "unit.h"

enum {
    PACE = 10000, /* ns */
    BURST = 4,
    NOW = 1000000, /* us */
};

static btl_ib_cc_t cc;
static btl_ib_pacer_t pacer;
static btl_ib_hotel_t hotel;

static int set_up(void **state)
{
    cc = (btl_ib_cc_t){.pace = PACE, .burst = BURST};
    btl_ib_hotel_init(&hotel, NOW);
    pacer = (btl_ib_pacer_t){.at = 0};
    btl_ib_timer_init(&pacer.timer, BTL_IB_TIMER_PACE, NULL);
    return 0;
}

static uint32_t room(uint64_t now)
{
    return btl_ib_pacer_room(&pacer, &cc, now, false);
}

/* A burst leaves at once, then one segment for each pace; time that passed unused is no credit
 * beyond a burst. */
TEST_WITH(paced, set_up, NULL)
{
    assert_int_equal(room(NOW), BURST);
    btl_ib_pacer_spend(&pacer, &cc, NOW, 1);
    assert_int_equal(room(NOW), BURST - 1);
    btl_ib_pacer_spend(&pacer, &cc, NOW, BURST - 1);
    assert_int_equal(room(NOW), 0);
    assert_int_equal(room(NOW + 9), 0);
    assert_int_equal(room(NOW + 10), 1);
    assert_int_equal(room(NOW + 19), 1);
    assert_int_equal(room(NOW + 20), 2);
    assert_int_equal(room(NOW + 1000), BURST);
    btl_ib_pacer_spend(&pacer, &cc, NOW + 1000, BURST);
    assert_int_equal(room(NOW + 1009), 0);
    btl_ib_pacer_spend(&pacer, &cc, NOW + 1000, 2 * BURST); /* more than may: no wrap */
    assert_int_equal(room(NOW + 1000), 0);
    assert_int_equal(room(NOW + 1000 + 9 * 10), 1);
}

/* What could not leave is taken back. */
TEST_WITH(taken_back, set_up, NULL)
{
    btl_ib_pacer_spend(&pacer, &cc, NOW, BURST);
    btl_ib_pacer_take_back(&pacer, &cc);
    assert_int_equal(room(NOW), 1);
}

/* Without a pace all may leave, and what left is not owed when there is one. */
TEST_WITH(not_paced, set_up, NULL)
{
    cc.pace = 0;
    btl_ib_pacer_spend(&pacer, &cc, NOW, 1000);
    assert_int_equal(room(NOW), UINT32_MAX);
    cc.pace = PACE;
    assert_int_equal(room(NOW), BURST);
}

/* A process that was away sends all that the window allows, unless that is less than a segment. */
TEST_WITH(behind, set_up, NULL)
{
    btl_ib_pacer_spend(&pacer, &cc, NOW, BURST);
    assert_int_equal(btl_ib_pacer_room(&pacer, &cc, NOW, true), UINT32_MAX);
    cc.burst = 2;
    assert_int_equal(btl_ib_pacer_room(&pacer, &cc, NOW, true), UINT32_MAX);
    cc.burst = 1;
    assert_int_equal(btl_ib_pacer_room(&pacer, &cc, NOW, true), 0);
    assert_int_equal(btl_ib_pacer_room(&pacer, &cc, NOW + 40, true), 1);
}

/* The timer expires when a whole burst may leave, and not before. */
TEST_WITH(waits, set_up, NULL)
{
    btl_ib_pacer_spend(&pacer, &cc, NOW, BURST);
    btl_ib_pacer_wait(&pacer, &hotel);
    assert_true(btl_ib_hotel_guest_is_in(&pacer.timer.guest));
    assert_int_equal(room(pacer.timer.guest.due), BURST);
    assert_in_range(pacer.timer.guest.due, NOW + 40, NOW + 41);
    pacer.at = 0;
    cc.pace = 10300; /* between two microseconds */
    btl_ib_pacer_spend(&pacer, &cc, NOW, BURST);
    btl_ib_pacer_wait(&pacer, &hotel);
    assert_int_equal(room(pacer.timer.guest.due), BURST);
}

/* When the pace gets faster what waits leaves by it. */
TEST_WITH(forgiven, set_up, NULL)
{
    btl_ib_pacer_spend(&pacer, &cc, NOW, BURST);
    btl_ib_pacer_wait(&pacer, &hotel);
    cc.pace = PACE / 10;
    btl_ib_pacer_forgive(&pacer, &cc, &hotel, NOW);
    assert_in_range(pacer.timer.guest.due, NOW + 4, NOW + 5);
    assert_int_equal(room(NOW + 4), BURST);
    cc.pace = PACE; /* a slower one puts nothing off, */
    btl_ib_pacer_forgive(&pacer, &cc, &hotel, NOW);
    assert_in_range(pacer.timer.guest.due, NOW + 4, NOW + 5);
    const uint64_t at = pacer.at; /* nor does what is over change anything */
    cc.pace = 1;
    btl_ib_pacer_forgive(&pacer, &cc, &hotel, NOW + 5);
    assert_int_equal(pacer.at, at);
}

/* One that does not wait is given no timer. */
TEST_WITH(forgiven_without_timer, set_up, NULL)
{
    btl_ib_pacer_spend(&pacer, &cc, NOW, 100);
    cc.pace = PACE / 10;
    btl_ib_pacer_forgive(&pacer, &cc, &hotel, NOW);
    assert_false(btl_ib_hotel_guest_is_in(&pacer.timer.guest));
    assert_int_equal(room(NOW), 0);
    assert_int_equal(room(NOW + 1), 1);
}

UNIT_MAIN(NULL, NULL)
