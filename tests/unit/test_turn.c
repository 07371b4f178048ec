/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A turn: what it does now and then, what waits after a pause, what it returns, and when the next
 * one is due. */

#include <errno.h>
#include <string.h>

#include "btl_ib_goodput.h"
#include "btl_ib_keepalive.h"
#include "btl_ib_rail.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static const btl_ib_counters_t *count;

static int begin(uint32_t rails)
{
    bench = new_bench();
    bench->rails = rails;
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    count = bench_counters(bench, 0);
    return 0;
}

static int set_up(void **state)
{
    return begin(1);
}

static int set_up_two(void **state)
{
    return begin(2);
}

static int tear_down(void **state)
{
    end_settled(bench, 10 * SECOND);
    return 0;
}

static int turn(uint64_t after)
{
    bench->now += after;
    return btl_ib_engine_progress(engine, bench->now, 64);
}

static int async_turn(uint64_t after)
{
    bench->now += after;
    return btl_ib_engine_async_progress(engine, bench->now, 64);
}

static void arrive(uint32_t rail, uint32_t n)
{
    bench_datagram_t garbage = {.source = BENCH_UNKNOWN, .to = bench_address(0, rail)};

    for (uint32_t i = 0; i < n; i++) {
        bench_deliver(bench, bench_copy(&garbage));
    }
}

/* ---- now and then ---- */

static const btl_ib_transport_ops_t *real;
static uint32_t polled[BENCH_RAILS], asked;

static int count_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    polled[t == engine->rails[1]->transport]++;
    return real->poll(t, now, events, max);
}

static bool count_rebind(btl_ib_transport_t *t)
{
    asked++;
    return false;
}

/* No connection goes by rail 1: it is polled each 50 ms, all others in each turn; whether one lost
 * its address is asked as seldom. */
TEST_WITH(rails_that_stand_by, set_up_two, tear_down)
{
    enum { EACH = 50000 };
    btl_ib_transport_ops_t ops = *(real = engine->rails[0]->transport->ops);

    ops.poll = count_poll;
    ops.rebind = count_rebind;
    engine->rails[0]->transport->ops = engine->rails[1]->transport->ops = &ops;
    engine->rails[1]->use.stands_by = true;
    while (polled[1] == 0) {
        turn(100);
    }
    for (int way = 0; way < 2; way++) {
        polled[0] = polled[1] = 0;
        for (uint32_t i = 0; i < 49; i++) {
            (void) (way == 0 ? turn(1000) : async_turn(1000));
        }
        turn(999);
        assert_int_equal(polled[0], 50);
        assert_int_equal(polled[1], 0);
        turn(1);
        assert_int_equal(polled[1], 1);
    }
    asked = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        turn(1000);
    }
    assert_in_range(asked, 6, 10); /* of both, each 250 ms */
    engine->rails[0]->transport->ops = engine->rails[1]->transport->ops = real;
}

/* Of a flood on both each gets its turn, and a turn takes in no more than it may. */
TEST_WITH(rotation, set_up_two, tear_down)
{
    engine->rails[1]->use.stands_by = false;
    engine->work.waits = true;
    for (int rail = 0; rail < 2; rail++) {
        arrive((uint32_t) rail, 100);
    }
    for (uint32_t i = 1; i <= 10; i++) {
        assert_int_equal(btl_ib_engine_progress(engine, bench->now, 10), 10);
        assert_int_equal(btl_ib_engine_next_due(engine), bench->now); /* there is more */
        assert_in_range(bench->hosts[0].rails[0].arrived.count, 100 - (i + 1) / 2 * 10,
                        100 - i / 2 * 10);
    }
    assert_int_equal(bench->hosts[0].rails[0].arrived.count, 50);
    assert_int_equal(bench->hosts[0].rails[1].arrived.count, 50);
    bench_flow(bench);
    assert_int_equal(turn(0), 0);
    assert_true(btl_ib_engine_next_due(engine) > bench->now);
    engine->rails[1]->use.stands_by = true;
}

/* What rails carry is sampled, and silent peers are asked, by turns of the application's own that
 * come in time: each at its own time, for which a turn looks at one. */
