/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rtt.h"
#include "btl_ib_state.h"
#include "btl_ib_loss.h"
#include "hostile.h"
#include "unit.h"

TEST(test_nothing_known)
{
    btl_ib_pauses_t pauses = {0};

    assert_int_equal(btl_ib_pauses_expected(&pauses, 0), 0);
    btl_ib_pauses_note(&pauses, BTL_IB_PAUSE_MIN, 0); /* not long enough */
    assert_int_equal(btl_ib_pauses_expected(&pauses, 1), 0);
}

TEST(test_longest)
{
    btl_ib_pauses_t pauses = {0};

    btl_ib_pauses_note(&pauses, 3000, 100);
    btl_ib_pauses_note(&pauses, 2000, 200);
    assert_int_equal(btl_ib_pauses_expected(&pauses, 300), 3000);
    btl_ib_pauses_note(&pauses, 4000, 400);
    assert_int_equal(btl_ib_pauses_expected(&pauses, 500), 4000);
    btl_ib_pauses_note(&pauses, UINT32_MAX, 600); /* a peer may say anything */
    assert_int_equal(btl_ib_pauses_expected(&pauses, 700), 10000);
}

TEST(test_forgotten)
{
    btl_ib_pauses_t pauses = {0};

    btl_ib_pauses_note(&pauses, 3000, 100);
    assert_int_equal(btl_ib_pauses_expected(&pauses, 99 + SECOND), 3000);
    assert_int_equal(btl_ib_pauses_expected(&pauses, 100 + SECOND), 0);
    btl_ib_pauses_note(&pauses, 1000, 100 + SECOND);
    assert_int_equal(btl_ib_pauses_expected(&pauses, 101 + SECOND), 1000);
    btl_ib_pauses_note(&pauses, 1000, 100 + 3 * SECOND / 2); /* as long: remembered from now on */
    assert_int_equal(btl_ib_pauses_expected(&pauses, 101 + 2 * SECOND), 1000);
}

TEST(test_lossy)
{
    btl_ib_pauses_t pauses = {0};

    btl_ib_pauses_note(&pauses, 3000, 1);
    btl_ib_pauses_judge(&pauses, true); /* one may be wrong */
    assert_int_equal(btl_ib_pauses_expected(&pauses, 2), 3000);
    btl_ib_pauses_judge(&pauses, false);
    btl_ib_pauses_judge(&pauses, true);
    assert_int_equal(btl_ib_pauses_expected(&pauses, 2), 3000);
    btl_ib_pauses_judge(&pauses, true);
    assert_int_equal(btl_ib_pauses_expected(&pauses, 2), 0);
    for (int i = 0; i < 100; i++) { /* a lossy network's for ever, and then a clean one's */
        btl_ib_pauses_judge(&pauses, true);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(btl_ib_pauses_expected(&pauses, 2), 0);
        btl_ib_pauses_judge(&pauses, false);
    }
    btl_ib_pauses_judge(&pauses, false);
    assert_int_equal(btl_ib_pauses_expected(&pauses, 2), 3000);
}

static bool told_paused;

static btl_ib_cc_round_t note_ack(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    told_paused = ack->paused;
    btl_ib_cc_swift.acked(cc, ack);
    return BTL_IB_CC_ROUND_NONE;
}

/* What congestion control is told of a sample of which so many us may have been pauses of hosts. */
static bool is_told_paused(btl_ib_conn_t *conn, uint32_t pauses)
{
    conn->loss.sample = 1000;
    conn->loss.sample_hosts = pauses;
    conn->loss.sample_pauses = pauses;
    btl_ib_loss_acked(conn, 1, true);
    return told_paused;
}

/* A receiver that polls all the time, and never finds its socket empty, says that datagrams waited
 * for QUEUE_BORNE: that is no pause, in which windows double. */
TEST(test_busy_receiver)
{
    btl_ib_cc_ops_t ops = btl_ib_cc_swift;
    bench_t *bench = new_bench();

    acquaint(bench);
    btl_ib_conn_t *conn = bench_conn(bench, 0, 1);
    ops.acked = note_ack;
    conn->cc.ops = &ops;
    assert_false(is_told_paused(conn, 0));
    assert_false(is_told_paused(conn, BTL_IB_QUEUE_BORNE));
    assert_true(is_told_paused(conn, BTL_IB_QUEUE_BORNE + 1));
    conn->cc.ops = &btl_ib_cc_swift;
    end(bench);
}

/* Sends 40 messages, one each `us` us, and makes a turn at the end, which finds something. Returns
 * whether the engine takes that for a pause, after which more may come. */
static bool turn_after_sends(bench_t *bench, uint64_t us)
{
    for (int i = 0; i < 40; i++) {
        bench->now += us;
        bench_send(bench, 0, 1, 100, 1);
    }
    bench->now += us;
    bench_throw(bench, 0, BENCH_UNKNOWN, "?", 1);
    const bool paused = btl_ib_pause_of(bench->hosts[0].engine->clock.away) > 0;
    assert_int_equal(btl_ib_engine_behind(bench->hosts[0].engine), paused);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    return paused;
}

