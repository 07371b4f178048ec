/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: connections that nobody uses are closed, on a device that is none. */

#include <errno.h>
#include <string.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "rdma_sides.h"
#include "unit.h"

enum {
    QUARTER = 250 * 1000, /* us */
    IDLE = 2,             /* seconds */
    QUARTERS = 4 * IDLE + 3,
    RDMA_CHANNEL = BTL_IB_RC_RDMA_CHANNEL,
};

/* All look, four times a second. */
static void pass(int quarters)
{
    while (quarters-- > 0) {
        fake.now += QUARTER;
        settle();
    }
}

/* Only one does. */
static void pass_alone(int i, int quarters)
{
    while (quarters-- > 0) {
        fake.now += QUARTER;
        for (int k = 0; k < 100; k++) {
            look(i);
        }
    }
}

/* Both sides anew; side 0 closes what is idle, side 1 only if `both`. */
static void begin_idle(void **state, bool both)
{
    end_first(state);
    params.rc.idle = IDLE;
    open_side(0);
    params.rc.idle = both ? IDLE : 0;
    open_side(1);
    add(0, 1);
    add(1, 0);
    expose_both();
}

/* Side 0 has asked, side 1 has agreed, and side 0 has yet to look. */
static void make_agreed(uint8_t channel)
{
    pass(3);
    pass_alone(0, QUARTERS);
    for (int k = 0; k < 100; k++) {
        look(1);
    }
    assert_true(conn_of(0, 1, channel).open);
    assert_true(conn_of(1, 0, channel).agreed);
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
static void silent_ones_are_closed(void **state)
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
static void first_stays(void **state)
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
static void never(void **state)
{
    connect_sides(0, 1, 1);
    const uint32_t posts = fake.posts;
    pass(10 * QUARTERS);
    assert_true(connected(1));
    assert_in_range(fake.posts, posts, posts + 1); /* it is roused once */
}

/* A message that crosses the answer: the connection stays, and nothing is lost. */
static void one_that_is_used_again_stays(void **state)
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
static void one_that_agreed_connects_anew(void **state)
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
static void one_that_agreed_waits_ten_seconds(void **state)
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
static void held_buffers_keep_it(void **state)
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
static void one_that_has_just_looked_declines(void **state)
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
static void shared_buffers_come_back(void **state)
{
    params.queue[1] = (btl_ib_open_queue_t){.size = SIZE_1, .num = 64, .shared = true};
    begin_idle(state, true);
    connect_sides(0, 1, 1);
    for (int i = 0; i < 80; i++) {
        pass(QUARTERS);
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

/* With rings of eager RDMA, that are written to while it is asked. */
static void with_rings(void **state)
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
static void other_devices(void **state)
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

/* ---- operations on memory ---- */

/* Their queue pair is closed, too; not while any is under way. */
static void operations_keep_it(void **state)
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

/* One that begins when the peer has agreed already. */
static void operations_begin_again(void **state)
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

/* A question takes the last buffer, and none can be posted again: there is no connection left to
 * answer by. */
static void question_ends_it(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RDMA_TEST(silent_ones_are_closed),
        RDMA_TEST(first_stays),
        RDMA_TEST(never),
        RDMA_TEST(one_that_is_used_again_stays),
        RDMA_TEST(one_that_agreed_connects_anew),
        RDMA_TEST(one_that_agreed_waits_ten_seconds),
        RDMA_TEST(held_buffers_keep_it),
        RDMA_TEST(one_that_has_just_looked_declines),
        RDMA_TEST(shared_buffers_come_back),
        RDMA_TEST(with_rings),
        RDMA_TEST(other_devices),
        RDMA_TEST(operations_keep_it),
        RDMA_TEST(operations_begin_again),
        RDMA_TEST(question_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
