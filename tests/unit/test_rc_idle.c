/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: connections that nobody uses are closed, on a device that is none. */

#include <errno.h>
#include <string.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "rdma_sides.h"
#include "support.h"
#include "unit.h"

enum {
    IDLE = 2, /* seconds */
    QUARTERS = 4 * IDLE + 3,
    RDMA_CHANNEL = BTL_IB_RC_RDMA_CHANNEL,
};

static void look_alone(int i)
{
    for (int k = 0; k < 100; k++) {
        look(i);
    }
}

/* Only one does. */
static void pass_alone(int i, int quarters)
{
    while (quarters-- > 0) {
        fake.now += QUARTER;
        look_alone(i);
    }
}

/* Both sides anew; each closes what is idle after that many seconds, 0: never. */
static void begin_with(void **state, uint32_t idle_0, uint32_t idle_1)
{
    end_first(state);
    params.rc.idle = idle_0;
    open_side(0);
    params.rc.idle = idle_1;
    open_side(1);
    add(0, 1);
    add(1, 0);
    expose_both();
}

/* Side 0 closes what is idle, side 1 only if `both`. */
static void begin_idle(void **state, bool both)
{
    begin_with(state, IDLE, both ? IDLE : 0);
}

/* `asker` has asked, the other side has agreed, and the asker has yet to look. */
static void make_agreed_with(int asker, uint8_t channel)
{
    pass(3);
    pass_alone(asker, QUARTERS);
    look_alone(1 - asker);
    assert_true(conn_of(asker, 1 - asker, channel).open);
    assert_true(conn_of(1 - asker, asker, channel).agreed);
}

static void make_agreed(uint8_t channel)
{
    make_agreed_with(0, channel);
}

static bool connected(uint8_t channel)
{
    return conn_of(0, 1, channel).qp != NULL || conn_of(1, 0, channel).qp != NULL;
}

static void assert_nothing_lost(void)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sides[i].broken, 0);
        assert_int_equal(sides[i].failed + sides[i].down + sides[i].refused, 0);
        assert_int_equal(sides[i].disorder, 0);
    }
}

/* ---- messages ---- */

/* After the time that was asked for, and with all their memory; the next message opens them
 * again. */
RDMA_TEST(silent_ones_are_closed)
{
    for (int both = 0; both < 2; both++) {
        begin_idle(state, both == 1);
        const int qps = fake.qps;
        const int mrs = fake.mrs;
        connect_sides(0, 1, 1);
        for (int i = 0; i < 3; i++) {
            pass(4 * IDLE - 3);
            assert_int_equal(send_one(i % 2, (i + 1) % 2, LONG, 1), 0); /* in use */
        }
        assert_int_equal(fake.requests, 1);
        pass(QUARTERS);
        assert_false(connected(1));
        assert_int_equal(fake.qps, qps);
        assert_int_equal(fake.mrs, mrs);
        assert_false(rc_inside(sides[0].t).closed || rc_inside(sides[1].t).closed);
        const int received = sides[0].received;
        assert_int_equal(send_one(1, 0, SMALL, 1), EAGAIN);
        settle();
        assert_int_equal(send_one(1, 0, SMALL, 1), 0);
        settle();
        assert_int_equal(sides[0].received, received + 1);
        assert_int_equal(fake.requests, 2);
        assert_nothing_lost();
    }
}

/* The first queue, by which the engine asks silent peers, stays; unless it does not ask. */
RDMA_TEST(first_stays)
{
    for (int closed = 0; closed < 2; closed++) {
        params.rc.idle_first = closed == 1;
        begin_idle(state, true);
        connect_sides(0, 1, 0);
        pass(4 * QUARTERS);
        assert_int_equal(connected(0), closed == 0);
        assert_nothing_lost();
    }
}

/* As long as neither side wants to. */
RDMA_TEST(never)
{
    connect_sides(0, 1, 1);
    const uint32_t posts = fake.posts;
    pass(10 * QUARTERS);
    assert_true(connected(1));
    assert_in_range(fake.posts, posts, posts + 1); /* it is roused once */
}

