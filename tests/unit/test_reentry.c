/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Callbacks that call back in. Those of the PML call progress: for the engine that is a turn within
 * a turn. So is one of another thread that ends before the callback does; test_threads.c has
 * others.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

enum { DEEPEST = 3 };

static uint64_t random_state;
static int depth;
static uint64_t async_turns, turns;

static uint32_t some(uint32_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t) (random_state >> 32) % below;
}

/* An asynchronous turn, a turn, or neither. */
static void meddle(bench_host_t *host)
{
    uint32_t what = some(3);
    int burst = 1 + (int) some(40);

    if (depth == DEEPEST || what == 0) {
        return;
    }
    depth++;
    if (what == 1) {
        btl_ib_engine_async_progress(host->engine, host->bench->now, burst);
        async_turns++;
    } else {
        btl_ib_engine_progress(host->engine, host->bench->now, burst);
        turns++;
    }
    depth--;
}

static bool loses_some(bench_t *bench, const bench_datagram_t *datagram)
{
    return some(20) == 0;
}

static void meddled(bench_t *bench, uint64_t seed)
{
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    async_turns = 0;
    turns = 0;
    bench->called = meddle;
}

static void check(bench_t *bench)
{
    for (uint32_t i = 0; i < 2; i++) {
        bench_check_counters(&bench->hosts[i]);
        bench_check_accounts(&bench->hosts[i]);
    }
    assert_true(async_turns > 10);
    assert_true(turns > 10);
}

/* All sorts of messages and operations over a network that loses, with whatever protection. */
TEST(test_traffic)
{
    static const btl_ib_protection_kind_t protections[] = {
        BTL_IB_PROTECTION_NONE, BTL_IB_PROTECTION_CRC32C, BTL_IB_PROTECTION_INTEGRITY,
        BTL_IB_PROTECTION_ENCRYPT};

    for (uint64_t seed = 0; seed < 12; seed++) {
        bench_t *bench = new_bench();
        if (!bench_protection(bench, protections[seed % 4])) {
            end(bench);
            continue;
        }
        bench_start(bench, 0);
        bench_start(bench, 1);
        bench->loses = loses_some;
        meddled(bench, seed);
        talk(bench, 15);
        each_delivered_once(bench);
        check(bench);
        end(bench);
    }
}

/* Connections that are closed and opened again under it, by both sides, and processes that
 * restart. */
TEST(test_lives)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        bench_t *bench = new_bench();
        bench_start(bench, 0);
        bench_start(bench, 1);
        meddled(bench, seed);
        for (uint32_t life = 0; life < 6; life++) {
            uint32_t who = some(2);
            for (uint32_t i = 0; i < 10; i++) {
                bench_send(bench, i % 2, (i + 1) % 2, 20 + some(6000), 1);
                bench_op(bench, i % 2, (i + 1) % 2, (btl_ib_op_kind_t) (i % 3), 1 + some(100));
            }
            bench_run(bench, some(100));
            if (life % 3 == 2) {
                bench_stop(bench, who);
                bench_start(bench, who);
            } else if (bench_conn(bench, who, 1 - who) != NULL) {
                btl_ib_conn_destroy(bench_conn(bench, who, 1 - who), bench->now);
            }
        }
        for (uint32_t i = 0; i < 3; i++) { /* the first tell of a restart, and are lost */
            bench_send(bench, 0, 1, 100, 1);
            bench_send(bench, 1, 0, 100, 1);
            bench_run(bench, SECOND);
        }
        for (uint32_t i = bench->message_count - 2; i < bench->message_count; i++) {
            assert_int_equal(bench->messages[i].delivered, 1);
        }
        check(bench);
        end(bench);
    }
}

/* ---- the batch that a callback interrupts ---- */

static void async_turn(bench_host_t *host)
{
    btl_ib_engine_async_progress(host->engine, host->bench->now, 16);
}

static void turn(bench_host_t *host)
{
    btl_ib_engine_progress(host->engine, host->bench->now, 16);
}

static void (*const interruptions[])(bench_host_t *host) = {async_turn, turn};

/* What came in one batch with a first contact is let in, though its address was not known then. */
TEST(test_first_batch)
{
    for (uint32_t i = 0; i < 2; i++) {
        bench_t *bench = new_bench();
        bench_start(bench, 0);
        bench_start(bench, 1);
        bench->called = interruptions[i];
        for (uint32_t k = 0; k < 6; k++) {
            bench_send(bench, 1, 0, 20, 1);
        }
        bench_flow(bench);
        for (uint32_t k = 0; k < 6; k++) {
            assert_int_equal(bench->messages[k].delivered, 1);
        }
        assert_int_equal(bench_counters(bench, 0)->dropped_source, 0);
        end(bench);
    }
}

