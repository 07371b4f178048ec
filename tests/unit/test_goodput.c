/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* When a connection counts as held up by its network, and when it leaves its rails for others that
 * carry far more. */

#include <errno.h>

#include "btl_ib_failover.h"
#include "btl_ib_goodput.h"
#include "btl_ib_route.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "pairs.h"

enum {
    PERIOD = 128,            /* samples in which something waited, then it is compared */
    PERIOD_MOST = 8 * 128,   /* the same, if there is nothing to compare it with */
    BYTES_LEAST = 32 * 1024, /* that the other one must have carried */
    LEFT_FOR = 10,           /* s, the first time */
    COUNTED_MOST = 32,       /* samples in a row, by one ACK */
};

static btl_ib_conn_t *slow, *fast;
static btl_ib_segment_t oldest; /* of what `slow` has in flight */
static btl_ib_engine_ops_t ops;

static struct {
    uint32_t count;
    const btl_ib_conn_t *conn, *better;
    btl_ib_slow_rail_t found;
} told;

static void slow_rail(void *context, const btl_ib_conn_t *conn, const btl_ib_conn_t *better,
                      const btl_ib_slow_rail_t *found)
{
    told.count++;
    told.conn = conn;
    told.better = better;
    told.found = *found;
}

/* One sample more, 2 ms after the last. */
static void sample(void)
{
    engine->clock.now += BTL_IB_GOODPUT_EACH;
    btl_ib_goodput_sample(engine);
}

/* ACKs come for something of this connection. */
static void acknowledge(btl_ib_conn_t *conn)
{
    conn->tx[0].sentmap.sent++;
}

static void put_in_flight(void)
{
    oldest = (btl_ib_segment_t){.type = BTL_IB_TYPE_CHUNK, .copies = 1};
    btl_ib_list_init(&oldest.link);
    btl_ib_list_push_tail(&slow->sentmap.sent[BTL_IB_SENT_BULK], &oldest.link);
    slow->sentmap.in_flight++;
    slow->tx[0].sentmap.in_flight++;
}

/* Takes it out again, from where a change of route may have brought it. */
static void nothing_in_flight(void)
{
    btl_ib_list_remove(&oldest.link);
    slow->sentmap.in_flight -= !oldest.lost;
    slow->tx[0].sentmap.in_flight -= !oldest.lost;
    assert_int_equal(slow->sentmap.in_flight, 0);
}

/* A second before, so that what was never sampled is no sample of now. */
static int set_up_two(void **state)
{
    (void) set_up(state);
    engine->clock.now += SECOND;
    slow = pair[1][1];
    fast = pair[0][0];
    ops = *engine->ops;
    ops.slow_rail = slow_rail;
    engine->ops = &ops;
    memset(&told, 0, sizeof(told));
    put_in_flight();
    sample();
    assert_int_equal(slow->goodput.busy, 0);
    return 0;
}

static int tear_down_two(void **state)
{
    btl_ib_list_remove(&oldest.link);
    return tear_down(state);
}

/* Has `slow` wait for as many samples. */
static void wait_for(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        acknowledge(slow);
        sample();
    }
}

/* ---- when something waits for the network ---- */

TEST_WITH(each_sample_counts, set_up_two, tear_down_two)
{
    wait_for(10);
    assert_int_equal(slow->goodput.busy, 10);
    assert_int_equal(fast->goodput.busy, 0);
}

/* Those without ACKs count when one comes, up to some; a peer may compute meanwhile. */
TEST_WITH(known_when_acks_come, set_up_two, tear_down_two)
{
    for (int i = 0; i < 4; i++) {
        sample();
        assert_int_equal(slow->goodput.busy, 0);
    }
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 5);
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 6);
    for (int i = 0; i < 300; i++) {
        sample();
    }
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 6 + COUNTED_MOST);
}

/* If what was sent at the last sample has arrived, or its peer has no memory for it, nothing
 * waited for the network. */
