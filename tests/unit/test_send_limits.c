/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What may stop a new segment, each limit by itself, and what is waited for then. */

#include "btl_ib_send_limits.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum {
    WINDOW = 16, /* of congestion control */
    DATA = 1,    /* a channel other than that for commands */
};

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn, saved;
static btl_ib_budget_t budget;
static uint32_t counted;

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    bench_run(bench, 3000);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    assert_true(conn->peer_queues->count > 1);
    assert_int_equal(conn->sentmap.unacked, 0);
    budget = engine->budget;
    conn->cc.window = WINDOW;
    conn->cc.pace = 0;
    conn->incast.segments = UINT32_MAX;
    counted = engine->config.depth_total;
    saved = *conn;
    return 0;
}

static void put_back(void)
{
    engine->budget = budget;
    engine->config.depth_total = counted;
    conn->sentmap.in_flight = saved.sentmap.in_flight;
    conn->sentmap.unacked = saved.sentmap.unacked;
    conn->sentmap.skips = saved.sentmap.skips;
    conn->sentmap.deferred_count = saved.sentmap.deferred_count;
    conn->cc = saved.cc;
    conn->pacer.at = saved.pacer.at;
    conn->incast = saved.incast;
    conn->validation = saved.validation;
    conn->loss.blocked_since = saved.loss.blocked_since;
    conn->tx[0].sentmap.in_flight = 0;
    conn->tx[DATA].sentmap.in_flight = 0;
}

static int tear_down(void **state)
{
    put_back();
    end(bench);
    return 0;
}

/* Returns how many may leave; *must* be why none may. */
static uint32_t room(uint32_t channel, btl_ib_verdict_t must)
{
    btl_ib_verdict_t verdict = BTL_IB_GO;
    const uint32_t count = btl_ib_send_limits_room(conn, channel, &verdict);

    assert_int_equal(verdict, must);
    assert_int_equal(count == 0, must != BTL_IB_GO);
    assert_int_equal(btl_ib_send_limits_check(conn, channel), must);
    return count;
}

static void fly(uint32_t channel, uint32_t count)
{
    conn->sentmap.in_flight += count;
    conn->sentmap.unacked += count;
    conn->tx[channel].sentmap.in_flight += count;
}

/* The command channel may exceed the window by an eighth. */
TEST_WITH(window, set_up, tear_down)
{
    fly(DATA, WINDOW - 1);
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    assert_int_equal(btl_ib_send_limits_way(conn, DATA), 1);
    assert_int_equal(room(0, BTL_IB_GO), 1 + WINDOW / 8);
    fly(DATA, 1);
    (void) room(DATA, BTL_IB_NO_WINDOW);
    assert_int_equal(btl_ib_send_limits_way(conn, DATA), 0);
    assert_int_equal(room(0, BTL_IB_GO), WINDOW / 8);
    fly(0, WINDOW / 8);
    (void) room(0, BTL_IB_NO_WINDOW);
}

/* Shares of what may be sent to one count data channels only. */
TEST_WITH(share, set_up, tear_down)
{
    conn->incast.segments = 5;
    fly(0, 10);
    fly(DATA, 4);
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    fly(DATA, 1);
    (void) room(DATA, BTL_IB_NO_WINDOW);
    assert_true(room(0, BTL_IB_GO) > 1);
}