/* A message that crosses the answer: the connection stays, and nothing is lost. */
RDMA_TEST(one_that_is_used_again_stays)
{
    begin_idle(state, false);
    connect_sides(0, 1, 1);
    make_agreed(1);
    assert_int_equal(send_one(1, 0, LONG, 1), EAGAIN); /* it keeps to that */
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    settle();
    assert_true(conn_of(0, 1, 1).open && conn_of(1, 0, 1).open);
    assert_int_equal(send_one(1, 0, LONG, 1), 0);
    settle();
    assert_int_equal(sides[1].received, 2);
    assert_int_equal(sides[0].received, 1);
    assert_int_equal(fake.requests, 1);
    pass(2 * QUARTERS); /* it asks again */
    assert_false(connected(1));
    assert_nothing_lost();
}

/* A side that has agreed, and wants to send: it waits for the end, and connects. */
RDMA_TEST(one_that_agreed_connects_anew)
{
    begin_idle(state, false);
    connect_sides(0, 1, 1);
    make_agreed(1);
    assert_int_equal(send_one(1, 0, LONG, 1), EAGAIN);
    settle();
    assert_false(connected(1));
    assert_int_equal(send_one(1, 0, LONG, 1), EAGAIN);
    settle();
    assert_int_equal(send_one(1, 0, LONG, 1), 0);
    settle();
    assert_int_equal(sides[0].received, 1);
    assert_int_equal(fake.requests, 2);
    assert_nothing_lost();
}

/* It does not wait for ever for a peer that computes, or is no more. */
RDMA_TEST(one_that_agreed_waits_ten_seconds)
{
    begin_idle(state, false);
    connect_sides(0, 1, 1);
    make_agreed(1);
    pass_alone(1, 50);
    assert_true(conn_of(1, 0, 1).agreed); /* there is no hurry */
    for (int i = 0; i < 38; i++) {
        assert_int_equal(send_one(1, 0, LONG, 1), EAGAIN);
        pass_alone(1, 1);
        assert_true(conn_of(1, 0, 1).agreed);
    }
    pass_alone(1, 4);
    assert_null(conn_of(1, 0, 1).qp);
    assert_int_equal(send_one(1, 0, LONG, 1), EAGAIN);
    settle();
    assert_int_equal(send_one(1, 0, LONG, 1), 0);
    settle();
    assert_int_equal(sides[0].received, 1);
    assert_int_equal(sides[1].broken, 0);
}

/* What the engine has of it keeps a connection open. */
RDMA_TEST(held_buffers_keep_it)
{
    begin_idle(state, false);
    connect_sides(0, 1, 1);
    sides[1].keeps = true;
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    pass(4 * QUARTERS);
    assert_true(conn_of(0, 1, 1).open && conn_of(1, 0, 1).open);
    sides[1].t->ops->repost(sides[1].t, sides[1].held, 1);
    pass(2 * QUARTERS);
    assert_false(connected(1));
    assert_nothing_lost();
}

/* A question to a peer that computed for long comes behind what it has yet to look at. */
RDMA_TEST(one_that_has_just_looked_declines)
{
    begin_idle(state, false);
    connect_sides(0, 1, 1);
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    pass_alone(0, 4 * QUARTERS);
    settle();
    assert_true(conn_of(0, 1, 1).open && conn_of(1, 0, 1).open);
    assert_int_equal(sides[1].received, 2);
    pass(2 * QUARTERS);
    assert_false(connected(1));
    assert_nothing_lost();
}

/* Its shared buffers come back. */
RDMA_TEST(shared_buffers_come_back)
{
    params.queue[1] = (btl_ib_open_queue_t){.size = SIZE_1, .num = 64, .shared = true};
    begin_idle(state, true);
    connect_sides(0, 1, 1);
    for (int i = 0; i < 80; i++) {
        pass(2 * QUARTERS); /* the side that connected is not silent for its first second */
        assert_false(connected(1));
        assert_int_equal(send_one(i % 2, (i + 1) % 2, SMALL, 1), EAGAIN);
        settle();
        assert_int_equal(send_one(i % 2, (i + 1) % 2, SMALL, 1), 0);
        settle();
    }
    pass(QUARTERS);
    for (int i = 0; i < 2; i++) { /* others are idle */
        assert_in_range(fake_rdma_posted(rc_srq(sides[i].t, 1)), 33, 64);
    }
    assert_nothing_lost();
}