TEST_WITH(samples, set_up_two, tear_down)
{
    const btl_ib_turn_t *turns = &engine->turn;

    engine->config.keepalive = 30 * SECOND;
    turn(300000);
    while (btl_ib_engine_behind(engine)) {
        turn(1);
    }
    for (uint32_t i = 0; i < 6000; i++) {
        const uint64_t sample_at = turns->sample_at, ask_at = turns->ask_at;
        engine->goodput.next = 0;
        turn(50);
        const bool sampled = turns->sample_at != sample_at, has_asked = turns->ask_at != ask_at;
        assert_int_equal(sampled, bench->now >= sample_at);
        assert_int_equal(sampled, engine->goodput.next != 0);
        assert_int_equal(has_asked, bench->now >= ask_at);
        assert_true(!sampled || turns->sample_at == bench->now + BTL_IB_GOODPUT_EACH);
        assert_true(!has_asked || turns->ask_at == bench->now + BTL_IB_KEEPALIVE_EACH);
        const uint64_t first = turns->sample_at < turns->ask_at ? turns->sample_at : turns->ask_at;
        assert_int_equal(turns->tick_at, first < turns->standby_at ? first : turns->standby_at);
    }
    const uint64_t sample_at = turns->sample_at, ask_at = turns->ask_at;
    async_turn(SECOND); /* they call up */
    assert_int_equal(turns->sample_at, sample_at);
    assert_int_equal(turns->ask_at, ask_at);
    turn(BTL_IB_GOODPUT_EACH); /* after a pause there are ACKs to be received first */
    assert_int_equal(turns->sample_at, sample_at);
    turn(1);
    assert_true(turns->sample_at > bench->now);
    engine->config.keepalive = 0; /* nobody is asked */
    engine->turn.ask_at = 1;
    turn(SECOND);
    turn(1);
    assert_int_equal(turns->ask_at, 1);
    assert_true(turns->tick_at > bench->now);
}

/* ---- timers ---- */

enum { TIMERS = 100 };

static uint64_t in_hotel(const btl_ib_timer_t *timers)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < TIMERS; i++) {
        n += btl_ib_hotel_guest_is_in(&timers[i].guest);
    }
    return n;
}

static void check_in(btl_ib_timer_t *timers, uint64_t due)
{
    for (uint32_t i = 0; i < TIMERS; i++) {
        btl_ib_timer_init(&timers[i], BTL_IB_TIMER_PACE, conn);
        btl_ib_hotel_checkin(&engine->hotel, &timers[i].guest, due);
    }
}

/* Of many timers that expire at once a turn serves 64, and the next one comes at once. */
TEST_WITH(many_timers, set_up, tear_down)
{
    btl_ib_timer_t timers[TIMERS];

    check_in(timers, bench->now + 50);
    turn(49);
    assert_int_equal(in_hotel(timers), TIMERS);
    turn(1);
    assert_int_equal(in_hotel(timers), TIMERS - 64);
    assert_true(btl_ib_engine_next_due(engine) <= bench->now);
    assert_true(btl_ib_engine_async_due(engine) <= bench->now);
    async_turn(0);
    assert_int_equal(in_hotel(timers), 0);
}

/* After a pause timers wait for what came meanwhile: acknowledgements may be among it. Not for
 * longer than the pause was, nor if nothing comes. */
TEST_WITH(timers_after_a_pause, set_up, tear_down)
{
    btl_ib_timer_t timers[TIMERS];

    for (int way = 0; way < 2; way++) {
        check_in(timers, bench->now + 10);
        arrive(0, 200);
        (void) (way == 0 ? turn(5000) : async_turn(5000));
        assert_int_equal(in_hotel(timers), TIMERS);
        assert_true(btl_ib_engine_behind(engine));
        (void) (way == 0 ? turn(4999) : async_turn(4999));
        assert_int_equal(in_hotel(timers), TIMERS);
        (void) (way == 0 ? turn(1) : async_turn(1));
        assert_int_equal(in_hotel(timers), TIMERS - 64);
        assert_false(btl_ib_engine_behind(engine));
        bench_flow(bench);
        assert_int_equal(in_hotel(timers), 0);
        check_in(timers, bench->now + 10);
        (void) (way == 0 ? turn(5000) : async_turn(5000));
        assert_int_equal(in_hotel(timers), TIMERS - 64);
        turn(1);
        assert_int_equal(in_hotel(timers), 0);
        check_in(timers, bench->now + 10);
        arrive(0, 1);
        (void) (way == 0 ? turn(5000) : async_turn(5000));
        assert_int_equal(in_hotel(timers), TIMERS); /* one may be enough */
        turn(1);
        turn(1);
        assert_int_equal(in_hotel(timers), 0);
        bench_run(bench, 1000);
    }
}

