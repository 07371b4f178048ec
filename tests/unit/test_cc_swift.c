/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Congestion control by delay. A round trip of 100 us: what is longer than 120 us is a queue, if
 * more than four segments of it are ours. */

#include "btl_ib_cc.h"
#include "support.h"
#include "unit.h"

#define BASE   100u
#define MAX    4096u
#define TARGET 120u

static btl_ib_cc_t cc;
static uint64_t now;

static int setup(void **state)
{
    now = 1000000;
    btl_ib_cc_init(&cc, &btl_ib_cc_swift, MAX, 1);
    return 0;
}

/* One round trip: a window of segments is acknowledged, `lost` of them are not there. */
static void full_round(uint32_t delay, uint32_t lost, bool limited)
{
    uint64_t sent_at = now;
    uint32_t count = cc.window > lost ? cc.window - lost : 1;

    now += delay;
    for (uint32_t i = 0; i < lost; i++) {
        cc.ops->lost(&cc, sent_at, now);
    }
    for (uint32_t i = 0; i < count; i++) {
        /* All of it was sent when the round began, so that the first ends it: the rest is nobody's
         * news of a later one. */
        btl_ib_cc_ack_t ack = {now,  i + 1 == count ? sent_at : 0, 1, delay, delay, delay, limited,
                               false};
        cc.ops->acked(&cc, &ack);
    }
    now++;
}

static void round_trip(uint32_t delay)
{
    full_round(delay, 0, true);
}

/* Learn the base delay, leave the doubling behind with a window of about `window`. */
static void settle_at(uint32_t window)
{
    full_round(BASE, 0, false);
    while (cc.window < window) {
        round_trip(BASE);
    }
    while (cc.window > window) {
        round_trip(2 * BASE);
    }
    for (int i = 0; i < 3; i++) { /* nothing is left of all that */
        full_round(BASE, 0, false);
    }
    if (window < BTL_IB_CC_INIT) { /* below it any calm round is one for growing */
        cc.swift.window = window * 256;
        cc.window = window;
    }
}

TEST_WITH(test_doubles_at_first, setup, NULL)
{
    full_round(BASE, 0, false);
    assert_int_equal(cc.window, 64);
    for (uint32_t window = 128; window <= MAX; window *= 2) {
        round_trip(BASE);
        assert_int_equal(cc.window, window);
    }
    round_trip(BASE);
    assert_int_equal(cc.window, MAX);
}

/* A queue ends the doubling within the round that shows it. */
TEST_WITH(test_doubling_ends, setup, NULL)
{
    full_round(BASE, 0, false);
    round_trip(BASE);
    assert_int_equal(cc.window, 128);
    full_round(TARGET + 100, 0, true);
    assert_true(cc.window < 128);
    uint32_t window = cc.window;
    round_trip(BASE);
    assert_int_equal(cc.window, window + 1);
}

/* Half of our part of the queue goes, with each fourth cut all of it and sixteen segments more; at
 * most half of the window. */
TEST_WITH(test_cut, setup, NULL)
{
    settle_at(1000);
    cc.swift.cuts = 1;
    uint32_t window = cc.window;
    round_trip(TARGET);
    assert_in_range(cc.window, window, window + 1);
    window = cc.window;
    round_trip(2 * BASE);
    assert_in_range(cc.window, window * 3 / 4 - 1, window * 3 / 4 + 2);
    window = cc.window;
    round_trip(TARGET + 5);
    assert_in_range(cc.window, window * 9 / 10 - 1, window * 9 / 10 + 2);
    window = cc.window;
    round_trip(TARGET + 5);
    assert_in_range(cc.window, window * 4 / 5 - 17, window * 4 / 5 - 15);
    window = cc.window;
    round_trip(1000 * TARGET);
    round_trip(1000 * TARGET);
    assert_in_range(cc.window, window / 4, window / 4 + 2);
}

/* However many samples a round has, it is one cut, and the shortest delay decides. */
TEST_WITH(test_shortest_counts, setup, NULL)
{
    settle_at(500);
    uint32_t window = cc.window;
    uint64_t sent_at = now;
    now += 1000;
    for (int i = 0; i < 300; i++) {
        btl_ib_cc_ack_t ack = {now, 0, 1, 1000, 1000, 1000, true, false};
        cc.ops->acked(&cc, &ack);
        assert_int_equal(cc.window, window);
    }
    btl_ib_cc_ack_t ack = {now, sent_at, 1, BASE + 1, BASE + 1, BASE + 1, true, false};
    cc.ops->acked(&cc, &ack);
    assert_true(cc.window >= window);
}

/* One segment in ten comes back, each after `rtt` us, of which the network had 20. */
static void busy_host(uint32_t rtt, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        now += rtt;
        btl_ib_cc_ack_t ack = {now, now - rtt, 10, rtt, 20, rtt, true, false};
        cc.ops->acked(&cc, &ack);
    }
}

