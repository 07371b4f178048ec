/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <math.h>

#include "btl_ib_rtt.h"
#include "support.h"
#include "unit.h"

#define INITIAL 12345u

/* What the integers may be off by, us: fractions that are cut off (0.875 of SRTT, then its own
 * fraction; 4 * RTTVAR sums up at most (1 + 0.75) / (1 - 0.75)). */
#define SRTT_OFF   1.0
#define RTTVAR_OFF 7.0

/* RFC 6298, 2.2 and 2.3, word by word. */
typedef struct exact {
    double srtt;
    double rttvar;
    int samples;
} exact_t;

static void exact_sample(exact_t *exact, double r)
{
    if (exact->samples++ == 0) {
        exact->srtt = r;
        exact->rttvar = r / 2;
        return;
    }
    exact->rttvar = (1 - 1.0 / 4) * exact->rttvar + 1.0 / 4 * fabs(exact->srtt - r);
    exact->srtt = (1 - 1.0 / 8) * exact->srtt + 1.0 / 8 * r;
}

static double exact_timeout(const exact_t *exact)
{
    return exact->srtt + fmax(BTL_IB_RTT_TICK, 4 * exact->rttvar);
}

static void check(const btl_ib_rtt_t *rtt, const exact_t *exact)
{
    double srtt = btl_ib_rtt_smoothed(rtt, INITIAL);
    double timeout = btl_ib_rtt_timeout(rtt, INITIAL);

    assert_true(fabs(srtt - exact->srtt) <= SRTT_OFF);
    assert_true(fabs(timeout - exact_timeout(exact)) <= SRTT_OFF + RTTVAR_OFF);
}

TEST(test_before_first)
{
    btl_ib_rtt_t rtt = {0};

    assert_int_equal(btl_ib_rtt_smoothed(&rtt, INITIAL), INITIAL);
    assert_int_equal(btl_ib_rtt_timeout(&rtt, INITIAL), INITIAL);
    assert_int_equal(btl_ib_rtt_timeout(&rtt, 0), 0);
}

/* SRTT = R, RTTVAR = R / 2, hence 3 R. */
TEST(test_first)
{
    for (uint32_t us = 1; us <= 60000000; us = us * 3 + 1) {
        btl_ib_rtt_t rtt = {0};
        btl_ib_rtt_sample(&rtt, us, UINT32_MAX);
        assert_int_equal(btl_ib_rtt_smoothed(&rtt, INITIAL), us);
        uint32_t variance = 2 * us < BTL_IB_RTT_TICK ? BTL_IB_RTT_TICK : 2 * us;
        assert_int_equal(btl_ib_rtt_timeout(&rtt, INITIAL), us + variance);
        assert_int_equal(rtt.min, us);
    }
}

/* Worked by hand: 800, then 1600: RTTVAR = 300 + 200, SRTT = 700 + 200. */
TEST(test_second)
{
    btl_ib_rtt_t rtt = {0};

    btl_ib_rtt_sample(&rtt, 800, UINT32_MAX);
    btl_ib_rtt_sample(&rtt, 1600, UINT32_MAX);
    assert_int_equal(btl_ib_rtt_smoothed(&rtt, INITIAL), 900);
    assert_int_equal(btl_ib_rtt_timeout(&rtt, INITIAL), 900 + 4 * 500);
    /* RTTVAR = 375 + 175, by SRTT before it moves; SRTT = 787.5 + 25. */
    btl_ib_rtt_sample(&rtt, 200, UINT32_MAX);
    assert_int_equal(btl_ib_rtt_smoothed(&rtt, INITIAL), 812);
    assert_int_equal(btl_ib_rtt_timeout(&rtt, INITIAL), 812 + 4 * 550);
}

TEST(test_steady)
{
    for (uint32_t us = 1; us <= 60000000; us = us * 2 + 1) {
        btl_ib_rtt_t rtt = {0};
        for (int i = 0; i < 200; i++) {
            btl_ib_rtt_sample(&rtt, us, UINT32_MAX);
            assert_int_equal(btl_ib_rtt_smoothed(&rtt, INITIAL), us);
        }
        /* The variance dies out, the tick remains. */
        assert_int_equal(btl_ib_rtt_timeout(&rtt, INITIAL), us + BTL_IB_RTT_TICK);
    }
}