/* Limits on all connections: of segments, and of bytes, of which the last may exceed them. */
TEST_WITH(depth, set_up, tear_down)
{
    engine->config.depth_total = engine->budget.unacked + 2;
    assert_false(btl_ib_send_limits_full(engine));
    assert_int_equal(room(DATA, BTL_IB_GO), 2);
    engine->budget.unacked += 2;
    assert_true(btl_ib_send_limits_full(engine));
    assert_int_equal(room(DATA, BTL_IB_GO), 1); /* each may have one beside them */
    fly(DATA, 1);
    (void) room(DATA, BTL_IB_NO_DEPTH);
    conn->sentmap.skips = 1; /* which is none of them */
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    conn->sentmap.skips = 0;
    engine->budget.apart += 1;
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    put_back();
    engine->budget.bytes_unacked = engine->config.depth_bytes - 1;
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    engine->budget.bytes_unacked = engine->config.depth_bytes - 65536;
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    engine->budget.bytes_unacked = engine->config.depth_bytes - 65537;
    assert_int_equal(room(DATA, BTL_IB_GO), 2);
    engine->budget.bytes_unacked = engine->config.depth_bytes;
    assert_true(btl_ib_send_limits_full(engine));
    fly(DATA, 1);
    (void) room(DATA, BTL_IB_NO_DEPTH);
}

/* Those that wait for the limits go first, but in the turn in which all send. */
TEST_WITH(those_that_wait, set_up, tear_down)
{
    btl_ib_list_t other;

    btl_ib_list_init(&other);
    btl_ib_list_push_tail(&engine->starved, &other);
    fly(DATA, 1);
    (void) room(DATA, BTL_IB_NO_DEPTH);
    engine->turn.sending = true;
    assert_true(room(DATA, BTL_IB_GO) > 1);
    engine->turn.sending = false;
    btl_ib_list_remove(&other);
}

/* If all that is not acknowledged got RNR some more may leave: the peer may need them. */
TEST_WITH(all_deferred, set_up, tear_down)
{
    engine->config.depth_total = engine->budget.unacked;
    conn->sentmap.unacked += 2;
    (void) room(DATA, BTL_IB_NO_DEPTH);
    conn->sentmap.deferred_count = 2;
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    engine->budget.unacked += 47;
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    engine->budget.unacked += 1;
    (void) room(DATA, BTL_IB_NO_DEPTH);
    engine->budget.unacked -= 1;
    fly(DATA, 1);
    (void) room(DATA, BTL_IB_NO_DEPTH);
}

TEST_WITH(pace, set_up, tear_down)
{
    conn->cc.pace = 1000000;
    conn->cc.burst = 2;
    conn->pacer.at = 1000 * engine->clock.now + 1000000;
    assert_int_equal(room(DATA, BTL_IB_GO), 1);
    conn->pacer.at += 1000000;
    (void) room(DATA, BTL_IB_TOO_SOON);
}

/* What is sent again has the window, too; commands may keep it full, so data have an eighth of
 * their own. */
TEST_WITH(again, set_up, tear_down)
{
    fly(DATA, WINDOW - 2);
    assert_true(btl_ib_send_limits_may_retransmit(conn, DATA, 1));
    assert_false(btl_ib_send_limits_may_retransmit(conn, DATA, 2));
    assert_true(btl_ib_send_limits_may_retransmit(conn, 0, 2 + WINDOW / 8 - 1));
    assert_false(btl_ib_send_limits_may_retransmit(conn, 0, 2 + WINDOW / 8));
    put_back();
    fly(0, WINDOW);
    assert_true(btl_ib_send_limits_may_retransmit(conn, DATA, WINDOW / 8 - 1));
    assert_false(btl_ib_send_limits_may_retransmit(conn, DATA, WINDOW / 8));
    conn->cc.window = 4; /* at least one */
    assert_true(btl_ib_send_limits_may_retransmit(conn, DATA, 0));
    conn->incast.segments = 0;
    assert_true(btl_ib_send_limits_may_retransmit(conn, DATA, 0));
    assert_false(btl_ib_send_limits_may_retransmit(conn, DATA, 1));
    put_back();
    conn->incast.segments = 3;
    assert_true(btl_ib_send_limits_may_retransmit(conn, DATA, 2));
    assert_false(btl_ib_send_limits_may_retransmit(conn, DATA, 3));
}

static void counts(uint32_t credit, uint32_t window, uint32_t share, uint32_t paced)
{
    assert_int_equal(engine->count.blocked_credit, credit);
    assert_int_equal(engine->count.blocked_window, window);
    assert_int_equal(engine->count.blocked_share, share);
    assert_int_equal(engine->count.blocked_pace, paced);
}