TEST_WITH(what_is_not_under_way, set_up_two, tear_down_two)
{
    oldest.last_sent = engine->clock.now + 1;
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 0);
    oldest.last_sent = engine->clock.now;
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 1);
    slow->sentmap.deferred_count++;
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 1);
    slow->sentmap.deferred_count--;
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 3); /* what it did not know then */
}

/* With nothing in flight nothing waits, and what begins later counts from its second sample on. */
TEST_WITH(nothing_waits, set_up_two, tear_down_two)
{
    wait_for(1);
    nothing_in_flight();
    wait_for(5);
    assert_int_equal(slow->goodput.busy, 1);
    assert_int_equal(slow->goodput.waited, 0);
    put_in_flight();
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 1);
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 2);
}

/* What waits to be sent counts once, unless it waits for more to be sent with, or was blocked. */
TEST_WITH(waiting_to_be_sent, set_up_two, tear_down_two)
{
    btl_ib_list_t item;

    btl_ib_list_init(&item);
    nothing_in_flight();
    wait_for(1);
    btl_ib_list_push_tail(&slow->tx[0].submit.pending, &item);
    wait_for(1); /* since when is not known */
    assert_int_equal(slow->goodput.busy, 0);
    for (int i = 0; i < 4; i++) {
        sample();
    }
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 1);
    slow->coalesce.held = 1;
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 1);
    slow->coalesce.held = 0;
    slow->loss.blocked_since = 1;
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 1);
    slow->loss.blocked_since = 0;
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 2);
    btl_ib_list_remove(&item);
}

/* ---- which connections are measured ---- */

/* True if it counts where `slow` goes by its own rails. */
static bool counts(void)
{
    const uint32_t before = slow->goodput.busy;

    wait_for(1);
    return slow->goodput.busy > before;
}

TEST_WITH(which_are_measured, set_up_two, tear_down_two)
{
    const uint64_t name = slow->identity.name;
    btl_ib_transport_attr_t *attr = &bench->hosts[0].rails[1].base.attr;

    assert_true(counts());
    attr->reliable = true; /* its queue is not ours */
    assert_false(counts());
    attr->reliable = false;
    slow->identity.name = engine->config.name; /* with the process itself */
    assert_false(counts());
    slow->identity.name = name;
    slow->state = BTL_IB_CONN_DEAD;
    assert_false(counts());
    slow->state = BTL_IB_CONN_OPEN;
    assert_true(counts());
}

/* While it goes by others' rails it is not; the period of all begins when it does, and when it is
 * back. */
TEST_WITH(over_the_rails_of_others, set_up_two, tear_down_two)
{
    wait_for(5);
    nothing_in_flight();
    assert_true(btl_ib_failover_to(slow, fast));
    put_in_flight();
    slow->count.sent_bytes += 1000;
    fast->count.sent_bytes += 500;
    fast->goodput.busy = 7;
    assert_false(counts());
    assert_int_equal(slow->goodput.busy + fast->goodput.busy, 0);
    assert_int_equal(slow->goodput.bytes, slow->count.sent_bytes);
    assert_int_equal(fast->goodput.bytes, fast->count.sent_bytes);
    assert_false(counts());
    fast->count.sent_bytes += 500;
    nothing_in_flight();
    assert_true(btl_ib_failover_to(slow, slow));
    put_in_flight();
    wait_for(1);
    assert_int_equal(fast->goodput.bytes, fast->count.sent_bytes);
    assert_true(counts());
}

/* ---- comparing ---- */

/* Has so many bytes go by both in a period in which the fast one waits so often. Returns whether
 * `slow` left its rails at its end. */
static bool leaves(uint64_t by_slow, uint64_t by_fast, uint32_t fast_busy)
{
    const uint32_t before = told.count;

    assert_true(btl_ib_route_is_own(slow));
    for (uint32_t i = 0; i < BENCH_RAILS; i++) {
        for (uint32_t k = 0; k < BENCH_RAILS; k++) {
            pair[i][k]->goodput.bytes = pair[i][k]->count.sent_bytes;
            pair[i][k]->goodput.busy = 0;
        }
    }
    slow->count.sent_bytes += by_slow;
    fast->count.sent_bytes += by_fast;
    fast->goodput.busy = (uint16_t) fast_busy;
    wait_for(PERIOD - 1);
    assert_int_equal(told.count, before);
    assert_true(btl_ib_route_is_own(slow));
    wait_for(1);
    assert_int_equal(told.count - before, !btl_ib_route_is_own(slow));
    return told.count > before;
}