/* What a host may have caused is no reason to send less than keeps it busy, */
TEST_WITH(test_hosts_do_not_count, setup, NULL)
{
    settle_at(120);
    uint32_t window = cc.window;
    busy_host(4000, 1);
    assert_true(cc.window >= window);
    busy_host(4000, 50);
    assert_true(cc.window >= 120);
}

/* but what lies there beyond that helps nobody, ... */
TEST_WITH(test_backlog_of_a_host, setup, NULL)
{
    settle_at(1000);
    busy_host(4000, 50);
    assert_in_range(cc.window, 128, 200);
}

/* ... and a part of a long path is no backlog. */
TEST_WITH(test_host_of_a_long_path, setup, NULL)
{
    settle_at(300);
    uint32_t window = cc.window;
    busy_host(BASE + BASE * 3 / 5, 3);
    assert_true(cc.window >= window);
}

/* A round trip in which a host paused: it took `rtt` us, of which the pause did not explain
 * `awake`, nor what else hosts did `delay`. */
static void paused_round(uint32_t rtt, uint32_t delay, uint32_t awake)
{
    const uint64_t sent_at = now;

    now += rtt;
    btl_ib_cc_ack_t ack = {now, sent_at, cc.window, rtt, delay, awake, true, true};
    cc.ops->acked(&cc, &ack);
    now++;
}

/* A process that computes between its calls sends a window in each: it doubles until it holds what
 * is carried meanwhile. */
TEST_WITH(test_pauses_double, setup, NULL)
{
    settle_at(200);
    round_trip(BASE);
    assert_in_range(cc.window, 200, 202);
    for (uint32_t window = 2 * cc.window; window < MAX; window *= 2) {
        paused_round(12000, BASE, BASE);
        assert_in_range(cc.window, window, window + window / 4);
    }
    paused_round(12000, BASE, BASE);
    assert_int_equal(cc.window, MAX);
}

/* What lies at a receiver that paused is carried in its next turn; when it pauses no more, too much
 * of it is a reason to reduce the window. */
TEST_WITH(test_backlog_of_a_pause, setup, NULL)
{
    settle_at(1000);
    paused_round(12000, BASE, 3000);
    assert_true(cc.window >= 1000);
    busy_host(4000, 50);
    assert_in_range(cc.window, 128, 200);
}

/* A queue in the network counts all the same, but for what hosts take around a pause. */
TEST_WITH(test_queue_beside_a_pause, setup, NULL)
{
    settle_at(1000);
    paused_round(12000, TARGET + 90, TARGET + 90);
    assert_true(cc.window >= 1000);
    const uint32_t window = cc.window;
    paused_round(12000, 4 * TARGET, 4 * TARGET);
    assert_true(cc.window < window);
}

/* Where segments go through hosts in bursts, four of them are no queue. */
TEST_WITH(test_bursts, setup, NULL)
{
    cc.gso_segments = 44;
    settle_at(300);
    uint32_t window = cc.window;
    round_trip(2 * BASE); /* half of the window is queued: 150 segments */
    assert_true(cc.window >= window);
    while (cc.window < 400) {
        round_trip(BASE);
    }
    window = cc.window;
    round_trip(2 * BASE); /* 200 segments */
    assert_true(cc.window < window);
}

/* There, nine bursts keep both hosts at work. */
TEST_WITH(test_backlog_of_bursts, setup, NULL)
{
    cc.gso_segments = 44;
    settle_at(1000);
    busy_host(4000, 50);
    assert_in_range(cc.window, 396, 470);
}

TEST_WITH(test_increase_grows, setup, NULL)
{
    settle_at(500);
    round_trip(TARGET + 5); /* calm begins anew */
    uint32_t window = cc.window;
    for (uint32_t i = 0; i < 5; i++) {
        round_trip(BASE);
        assert_int_equal(cc.window, ++window);
    }
    for (uint32_t more = 2; more < window / 8; more *= 2) {
        round_trip(BASE);
        window += more;
        assert_in_range(cc.window, window - 1, window + 1);
    }
    uint32_t before = cc.window;
    round_trip(BASE);
    assert_in_range(cc.window, before + before / 8 - 1, before + before / 8 + 1);
    /* Near the target one segment is enough. */
    before = cc.window;
    for (uint32_t i = 1; i < 20; i++) {
        round_trip(TARGET - 5);
        assert_int_equal(cc.window, before + i);
    }
}

/* A small window does not grow by a quarter of itself, but by an eighth. */
TEST_WITH(test_small_increase, setup, NULL)
{
    settle_at(4);
    uint32_t before = cc.swift.window;
    round_trip(BASE);
    assert_int_equal(cc.swift.window, before + before / 8);
}

TEST_WITH(test_unlimited_learns_nothing, setup, NULL)
{
    settle_at(500);
    uint32_t window = cc.window;
    for (int i = 0; i < 100; i++) {
        full_round(BASE, 0, false);
    }
    assert_int_equal(cc.window, window);
}

/* Delay alone leaves four segments, in which a segment's own time cannot be told from a queue. */
TEST_WITH(test_floor, setup, NULL)
{
    settle_at(100);
    for (int i = 0; i < 100; i++) {
        round_trip(100 * TARGET);
    }
    assert_int_equal(cc.window, 4);
    assert_true(cc.burst > 1);
}

