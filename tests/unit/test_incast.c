/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Many to one, verb by verb: what all peers of a rail may have in flight, what each is told of it,
 * and whose turn it is. Host 0 receives from hosts 1 and 2, and others that are no more than
 * connections. */

#include <string.h>

#include "btl_ib_incast.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum {
    CHANNEL = 2,
    PERIOD = 1000, /* us, as the round trips */
    LEAST = 100,   /* the shortest round trip, */
    QUEUED = 400,  /* and one with a queue */
    HOLD = 0xff,
    KEPT = SECOND, /* us that a share is remembered */
};

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_incast_t *incast;
static btl_ib_conn_t *first, *second;

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    bench_start(bench, 2);
    engine = bench->hosts[0].engine;
    incast = &engine->rails[0]->incast;
    first = bench_conn(bench, 0, 1);
    second = bench_connect(bench, 0, 2);
    engine->clock.now += 100 * SECOND;
    incast->from = engine->clock.now;
    incast->received = incast->missing = incast->before = 0;
    incast->squares = incast->trips = incast->trips_least = 0;
    incast->rate = (btl_ib_incast_rate_t){0};
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

static void arrive(btl_ib_conn_t *conn, uint32_t passed_over, uint32_t count, bool again)
{
    btl_ib_incast_arriving(conn, CHANNEL, conn->rx[CHANNEL].window.top + passed_over, count, again);
}

/* ---- the bound ---- */

/* A period in which each of two sent so many segments, half of `missing` are missing of each, and
 * round trips took so long. Returns the bound. */
static uint32_t period(uint32_t each, uint32_t missing, uint32_t srtt)
{
    btl_ib_conn_t *const conns[] = {first, second};

    for (int i = 0; i < 2; i++) {
        conns[i]->loss.rtt = (btl_ib_rtt_t){.srtt8 = 8 * srtt, .min = LEAST};
        arrive(conns[i], 0, each, false);
        arrive(conns[i], missing / 2, 0, false);
    }
    assert_int_equal(incast->received, 2 * each);
    engine->clock.now = incast->from + PERIOD;
    arrive(first, 0, 0, false);
    assert_int_equal(incast->received, 0);
    assert_int_equal(incast->missing, 0);
    assert_int_equal(incast->from, engine->clock.now);
    return incast->bound;
}

/* Segments in flight by J. Little, if 100 arrived in a period. */
enum { FLIGHT = 100 * QUEUED / PERIOD + 1, PATH = 100 * LEAST / PERIOD };

TEST_WITH(bounded, set_up, tear_down)
{
    assert_int_equal(period(50, 0, QUEUED), 0); /* a queue alone does not matter, */
    assert_int_equal(period(50, 8, LEAST), 0);  /* nor do losses without one */
    assert_int_equal(period(50, 8, LEAST + LEAST / 2 + 20), 0);
    assert_int_equal(engine->count.incasts, 0);
    uint32_t bound = FLIGHT - FLIGHT / 8;
    assert_int_equal(period(50, 8, QUEUED), bound);
    assert_int_equal(engine->count.incasts, 1);
    bound -= bound / 8; /* the queue overflows still */
    assert_int_equal(period(50, 8, QUEUED), bound);
    bound -= (bound + 15) / 16; /* there is a queue */
    assert_int_equal(period(50, 0, QUEUED), bound);
    bound += bound / 64 + 1; /* and none */
    assert_int_equal(period(50, 0, LEAST), bound);
    for (int i = 0; i < 50; i++) {
        (void) period(50, 0, QUEUED);
    }
    assert_int_equal(incast->bound, PATH + 3); /* no less than the path holds */
    assert_int_equal(engine->count.incasts, 1);
}

/* While less than the best rate arrives the bound grows, unless a quarter is missing. */
TEST_WITH(less_than_the_best_rate, set_up, tear_down)
{
    (void) period(50, 8, QUEUED);
    incast->rate.best[0] = 1000000;
    incast->rate.renewed_at = engine->clock.now;
    uint32_t bound = incast->bound;
    bound += bound / 8 + 1;
    assert_int_equal(period(50, 0, QUEUED), bound);
    bound += bound / 64 + 1; /* a part is missing */
    assert_int_equal(period(50, 8, QUEUED), bound);
    bound = FLIGHT;
    bound -= bound / 8;
    assert_int_equal(period(50, 40, QUEUED), bound);
}

