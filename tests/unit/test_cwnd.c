/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "btl_ib_cwnd.h"
#include "support.h"

static void test_init(void **state)
{
    static const uint32_t maxes[] = {1, 2, 15, 16, 17, 63, 64, 65, 16384, UINT32_MAX};
    btl_ib_cwnd_t cwnd;

    (void) state;
    for (size_t i = 0; i < sizeof(maxes) / sizeof(maxes[0]); i++) {
        btl_ib_cwnd_init(&cwnd, maxes[i]);
        assert_int_equal(cwnd.window, maxes[i] < 64 ? maxes[i] : 64);
        assert_int_equal(cwnd.max, maxes[i]);
        btl_ib_cwnd_undo(&cwnd);
        assert_int_equal(cwnd.window, maxes[i] < 64 ? maxes[i] : 64);
    }
}

/* One more for each segment acknowledged, up to max and not one above. */
static void test_slow_start(void **state)
{
    btl_ib_cwnd_t cwnd;

    (void) state;
    btl_ib_cwnd_init(&cwnd, 1000);
    for (uint32_t window = 64; window < 1000; window++) {
        assert_int_equal(cwnd.window, window);
        btl_ib_cwnd_acked(&cwnd, 1, true);
    }
    btl_ib_cwnd_acked(&cwnd, 1, true);
    assert_int_equal(cwnd.window, 1000);
    btl_ib_cwnd_init(&cwnd, 1000);
    btl_ib_cwnd_acked(&cwnd, 64, true);
    assert_int_equal(cwnd.window, 128);
    btl_ib_cwnd_acked(&cwnd, 5000, true);
    assert_int_equal(cwnd.window, 1000);
}

/* Who does not use the window learns nothing about it. */
static void test_not_limited(void **state)
{
    btl_ib_cwnd_t cwnd;

    (void) state;
    btl_ib_cwnd_init(&cwnd, 1000);
    btl_ib_cwnd_acked(&cwnd, 500, false);
    assert_int_equal(cwnd.window, 64);
    btl_ib_cwnd_lost(&cwnd, 10, 20);
    for (int i = 0; i < 1000; i++) {
        btl_ib_cwnd_acked(&cwnd, 48, false);
    }
    assert_int_equal(cwnd.window, 48);
    btl_ib_cwnd_acked(&cwnd, 47, true);
    assert_int_equal(cwnd.window, 48);
}

/* After a cut: one more for each window's worth. */
static void test_growth(void **state)
{
    btl_ib_cwnd_t cwnd;

    (void) state;
    btl_ib_cwnd_init(&cwnd, 100);
    btl_ib_cwnd_lost(&cwnd, 10, 20);
    for (uint32_t window = 48; window < 100; window++) {
        for (uint32_t i = 0; i < window; i++) {
            assert_int_equal(cwnd.window, window);
            btl_ib_cwnd_acked(&cwnd, 1, true);
        }
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(cwnd.window, 100);
        btl_ib_cwnd_acked(&cwnd, 7, true);
    }
    /* In lumps the same: what is over counts for the next. */
    btl_ib_cwnd_init(&cwnd, 100);
    btl_ib_cwnd_lost(&cwnd, 10, 20);
    btl_ib_cwnd_acked(&cwnd, 40, true);
    btl_ib_cwnd_acked(&cwnd, 40, true);
    assert_int_equal(cwnd.window, 49);
    btl_ib_cwnd_acked(&cwnd, 16, true);
    assert_int_equal(cwnd.window, 49);
    btl_ib_cwnd_acked(&cwnd, 1, true);
    assert_int_equal(cwnd.window, 50);
}

/* A cut starts the count towards the next growth anew. */
static void test_cut_forgets_acked(void **state)
{
    btl_ib_cwnd_t cwnd;

    (void) state;
    btl_ib_cwnd_init(&cwnd, 100);
    btl_ib_cwnd_lost(&cwnd, 10, 20);
    btl_ib_cwnd_acked(&cwnd, 47, true);
    btl_ib_cwnd_lost(&cwnd, 21, 30);
    assert_int_equal(cwnd.window, 36);
    btl_ib_cwnd_acked(&cwnd, 35, true);
    assert_int_equal(cwnd.window, 36);
    btl_ib_cwnd_acked(&cwnd, 1, true);
    assert_int_equal(cwnd.window, 37);
}