/* Both sides write into rings of eager RDMA. */
static void begin_with_rings(void **state)
{
    params.rc.eager_peers = 2;
    params.rc.eager_slots = 8;
    params.rc.idle_first = true;
    begin_idle(state, false);
    connect_sides(0, 1, 0);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(send_one(i % 2, (i + 1) % 2, SMALL, 0), 0);
        settle();
    }
}

/* With rings of eager RDMA, that are written to while it is asked. */
RDMA_TEST(with_rings)
{
    begin_with_rings(state);
    const int received = sides[1].received;
    make_agreed(0);
    const uint32_t used = conn_of(0, 1, 0).eager_used;
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    assert_int_equal(conn_of(0, 1, 0).eager_used, used + 1);
    settle();
    assert_int_equal(sides[1].received, received + 1);
    assert_true(conn_of(1, 0, 0).open);
    pass(2 * QUARTERS);
    assert_false(connected(0));
    assert_int_equal(rc_inside(sides[1].t).eagers, 0);
    assert_nothing_lost();
}

/* A device that takes nothing out of requests, and one of iWARP. */
RDMA_TEST(other_devices)
{
    for (int iwarp = 0; iwarp < 2; iwarp++) {
        end_first(state);
        fake.iwarp = iwarp == 1;
        fake.inline_max = iwarp == 1 ? 256 : 0;
        params.rc.idle = IDLE;
        begin_again();
        connect_sides(0, 1, 1);
        pass(2 * QUARTERS);
        assert_false(connected(1));
        assert_nothing_lost();
    }
}

/* ---- what is short, and what is late ---- */

/* A side that agreed switches its rings off before it sleeps. */
RDMA_TEST(one_that_agreed_may_sleep)
{
    begin_with_rings(state);
    make_agreed(0);
    assert_int_equal(rc_inside(sides[1].t).eagers, 1);
    assert_int_equal(sides[1].t->ops->wait_fd(sides[1].t), -1); /* side 0 is told first */
    pass_alone(1, 3);
    assert_true(conn_of(1, 0, 0).agreed);
    assert_true(sides[1].t->ops->wait_fd(sides[1].t) >= 0);
    settle();
    assert_false(connected(0));
    assert_nothing_lost();
}

/* Its patience with the next connection is that of any: it begins when that is wanted. */
RDMA_TEST(patience_begins_anew)
{
    begin_idle(state, false);
    connect_sides(0, 1, 1);
    make_agreed(1);
    for (int i = 0; i < 44 && conn_of(1, 0, 1).qp != NULL; i++) {
        (void) send_one(1, 0, LONG, 1);
        pass_alone(1, 1);
    }
    assert_null(conn_of(1, 0, 1).qp);
    fake.connect_error = ETIMEDOUT;
    for (int i = 0; i < 38; i++) {
        assert_int_equal(send_one(1, 0, LONG, 1), EAGAIN);
        look_alone(1); /* the attempt fails */
        assert_int_equal(send_one(1, 0, LONG, 1), EAGAIN);
        fake.now += QUARTER;
    }
    fake.now += 4 * QUARTER;
    (void) send_one(1, 0, LONG, 1);
    look_alone(1);
    assert_int_equal(send_one(1, 0, LONG, 1), EHOSTUNREACH);
    fake.connect_error = 0;
}

/* An answer for which there was no room comes with a later look; so does the message that the
 * connection stays. */
