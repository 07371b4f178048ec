/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* CUBIC: what RFC 9438 says of the window. */

#include <math.h>

#include "btl_ib_cc.h"
#include "support.h"
#include "unit.h"

#define MAX 16384u

static btl_ib_cc_t cc;
static uint64_t now;

static int setup(void **state)
{
    now = 1000000;
    btl_ib_cc_init(&cc, &btl_ib_cc_cubic, MAX, 1);
    return 0;
}

static void round_trip(uint32_t rtt)
{
    uint32_t window = cc.window;

    for (uint32_t i = 0; i < window; i++) {
        btl_ib_cc_ack_t ack = {
            now + (uint64_t) rtt * i / window, now - rtt, 1, rtt, rtt, rtt, true, false};
        cc.ops->acked(&cc, &ack);
    }
    now += rtt;
}

static void lose(void)
{
    cc.ops->lost(&cc, now, now);
    now++;
}

TEST_WITH(test_slow_start, setup, NULL)
{
    for (uint32_t window = 64; window < MAX; window *= 2) {
        assert_int_equal(cc.window, window);
        round_trip(100);
    }
    assert_int_equal(cc.window, MAX);
}

/* To 7/10, once for each round trip, never below two. */
TEST_WITH(test_cut, setup, NULL)
{
    while (cc.window < 1024) {
        round_trip(100);
    }
    uint64_t sent_at = now;
    now += 100;
    for (int i = 0; i < 50; i++) {
        cc.ops->lost(&cc, sent_at + (uint64_t) i, now);
        assert_int_equal(cc.window, 716);
    }
    cc.ops->lost(&cc, now, now + 100);
    assert_int_equal(cc.window, 501);
    now += 200;
    for (int i = 0; i < 50; i++) {
        lose();
    }
    assert_int_equal(cc.window, 2);
}

/* Long round trips: along C (t - K)^3 + W_max. */
TEST_WITH(test_curve, setup, NULL)
{
    while (cc.window < 4096) {
        round_trip(100000);
    }
    lose();
    double top = 4096, from = cc.window, k = cbrt((top - from) / 0.4);
    uint64_t begun = now;
    for (int i = 0; i < 250; i++) {
        round_trip(100000);
        double t = (double) (now - begun) / 1e6;
        double wanted = 0.4 * pow(t - k, 3) + top;
        wanted = wanted < MAX ? wanted : MAX;
        assert_true(fabs((double) cc.window - wanted) < wanted * 0.03 + 3);
    }
    assert_true(cc.window > 4096);
}

/* Short round trips: at least what Reno would have: + 9/17 for each window. */
TEST_WITH(test_friendly, setup, NULL)
{
    round_trip(100);
    lose();
    double wanted = cc.window;
    while (wanted < 120) {
        round_trip(100);
        wanted += 9.0 / 17.0;
        assert_true(fabs((double) cc.window - wanted) <= 2);
    }
}

/* A sender that had more before leaves room: W_max is a bit less than what was reached. */
TEST_WITH(test_fast_convergence, setup, NULL)
{
    while (cc.window < 1024) {
        round_trip(100);
    }
    lose();
    assert_int_equal(cc.cubic.top, 1024);
    lose();
    assert_int_equal(cc.cubic.top, 716 * 17 / 20);
}

TEST_WITH(test_undo, setup, NULL)
{
    while (cc.window < 1024) {
        round_trip(100);
    }
    lose();
    assert_true(cc.window < 1024);
    cc.ops->undo(&cc);
    assert_int_equal(cc.window, 1024);
    round_trip(100); /* slow start goes on as well */
    assert_int_equal(cc.window, 2048);
    cc.ops->undo(&cc);
    assert_int_equal(cc.window, 2048);
}

/* Nothing was reduced: nothing is taken back, and slow start goes on. */
TEST_WITH(test_undo_of_nothing, setup, NULL)
{
    cc.ops->undo(&cc);
    assert_int_equal(cc.window, 64);
    round_trip(100);
    assert_int_equal(cc.window, 128);
}

/* A mark reduces the window to 17/20, once for each round trip (RFC 8511); no later acknowledgement
 * says that it was none. */
TEST_WITH(test_marked, setup, NULL)
{
    while (cc.window < 1024) {
        round_trip(100);
    }
    btl_ib_cc_marks_t marks = {.now = now, .sent_at = now, .count = 10, .ce = 0};
    assert_false(cc.ops->marked(&cc, &marks));
    assert_int_equal(cc.window, 1024);
    marks.ce = 1;
    assert_true(cc.ops->marked(&cc, &marks));
    assert_int_equal(cc.window, 870);
    marks.sent_at = now - 1; /* it left with the window as it was */
    assert_false(cc.ops->marked(&cc, &marks));
    assert_int_equal(cc.window, 870);
    cc.ops->undo(&cc);
    assert_int_equal(cc.window, 870);
    marks.sent_at = now;
    assert_true(cc.ops->marked(&cc, &marks));
    assert_int_equal(cc.window, 739);
    /* It is no slow start that goes on. */
    round_trip(100);
    assert_in_range(cc.window, 739, 741);
}