/* A sender with little of the path may stay in its queue, one with much gives way. */
TEST_WITH(test_own_queue, setup, NULL)
{
    settle_at(7);
    uint32_t window = cc.window;
    round_trip(2 * BASE); /* three and a half of seven segments */
    assert_true(cc.window >= window);
    settle_at(100);
    window = cc.window;
    round_trip(2 * BASE);
    assert_true(cc.window < window);
}

/* 1 and 5 % of loss without delay change nothing; nor does a loss in a window of a few. */
TEST_WITH(test_random_loss, setup, NULL)
{
    settle_at(1000);
    uint32_t window = cc.window;
    for (int i = 0; i < 20; i++) {
        full_round(BASE, i % 2 ? 10 : 50, false);
        assert_int_equal(cc.window, window);
    }
    settle_at(10);
    window = cc.window;
    for (int i = 0; i < 40; i++) {
        full_round(BASE, i % 4 == 0, false);
        assert_true(cc.window >= window);
        window = cc.window;
    }
}

/* A sender of one message at a time never fills a window. What late answers of a busy host took
 * from it it wins back, but no more than it began with. */
TEST_WITH(test_wins_back, setup, NULL)
{
    settle_at(100);
    for (int i = 0; i < 20; i++) {
        full_round(4 * BASE, 0, false);
    }
    assert_true(cc.window < 16);
    for (int i = 0; i < 60; i++) {
        full_round(BASE, 0, false);
    }
    assert_in_range(cc.window, BTL_IB_CC_INIT, BTL_IB_CC_INIT + BTL_IB_CC_INIT / 8);
}

/* A queue of 200 overflows without a delay: the window comes down to it within few round trips. */
TEST_WITH(test_overflow, setup, NULL)
{
    uint32_t sent = 0, lost = 0;

    settle_at(1000);
    for (int i = 0; i < 6; i++) {
        full_round(BASE, cc.window > 200 ? cc.window - 200 : 0, true);
    }
    assert_in_range(cc.window, 100, 230);
    for (int i = 0; i < 1000; i++) {
        uint32_t over = cc.window > 200 ? cc.window - 200 : 0;
        sent += cc.window;
        lost += over;
        full_round(BASE, over, true);
    }
    assert_true(lost < sent / 10);          /* no endless retransmission */
    assert_true(sent - lost > 1000 * 180u); /* and no collapse */
}

/* Hosts that pause in each round hide the queue, not its losses: the window does not double into
 * them again and again. */
TEST_WITH(test_overflow_beside_pauses, setup, NULL)
{
    uint32_t sent = 0, lost = 0;

    settle_at(200);
    for (int i = 0; i < 400; i++) {
        const uint32_t over = cc.window > 200 ? cc.window - 200 : 0;
        sent += cc.window;
        lost += over;
        for (uint32_t n = 0; n < over; n++) {
            cc.ops->lost(&cc, now, now);
        }
        const btl_ib_cc_ack_t ack = {now + 2000, now, cc.window - over, 2000, BASE, BASE,
                                     true,       true};
        now += 2000;
        cc.ops->acked(&cc, &ack);
    }
    assert_true(lost < sent / 10);
    assert_true(sent - lost > 400 * 150u);
    /* After two periods the path may be another one. */
    now += 10000000;
    round_trip(BASE);
    const uint32_t window = cc.window;
    paused_round(2000, BASE, BASE);
    assert_true(cc.window >= 2 * window);
}

/* The first round trips were those of a host that paused: a shorter one counts, if it paused in
 * that as well. */
TEST_WITH(test_base_beside_pauses, setup, NULL)
{
    paused_round(12000, 0, 0);
    assert_int_equal(cc.swift.base, 12000);
    paused_round(1000, 0, 0);
    assert_int_equal(cc.swift.base, 1000);
    paused_round(2000, 0, 0);
    assert_int_equal(cc.swift.base, 1000);
}

/* A fifth of everything is lost whatever the window: one cut shows that, and it grows again. */
TEST_WITH(test_incurable_loss, setup, NULL)
{
    settle_at(1000);
    for (int i = 0; i < 60; i++) {
        full_round(BASE, cc.window / 5, true);
        assert_true(cc.window > 300);
    }
    assert_int_equal(cc.window, MAX);
}

/* Losses can take the window below one segment, which is then paced; it comes back. */
TEST_WITH(test_below_one, setup, NULL)
{
    settle_at(10);
    for (int i = 0; i < 2000 && cc.burst > 1; i++) {
        full_round(BASE, 4 * cc.window, true);
    }
    assert_int_equal(cc.window, 1);
    assert_true(cc.pace > BASE * 1000);
    for (int i = 0; i < 2000; i++) {
        full_round(BASE, 4 * cc.window, true);
    }
    assert_true(cc.pace >= 30 * BASE * 1000 && cc.pace <= 70 * BASE * 1000);
    for (int i = 0; i < 200 && cc.burst == 1; i++) {
        round_trip(BASE);
    }
    assert_true(cc.burst > 1);
}