RDMA_TEST(answers_are_made_up_for)
{
    for (uint8_t channel = 1; channel <= RDMA_CHANNEL; channel += RDMA_CHANNEL - 1) {
        begin_idle(state, false);
        if (channel == RDMA_CHANNEL) {
            join();
        } else {
            connect_sides(0, 1, channel);
        }
        pass(3);
        pass_alone(0, QUARTERS);
        fake.post_left = 0;
        fake.post_error = ENOMEM;
        look_alone(1);
        assert_int_equal(fake.post_left, -1);
        assert_true(conn_of(1, 0, channel).agreed);
        if (channel == RDMA_CHANNEL) {
            assert_int_equal(start_read(&ops[0], 0, 64), 0);
        } else {
            assert_int_equal(send_one(0, 1, LONG, channel), 0);
        }
        fake.post_left = 0;
        look_alone(0);
        assert_int_equal(fake.post_left, -1);
        assert_true(conn_of(0, 1, channel).open);
        look_alone(1); /* the message says so itself; of operations it sees nothing */
        assert_int_equal(conn_of(1, 0, channel).agreed, channel == RDMA_CHANNEL);
        pass_alone(0, 2);
        look_alone(1);
        assert_true(conn_of(1, 0, channel).open);
        pass(2 * QUARTERS);
        assert_false(connected(channel));
        assert_nothing_lost();
    }
}

/* As many as are closed at once must not take the time of others. */
RDMA_TEST(few_are_closed_at_a_time)
{
    enum { CHANNELS = 12 };

    params.queue_count = CHANNELS;
    for (int i = 0; i < CHANNELS; i++) {
        params.queue[i] = (btl_ib_open_queue_t){.size = SIZE_0 + 64u * (uint32_t) i, .num = 4};
    }
    params.rc.idle_first = true;
    begin_idle(state, false);
    for (uint8_t i = 0; i < CHANNELS; i++) {
        assert_int_equal(send_one(0, 1, SMALL, i), EAGAIN);
    }
    settle();
    pass(4 * IDLE);
    int open = CHANNELS, before = CHANNELS;
    for (int i = 0; i < QUARTERS; i++) {
        pass(1);
        open = 0;
        for (uint8_t k = 0; k < CHANNELS; k++) {
            open += connected(k);
        }
        assert_in_range(before - open, 0, 8);
        before = open;
    }
    assert_int_equal(open, 0);
    assert_nothing_lost();
}

/* ---- operations on memory ---- */

/* Their queue pair is closed, too; not while any is under way. */
RDMA_TEST(operations_keep_it)
{
    begin_idle(state, true);
    join();
    fake.hold_ops = true;
    assert_int_equal(start_read(&ops[0], 0, 64), 0);
    for (int i = 0; i < 9; i++) { /* seconds: then it would be given up */
        pass(4);
        assert_true(conn_of(0, 1, RDMA_CHANNEL).open);
    }
    fake.hold_ops = false;
    while (fake_rdma_work(100) > 0) {
    }
    settle();
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, 0);
    pass(2 * QUARTERS);
    assert_false(connected(RDMA_CHANNEL));
    join();
    assert_nothing_lost();
}

/* A target gets no completions, and asks in the midst of a peer's operations: the peer agrees only
 * once it began none for half of the time. */
RDMA_TEST(operations_of_a_peer_keep_it)
{
    begin_idle(state, true);
    join();
    const uint32_t requests = fake.requests;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(start_read(&ops[0], 0, 64), 0);
        settle();
        assert_int_equal(ops[0].error, 0);
        pass(4 * IDLE / 2 - 1);
        assert_true(conn_of(0, 1, RDMA_CHANNEL).open);
        assert_true(conn_of(1, 0, RDMA_CHANNEL).open);
    }
    assert_int_equal(ops[0].events, 40);
    assert_int_equal(fake.requests, requests);
    pass(2 * QUARTERS); /* it asks again, and the peer has been silent meanwhile */
    assert_false(connected(RDMA_CHANNEL));
    assert_nothing_lost();
}

/* The same while the initiator is silent for more than half of the time, but less than all of it:
 * it agrees, and connects anew for what comes next. */
RDMA_TEST(rare_operations_connect_anew)
{
    begin_idle(state, true);
    join();
    const uint32_t requests = fake.requests;
    for (int i = 0; i < 8; i++) {
        pass(4 * IDLE - 1);
        while (start_read(&ops[0], 0, 64) != 0) {
            settle();
        }
        settle();
        assert_int_equal(ops[0].error, 0);
    }
    assert_int_equal(ops[0].events, 8);
    assert_in_range(fake.requests, requests + 1, requests + 8);
    assert_nothing_lost();
}