/* ---- pauses ---- */

/* The turn after a pause catches up, for as long as the pause was and 20 ms at most, while
 * something comes; a further pause makes it no longer. */
TEST_WITH(catching_up, set_up, tear_down)
{
    static const struct {
        uint64_t pause, most;
    } cases[] = {{101, 101}, {5000, 5000}, {20000, 20000}, {70000, 20000}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t pauses = count->pauses, us = count->paused_us;
        turn(1);
        arrive(0, 1000);
        turn(cases[i].pause);
        const uint64_t begun = bench->now;
        assert_true(btl_ib_engine_behind(engine));
        assert_int_equal(count->pauses, pauses + 1);
        assert_int_equal(count->paused_us, us + cases[i].pause);
        for (uint64_t later = 1; later < cases[i].most; later += cases[i].most / 5) {
            assert_int_equal(turn(begun + later - bench->now), 64);
            assert_true(btl_ib_engine_behind(engine));
        }
        turn(begun + cases[i].most - bench->now);
        assert_false(btl_ib_engine_behind(engine));
        bench_flow(bench);
        bench_run(bench, 1000);
    }
    const uint64_t pauses = count->pauses;
    turn(1);
    turn(5000); /* nothing came: it was no harm */
    assert_false(btl_ib_engine_behind(engine));
    assert_int_equal(count->pauses, pauses);
    arrive(0, 1);
    turn(100); /* as long as between many turns */
    assert_false(btl_ib_engine_behind(engine));
    assert_int_equal(count->pauses, pauses);
}

/* Nothing came before the first turn. */
TEST(first_turn)
{
    bench = new_bench();
    bench_start(bench, 0);
    engine = bench->hosts[0].engine;
    assert_int_equal(btl_ib_engine_turned_at(engine), 0);
    arrive(0, 1);
    assert_int_equal(turn(5000), 1);
    assert_int_equal(btl_ib_engine_turned_at(engine), bench->now);
    assert_int_equal(bench_counters(bench, 0)->pauses, 0);
    end(bench);
}

TEST_WITH(sent_much, set_up, tear_down)
{
    btl_ib_engine_call_ended(engine, bench->now);
    engine->count.sent_datagrams += 128;
    assert_false(btl_ib_engine_has_sent_much(engine));
    engine->count.sent_datagrams++;
    assert_true(btl_ib_engine_has_sent_much(engine));
    btl_ib_engine_call_ended(engine, bench->now + 7);
    assert_false(btl_ib_engine_has_sent_much(engine));
    assert_int_equal(engine->clock.now, bench->now + 7);
    engine->count.sent_datagrams -= 129;
    bench->now += 7;
}

/* ---- what a turn returns ---- */

/* Datagrams, and messages completed or delivered late: by the short way as by the usual one. */
TEST_WITH(what_it_returns, set_up, tear_down)
{
    for (int way = 0; way < 2; way++) {
        engine->predicts = way == 0;
        bench_op(bench, 0, 1, BTL_IB_OP_PUT, 8); /* is over when it is acknowledged */
        bench_send(bench, 1, 0, 20, 1);          /* which does not know of it */
        bench_deliver(bench, bench_pop(&bench->wire));
        bench_deliver(bench, bench_pop(&bench->wire));
        assert_int_equal(turn(10), 1);
        bench_turn(bench, 1);
        bench_send(bench, 1, 0, 20, 1); /* acknowledges it */
        const int datagrams = (int) bench->wire.count;
        while (bench->wire.count > 0) {
            bench_deliver(bench, bench_pop(&bench->wire));
        }
        assert_int_equal(turn(10), datagrams + 1);
        bench_flow(bench);
        bench_run(bench, 5000);
        assert_int_equal(turn(10), 0);
    }
    bench_send(bench, 1, 0, 20, 1);
    bench_deliver(bench, bench_pop(&bench->wire));
    const uint64_t turns = count->async_turns;
    assert_int_equal(async_turn(10), 1);
    assert_int_equal(count->async_turns, turns + 1);
    assert_int_equal(turn(10), 1); /* late */
    assert_int_equal(turn(10), 0);
}