/* From any level to any other within a few dozen samples. */
TEST(test_converges)
{
    static const uint32_t levels[] = {1, 7, 50, 999, 20000, 60000000};
    const size_t count = sizeof(levels) / sizeof(levels[0]);

    for (size_t i = 0; i < count * count; i++) {
        btl_ib_rtt_t rtt = {0};
        exact_t exact = {0};
        for (int n = 0; n < 400; n++) {
            uint32_t us = levels[n < 200 ? i / count : i % count];
            btl_ib_rtt_sample(&rtt, us, UINT32_MAX);
            exact_sample(&exact, us);
            check(&rtt, &exact);
        }
        assert_in_range(btl_ib_rtt_smoothed(&rtt, INITIAL),
                        levels[i % count] == 1 ? 1 : levels[i % count] - 1, levels[i % count] + 1);
    }
}

TEST(test_zero)
{
    btl_ib_rtt_t rtt = {0};

    for (int i = 0; i < 100; i++) {
        btl_ib_rtt_sample(&rtt, 0, UINT32_MAX);
        /* Not taken for "no sample yet". */
        assert_int_equal(btl_ib_rtt_smoothed(&rtt, INITIAL), 1);
        assert_int_equal(btl_ib_rtt_timeout(&rtt, INITIAL), 1 + BTL_IB_RTT_TICK);
        assert_int_equal(rtt.min, 1);
    }
    rtt = (btl_ib_rtt_t){0};
    btl_ib_rtt_sample(&rtt, 5000, UINT32_MAX);
    for (int i = 0; i < 300; i++) {
        btl_ib_rtt_sample(&rtt, 0, UINT32_MAX);
        assert_in_range(btl_ib_rtt_smoothed(&rtt, INITIAL), 1, 5000);
    }
    assert_int_equal(btl_ib_rtt_smoothed(&rtt, INITIAL), 1);
}

/* Nothing overflows, whatever is measured. */
TEST(test_huge)
{
    btl_ib_rtt_t rtt = {0};

    for (int i = 0; i < 200; i++) {
        btl_ib_rtt_sample(&rtt, UINT32_MAX, UINT32_MAX);
        assert_int_equal(btl_ib_rtt_smoothed(&rtt, INITIAL), 60000000);
        assert_in_range(btl_ib_rtt_timeout(&rtt, INITIAL), 60000000, 180000000);
    }
    for (int i = 0; i < 200; i++) {
        btl_ib_rtt_sample(&rtt, i % 2 == 0 ? 0 : UINT32_MAX, UINT32_MAX);
        assert_in_range(btl_ib_rtt_smoothed(&rtt, INITIAL), 1, 60000000);
        assert_in_range(btl_ib_rtt_timeout(&rtt, INITIAL), 1 + BTL_IB_RTT_TICK, 300000000);
    }
}

TEST(test_min)
{
    btl_ib_rtt_t rtt = {0};

    btl_ib_rtt_sample(&rtt, 500, UINT32_MAX);
    assert_int_equal(rtt.min, 500);
    btl_ib_rtt_sample(&rtt, 501, UINT32_MAX);
    assert_int_equal(rtt.min, 500);
    btl_ib_rtt_sample(&rtt, 499, UINT32_MAX);
    assert_int_equal(rtt.min, 499);
    btl_ib_rtt_sample(&rtt, 100000, UINT32_MAX);
    assert_int_equal(rtt.min, 499);
    btl_ib_rtt_sample(&rtt, 0, UINT32_MAX);
    assert_int_equal(rtt.min, 1);
}

TEST(test_random)
{
    test_random_t r = TEST_RANDOM_SEED;

    for (int run = 0; run < 300; run++) {
        uint32_t scale = 1 + (60000000u >> test_random_below(&r, 24));
        btl_ib_rtt_t rtt = {0};
        exact_t exact = {0};
        uint32_t min = UINT32_MAX;
        for (int n = 0; n < 1000; n++) {
            uint32_t us = 1 + test_random_below(&r, scale);
            us = us > 60000000 ? 60000000 : us;
            us = test_random_below(&r, 20) == 0 ? us / 10 + 1 : us;
            min = us < min ? us : min;
            btl_ib_rtt_sample(&rtt, us, UINT32_MAX);
            exact_sample(&exact, us);
            check(&rtt, &exact);
            assert_int_equal(rtt.min, min);
        }
    }
}

/* A sample beyond the bound counts as that in the averages, and never as the shortest. */
TEST(test_bound)
{
    btl_ib_rtt_t rtt = {0};

    btl_ib_rtt_sample(&rtt, 10000, 2000);
    assert_int_equal(btl_ib_rtt_smoothed(&rtt, 0), 2000);
    assert_int_equal(rtt.min, 10000);
    btl_ib_rtt_sample(&rtt, 9000, 2000);
    assert_int_equal(btl_ib_rtt_smoothed(&rtt, 0), 2000);
    assert_int_equal(rtt.min, 9000);
    btl_ib_rtt_sample(&rtt, 1000, 2000);
    assert_int_equal(rtt.min, 1000);
}

UNIT_MAIN(NULL, NULL)