/* Has the bound cost rate while so many segments came, or were missing, of all that are judged
 * together; 100 more come. Returns what is borne from now on. */
static uint32_t borne_after(uint32_t received, uint32_t missing)
{
    (void) period(50, 8, QUEUED);
    incast->bound = 30;
    incast->rate.best[0] = 1000000;
    incast->rate.renewed_at = engine->clock.now;
    incast->costly.received = received;
    incast->costly.missing = missing;
    incast->borne = 0;
    incast->borne_until = 0;
    (void) period(50, 0, QUEUED);
    return incast->borne;
}

/* What is missing although the bound costs rate is borne for a while, and half as much again: of
 * many segments, not too few of them and not too many. */
TEST_WITH(borne_losses, set_up, tear_down)
{
    assert_int_equal(borne_after(1023 - 100 - 16, 16), 0); /* too few to tell */
    assert_int_equal(incast->costly.received + incast->costly.missing, 1023);
    assert_int_equal(borne_after(1024 - 100 - 15, 15), 0);
    assert_int_equal(incast->costly.received + incast->costly.missing, 0);
    assert_int_equal(borne_after(1024 - 100 - 208, 208), 0);
    assert_int_not_equal(incast->bound, 0);
    assert_int_equal(borne_after(1024 - 100 - 204, 204), 51 + 25);
    assert_int_equal(borne_after(1024 - 100 - 16, 16), 4 + 2);
    assert_int_equal(incast->bound, 0);
    assert_int_equal(incast->borne_until, engine->clock.now + 10 * SECOND);
    incast->borne = 27;
    assert_int_equal(period(50, 8, QUEUED), 0); /* which is no more than that */
    engine->clock.now = incast->borne_until;
    assert_int_equal(period(50, 8, QUEUED), FLIGHT - FLIGHT / 8);
    incast->rate.best[0] = 0; /* at full rate nothing is judged */
    incast->costly.received = 5;
    (void) period(50, 8, QUEUED);
    assert_int_equal(incast->costly.received, 5);
    incast->rate.best[0] = 1000000;
    incast->bound = 0; /* nor without a bound */
    (void) period(50, 0, QUEUED);
    assert_int_equal(incast->costly.received, 5);
}

/* A period in which 100 came, and so many are missing, ends a sum of `time` us in which so many
 * came and are missing. */
static void period_of_sum(uint64_t time, uint32_t received, uint32_t missing, uint32_t of_period)
{
    if (incast->cost.time == 0) {
        incast->cost.since = engine->clock.now;
    }
    incast->cost.time = time - PERIOD;
    incast->cost.received = received - 100;
    incast->cost.missing = missing - of_period;
    (void) period(50, of_period, QUEUED);
}

static void must_be_summed(uint64_t time, uint32_t received, uint32_t missing)
{
    assert_int_equal(incast->cost.time, time);
    assert_int_equal(incast->cost.received, received);
    assert_int_equal(incast->cost.missing, missing);
}

/* A second with a bound in which more than a 16th was missing: half a second without one. */
TEST_WITH(trial_without_a_bound, set_up, tear_down)
{
    (void) period(50, 0, QUEUED);
    must_be_summed(0, 0, 0); /* there is none */
    (void) period(50, 8, QUEUED);
    must_be_summed(0, 0, 0);
    (void) period(50, 8, QUEUED);
    must_be_summed(PERIOD, 100, 8);
    period_of_sum(SECOND - 1, 1500, 101, 8); /* too little of it */
    must_be_summed(SECOND - 1, 1500, 101);
    period_of_sum(SECOND, 1500, 100, 8); /* the bound helps */
    must_be_summed(0, 0, 0);
    assert_false(incast->cost.on_trial);
    assert_int_not_equal(incast->bound, 0);
    incast->cost.next_at = engine->clock.now + PERIOD + 1;
    period_of_sum(SECOND, 1500, 101, 8);
    assert_false(incast->cost.on_trial);
    period_of_sum(2 * SECOND, 1500, 101, 8);
    assert_true(incast->cost.on_trial);
    assert_int_equal(incast->cost.bounded, 750);
    assert_int_equal(incast->bound, 0);
    must_be_summed(0, 0, 0);
    assert_int_equal(period(50, 8, QUEUED), 0);
    must_be_summed(PERIOD, 100, 8);
    period_of_sum(SECOND / 2 - 1, 1500, 101, 8);
    assert_true(incast->cost.on_trial);
}

