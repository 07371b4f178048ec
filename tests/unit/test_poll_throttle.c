/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "btl_ib_poll_throttle.h"

static const btl_ib_pace_limits_t limits = {.busy = 16, .recent = 128, .idle = 512};
static btl_ib_pace_t pace;
static uint64_t ns; /* the clock */

static uint64_t now(void)
{
    return ns / 1000;
}

static int setup(void **state)
{
    (void) state;
    ns = 5000000;
    btl_ib_pace_init(&pace, &limits);
    pace.alone = false;
    return 0;
}

/* One progress call, `took` ns after the last one. Returns whether it looked. */
static bool call(uint64_t took, bool came, bool busy)
{
    ns += took;
    if (btl_ib_pace_skip(&pace) || !btl_ib_pace_due(&pace, now)) {
        return false;
    }
    btl_ib_pace_looked(&pace, now(), came, busy);
    return true;
}

/* How many of `count` calls look, each `took` ns after the last. */
static uint32_t looks(uint32_t count, uint64_t took, bool busy)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        sum += call(took, false, busy);
    }
    return sum;
}

/* Something comes with the next look. */
static void come(void)
{
    while (!call(10, true, false)) {
    }
}

static void test_alone_each_call_looks(void **state)
{
    (void) state;
    pace.alone = true;
    assert_int_equal(looks(5000, 10, false), 5000);
    assert_int_equal(looks(5000, 10, true), 5000);
}

static void test_looks_grow_rare(void **state)
{
    (void) state;
    come();
    /* 1, 2, 4... 128 calls apart at first */
    assert_int_equal(looks(255, 10, false), 8);
    assert_int_equal(looks(1280, 10, false), 10);
    (void) looks(1000000 / 10, 10, false); /* the rest of the millisecond */
    (void) looks(1024, 10, false);
    assert_int_equal(looks(5120, 10, false), 10);
}

static void test_busy_looks_are_frequent(void **state)
{
    (void) state;
    (void) looks(200000, 10, false);
    btl_ib_pace_hurry(&pace);
    assert_true(call(10, false, true));
    (void) looks(100, 10, true);
    assert_int_equal(looks(1600, 10, true), 100);
    /* What comes is followed by a look at once. */
    come();
    assert_true(call(10, true, true));
    assert_true(call(10, false, true));
}

/* Whoever comes seldom looks each time, after 32 calls at most. */
static void test_slow_callers_look_each_time(void **state)
{
    (void) state;
    (void) looks(200000, 10, false);
    (void) looks(2 * BTL_IB_PACE_CLOCK, 20000, false);
    assert_int_equal(looks(100, 20000, false), 100);
}

/* Calls of 100 ns each: 512 of them would be 51 us. */
static void test_patience(void **state)
{
    (void) state;
    uint64_t last;
    uint64_t longest = 0;

    (void) looks(200000, 100, false);
    last = ns;
    for (uint32_t i = 0; i < 100000; i++) {
        if (call(100, false, false)) {
            longest = ns - last > longest ? ns - last : longest;
            last = ns;
        }
    }
    assert_in_range(longest, 8000, 1000 * BTL_IB_PACE_PATIENCE + 1000 + 100 * BTL_IB_PACE_CLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_alone_each_call_looks, setup),
        cmocka_unit_test_setup(test_looks_grow_rare, setup),
        cmocka_unit_test_setup(test_busy_looks_are_frequent, setup),
        cmocka_unit_test_setup(test_slow_callers_look_each_time, setup),
        cmocka_unit_test_setup(test_patience, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