/* How long a datagram may have lain there is known from the batch that it came in. */
TEST(test_away)
{
    enum { PAUSE = 5000 };

    for (uint32_t i = 0; i < 2; i++) {
        bench_t *bench = job();
        bench->called = interruptions[i];
        for (uint32_t k = 0; k < 3; k++) {
            bench->now++;
            bench_send(bench, 1, 0, 20, 1);
        }
        while (bench->wire.count > 0) {
            bench_deliver(bench, bench_pop(&bench->wire));
        }
        bench->now += PAUSE;
        bench_turn(bench, 0);
        assert_in_range(bench_peer(bench, 0, 1).poll_gap, PAUSE, PAUSE + 3000);
        assert_true(bench_settle(bench, SECOND));
        end(bench);
    }
}

/* ---- callbacks that send the next of a queue ---- */

enum { QUEUED = 60 };

static int deepest;

/* As a PML that had no memory for more than one message at a time. */
static void send_next(bench_host_t *host)
{
    bench_t *bench = host->bench;

    depth++;
    deepest = depth > deepest ? depth : deepest;
    if (host->index == 0 && bench->message_count < QUEUED) {
        (void) bench_send(bench, 0, 1, 2000 + some(3000), 1);
    } else if (host->index == 0 && bench->op_count < QUEUED) {
        (void) bench_op(bench, 0, 1, (btl_ib_op_kind_t) (bench->op_count % 3), 8);
    }
    depth--;
}

/* Each callback that sends the next message must not find itself within the one before: a queue may
 * be long, and a stack short. */
TEST(test_queue)
{
    bench_t *bench = job();
    deepest = 0;
    random_state = 1;
    bench->called = send_next;
    (void) bench_send(bench, 0, 1, 5000, 1);
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(bench->message_count, QUEUED);
    assert_int_equal(deepest, 1);
    end_delivered(bench);
}

/* ---- a message that takes the short way is delivered before anything else is done of it ---- */

/* Host 0 is handed the datagram that host 1 has sent. */
static void hand_over(bench_t *bench)
{
    assert_int_equal(bench->wire.count, 1);
    bench_deliver(bench, bench_pop(&bench->wire));
    bench_turn(bench, 0);
}

static void answer(bench_t *bench, uint32_t message)
{
    if (bench->messages[message].to == 0) {
        (void) bench_send(bench, 0, 1, 20, 1);
    }
}

/* What a callback sends acknowledges the message that it was called for. */
TEST(test_answer)
{
    bench_t *bench = job();

    bench->on_deliver = answer;
    (void) bench_send(bench, 1, 0, 20, 1);
    hand_over(bench);
    assert_int_equal(bench->wire.count, 1);
    bench_deliver(bench, bench_pop(&bench->wire));
    bench_turn(bench, 1);
    assert_int_equal(bench_peer(bench, 1, 0).unacked, 0);
    assert_true(bench_settle(bench, SECOND));
    end_delivered(bench);
}

/* The progress thread of host 0 meanwhile. */
static void serve(bench_t *bench, uint32_t message)
{
    btl_ib_engine_t *engine = bench->hosts[0].engine;

    assert_int_equal(btl_ib_engine_async_due(engine), bench->now);
    assert_true(btl_ib_engine_busy(engine));
    btl_ib_engine_async_progress(engine, bench->now, 16);
    assert_int_equal(bench->wire.count, 0);
    bench->now = btl_ib_engine_async_due(engine);
    btl_ib_engine_async_progress(engine, bench->now, 16);
    assert_int_equal(bench->wire.count, 1);
}

/* While a callback takes its time the message is acknowledged by the progress thread. */
TEST(test_long_callback)
{
    bench_t *bench = job();

    bench->on_deliver = serve;
    (void) bench_send(bench, 1, 0, 20, 1);
    hand_over(bench);
    bench_deliver(bench, bench_pop(&bench->wire));
    bench_turn(bench, 1);
    assert_int_equal(bench_peer(bench, 1, 0).unacked, 0);
    end_delivered(bench);
}

UNIT_MAIN(NULL, NULL)