/* A trial ends in which so many came in half a second; with a bound there were 920 in one. */
static void end_trial(uint32_t received)
{
    incast->bound = 0;
    incast->cost.on_trial = true;
    incast->cost.bounded = 920;
    period_of_sum(SECOND / 2, received, 50, 8);
    assert_false(incast->cost.on_trial);
    must_be_summed(0, 0, 0);
}

/* If that carried no more there is a bound again, and the next trial comes later each time. */
TEST_WITH(trial_for_nothing, set_up, tear_down)
{
    (void) period(50, 8, QUEUED);
    incast->cost.free_until = 1;
    for (uint32_t times = 0; times < 8; times++) {
        end_trial(500);
        assert_int_not_equal(incast->bound, 0);
        assert_int_equal(incast->cost.free_until, 0);
        assert_int_equal(incast->cost.next_at,
                         engine->clock.now + (10 * (uint64_t) SECOND << (times < 5 ? times : 5)));
    }
    assert_int_equal(incast->cost.failed, 5);
}

/* If it carried more there is no bound for a while. */
TEST_WITH(bound_costs_rate, set_up, tear_down)
{
    (void) period(50, 8, QUEUED);
    incast->cost.failed = 3;
    incast->cost.next_at = 1;
    end_trial(501);
    assert_int_equal(incast->cost.failed, 0);
    assert_int_equal(incast->cost.next_at, 0);
    assert_int_equal(incast->cost.free_until, engine->clock.now + 10 * SECOND);
    assert_int_equal(incast->bound, 0);
    assert_int_equal(period(50, 80, QUEUED), 0); /* not even as a quarter is missing */
    must_be_summed(0, 0, 0);
    incast->crowd_at = engine->clock.now = incast->from = incast->cost.free_until - PERIOD;
    assert_int_not_equal(period(50, 8, QUEUED), 0);
}

/* Periods that are few and far between are not judged together; a trial in them ends. */
TEST_WITH(rare_periods, set_up, tear_down)
{
    (void) period(50, 8, QUEUED);
    (void) period(50, 8, QUEUED);
    assert_int_equal(incast->cost.since, engine->clock.now);
    for (uint32_t more = 0; more < 2; more++) {
        incast->cost.since = engine->clock.now + PERIOD - 4 * SECOND - more;
        period_of_sum(SECOND - 1, 1500, 500, 8);
        assert_int_equal(incast->cost.time, more ? 0 : SECOND - 1);
        assert_false(incast->cost.on_trial);
    }
    incast->cost.on_trial = true;
    incast->cost.time = 1;
    incast->cost.since = engine->clock.now + PERIOD - 2 * SECOND - 1;
    period_of_sum(SECOND / 2 - 1, 1500, 50, 8);
    assert_false(incast->cost.on_trial);
    assert_int_equal(incast->cost.failed, 1);
}

/* All is forgotten when several have not sent for long. */
TEST_WITH(trial_forgotten, set_up, tear_down)
{
    (void) period(50, 0, QUEUED);
    for (uint32_t past = 0; past < 2; past++) {
        incast->cost = (btl_ib_incast_cost_t){.on_trial = true, .failed = 3};
        engine->clock.now = incast->from = incast->crowd_at + 10 * SECOND - PERIOD + past;
        (void) period(50, 0, QUEUED);
        assert_int_equal(incast->cost.on_trial, past == 0);
        assert_int_equal(incast->cost.failed, past == 0 ? 3 : 0);
        assert_int_equal(incast->crowd_at, engine->clock.now);
    }
}

/* One period, of many losses, has little in flight that arrives: no less than half is left. */
TEST_WITH(halved_at_most, set_up, tear_down)
{
    (void) period(50, 8, QUEUED);
    incast->bound = 101;
    assert_int_equal(period(10, 80, QUEUED), 50);
    assert_int_equal(period(5, 80, QUEUED), 25);
}