static void return_to_own(void)
{
    nothing_in_flight();
    assert_true(btl_ib_failover_to(slow, slow));
    put_in_flight();
    wait_for(1);
    slow->goodput.busy = 0;
}

/* One that carries little, and waits all the time, beside one that carries much and never waits. */
TEST_WITH(far_slower, set_up_two, tear_down_two)
{
    const uint64_t before = engine->count.slow_rails;

    assert_true(leaves(20000, 100000, 3));
    assert_ptr_equal(slow->route.via, engine->rails[0]);
    assert_int_equal(slow->route.to, fast->route.to);
    assert_int_equal(engine->count.slow_rails, before + 1);
    assert_true(btl_ib_conn_is_slow(slow));
    assert_int_equal(slow->goodput.slow_until, engine->clock.now + LEFT_FOR * SECOND);
    assert_ptr_equal(told.conn, slow);
    assert_ptr_equal(told.better, fast);
    assert_int_equal(told.found.bytes, 20000);
    assert_int_equal(told.found.time, PERIOD * BTL_IB_GOODPUT_EACH);
    assert_int_equal(told.found.better_bytes, 100000);
    assert_int_equal(told.found.better_time, 4 * BTL_IB_GOODPUT_EACH);
    assert_int_equal(told.found.left_for, LEFT_FOR * SECOND);
    assert_int_equal(fast->goodput.busy, 0);
}

/* The other would carry the bytes of both in a third of the time. */
TEST_WITH(three_times_as_fast, set_up_two, tear_down_two)
{
    /* 21 samples * 3 * (65 + 63) KiB are 128 samples * 63 KiB */
    assert_false(leaves(65 * 1024 + 1, 63 * 1024, 20));
    assert_false(leaves(65 * 1024, 63 * 1024, 21));
    assert_false(leaves(65 * 1024, 63 * 1024 - 1, 20));
    assert_true(leaves(65 * 1024, 63 * 1024, 20));
}

/* It must have carried enough that it can be compared: 32 KiB, and half as much as the slow one. */
TEST_WITH(too_little_to_compare, set_up_two, tear_down_two)
{
    assert_false(leaves(10, BYTES_LEAST - 1, 0));
    assert_int_equal(slow->goodput.busy, PERIOD); /* the period goes on */
    assert_false(leaves(2 * BYTES_LEAST + 2, BYTES_LEAST, 0));
    assert_int_equal(slow->goodput.busy, PERIOD);
    assert_true(leaves(2 * BYTES_LEAST + 1, BYTES_LEAST, 0));
}

/* What is as fast begins a new period for both, and earlier verdicts are forgotten. */
TEST_WITH(equally_fast, set_up_two, tear_down_two)
{
    slow->goodput.times_left = 2;
    assert_false(leaves(100000, 100000, 100));
    assert_int_equal(slow->goodput.busy + fast->goodput.busy, 0);
    assert_int_equal(slow->goodput.bytes, slow->count.sent_bytes);
    assert_int_equal(fast->goodput.bytes, fast->count.sent_bytes);
    assert_int_equal(slow->goodput.times_left, 0);
}

/* Where nothing can be compared it goes on for eight times as long, and verdicts stay. */
TEST_WITH(nothing_to_compare, set_up_two, tear_down_two)
{
    slow->goodput.times_left = 2;
    assert_false(leaves(100000, 0, 0));
    wait_for(PERIOD_MOST - PERIOD - 1);
    assert_int_equal(slow->goodput.busy, PERIOD_MOST - 1);
    wait_for(1);
    assert_int_equal(slow->goodput.busy, 0);
    assert_int_equal(slow->goodput.times_left, 2);
}

