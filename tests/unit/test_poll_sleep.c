/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_poll_throttle.h"
#include "unit.h"

enum { POLL = 1 }; /* us that a call takes in which nothing came */

static btl_ib_poll_sleep_t idle;
static uint64_t now, cpu; /* us, ns */

static int setup(void **state)
{
    now = 5000000;
    cpu = 700000000;
    idle = (btl_ib_poll_sleep_t){0};
    btl_ib_poll_sleep_reset(&idle, now);
    return 0;
}

/* One call, after `computed` us of the application's own. Returns whether it sleeps, for 1 ms. */
static bool call(uint64_t computed)
{
    bool sleeps = false;

    now += computed + POLL;
    cpu += 1000 * (computed + POLL);
    if (btl_ib_poll_sleep_is_long(&idle, now)) {
        sleeps = btl_ib_poll_sleep_count(&idle, now, cpu);
        now += sleeps ? 1000 : 0;
        btl_ib_poll_sleep_end(&idle, cpu);
    }
    return sleeps;
}

/* us until a call sleeps, of at most `most`. */
static uint64_t until_sleep(uint64_t computed, uint64_t most)
{
    const uint64_t begun = now;

    while (now - begun < most && !call(computed)) {
    }
    return now - begun;
}

TEST_WITH(test_one_that_waits_sleeps, setup, NULL)
{
    assert_in_range(until_sleep(0, 100000), 2000, 2100); /* 1 ms of it asleep */
    for (int i = 0; i < 1000; i++) {
        assert_true(call(0));
    }
}

TEST_WITH(test_what_comes_ends_it, setup, NULL)
{
    (void) until_sleep(0, 100000);
    btl_ib_poll_sleep_reset(&idle, now);
    assert_in_range(until_sleep(0, 100000), 2000, 2100);
}

TEST_WITH(test_one_that_computes_does_not_sleep, setup, NULL)
{
    assert_int_equal(until_sleep(BTL_IB_POLL_SLEEP_CPU / 1000, 1000000) / 1000000, 1);
    /* who computes once for long and waits then has not waited for long */
    (void) call(20000);
    assert_in_range(until_sleep(0, 100000), 1500, 2100);
}

UNIT_MAIN(NULL, NULL)