/* The best rate is that of the last seconds, by eight periods at a time. */
TEST_WITH(best_rate, set_up, tear_down)
{
    btl_ib_incast_rate_t *rate = &incast->rate;

    for (int i = 0; i < 7; i++) {
        (void) period(50, 0, LEAST);
        assert_int_equal(rate->best[0], 0);
    }
    rate->renewed_at = engine->clock.now;
    (void) period(50, 0, LEAST);
    assert_int_equal(rate->best[0], 100000);
    assert_int_equal(rate->best[1], 0);
    assert_int_equal(rate->segments[1], 800);
    assert_int_equal(rate->time[1], 8 * PERIOD);
    assert_int_equal(rate->segments[0] + rate->time[0] + rate->periods, 0);
    for (uint64_t age = 1; age <= 2; age++) { /* seconds */
        rate->best[0] = 7;
        rate->renewed_at = engine->clock.now - age * SECOND;
        for (int i = 0; i < 8; i++) {
            (void) period(50, 0, LEAST);
        }
        assert_int_equal(rate->best[0], 100000);
        assert_int_equal(rate->best[1], age == 1 ? 7 : 0);
        assert_int_equal(rate->renewed_at, engine->clock.now);
    }
    rate->best[0] = 200000;
    rate->best[1] = 300000;
    for (int i = 0; i < 8; i++) {
        (void) period(50, 0, LEAST);
    }
    assert_int_equal(rate->best[0], 200000);
    assert_int_equal(rate->best[1], 300000);
}

/* Of a single sender nothing is bounded, and what was is forgotten in ten seconds. */
TEST_WITH(a_single_sender, set_up, tear_down)
{
    (void) period(50, 8, QUEUED);
    const uint32_t bound = incast->bound;
    const uint64_t since = engine->clock.now;
    assert_int_equal(incast->crowd_at, since);
    incast->before = 0;
    for (int i = 0; i < 2; i++) {
        arrive(first, 0, 100, false);
        engine->clock.now = incast->from + PERIOD;
        arrive(first, 0, 0, false);
        assert_int_equal(incast->bound, bound);
        assert_int_equal(incast->before, 1);
    }
    assert_int_equal(incast->crowd_at, since);
    engine->clock.now = since + 10 * SECOND - 2;
    incast->from = engine->clock.now - PERIOD;
    arrive(first, 0, 100, false);
    engine->clock.now = since + 10 * SECOND;
    incast->from = engine->clock.now - PERIOD;
    arrive(first, 0, 0, false);
    assert_int_equal(incast->bound, bound);
    arrive(first, 0, 100, false);
    engine->clock.now = incast->from + PERIOD;
    arrive(first, 0, 0, false);
    assert_int_equal(incast->bound, 0);
}

/* A period has a millisecond and 64 segments; one with a pause in it says nothing. */
TEST_WITH(periods, set_up, tear_down)
{
    arrive(first, 0, 63, false);
    engine->clock.now = incast->from + PERIOD;
    arrive(first, 0, 1, false);
    assert_int_equal(incast->received, 64);
    engine->clock.now = incast->from + PERIOD - 1;
    arrive(first, 0, 1, false);
    assert_int_equal(incast->received, 65);
    engine->clock.now++;
    const uint16_t number = incast->period;
    arrive(first, 0, 7, false);
    assert_int_equal(incast->received, 7);
    assert_int_equal(incast->before, 1);
    assert_int_equal((uint16_t) (incast->period - number), 1);
    assert_int_equal(first->incast.sent, 7);
    arrive(first, 0, 3, false);
    assert_int_equal(first->incast.sent, 10);
    assert_int_equal(incast->squares, 100);
    arrive(second, 0, 10, false);
    assert_int_equal(incast->squares, 200);
    arrive(first, 5, 1, false); /* passed over */
    assert_int_equal(incast->missing, 5);
    btl_ib_incast_arriving(first, CHANNEL, first->rx[CHANNEL].window.top - 1, 2, false);
    assert_int_equal(incast->missing, 3); /* they were overtaken */
    btl_ib_incast_arriving(first, CHANNEL, first->rx[CHANNEL].window.top - 1, 2, true);
    assert_int_equal(incast->missing, 3); /* these were lost */
    btl_ib_incast_arriving(first, CHANNEL, first->rx[CHANNEL].window.top - 1, 9, false);
    assert_int_equal(incast->missing, 0);
    arrive(first, 1000, 1, false); /* a SKIP, perhaps */
    assert_int_equal(incast->missing, 64);
    engine->clock.now = incast->from + 250000;
    incast->missing = incast->received = 0;
    arrive(first, 0, 9, false);
    assert_int_equal(incast->received, 9);
    engine->clock.now++;
    arrive(first, 0, 1, false);
    assert_int_equal(incast->received, 1);
    assert_int_equal(incast->before, 0);
}