/* What stopped it is counted, and waited for: in the next turn, in the line of those that starve,
 * or by the timer of the pacer. */
TEST_WITH(waits, set_up, tear_down)
{
    engine->count.blocked_credit = engine->count.blocked_window = 0;
    engine->count.blocked_share = engine->count.blocked_pace = 0;
    fly(DATA, 1);
    btl_ib_send_limits_wait(conn, BTL_IB_NO_WINDOW, false);
    counts(0, 1, 0, 0);
    assert_true(btl_ib_list_empty(&conn->ready));
    btl_ib_send_limits_wait(conn, BTL_IB_GO, true);
    counts(0, 1, 0, 0);
    assert_ptr_equal(btl_ib_list_last(&engine->ready), &conn->ready);
    btl_ib_list_remove(&conn->ready);
    btl_ib_send_limits_wait(conn, BTL_IB_NO_DEPTH, false);
    counts(0, 2, 0, 0);
    assert_ptr_equal(btl_ib_list_last(&engine->starved), &conn->ready);
    btl_ib_conn_fed(conn);
    btl_ib_send_limits_wait(conn, BTL_IB_NO_SHARE, false);
    counts(0, 2, 1, 0);
    btl_ib_send_limits_wait(conn, BTL_IB_TOO_SOON, false);
    counts(0, 2, 1, 1);
    assert_true(btl_ib_hotel_guest_is_in(&conn->pacer.timer.guest));
    btl_ib_hotel_checkout(&engine->hotel, &conn->pacer.timer.guest);
    btl_ib_send_limits_wait(conn, BTL_IB_NO_CREDIT, false);
    counts(1, 2, 1, 1);
    assert_int_equal(conn->loss.blocked_since, 0); /* something is in flight, which frees it */
}

/* Returns whether probes ask from now on, from when on they are timed. */
static bool probes(btl_ib_verdict_t verdict, uint64_t *from)
{
    conn->loss.blocked_since = 0;
    conn->loss.probe_base = 1;
    btl_ib_send_limits_wait(conn, verdict, false);
    *from = conn->loss.probe_base;
    return conn->loss.blocked_since != 0;
}

/* With nothing in flight nothing would free it, so probes ask: for want of credit or of an answer,
 * and where only a SKIP fills the window, or the share is nothing. */
TEST_WITH(stuck, set_up, tear_down)
{
    uint64_t from;

    assert_true(probes(BTL_IB_NO_CREDIT, &from));
    assert_int_equal(from, engine->clock.now);
    assert_int_equal(conn->loss.blocked_since, btl_ib_clock_awake(&engine->clock));
    assert_true(probes(BTL_IB_NO_ANSWER, &from));
    assert_int_equal(from, 0); /* at once */
    conn->sentmap.unacked = 1; /* lost, and to be sent again: no SKIP */
    assert_false(probes(BTL_IB_NO_WINDOW, &from));
    assert_false(probes(BTL_IB_NO_SHARE, &from));
    conn->sentmap.skips = 1;
    assert_true(probes(BTL_IB_NO_WINDOW, &from));
    assert_true(probes(BTL_IB_NO_SHARE, &from));
    conn->sentmap.skips = 0;
    conn->incast.segments = 0;
    assert_true(probes(BTL_IB_NO_SHARE, &from));
    assert_false(probes(BTL_IB_NO_DEPTH, &from));
    btl_ib_conn_fed(conn);
    fly(DATA, 1);
    assert_false(probes(BTL_IB_NO_CREDIT, &from));
    conn->sentmap.in_flight = 0;
    conn->loss.blocked_since = 5; /* since long */
    btl_ib_send_limits_wait(conn, BTL_IB_NO_CREDIT, false);
    assert_int_equal(conn->loss.blocked_since, 5);
}

UNIT_MAIN(NULL, NULL)
