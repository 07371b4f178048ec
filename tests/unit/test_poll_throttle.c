/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_poll_throttle.h"
#include "unit.h"

static btl_ib_poll_throttle_t throttle;
static uint64_t ns; /* the clock */

static uint64_t now(void)
{
    return ns / 1000;
}

static int setup(void **state)
{
    ns = 5000000;
    btl_ib_poll_throttle_init(&throttle);
    throttle.alone = false;
    return 0;
}

/* One progress call, `took` ns after the last one. Returns whether it polled. */
static bool call(uint64_t took, bool came, bool busy)
{
    ns += took;
    if (btl_ib_poll_throttle_skip(&throttle) || !btl_ib_poll_throttle_count(&throttle, now())) {
        return false;
    }
    btl_ib_poll_throttle_polled(&throttle, now(), came, busy);
    return true;
}

/* How many of `count` calls poll, each `took` ns after the last. */
static uint32_t polls(uint32_t count, uint64_t took, bool busy)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        sum += call(took, false, busy);
    }
    return sum;
}

/* Something comes with the next poll. */
static void come(void)
{
    while (!call(10, true, false)) {
    }
}

TEST_WITH(test_alone_each_call_polls, setup, NULL)
{
    throttle.alone = true;
    assert_int_equal(polls(5000, 10, false), 5000);
    assert_int_equal(polls(5000, 10, true), 5000);
}

TEST_WITH(test_polls_grow_rare, setup, NULL)
{
    come();
    /* 1, 2, 4... 128 calls apart at first */
    assert_int_equal(polls(255, 10, false), 8);
    assert_int_equal(polls(1280, 10, false), 10);
    (void) polls(1000000 / 10, 10, false); /* the rest of the millisecond */
    (void) polls(1024, 10, false);
    assert_int_equal(polls(5120, 10, false), 10);
}

TEST_WITH(test_busy_polls_are_frequent, setup, NULL)
{
    (void) polls(200000, 10, false);
    btl_ib_poll_throttle_reset(&throttle);
    assert_true(call(10, false, true));
    (void) polls(100, 10, true);
    assert_int_equal(polls(1600, 10, true), 100);
    /* An arrival is followed by a poll at once. */
    come();
    assert_true(call(10, true, true));
    assert_true(call(10, false, true));
}

/* Calls that are far apart poll each time, after 32 calls at most. */
TEST_WITH(test_rare_calls_poll_each_time, setup, NULL)
{
    (void) polls(200000, 10, false);
    (void) polls(2 * BTL_IB_POLL_CLOCK, 20000, false);
    assert_int_equal(polls(100, 20000, false), 100);
}

/* Calls of 100 ns each: 512 of them would be 51 us. */
TEST_WITH(test_period, setup, NULL)
{
    uint64_t last;
    uint64_t longest = 0;

    (void) polls(200000, 100, false);
    last = ns;
    for (uint32_t i = 0; i < 100000; i++) {
        if (call(100, false, false)) {
            longest = ns - last > longest ? ns - last : longest;
            last = ns;
        }
    }
    assert_in_range(longest, 8000, 1000 * BTL_IB_POLL_PERIOD + 1000 + 100 * BTL_IB_POLL_CLOCK);
}

UNIT_MAIN(NULL, NULL)