/* ---- shares ---- */

/* What is left of a number of three bits and an exponent. */
static uint32_t rounded(uint32_t segments)
{
    uint32_t unit = 1;

    while (segments / unit > 15) {
        unit *= 2;
    }
    return segments / unit * unit;
}

TEST_WITH(shares, set_up, tear_down)
{
    incast->before = 2;
    for (uint32_t share = 1; share < 100000; share += 1 + share / 20) {
        incast->bound = 2 * share + 1;
        assert_true(btl_ib_incast_share(first) != 0);
        (void) btl_ib_incast_received(first, btl_ib_incast_share(first), 100);
        assert_int_equal(first->incast.segments, rounded(share));
    }
    incast->bound = 1; /* each has one at least */
    assert_int_equal(btl_ib_incast_share(first), 1);
    incast->bound = 40;
    incast->before = 4;
    assert_int_equal(btl_ib_incast_share(first), 10);
    incast->grants = 5; /* who has its turn shares with those, */
    assert_int_equal(btl_ib_incast_share(first), 8);
    incast->grants = 2;
    assert_int_equal(btl_ib_incast_share(first), 10);
    btl_ib_list_push_tail(&incast->granted, &first->incast.link);
    (void) btl_ib_incast_received(first, btl_ib_incast_share(first), 100);
    assert_int_equal(first->incast.segments, 20);
    btl_ib_list_remove(&first->incast.link);
    first->incast.held = true;
    assert_int_equal(btl_ib_incast_share(first), HOLD);
    first->incast.held = false;
    incast->grants = 0;
    incast->before = 1; /* a single one has no share */
    assert_int_equal(btl_ib_incast_share(first), 0);
    incast->before = 2;
    incast->bound = 0;
    assert_int_equal(btl_ib_incast_share(first), 0);
}

/* A peer is told again when its share is twice or half of what it was told, or its turn begins or
 * ends. */
TEST_WITH(when_it_is_told, set_up, tear_down)
{
    static const struct {
        uint8_t told;
        uint32_t share; /* now; 0: no bound */
        bool held, due;
    } cases[] = {
        {0, 0, false, false},   {0, 4, false, true},    {4, 0, false, true},
        {4, 4, false, false},   {4, 7, false, false},   {4, 8, false, true},
        {8, 5, false, false},   {8, 4, false, true},    {4, 4, true, true},
        {HOLD, 4, false, true}, {HOLD, 4, true, false}, {HOLD, 0, false, true},
    };

    incast->before = 2;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        btl_ib_incast_told(first, cases[i].told);
        incast->bound = 2 * cases[i].share;
        first->incast.held = cases[i].held;
        assert_int_equal(btl_ib_incast_is_due(first), cases[i].due);
    }
    first->incast.held = false;
    incast->bound = 0;
}