/* Twice as long each time, up to 160 s. */
TEST_WITH(longer_each_time, set_up_two, tear_down_two)
{
    uint64_t left_for = LEFT_FOR * SECOND;

    for (int i = 0; i < 7; i++) {
        assert_true(leaves(100, 100000, 0));
        assert_int_equal(told.found.left_for, left_for);
        assert_int_equal(slow->goodput.slow_until, engine->clock.now + left_for);
        left_for = left_for < 160 * (uint64_t) SECOND ? 2 * left_for : left_for;
        return_to_own();
    }
}

/* Others that are not measured, not valid, or refused, are no better. */
TEST_WITH(not_to_be_compared, set_up_two, tear_down_two)
{
    fast->validation.valid = false;
    assert_false(leaves(100, 100000, 0));
    fast->validation.valid = true;
    fast->validation.refused_at = engine->clock.now;
    assert_false(leaves(100, 100000, 0));
    fast->validation.refused_at = 0;
    bench->hosts[0].rails[0].base.attr.reliable = true;
    assert_false(leaves(100, 100000, 0));
    assert_int_equal(slow->goodput.busy, PERIOD); /* and none was compared */
    bench->hosts[0].rails[0].base.attr.reliable = false;
    assert_true(leaves(100, 100000, 0));
}

static int refuse(btl_ib_transport_t *transport, const void *bytes, size_t len,
                  btl_ib_addr_t *address)
{
    return -ENOMEM;
}

/* Where the better rail does not take the peer's address it stays, and is compared again. */
TEST_WITH(address_that_is_not_taken, set_up_two, tear_down_two)
{
    const btl_ib_transport_ops_t *const taking = engine->rails[0]->transport->ops;
    btl_ib_transport_ops_t refusing = *taking;
    const uint64_t before = engine->count.slow_rails;

    refusing.addr_add = refuse;
    engine->rails[0]->transport->ops = &refusing;
    assert_false(leaves(100, 100000, 0));
    assert_int_equal(slow->goodput.busy, 0); /* a period of its own */
    assert_int_equal(slow->goodput.slow_until, 0);
    assert_int_equal(slow->goodput.times_left, 0);
    assert_int_equal(engine->count.slow_rails, before);
    engine->rails[0]->transport->ops = taking;
    assert_true(leaves(100, 100000, 0));
    assert_int_equal(told.found.left_for, LEFT_FOR * SECOND);
    assert_int_equal(engine->count.slow_rails, before + 1);
}

/* Of several it takes the one that carried most for the time that it waited. */
TEST_WITH(the_best, set_up_two, tear_down_two)
{
    static const struct {
        uint32_t bytes[2], busy[2], best;
    } tries[] = {{{100000, 100001}, {0, 0}, 1}, {{100001, 100000}, {0, 0}, 0},
                 {{100000, 150000}, {1, 2}, 0}, {{100000, 150001}, {1, 2}, 1},
                 {{200000, 100000}, {3, 1}, 0}, {{200000, 100001}, {3, 1}, 1}};
    btl_ib_conn_t *others[2] = {pair[0][0], pair[0][1]};

    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        wait_for(1);
        for (int k = 0; k < 2; k++) {
            others[k]->goodput.bytes = others[k]->count.sent_bytes;
            others[k]->count.sent_bytes += tries[i].bytes[k];
            others[k]->goodput.busy = (uint16_t) tries[i].busy[k];
        }
        slow->goodput.bytes = slow->count.sent_bytes;
        slow->goodput.busy = PERIOD - 1;
        wait_for(1);
        assert_int_equal(told.count, i + 1);
        /* of equal ones any */
        const bool tie = (uint64_t) tries[i].bytes[0] * (tries[i].busy[1] + 1)
                         == (uint64_t) tries[i].bytes[1] * (tries[i].busy[0] + 1);
        if (!tie) {
            assert_ptr_equal(told.better, others[tries[i].best]);
        }
        return_to_own();
    }
}

UNIT_MAIN(NULL, NULL)