TEST_WITH(test_undo, setup, NULL)
{
    settle_at(1000);
    uint32_t window = cc.window;
    full_round(BASE, window / 4, false);
    assert_true(cc.window < window);
    cc.ops->undo(&cc);
    assert_int_equal(cc.window, window);
    cc.ops->undo(&cc);
    assert_int_equal(cc.window, window);
    /* Before it was cut: as if it had not been counted. */
    for (uint32_t i = 0; i < window / 2; i++) {
        cc.ops->lost(&cc, now, now);
        cc.ops->undo(&cc);
    }
    full_round(BASE, 0, false);
    assert_int_equal(cc.window, window);
}

/* After a silence it begins with few again, and is soon where it was, and not beyond. */
TEST_WITH(test_restart, setup, NULL)
{
    settle_at(1000);
    uint32_t window = cc.window;
    cc.ops->restart(&cc);
    assert_int_equal(cc.window, BTL_IB_CC_INIT);
    cc.ops->restart(&cc);
    for (int i = 0; i < 4; i++) {
        round_trip(BASE);
    }
    assert_in_range(cc.window, window, window + 2);
    settle_at(20);
    cc.ops->restart(&cc);
    assert_in_range(cc.window, 12, 20);
}

/* The first round trip included a process that was away for 20 s: the next one sets the pace
 * right. */
TEST_WITH(test_pace_follows_the_base, setup, NULL)
{
    btl_ib_cc_ack_t late = {now, 0, 1, 20000000, 20000000, 20000000, false, false};
    btl_ib_cc_ack_t true_one = {now, 0, 1, 2000, 2000, 2000, false, false};

    cc.ops->acked(&cc, &late);
    assert_true(cc.pace > 1000000);
    cc.ops->acked(&cc, &true_one);
    assert_in_range(cc.pace, 1, 2000000 / cc.window);
}

/* The longer the path and the smaller the window, the slower, up to a bound, whatever 32 bits
 * hold. */
TEST_WITH(test_pace_is_bounded, setup, NULL)
{
    static const uint32_t rtts[] = {16000, 33000, 67200, 134400, 6000000, 400000000, UINT32_MAX};

    for (size_t i = 0; i < sizeof(rtts) / sizeof(rtts[0]); i++) {
        uint32_t rtt = rtts[i];
        setup(NULL);
        for (uint32_t round = 0; round < 2000; round++) {
            full_round(rtt, round == 0 ? 0 : 2 + cc.window / 2, false);
            uint64_t exact = (uint64_t) rtt * 1000 * 256 / cc.swift.window;
            uint64_t least = exact / 2 < 2000000000 ? exact / 2 : 2000000000;
            assert_in_range(cc.pace, least, 2000000000);
        }
        assert_int_equal(cc.swift.window, 4);
    }
}

/* The route changes to a longer one: the window is back within two periods of 5 s. */
TEST_WITH(test_longer_route, setup, NULL)
{
    settle_at(500);
    uint64_t begun = now;
    while (now < begun + 11000000) {
        round_trip(3000);
    }
    assert_true(cc.window > 500);
    assert_true(cc.pace > 0); /* and long enough to be paced */
    assert_in_range((uint64_t) cc.pace * cc.window, 2200000, 2450000);
}

/* One message at a time, mostly without a sign of anything: such rounds count among those that
 * losses are compared with, and a route that became a bit longer is learned from them. */
TEST_WITH(test_calm_rounds, setup, NULL)
{
    settle_at(128);
    cc.swift.seen = 0;
    for (uint32_t i = 0; i < 40; i++) {
        const btl_ib_cc_ack_t ack = {now + BASE, now, 1, BASE, BASE, BASE, false, false};
        now += BASE;
        cc.ops->acked(&cc, &ack);
        assert_int_equal(cc.swift.seen, i + 1);
        assert_int_equal(cc.swift.round_at, now);
    }
    assert_int_equal(cc.window, 128);
    assert_int_equal(cc.swift.base, BASE);
    for (const uint64_t begun = now; now < begun + 11000000;) {
        const btl_ib_cc_ack_t ack = {now + BASE + 5, now,      1,     BASE + 5,
                                     BASE + 5,       BASE + 5, false, false};
        now += BASE + 5;
        cc.ops->acked(&cc, &ack);
        assert_in_range(cc.swift.seen, 0, 63);
    }
    assert_int_equal(cc.swift.base, BASE + 5);
    assert_int_equal(cc.window, 128);
}

/* A round trip of `count` datagrams with ECT(0), `ce` of which were marked. Returns whether that
 * was answered. */
static bool marked_round(uint32_t delay, uint32_t count, uint32_t ce)
{
    const btl_ib_cc_marks_t marks = {.now = now + delay, .sent_at = now, .count = count, .ce = ce};
    const bool cut = cc.ops->marked(&cc, &marks);

    full_round(delay, 0, true);
    return cut;
}

/* The first mark halves the window, but for a path without a queue that of half of it.
 * protocol: R69 */