/* A share holds for a second, and until a newer one comes. */
TEST_WITH(when_it_holds, set_up, tear_down)
{
    assert_false(btl_ib_incast_received(first, 5, 1000));
    assert_int_equal(first->incast.segments, 5);
    assert_false(btl_ib_incast_received(first, 7, 999));
    assert_int_equal(first->incast.segments, 5);
    engine->clock.now += KEPT;
    assert_false(btl_ib_incast_received(first, 7, 999));
    btl_ib_incast_expire(first);
    assert_int_equal(first->incast.segments, 5);
    engine->clock.now++;
    assert_false(btl_ib_incast_received(first, 7, 999));
    assert_int_equal(first->incast.segments, 7);
    assert_int_equal(first->incast.received_at, engine->clock.now);
    engine->clock.now += KEPT + 1;
    btl_ib_incast_expire(first);
    assert_true(first->incast.segments == UINT32_MAX);
    assert_false(btl_ib_incast_received(first, HOLD, 2000));
    assert_int_equal(first->incast.segments, 0);
    assert_false(btl_ib_incast_received(first, HOLD, 2001));
    assert_true(btl_ib_incast_received(first, 3, 2001)); /* its turn begins */
    assert_false(btl_ib_incast_received(first, 0, 2002));
    assert_true(first->incast.segments == UINT32_MAX);
}

/* ---- turns ---- */

/* Where fewer segments may be in flight than there are senders one that sends more than a few waits
 * for its turn, which ends after some segments. */
TEST_WITH(turns, set_up, tear_down)
{
    incast->bound = 1;
    incast->trip = 100;
    arrive(first, 0, 2, false);
    arrive(second, 0, 2, false);
    assert_true(btl_ib_list_empty(&first->incast.link)); /* who sends little needs none */
    arrive(first, 0, 1, false);
    assert_false(btl_ib_list_empty(&first->incast.link) || first->incast.held);
    assert_int_equal(incast->grants, 1);
    btl_ib_ack_tx_settled(&second->ack, UINT32_MAX);
    arrive(second, 0, 1, false);
    assert_true(second->incast.held);
    assert_true(second->ack.at_once); /* it is told, by an ACK of what needs turns */
    assert_int_equal(second->ack.due, 1u << 1);
    assert_int_equal(incast->grants, 1);
    assert_int_equal(first->incast.turn, 0);
    arrive(first, 0, 31, false);
    assert_false(first->incast.held);
    btl_ib_ack_tx_settled(&first->ack, UINT32_MAX);
    btl_ib_ack_tx_settled(&second->ack, UINT32_MAX);
    arrive(first, 0, 1, false);
    assert_true(first->incast.held && first->ack.at_once);
    assert_false(second->incast.held);
    assert_true(second->ack.at_once);
    assert_int_equal(first->ack.due, 1u << 1);
    assert_int_equal(second->ack.due, 1u << 1);
    assert_int_equal(incast->grants, 1);
    assert_int_equal(second->incast.turn, 0);
    /* one that does not use it loses it */
    const uint64_t begun = engine->clock.now;
    engine->clock.now = begun + 2 * 100 + 50;
    btl_ib_incast_pass_turns(first);
    assert_true(first->incast.held);
    engine->clock.now++;
    btl_ib_incast_pass_turns(first);
    assert_false(first->incast.held);
    assert_true(btl_ib_list_empty(&second->incast.link));
    assert_int_equal(incast->grants, 1);
    btl_ib_incast_end(first);
    assert_int_equal(incast->grants, 0);
    btl_ib_incast_end(first);
    assert_int_equal(incast->grants, 0);
}

/* Without a bound nobody waits; and one that was silent for long begins anew. */
TEST_WITH(no_more_turns, set_up, tear_down)
{
    incast->bound = 1;
    incast->trip = 100;
    arrive(first, 0, 3, false);
    arrive(second, 0, 3, false);
    assert_true(second->incast.held);
    incast->bound = 0;
    btl_ib_incast_pass_turns(first);
    assert_false(second->incast.held);
    btl_ib_incast_end(first);
    btl_ib_incast_end(second);
    incast->bound = 1;
    first->incast.turn = 2;
    first->incast.heard_at = engine->clock.now;
    engine->clock.now += 4 * 100 + PERIOD / 3;
    arrive(first, 0, 1, false);
    assert_false(btl_ib_list_empty(&first->incast.link));
    btl_ib_incast_end(first);
    first->incast.turn = 2;
    first->incast.heard_at = engine->clock.now;
    engine->clock.now += 4 * 100 + PERIOD / 3 + 1;
    arrive(first, 0, 1, false);
    assert_true(btl_ib_list_empty(&first->incast.link));
    assert_int_equal(first->incast.turn, 1);
}

UNIT_MAIN(NULL, NULL)