/* However many of one round trip are lost, it is one cut. */
static void test_once_a_round(void **state)
{
    btl_ib_cwnd_t cwnd;

    (void) state;
    btl_ib_cwnd_init(&cwnd, 1000);
    for (uint64_t i = 0; i < 64; i++) {
        btl_ib_cwnd_lost(&cwnd, 100 + i, 500 + i);
        assert_int_equal(cwnd.window, 48);
    }
    btl_ib_cwnd_lost(&cwnd, 499, 600);
    assert_int_equal(cwnd.window, 48);
    btl_ib_cwnd_lost(&cwnd, 500, 700);
    assert_int_equal(cwnd.window, 36);
    btl_ib_cwnd_lost(&cwnd, 699, 800);
    assert_int_equal(cwnd.window, 36);
    /* Also from the first microsecond on. */
    btl_ib_cwnd_init(&cwnd, 1000);
    btl_ib_cwnd_lost(&cwnd, 0, 0);
    assert_int_equal(cwnd.window, 48);
}

static void test_floor(void **state)
{
    static const uint32_t expected[] = {48, 36, 27, 21, 16, 16, 16};
    btl_ib_cwnd_t cwnd;

    (void) state;
    btl_ib_cwnd_init(&cwnd, 1000);
    for (uint64_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        btl_ib_cwnd_lost(&cwnd, 10 * i + 10, 10 * i + 15);
        assert_int_equal(cwnd.window, expected[i]);
    }
    /* A peer that takes fewer than the floor anyway. */
    for (uint32_t max = 1; max <= BTL_IB_CWND_MIN; max++) {
        btl_ib_cwnd_init(&cwnd, max);
        for (uint64_t i = 0; i < 10; i++) {
            btl_ib_cwnd_lost(&cwnd, 10 * i + 10, 10 * i + 15);
            assert_int_equal(cwnd.window, max);
        }
    }
}

static void test_undo(void **state)
{
    btl_ib_cwnd_t cwnd;

    (void) state;
    btl_ib_cwnd_init(&cwnd, 1000);
    btl_ib_cwnd_lost(&cwnd, 10, 20);
    btl_ib_cwnd_undo(&cwnd);
    assert_int_equal(cwnd.window, 64);
    btl_ib_cwnd_acked(&cwnd, 10, true); /* slow start goes on as well */
    assert_int_equal(cwnd.window, 74);
    btl_ib_cwnd_undo(&cwnd); /* nothing left to undo */
    assert_int_equal(cwnd.window, 74);
    /* Only the last of two cuts. */
    btl_ib_cwnd_init(&cwnd, 1000);
    btl_ib_cwnd_lost(&cwnd, 10, 20);
    btl_ib_cwnd_lost(&cwnd, 20, 30);
    btl_ib_cwnd_undo(&cwnd);
    assert_int_equal(cwnd.window, 48);
    btl_ib_cwnd_acked(&cwnd, 10, true);
    assert_int_equal(cwnd.window, 48);
    btl_ib_cwnd_undo(&cwnd);
    assert_int_equal(cwnd.window, 48);
}

/* What was gained since the cut is not lost by undoing it. */
static void test_undo_never_shrinks(void **state)
{
    btl_ib_cwnd_t cwnd;

    (void) state;
    btl_ib_cwnd_init(&cwnd, 1000);
    btl_ib_cwnd_lost(&cwnd, 10, 20);
    while (cwnd.window < 80) {
        btl_ib_cwnd_acked(&cwnd, 1, true);
    }
    btl_ib_cwnd_undo(&cwnd);
    assert_int_equal(cwnd.window, 80);
}

static void test_bounds(void **state)
{
    test_random_t r = TEST_RANDOM_SEED;

    (void) state;
    for (int run = 0; run < 200; run++) {
        uint32_t max = 1 + test_random_below(&r, 1u << test_random_below(&r, 15));
        uint32_t floor = max < BTL_IB_CWND_MIN ? max : BTL_IB_CWND_MIN;
        uint64_t now = 1000;
        btl_ib_cwnd_t cwnd;

        btl_ib_cwnd_init(&cwnd, max);
        for (int step = 0; step < 1000; step++) {
            uint32_t before = cwnd.window;
            now += test_random_below(&r, 100);
            switch (test_random_below(&r, 4)) {
            case 0:
                btl_ib_cwnd_lost(&cwnd, now - test_random_below(&r, 200), now);
                assert_true(cwnd.window <= before && cwnd.window >= before - before / 4);
                break;
            case 1:
                btl_ib_cwnd_undo(&cwnd);
                assert_true(cwnd.window >= before);
                break;
            default:
                btl_ib_cwnd_acked(&cwnd, 1 + test_random_below(&r, before), true);
                assert_true(cwnd.window >= before && cwnd.window <= 2 * before);
                break;
            }
            assert_in_range(cwnd.window, floor, max);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_slow_start),
        cmocka_unit_test(test_not_limited),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_cut_forgets_acked),
        cmocka_unit_test(test_once_a_round),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_undo),
        cmocka_unit_test(test_undo_never_shrinks),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