/* A process that hands over one message after the other polls late, but was not away. */
TEST(test_sends_are_no_pause)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    assert_false(turn_after_sends(bench, BTL_IB_PAUSE_MIN / 2));
    assert_true(turn_after_sends(bench, 2 * BTL_IB_PAUSE_MIN));
    end(bench);
}

/* Has host 0 send more than SENT_MUCH datagrams in one call, which takes 2 ms, and tells the engine
 * so if `tells`. Returns whether the next turn takes the call for a pause. */
static bool turn_after_long_call(bool tells)
{
    bench_t *bench = new_bench();

    use_queues(bench, "P,256,256:S,1472,1024,512,500");
    acquaint(bench);
    btl_ib_engine_t *engine = bench->hosts[0].engine;
    bench_set_window(bench, 0, 1, 1000);
    assert_false(btl_ib_engine_has_sent_much(engine));
    for (int i = 0; i < 5; i++) {
        bench_send(bench, 0, 1, 60000, 1);
    }
    assert_true(btl_ib_engine_has_sent_much(engine));
    bench->now += 2000;
    if (tells) {
        btl_ib_engine_call_ended(engine, bench->now);
        assert_false(btl_ib_engine_has_sent_much(engine));
    }
    bench_turn(bench, 0);
    const bool paused = btl_ib_pause_of(engine->clock.away) > 0;
    assert_true(bench_settle(bench, SECOND));
    end(bench);
    return paused;
}

TEST(test_long_call_is_no_pause)
{
    assert_true(turn_after_long_call(false));
    assert_false(turn_after_long_call(true));
}

/* What the peer did before it read what it echoes, and answered 10 us later. */
TEST(test_pause_of_peer)
{
    static const struct {
        uint32_t silent; /* us since it sent, when it read */
        uint32_t poll_gap, pause;
    } cases[] = {
        {5000, 3000, 3000},          /* it was away */
        {700, 3000, 700},            /* for that long: before that it sent */
        {BTL_IB_PAUSE_MIN, 3000, 0}, /* it sent all the time */
        {UINT32_MAX - 3, 3000, 0},   /* also between reading and answering */
        {5000, BTL_IB_PAUSE_MIN, 0}, /* it polled all the time */
    };
    bench_t *bench = new_bench();

    acquaint(bench);
    btl_ib_conn_t *conn = bench_conn(bench, 0, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint32_t sent = (uint32_t) bench->now;

        bench->now += 20000;
        bench_turn(bench, 0);
        const uint32_t stamp = (uint32_t) bench->now;
        conn->engine->turn.pause = 0;
        conn->ack.echo = stamp - 10 - cases[i].silent;
        btl_ib_loss_datagram_received(conn, BTL_IB_FLAG_ECHO, stamp, sent, 10, cases[i].poll_gap);
        assert_int_equal(conn->loss.sample_pauses, cases[i].pause);
    }
    bench->now += 20000; /* nothing is known of what it did if its stamp is not */
    bench_turn(bench, 0);
    const uint32_t now = (uint32_t) bench->now;
    conn->engine->turn.pause = 0;
    conn->ack.echo_valid = false;
    conn->ack.echo = now - 10 - 700;
    btl_ib_loss_datagram_received(conn, BTL_IB_FLAG_ECHO, now, now - 5000, 10, 3000);
    assert_int_equal(conn->loss.sample_pauses, 3000);
    end(bench);
}

/* A peer has so long to answer from the first question on, however old our process is by then. */
TEST(test_first_question)
{
    bench_t *bench = new_bench();

    bench_start(bench, 0);
    bench_start(bench, 1);
    btl_ib_conn_t *conn = bench_connect(bench, 0, 1);
    conn->engine->clock.ran = 100 * SECOND;
    assert_false(btl_ib_validation_expire(conn));
    assert_false(conn->validation.told);
    conn->engine->clock.ran += conn->engine->config.unanswered_after;
    assert_false(btl_ib_validation_expire(conn));
    assert_true(conn->validation.told);
    end(bench);
}

/* Lookups of other paths are counted for each second. */
TEST(test_path_lookups)
{
    bench_t *bench = new_bench();

    bench_start(bench, 0);
    btl_ib_engine_t *engine = bench->hosts[0].engine;
    engine->config.lookups_max = 16;
    assert_true(btl_ib_admission_take_path_lookup(engine));
    assert_true(btl_ib_admission_take_path_lookup(engine));
    assert_false(btl_ib_admission_take_path_lookup(engine));
    engine->clock.now += SECOND;
    assert_true(btl_ib_admission_take_path_lookup(engine));
    end(bench);
}

UNIT_MAIN(NULL, NULL)