TEST_WITH(test_first_mark, setup, NULL)
{
    settle_at(1000);
    const uint32_t window = cc.window;
    round_trip(BASE);
    assert_true(marked_round(BASE, 100, 1));
    assert_in_range(cc.window, window * 3 / 4 - 32, window * 3 / 4 + 32);
}

/* A share that stays is answered by half of it; that of a round at most once in it. */
TEST_WITH(test_share_of_marks, setup, NULL)
{
    settle_at(1000);
    for (int i = 0; i < 200; i++) {
        (void) marked_round(BASE, 1000, 0);
        assert_true(cc.swift.alpha < 65536);
    }
    assert_int_equal(cc.window, MAX);
    for (int i = 0; i < 100; i++) {
        (void) marked_round(BASE, 10, 1);
    }
    assert_in_range(cc.swift.alpha, 65536 / 10 - 200, 65536 / 10 + 200);
    const uint32_t window = cc.window;
    const btl_ib_cc_marks_t marks = {.now = now + BASE, .sent_at = now, .count = 10, .ce = 1};
    assert_true(cc.ops->marked(&cc, &marks));
    assert_in_range(cc.window, window - window / 40 - 2, window - window / 40 + 2);
    const uint32_t cut = cc.window;
    for (int i = 0; i < 10; i++) {
        assert_false(cc.ops->marked(&cc, &marks));
    }
    assert_int_equal(cc.window, cut);
}

/* All is marked for ever: a few segments remain. */
TEST_WITH(test_all_marked, setup, NULL)
{
    settle_at(1000);
    for (int i = 0; i < 200; i++) {
        (void) marked_round(BASE, 100, 100);
        assert_true(cc.window >= 4);
    }
    assert_in_range(cc.window, 4, 8);
}

/* Marks of a queue that delays by more than half of what is allowed are answered by half of their
 * share, marks without one by a quarter. */
TEST_WITH(test_marks_of_a_short_queue, setup, NULL)
{
    for (uint32_t queue = 10; queue <= 11; queue++) {
        setup(NULL);
        settle_at(1000);
        round_trip(BASE);
        const uint32_t window = cc.window;
        now += BASE + queue;
        const btl_ib_cc_ack_t ack = {now,          0,    1,    BASE + queue, BASE + queue,
                                     BASE + queue, true, false};
        cc.ops->acked(&cc, &ack); /* no round ends */
        const btl_ib_cc_marks_t marks = {.now = now, .sent_at = now - 1, .count = 1, .ce = 1};
        assert_true(cc.ops->marked(&cc, &marks));
        const uint32_t left = queue == 10 ? window * 3 / 4 : window / 2;
        assert_in_range(cc.window, left - 1, left + 1);
    }
}

/* A mark's cut begins a round: what was on its way then is no news. */
TEST_WITH(test_marks_begin_a_round, setup, NULL)
{
    settle_at(1000);
    assert_true(marked_round(BASE, 100, 1));
    assert_true(cc.swift.queued);
    now += BASE;
    const btl_ib_cc_marks_t marks = {.now = now, .sent_at = now, .count = 100, .ce = 100};
    assert_true(cc.ops->marked(&cc, &marks));
    const btl_ib_cc_ack_t old = {now, now - 1, 1, BASE, BASE, BASE, true, false};
    const uint32_t window = cc.window;
    cc.ops->acked(&cc, &old);
    assert_int_equal(cc.window, window);
    assert_int_equal(cc.swift.samples, 1);
}

/* Paths from 50 us on are paced: at twice the rate of the window while it doubles, then at 5/4 of
 * it. */
TEST_WITH(test_pace, setup, NULL)
{
    full_round(49, 0, false);
    assert_int_equal(cc.pace, 0);
    setup(NULL);
    full_round(50, 0, false);
    assert_int_equal(cc.pace, 50 * 1000 / cc.window / 2);
    setup(NULL);
    settle_at(1000);
    assert_int_equal(cc.pace, (uint64_t) BASE * 1000 * 256 / cc.swift.window * 4 / 5);
}

/* A quarter of the window leaves at once, and one segment: at least two, at most sixteen or one
 * burst of the offload. */
TEST_WITH(test_burst, setup, NULL)
{
    settle_at(4);
    full_round(BASE, 0, false);
    assert_int_equal(cc.burst, 2);
    settle_at(40);
    round_trip(BASE);
    assert_int_equal(cc.burst, cc.window / 4 + 1);
    settle_at(1000);
    round_trip(BASE);
    assert_int_equal(cc.burst, 16);
    cc.gso_segments = 44;
    round_trip(BASE);
    assert_int_equal(cc.burst, 44);
}