/* One that begins when the peer has agreed already. */
RDMA_TEST(operations_begin_again)
{
    begin_idle(state, false);
    join();
    make_agreed(RDMA_CHANNEL);
    fake.hold_ops = true;
    assert_int_equal(start_read(&ops[0], 0, 64), 0);
    settle();
    assert_true(conn_of(0, 1, RDMA_CHANNEL).open);
    fake.hold_ops = false;
    while (fake_rdma_work(100) > 0) {
    }
    settle();
    assert_true(conn_of(1, 0, RDMA_CHANNEL).open);
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, 0);
    pass(2 * QUARTERS);
    assert_false(connected(RDMA_CHANNEL));
    assert_nothing_lost();
}

/* A process that computes is asked once, however often the connection is used and silent again
 * meanwhile: it has few buffers for that. */
RDMA_TEST(one_that_does_not_look_is_asked_once)
{
    begin_idle(state, false);
    join();
    pass(3);
    for (int i = 0; i < 8; i++) {
        pass_alone(0, QUARTERS);
        assert_in_range(fake_rdma_posted_own(conn_of(1, 0, RDMA_CHANNEL).qp), 2, 4);
        assert_int_equal(start_read(&ops[i], 0, 64), 0);
    }
    pass_alone(0, 2); /* silent again, and longer than the peer takes to answer */
    settle();
    assert_true(conn_of(0, 1, RDMA_CHANNEL).open && conn_of(1, 0, RDMA_CHANNEL).open);
    pass(2 * QUARTERS);
    assert_false(connected(RDMA_CHANNEL));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, 0);
    }
    assert_nothing_lost();
}

/* What a question took is posted again before the answer leaves: this process may compute next. */
RDMA_TEST(buffer_of_a_question_comes_back)
{
    begin_idle(state, false);
    join();
    pass(3);
    pass_alone(0, QUARTERS);
    assert_int_equal(fake_rdma_posted_own(conn_of(1, 0, RDMA_CHANNEL).qp), 3);
    while (!conn_of(1, 0, RDMA_CHANNEL).agreed) {
        assert_int_equal(fake_rdma_posted_own(conn_of(1, 0, RDMA_CHANNEL).qp), 3);
        look(1);
    }
    assert_int_equal(fake_rdma_posted_own(conn_of(1, 0, RDMA_CHANNEL).qp), 4);
}

/* A side that agreed, and has operations, waits for as long as the other one computes: that might
 * begin some itself, of which nobody would know whether they were done. */
RDMA_TEST(operations_wait_for_the_asker)
{
    begin_with(state, 0, IDLE);
    join();
    make_agreed_with(1, RDMA_CHANNEL);
    for (int i = 0; i < 4 * 60; i++) {
        assert_int_equal(start_read(&ops[0], 0, 64), -EAGAIN);
        pass_alone(0, 1);
        assert_true(conn_of(0, 1, RDMA_CHANNEL).agreed);
    }
    settle();
    assert_false(connected(RDMA_CHANNEL));
    join();
    assert_nothing_lost();
}

/* Operations that are over, but not reported, when a side agrees make no events once the peer is
 * given up. */
RDMA_TEST(cancelled_after_it_agreed)
{
    begin_with(state, 0, IDLE);
    join();
    fake.hold_ops = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(start_read(&ops[i], 0, 64), 0);
    }
    pass_alone(0, 2);
    while (ops[0].events == 0 && fake_rdma_work(1) > 0) { /* or it was one that rouses */
        look(0);
    }
    pass_alone(0, 1);
    fake.hold_ops = false;
    while (fake_rdma_work(100) > 0) {
    }
    pass_alone(1, QUARTERS + 3);
    look_at_most = 1;
    look(0);
    assert_int_equal(ops[1].events + ops[2].events, 1);
    assert_true(conn_of(0, 1, RDMA_CHANNEL).agreed);
    sides[0].t->ops->rdma->cancel(sides[0].t, sides[0].to[1]);
    settle();
    assert_int_equal(ops[1].events + ops[2].events, 1);
    assert_false(connected(RDMA_CHANNEL));
}

/* A question takes the last buffer, and none can be posted again: there is no connection left to
 * answer by. */