/* A message that is not answered is acknowledged once 32 turns found nothing, with one rail or
 * more. */
TEST(acknowledged_when_idle)
{
    for (uint32_t rails = 1; rails <= 2; rails++) {
        begin(rails);
        bench_send(bench, 1, 0, 20, 1);
        bench_deliver(bench, bench_pop(&bench->wire));
        const uint64_t acks = count->sent_acks;
        assert_int_equal(turn(1), 1);
        for (uint32_t i = 0; i < 31; i++) {
            assert_int_equal(turn(0), 0);
            assert_int_equal(count->sent_acks, acks);
        }
        turn(0);
        assert_int_equal(count->sent_acks, acks + 1);
        tear_down(NULL);
    }
}

/* Once a turn has caught up with what came during a pause all is acknowledged, as the next pause
 * may follow; a turn of the thread acknowledges what is due only. */
TEST_WITH(acknowledged_after_a_pause, set_up, tear_down)
{
    for (int way = 0; way < 2; way++) {
        bench_send(bench, 1, 0, 20, 1);
        bench_deliver(bench, bench_pop(&bench->wire));
        const uint64_t acks = count->sent_acks;
        assert_int_equal(way == 0 ? async_turn(1) : turn(5000), 1);
        assert_int_equal(count->sent_acks, acks);
        if (way == 0) {
            assert_int_equal(btl_ib_engine_async_due(engine), conn->ack.at);
            (void) async_turn(conn->ack.at - bench->now - 1);
            bench->now++;
            (void) btl_ib_engine_async_progress(engine, bench->now, 64);
        } else {
            assert_int_equal(turn(1), 0);
        }
        assert_int_equal(count->sent_acks, acks + 1);
        bench_flow(bench);
        bench_run(bench, 5000);
    }
}

/* Where one acknowledgement is due others wait on for something that they may ride on. */
TEST_WITH(only_what_is_due, set_up, tear_down)
{
    bench_start(bench, 2);
    bench_send(bench, 2, 0, 20, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    const uint64_t acks = count->sent_acks;
    btl_ib_ack_tx_set_pending(bench_conn(bench, 0, 2), 1, false);
    btl_ib_ack_tx_set_pending(conn, 1, true);
    turn(0);
    assert_int_equal(count->sent_acks, acks + 1);
    assert_int_equal(conn->ack.due, 0);
    assert_int_equal(bench_conn(bench, 0, 2)->ack.due, 1 << 1);
}

/* ---- what else it does ---- */

/* Bulk that waits for a short message's receiver goes on when nothing came, when the thread turns,
 * and after a pause. */
TEST_WITH(bulk_goes_on, set_up, tear_down)
{
    for (int way = 0; way < 4; way++) {
        turn(1);
        engine->latency.hold_bulk = true;
        if (way > 1) {
            arrive(0, 1);
        }
        (void) (way == 0 ? async_turn(1) : turn(way == 2 ? 5000 : 1));
        assert_int_equal(engine->latency.hold_bulk, way == 3);
    }
    engine->latency.hold_bulk = false;
}

static void *reposted[4]; /* in this order */
static uint32_t reposts;

static void note_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        assert_true(reposts < 4);
        reposted[reposts++] = buffers[i];
    }
}

static void poll_in_callback(bench_t *of, uint32_t message)
{
    if (reposts == 0 && bench->wire.count > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
        assert_int_equal(turn(0), 1);
    }
}

/* A callback that polls finds what came meanwhile, and each datagram stays where it is until its
 * own callback has returned. */
TEST_WITH(polls_in_a_callback, set_up, tear_down)
{
    btl_ib_transport_ops_t ops = *(real = engine->rails[0]->transport->ops);
    void *datagrams[2];

    ops.repost = note_repost;
    engine->rails[0]->transport->ops = &ops;
    reposts = 0;
    turn(1); /* what is done now and then */
    turn(1);
    bench_send(bench, 1, 0, 20, 1);
    bench_send(bench, 1, 0, 20, 1);
    assert_int_equal(bench->wire.count, 2);
    datagrams[0] = bench->wire.first;
    datagrams[1] = bench->wire.first->next;
    bench_deliver(bench, bench_pop(&bench->wire));
    bench->on_deliver = poll_in_callback;
    turn(0);
    assert_int_equal(reposts, 2);
    assert_ptr_equal(reposted[0], datagrams[1]);
    assert_ptr_equal(reposted[1], datagrams[0]);
    bench->on_deliver = NULL;
    engine->rails[0]->transport->ops = real;
    real->repost(engine->rails[0]->transport, datagrams, 2);
}