/* The end of a round says what made it long: a queue, or a receiver, but for one that paused. */
TEST_WITH(test_what_a_round_was, setup, NULL)
{
    static const struct {
        uint32_t delay, awake;
        bool paused;
        btl_ib_cc_round_t was;
    } rounds[] = {
        {TARGET, BASE + 50, false, BTL_IB_CC_ROUND_NONE},
        {TARGET + 1, TARGET + 1, false, BTL_IB_CC_ROUND_QUEUED},
        {TARGET + 1, BASE + 51, false, BTL_IB_CC_ROUND_QUEUED},
        {BASE, BASE + 51, false, BTL_IB_CC_ROUND_HOST},
        {BASE, BASE + 51, true, BTL_IB_CC_ROUND_NONE},
        {TARGET + 1, TARGET + 1, true, BTL_IB_CC_ROUND_NONE},
        {TARGET + 101, TARGET + 101, true, BTL_IB_CC_ROUND_QUEUED},
    };

    settle_at(100);
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        const uint64_t sent_at = now;
        now += 200;
        const btl_ib_cc_ack_t ack = {.now = now,
                                     .sent_at = sent_at,
                                     .count = 1,
                                     .rtt = 200,
                                     .delay = rounds[i].delay,
                                     .awake = rounds[i].awake,
                                     .paused = rounds[i].paused};
        assert_int_equal(cc.ops->acked(&cc, &ack), rounds[i].was);
        now++;
    }
    now += 200; /* without a sample nothing is known */
    const btl_ib_cc_ack_t ack = {.now = now, .sent_at = now, .count = 1};
    assert_int_equal(cc.ops->acked(&cc, &ack), BTL_IB_CC_ROUND_NONE);
    const btl_ib_cc_ack_t early = {
        .now = now, .sent_at = now - 1, .count = 1, .rtt = 500, .delay = 500, .awake = 500};
    assert_int_equal(cc.ops->acked(&cc, &early), BTL_IB_CC_ROUND_NONE);
}

/* Of 64 segments and more the share of those lost is taken: an eighth is borne, more reduces the
 * window by its share, half of it at most. */
TEST_WITH(test_share_of_losses, setup, NULL)
{
    static const struct {
        uint32_t seen, lost, percent; /* left of the window */
    } shares[] = {{63, 20, 100}, {64, 8, 100}, {64, 9, 86},
                  {64, 16, 75},  {64, 32, 50}, {64, 63, 50}};

    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        setup(NULL);
        settle_at(1000);
        cc.swift.seen = 0;
        const uint32_t window = cc.window;
        for (uint32_t n = 0; n < shares[i].lost; n++) {
            cc.ops->lost(&cc, now, now);
        }
        now += BASE;
        const btl_ib_cc_ack_t ack = {
            now, now - BASE, shares[i].seen - shares[i].lost, BASE, BASE, BASE, false, false};
        cc.ops->acked(&cc, &ack);
        assert_in_range(cc.window, window * shares[i].percent / 100 - 2,
                        window * shares[i].percent / 100 + 1);
    }
}

/* A window that loses more than is borne does not grow until that was judged. */
TEST_WITH(test_losing_does_not_grow, setup, NULL)
{
    settle_at(10);
    cc.swift.seen = 0;
    cc.ops->lost(&cc, now, now);
    cc.ops->lost(&cc, now, now);
    const uint32_t window = cc.swift.window;
    round_trip(BASE); /* two of twelve */
    assert_int_equal(cc.swift.window, window);
    round_trip(BASE); /* two of 22 */
    assert_true(cc.swift.window > window);
}

/* What cutting did not cure is borne from then on, with half as much again, up to 3/8; and no more
 * when hardly anything is lost. */
TEST_WITH(test_bears_what_it_cannot_cure, setup, NULL)
{
    settle_at(1000);
    full_round(BASE, cc.window / 5, false);
    uint32_t window = cc.window;
    assert_true(window < 1000);
    full_round(BASE, cc.window / 5, false);
    assert_int_equal(cc.window, window);
    full_round(BASE, cc.window * 28 / 100, false);
    assert_int_equal(cc.window, window);
    full_round(BASE, cc.window * 32 / 100, false); /* more than 1.5 times a fifth */
    assert_true(cc.window < window);
    for (int i = 0; i < 10; i++) {
        full_round(BASE, cc.window * 36 / 100, false);
    }
    window = cc.window;
    assert_true(window > 200);
    full_round(BASE, cc.window * 39 / 100, false); /* more than 3/8 */
    assert_true(cc.window < window);
    full_round(BASE, 0, false);
    window = cc.window;
    full_round(BASE, cc.window / 5, false);
    assert_true(cc.window < window);
}

/* A receiver that is slower than its network gets what the path holds and 128 segments more, with
 * no cut for a queue; the doubling ends there. */
TEST_WITH(test_bound_for_a_host, setup, NULL)
{
    settle_at(1000);
    const uint32_t window = cc.window;
    busy_host(400, 1);
    assert_in_range(cc.window, window / 4 + 128 - 1, window / 4 + 128 + 1);
    setup(NULL);
    full_round(BASE, 0, false);
    round_trip(BASE);
    round_trip(BASE);
    assert_int_equal(cc.window, 256);
    busy_host(400, 10);
    assert_true(cc.window < 256);
    const uint32_t bound = cc.window;
    round_trip(BASE);
    assert_int_equal(cc.window, bound + 1);
}