/* A mark after a loss that may be undone: the window is reduced for another reason now. */
TEST_WITH(test_marked_after_a_loss, setup, NULL)
{
    while (cc.window < 1024) {
        round_trip(100);
    }
    lose();
    assert_int_equal(cc.window, 716);
    const btl_ib_cc_marks_t marks = {.now = now, .sent_at = now, .count = 1, .ce = 1};
    assert_true(cc.ops->marked(&cc, &marks));
    cc.ops->undo(&cc);
    assert_int_equal(cc.window, 716 * 17 / 20);
}

static void acknowledge(uint32_t count, uint32_t rtt)
{
    const btl_ib_cc_ack_t ack = {now, now - rtt, count, rtt, rtt, rtt, true, false};

    cc.ops->acked(&cc, &ack);
}

/* After a loss at 4096 the curve is back there after 14.5 s. */
#define K 14538000u

static void lose_at_4096(uint32_t rtt)
{
    while (cc.window < 4096) {
        round_trip(rtt);
    }
    lose();
    acknowledge(1, rtt); /* begins the curve */
}

/* The target is the curve's value one round trip later, so that the window is there in time; the
 * round trips are smoothed, and acknowledgements without a sample are none. */
TEST_WITH(test_one_round_trip_ahead, setup, NULL)
{
    lose_at_4096(5000000);
    now += K - 5000000;
    for (uint32_t i = 0; i < 1000; i++) {
        acknowledge(100, i % 2 ? 5000000 : 0);
    }
    assert_in_range(cc.window, 4095, 4097); /* now it is 50 below that */
    acknowledge(1, 13000000);
    assert_int_equal(cc.cubic.rtt, 6000000);
}

/* Around the place of the loss nothing grows for seconds. What is acknowledged there counts no more
 * than a window, or the window would grow at once by all that came next. */
TEST_WITH(test_plateau, setup, NULL)
{
    lose_at_4096(100);
    now += K;
    for (uint32_t i = 0; i < 1000; i++) {
        acknowledge(100, 100);
    }
    assert_int_equal(cc.window, 4096);
    now += 1500000; /* 0.4 * 1.5^3 = 1.35 */
    acknowledge(1, 100);
    assert_int_equal(cc.window, 4097);
    now += 310000; /* 2.37 */
    acknowledge(1, 100);
    assert_int_equal(cc.window, 4097);
    acknowledge(4096, 100);
    assert_int_equal(cc.window, 4098);
}

/* However far the curve has gone, the window grows by half of itself for each window that is
 * acknowledged. */
TEST_WITH(test_growth_is_bounded, setup, NULL)
{
    lose_at_4096(100);
    now += 60000000;
    const uint32_t window = cc.window;
    acknowledge(1, 100); /* the second since the loss */
    assert_int_equal(cc.window, window + 1);
    acknowledge(1, 100);
    assert_int_equal(cc.window, window + 1);
    for (uint32_t i = 2; i < window; i++) {
        acknowledge(1, 100);
    }
    assert_in_range(cc.window, window * 3 / 2 - 2, window * 8 / 5);
}

TEST_WITH(test_not_limited, setup, NULL)
{
    lose();
    round_trip(100);
    uint32_t window = cc.window;
    for (int i = 0; i < 1000; i++) {
        now += 10000;
        btl_ib_cc_ack_t ack = {now, now - 100, 10, 100, 100, 100, false, false};
        cc.ops->acked(&cc, &ack);
    }
    assert_int_equal(cc.window, window);
    round_trip(100); /* the time that passed unused makes no leap */
    assert_in_range(cc.window, window, window + 2);
}

TEST_WITH(test_restart, setup, NULL)
{
    while (cc.window < 1024) {
        round_trip(100);
    }
    lose();
    uint32_t window = cc.window;
    cc.ops->restart(&cc);
    assert_int_equal(cc.window, BTL_IB_CC_INIT);
    for (int i = 0; i < 4; i++) {
        round_trip(100);
    }
    assert_in_range(cc.window, window, window + 64);
}

/* The window had grown beyond the last loss's: slow start goes on to where it was. */
TEST_WITH(test_restart_beyond_a_loss, setup, NULL)
{
    while (cc.window < 1024) {
        round_trip(100);
    }
    lose();
    while (cc.window < 900) {
        round_trip(100000);
    }
    const uint32_t window = cc.window;
    cc.ops->restart(&cc);
    for (int i = 0; i < 4; i++) {
        round_trip(100);
    }
    assert_in_range(cc.window, window, window + 16);
}

UNIT_MAIN(NULL, NULL)