/* With one rail and nothing to do a turn only looks whether something came. */
TEST_WITH(quiet, set_up, tear_down)
{
    turn(1);
    assert_false(engine->work.waits);
    bench_send(bench, 1, 0, 20, 1);
    bench_flow(bench);
    assert_false(engine->work.waits);
    bench_send(bench, 1, 0, 20, 1);
    bench_send(bench, 1, 0, 20, 1);
    while (bench->wire.count > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 1), 1);
    assert_int_equal(btl_ib_engine_next_due(engine), bench->now); /* there may be more */
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 1);
    engine->goodput.next = 0;
    for (int i = 0; i < 100; i++) {
        turn(90);
    }
    assert_int_equal(engine->goodput.next, 0); /* there is no other to compare it with */
}

/* ---- when the next one is due ---- */

TEST_WITH(next_one, set_up, tear_down)
{
    const uint64_t idle = btl_ib_engine_next_due(engine);
    const uint64_t now = bench->now;

    turn(0);
    assert_true(idle > now + 2000);
    assert_false(btl_ib_engine_busy(engine));
    assert_int_equal(btl_ib_engine_async_due(engine), UINT64_MAX);
    /* an acknowledgement */
    btl_ib_ack_tx_set_pending(conn, 1, false);
    assert_true(conn->ack.at > now && conn->ack.at < idle);
    assert_true(btl_ib_engine_busy(engine));
    assert_int_equal(btl_ib_engine_next_due(engine), conn->ack.at);
    assert_int_equal(btl_ib_engine_async_due(engine), conn->ack.at);
    btl_ib_ack_tx_set_pending(conn, 1, true);
    assert_int_equal(btl_ib_engine_next_due(engine), now + 10);
    btl_ib_ack_tx_settled(&conn->ack, 1 << 1);
    assert_false(btl_ib_engine_busy(engine));
    /* something to send */
    btl_ib_conn_ready(conn);
    assert_true(btl_ib_engine_busy(engine));
    assert_int_equal(btl_ib_engine_next_due(engine), now + 10);
    assert_int_equal(btl_ib_engine_async_due(engine), now + 10);
    turn(0);
    assert_false(btl_ib_engine_busy(engine));
    /* a timer, before that and by itself */
    btl_ib_timer_t timer;
    btl_ib_timer_init(&timer, BTL_IB_TIMER_PACE, conn);
    btl_ib_hotel_checkin(&engine->hotel, &timer.guest, now + 5);
    assert_true(btl_ib_engine_busy(engine));
    assert_in_range(btl_ib_engine_next_due(engine), now, now + 5);
    assert_in_range(btl_ib_engine_async_due(engine), now, now + 5);
    btl_ib_conn_ready(conn);
    assert_in_range(btl_ib_engine_next_due(engine), now, now + 5);
    btl_ib_hotel_checkout(&engine->hotel, &timer.guest);
    turn(0);
    /* what is to be accounted for */
    engine->predicted.conn = conn;
    assert_true(btl_ib_engine_busy(engine));
    assert_int_equal(btl_ib_engine_next_due(engine), now);
    assert_int_equal(btl_ib_engine_async_due(engine), now);
    engine->predicted.conn = NULL;
}

/* While a port is down turns come each second, to notice when that is for too long. */
TEST_WITH(down, set_up, tear_down)
{
    const uint64_t limit = engine->config.down_limit;
    btl_ib_rail_health_t *health = &engine->rails[0]->health;

    bench_run(bench, 30 * SECOND); /* the idle timer is over */
    engine->work.waits = true;
    assert_true(btl_ib_engine_next_due(engine) > bench->now + 2 * SECOND);
    health->down = true;
    assert_int_equal(btl_ib_engine_next_due(engine), engine->clock.now + SECOND);
    engine->config.down_limit = 0; /* for ever */
    assert_true(btl_ib_engine_next_due(engine) > bench->now + 2 * SECOND);
    engine->config.down_limit = limit;
    health->failed = true;
    assert_true(btl_ib_engine_next_due(engine) > bench->now + 2 * SECOND);
    health->down = health->failed = false;
}

UNIT_MAIN(NULL, NULL)
