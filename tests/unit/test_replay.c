/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <string.h>

#include "btl_ib_protection.h"
#include "support.h"
#include "unit.h"

static const uint64_t window = BTL_IB_REPLAY_WINDOW;

/* protocol: R22 */
TEST(test_in_order)
{
    btl_ib_replay_t replay;

    btl_ib_replay_init(&replay);
    assert_false(btl_ib_replay_fresh(&replay, 0)); /* numbers begin with 1 */
    for (uint64_t n = 1; n < 3 * window; n++) {
        assert_true(btl_ib_replay_fresh(&replay, n));
        btl_ib_replay_mark(&replay, n);
        assert_false(btl_ib_replay_fresh(&replay, n));
        assert_false(btl_ib_replay_fresh(&replay, 1 + n / 2));
    }
}

/* The oldest number that can still be told from a repeated one, wherever the words begin.
 * protocol: R23 */
TEST(test_edges)
{
    for (uint64_t at = window + 1; at < window + 200; at++) {
        btl_ib_replay_t replay;
        btl_ib_replay_init(&replay);
        btl_ib_replay_mark(&replay, at);
        assert_true(btl_ib_replay_fresh(&replay, at - window + 1));
        assert_false(btl_ib_replay_fresh(&replay, at - window));
        btl_ib_replay_mark(&replay, at - window + 1);
        assert_false(btl_ib_replay_fresh(&replay, at - window + 1));
        assert_true(btl_ib_replay_fresh(&replay, at - window + 2));
        btl_ib_replay_mark(&replay, at + 1);
        assert_false(btl_ib_replay_fresh(&replay, at - window + 1));
        assert_false(btl_ib_replay_fresh(&replay, at));
        assert_true(btl_ib_replay_fresh(&replay, at - 1));
    }
}

/* After a leap nothing of before is known, and nothing of before is taken. */
TEST(test_leap)
{
    static const uint64_t leaps[] = {1,
                                     63,
                                     64,
                                     65,
                                     BTL_IB_REPLAY_WINDOW - 1,
                                     BTL_IB_REPLAY_WINDOW,
                                     BTL_IB_REPLAY_WINDOW + 64,
                                     UINT64_C(1) << 40};

    for (size_t i = 0; i < sizeof(leaps) / sizeof(leaps[0]); i++) {
        btl_ib_replay_t replay;
        btl_ib_replay_init(&replay);
        for (uint64_t n = 1; n <= 2 * window; n++) {
            btl_ib_replay_mark(&replay, n);
        }
        uint64_t to = 2 * window + leaps[i];
        assert_true(btl_ib_replay_fresh(&replay, to));
        btl_ib_replay_mark(&replay, to);
        for (uint64_t n = 1; n <= to && n < 4 * window; n++) {
            bool right = n > 2 * window && n < to && to - n < window;
            assert_int_equal(btl_ib_replay_fresh(&replay, n), right);
        }
    }
}

TEST(test_highest_number)
{
    btl_ib_replay_t replay;

    btl_ib_replay_init(&replay);
    btl_ib_replay_mark(&replay, UINT64_MAX);
    assert_false(btl_ib_replay_fresh(&replay, UINT64_MAX));
    assert_true(btl_ib_replay_fresh(&replay, UINT64_MAX - 1));
    assert_false(btl_ib_replay_fresh(&replay, 1));
}

/* Against a plain list of what came. */
TEST(test_random_order)
{
    enum { NUMBERS = 20000 };
    static bool came[NUMBERS];
    test_random_t random = TEST_RANDOM_SEED;
    btl_ib_replay_t replay;
    uint64_t highest = 0;

    btl_ib_replay_init(&replay);
    for (uint32_t turn = 0; turn < 100000; turn++) {
        uint32_t around = 1 + turn / 6;
        uint32_t n = around + test_random_below(&random, 3000);
        bool right = n > highest || (highest - n < window && !came[n]);
        assert_int_equal(btl_ib_replay_fresh(&replay, n), right);
        if (right && test_random_below(&random, 3) > 0) {
            btl_ib_replay_mark(&replay, n);
            came[n] = true;
            highest = n > highest ? n : highest;
        }
    }
}

UNIT_MAIN(NULL, NULL)