RDMA_TEST(question_ends_it)
{
    begin_idle(state, false);
    join();
    make_agreed(RDMA_CHANNEL); /* opened, and asked */
    assert_int_equal(start_read(&ops[0], 0, 64), 0);
    settle(); /* it stays, says side 0 */
    assert_true(conn_of(1, 0, RDMA_CHANNEL).open);
    pass(3);
    pass_alone(0, QUARTERS);
    fake.recv_error = ENOMEM;
    look(1);
    assert_null(conn_of(1, 0, RDMA_CHANNEL).qp);
    fake.recv_error = 0;
    settle();
    assert_false(connected(RDMA_CHANNEL));
}

/* ---- all of it ---- */

/* Operations of the random test that are over are counted, and may begin again. */
static int count_ended(void)
{
    int ended = 0;

    for (int i = 0; i < OPS_MAX; i++) {
        if (ops[i].events > 0) {
            assert_int_equal(ops[i].events, 1);
            assert_int_equal(ops[i].error, 0);
            ops[i] = (op_t){.events = 0};
            ended++;
        }
    }
    return ended;
}

/* A quarter of a second, in which sides may look. What is held for long is done. */
static void pass_quarter(const bool looks[2])
{
    static int held;

    held = fake.hold_ops ? held + 1 : 0;
    if (held == 20) {
        fake.hold_ops = false;
        (void) fake_rdma_work(ALL);
    }
    fake.now += QUARTER;
    for (int i = 0; i < 2; i++) {
        if (looks[i]) {
            look(i);
            look(i);
        }
    }
}

/* Messages both ways, operations, a side that computes, and requests that find no room, in any
 * order; both sides close after a second. Nothing is lost or comes twice, and no message meets a
 * connection without a buffer, which the device would not forgive. */
static void go_on_in_any_order(void **state, uint64_t seed)
{
    enum { STEPS = 40000, MOST_AWAY = 36 };
    test_random_t r = {.state = seed};
    int away = 0, quarters = 0; /* a side that computes, for how long */
    int started = 0, ended = 0;

    begin_with(state, 1, 1);
    for (int step = 0; step < STEPS; step++) {
        const int i = quarters > 0 ? 1 - away : (int) test_random_below(&r, 2);
        const uint32_t what = test_random_below(&r, 100);
        op_t *op = &ops[test_random_below(&r, OPS_MAX)];
        if (what < 4) {
            (void) send_one(i, 1 - i, test_random_below(&r, 2) == 0 ? SMALL : LONG, 1);
        } else if (what < 12 && op->error == 0 && (quarters == 0 || away == 1)) {
            op->error = start_read(op, 0, 64) == 0 ? EINPROGRESS : 0;
            started += op->error != 0;
        } else if (what < 16) {
            fake.hold_ops = what == 12;
            (void) fake_rdma_work(ALL);
        } else if (what < 18) {
            /* not the message that opens one */
            fake.post_left = rc_inside(sides[i].t).pending == 0 ? 0 : -1;
            fake.post_error = ENOMEM;
            look(i);
            fake.post_left = -1;
        } else if (what < 19 && quarters == 0) {
            away = i;
            quarters = (int) test_random_below(&r, MOST_AWAY);
        } else if (what < 50) {
            look(i);
        } else {
            quarters -= quarters > 0;
            pass_quarter((bool[2]){quarters == 0 || away != 0, quarters == 0 || away != 1});
        }
        ended += count_ended();
    }
    fake.hold_ops = false;
    (void) fake_rdma_work(ALL);
    settle();
    assert_int_equal(ended + count_ended(), started);
    for (int i = 0; i < 2; i++) {
        assert_in_range(sides[i].next, 100, STEPS);
        assert_int_equal(sides[1 - i].received, sides[i].next);
    }
    assert_in_range(fake.requests, 100, STEPS);
    assert_nothing_lost();
}

/* Seeds with which operations and buffers were lost. */
RDMA_TEST(in_any_order)
{
    go_on_in_any_order(state, 2);
    go_on_in_any_order(state, 10);
}

UNIT_MAIN(NULL, NULL)