/* Losses beside a queue are cured by less: nothing of them is borne. */
TEST_WITH(test_losses_of_a_queue, setup, NULL)
{
    settle_at(1000);
    for (int i = 0; i < 4; i++) {
        const uint32_t window = cc.window;
        full_round(BASE + 15, window / 5, false);
        assert_in_range(cc.window, window * 79 / 100, window * 82 / 100);
    }
}

/* A sender of one message at a time stays at the initial window, also where answers are a bit
 * late. */
TEST_WITH(test_initial_window_is_enough, setup, NULL)
{
    settle_at(100);
    cc.swift.window = 64 * 256;
    cc.window = 64;
    for (int i = 0; i < 20; i++) {
        full_round(BASE + 15, 0, false);
    }
    assert_int_equal(cc.window, 64);
}

/* Sets the window, in units of 1/256 segment, as after a long way; nothing else is new. */
static void set_window(uint32_t window)
{
    cc.swift.window = window;
    cc.window = window < 256 ? 1 : window / 256;
}

/* One acknowledgement of a round that is not limited by the window, and ends with it. */
static void single(uint32_t delay)
{
    const btl_ib_cc_ack_t ack = {now + delay, now, 1, delay, delay, delay, false, false};

    now += delay;
    cc.ops->acked(&cc, &ack);
    now++;
}

/* A window that has reached the end of its doubling, or is one segment, is paced at 5/4 of its
 * rate; below one segment at its rate. */
TEST_WITH(test_pace_at_the_bounds, setup, NULL)
{
    settle_at(1000);
    const uint32_t shorter = cc.swift.base - 1;
    cc.swift.slow_start = cc.swift.window;
    single(shorter);
    assert_int_equal(cc.pace, (uint64_t) shorter * 1000 * 256 / cc.swift.window * 4 / 5);
    set_window(256);
    cc.swift.slow_start = 0;
    single(shorter - 1);
    assert_true(cc.swift.window > 256);
    assert_int_equal(cc.burst, 2);
    cc.swift.window = 255;
    cc.ops->undo(&cc);
    cc.swift.undo = 255; /* sets the window as it is */
    cc.swift.lost = 0;
    cc.ops->undo(&cc);
    assert_int_equal(cc.burst, 1);
    assert_int_equal(cc.pace, (uint64_t) cc.swift.base * 1000 * 256 / 255);
    cc.swift.window = cc.swift.undo = 256;
    cc.ops->undo(&cc);
    assert_int_equal(cc.burst, 2);
    assert_int_equal(cc.pace, (uint64_t) cc.swift.base * 1000 * 4 / 5);
}

/* Four segments of our own in a queue are none too many. */
TEST_WITH(test_four_segments_of_a_queue, setup, NULL)
{
    for (uint32_t more = 0; more <= 2; more += 2) {
        settle_at(100);
        set_window(8 * 256 + more);
        full_round(2 * BASE, 0, false); /* half of it waits in the queue */
        assert_int_equal(cc.swift.window<8 * 256 + more, more> 0);
        setup(NULL);
    }
}

/* The cut that empties the queue takes no more than half of a window. */
TEST_WITH(test_drain_of_a_small_window, setup, NULL)
{
    settle_at(100);
    set_window(24 * 256);
    cc.swift.cuts = 3;
    round_trip(BASE * 5 / 4);
    assert_int_equal(cc.swift.window, 12 * 256);
}

/* Of a long path an eighth is allowed. */
TEST_WITH(test_allowance_of_a_long_path, setup, NULL)
{
    full_round(800, 0, false);
    round_trip(800);
    const btl_ib_cc_ack_t borne = {now + 900, now, 1, 900, 900, 900, false, false};
    assert_int_equal(cc.ops->acked(&cc, &borne), BTL_IB_CC_ROUND_HOST);
    now += 1000;
    const btl_ib_cc_ack_t queue = {now + 901, now, 1, 901, 901, 901, false, false};
    assert_int_equal(cc.ops->acked(&cc, &queue), BTL_IB_CC_ROUND_QUEUED);
}

/* Eight samples of a queue end the doubling within a round, seven do not. */
TEST_WITH(test_doubling_ends_within_a_round, setup, NULL)
{
    full_round(BASE, 0, false);
    round_trip(BASE);
    const uint32_t window = cc.window;
    now += 3 * BASE;
    for (uint32_t i = 1; i <= 8; i++) {
        const btl_ib_cc_ack_t ack = {now, 0, 1, 3 * BASE, 3 * BASE, 3 * BASE, true, false};
        cc.ops->acked(&cc, &ack);
        if (i < 8) {
            assert_int_equal(cc.window, window + i);
        }
    }
    assert_true(cc.window < window);
}

/* Data may lie at their receiver for 50 us, however large the window. */
TEST_WITH(test_a_moment_at_the_receiver, setup, NULL)
{
    settle_at(1000);
    const uint32_t window = cc.window;
    const btl_ib_cc_ack_t borne = {now + 150, now, 1, BASE + 50, BASE, BASE + 50, false, false};
    cc.ops->acked(&cc, &borne);
    assert_int_equal(cc.window, window);
    now += 1000;
    const btl_ib_cc_ack_t longer = {now + 151, now, 1, BASE + 51, BASE, BASE + 51, false, false};
    cc.ops->acked(&cc, &longer);
    const uint32_t bound = window * BASE / (BASE + 51) + 128;
    assert_in_range(cc.window, bound - 1, bound + 1);
}

/* Marks in each round do not keep losses from being judged. */
TEST_WITH(test_marks_beside_losses, setup, NULL)
{
    for (uint32_t seen = 63; seen <= 64; seen++) {
        setup(NULL);
        settle_at(1000);
        const uint32_t window = cc.window;
        cc.swift.seen = seen - 32;
        for (int i = 0; i < 32; i++) {
            cc.ops->lost(&cc, now, now);
        }
        const btl_ib_cc_marks_t marks = {.now = now, .sent_at = now - 1, .count = 1, .ce = 1};
        assert_true(cc.ops->marked(&cc, &marks));
        assert_int_equal(cc.swift.lost, seen == 64 ? 0 : 32);
        const uint32_t left = seen == 64 ? window * 3 / 8 : window * 3 / 4;
        assert_in_range(cc.window, left - 1, left + 1);
    }
}

/* Marks are of the round in which their datagrams were sent. */
TEST_WITH(test_marks_of_a_round, setup, NULL)
{
    settle_at(1000);
    btl_ib_cc_marks_t marks = {.now = now, .sent_at = now, .count = 10, .ce = 1};
    assert_true(cc.ops->marked(&cc, &marks));
    const uint32_t alpha = cc.swift.alpha;
    marks.now = now + BASE;
    marks.sent_at = now - 1; /* before the cut */
    assert_false(cc.ops->marked(&cc, &marks));
    assert_int_equal(cc.swift.alpha, alpha);
    marks.sent_at = now; /* and then, with those before */
    marks.count = 30;
    marks.ce = 7;
    assert_true(cc.ops->marked(&cc, &marks));
    assert_int_equal(cc.swift.alpha, alpha - alpha / 16 + 65536 * 8 / 40 / 16);
    marks.now += BASE;
    marks.sent_at = now + BASE;
    marks.ce = 0;
    assert_false(cc.ops->marked(&cc, &marks));
}

/* After a silence it doubles to where it was; to where losses had cut it if that was more. */
TEST_WITH(test_doubles_after_a_silence, setup, NULL)
{
    settle_at(1000);
    const uint32_t window = cc.swift.window;
    cc.ops->restart(&cc);
    assert_int_equal(cc.swift.slow_start, window);
    assert_int_equal(cc.swift.window, 64 * 256);
    cc.ops->restart(&cc); /* it is there already */
    assert_int_equal(cc.swift.slow_start, window);
    set_window(64 * 256 + 1);
    cc.ops->restart(&cc);
    assert_int_equal(cc.swift.slow_start, window);
    assert_int_equal(cc.swift.window, 64 * 256);
}

/* A loss that was none is taken back once, and the share that it was cut for with it. */
TEST_WITH(test_undo_forgets_the_share, setup, NULL)
{
    settle_at(1000);
    full_round(BASE, cc.window / 4, false);
    assert_true(cc.swift.share > 0);
    cc.ops->undo(&cc);
    assert_int_equal(cc.swift.share, 0);
    assert_int_equal(cc.swift.undo, 0);
    full_round(BASE, cc.window / 5, false); /* the first of its kind, so that it may be cured */
    assert_int_equal(cc.swift.bearable, 0);
    full_round(BASE, 0, false); /* that is past, and what the queue holds is known */
    const uint32_t overflow = cc.swift.overflow;
    assert_int_not_equal(overflow, UINT32_MAX);
    cc.swift.lost = 0;
    cc.ops->undo(&cc);
    assert_int_equal(cc.swift.overflow, overflow);
}

/* What is three quarters of the share before was not cured. */
TEST_WITH(test_cured_or_not, setup, NULL)
{
    for (uint32_t lost = 23; lost <= 24; lost++) {
        setup(NULL);
        settle_at(1000);
        cc.swift.share = 64; /* a quarter */
        cc.swift.queued = false;
        cc.swift.seen = 128 - lost - 1;
        for (uint32_t i = 0; i < lost; i++) {
            cc.ops->lost(&cc, now, now);
        }
        single(BASE);
        assert_int_equal(cc.swift.bearable, lost == 24 ? 48 + 24 : 0);
    }
}

/* What is borne is forgotten when less than a quarter of it is lost. */
TEST_WITH(test_forgets_what_it_bore, setup, NULL)
{
    for (uint32_t lost = 11; lost <= 12; lost++) {
        setup(NULL);
        settle_at(1000);
        cc.swift.share = 0;
        cc.swift.bearable = 96; /* of 256 */
        cc.swift.seen = 128 - lost - 1;
        for (uint32_t i = 0; i < lost; i++) {
            cc.ops->lost(&cc, now, now);
        }
        single(BASE);
        assert_int_equal(cc.swift.bearable, lost == 12 ? 96 : 0);
    }
}

UNIT_MAIN(NULL, NULL)
