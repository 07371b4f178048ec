/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios in which one of two rails carries far less than the other, or seems to: it is left
 * where that holds messages up, and only there. */

#include "named.h"

enum {
    SIZE = 60000,   /* of messages */
    FAST = 1000,    /* Mbit/s */
    SLOW = 10,      /* a message takes 48 ms */
    QUEUE = 131072, /* bytes */
};

static uint64_t found_slow(sim_t *sim)
{
    return sim_counters(sim, 0)->slow_rails + sim_counters(sim, 1)->slow_rails;
}

/* Both rails have links, the second with `rate`. */
static void with_links(sim_t *sim, uint64_t rate)
{
    rails_acquainted(sim, 2, 2);
    sim->events_max = UINT64_MAX;
    links_make(sim, FAST, FAST, QUEUE);
    links_rail(sim, 1, rate);
}

/* One message over each rail, and the sender waits for both, as often as said. Returns ns. */
static uint64_t rounds(sim_t *sim, uint32_t count)
{
    const uint64_t begun = sim->now;

    for (uint32_t i = 0; i < count; i++) {
        say(sim, 0, 1, SIZE, 1000)->rail = 0;
        say(sim, 0, 1, SIZE, 1000)->rail = 1;
        run_settle(sim, SIM_S(2));
    }
    return sim->now - begun;
}

static void must_be_left(sim_t *sim, bool left)
{
    btl_ib_conn_t *conn = proc_link(&sim->procs[0], 1, 1)->conn;

    if (inside_by_its_own(conn) == left) {
        sim_fail(sim, "the second rail is %s", left ? "still used" : "not used");
    }
}

/* One rail alone would take 1 ms a round, both as they are 48. */
void slow_rail(sim_t *sim)
{
    with_links(sim, SLOW);
    must_be_within(sim, "ms for what one rail carries in 200", rounds(sim, 200) / SIM_MS(1), 900);
    must_be_left(sim, true);
    must_be_within(sim, "times that a rail was found slow", found_slow(sim), 1);
    rails_survive(sim, SIM_S(1));
}

static uint64_t put_rounds(sim_t *sim, uint32_t count, uint32_t slow, uint32_t fast)
{
    const uint64_t begun = sim->now;

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t n = 0; n < 16; n++) {
            op_plan(sim, 0, 1, BTL_IB_OP_PUT, fast, sim->now + 1000)->rail = 0;
            op_plan(sim, 0, 1, BTL_IB_OP_PUT, slow, sim->now + 1000)->rail = 1;
        }
        run_settle(sim, SIM_S(2));
    }
    return sim->now - begun;
}

void slow_rail_of_puts(sim_t *sim)
{
    with_links(sim, SLOW);
    must_be_within(sim, "ms for what one rail carries in 200",
                   put_rounds(sim, 100, 8000, 8000) / SIM_MS(1), 1000);
    must_be_left(sim, true);
    rails_survive(sim, SIM_S(1));
}

/* It is tried again after 10 s. */
void slow_rail_recovers(sim_t *sim)
{
    with_links(sim, SLOW);
    (void) rounds(sim, 50);
    must_be_left(sim, true);
    links_rail(sim, 1, FAST);
    for (uint32_t i = 0; i < 1250; i++) {
        (void) rounds(sim, 1);
        sim_run_until(sim, sim->now + SIM_MS(10));
    }
    must_be_left(sim, false);
    must_be_within(sim, "times that a rail was found slow", found_slow(sim), 1);
    rails_survive(sim, SIM_S(1));
}

void slow_rail_is_left_alone(sim_t *sim)
{
    with_links(sim, SLOW);
    (void) rounds(sim, 50);
    must_be_left(sim, true);
    rail_fail_device(sim->procs[0].rails[0]);
    (void) rounds(sim, 10);
    must_be_left(sim, false);
    rails_survive(sim, SIM_S(1));
}

/* The fast rail loses all that goes one way. The peer answers what asks by the slow one, which does
 * not mean that the fast one is answered. */
void slow_rail_is_needed(sim_t *sim)
{
    with_links(sim, SLOW);
    (void) rounds(sim, 50);
    must_be_left(sim, true);
    fault_t *fault = fault_add(sim, F_RAIL, sim->now, SIM_NEVER, 0, 0);
    fault->src = 0;
    say(sim, 0, 1, SIZE, 1000)->rail = 0;
    say(sim, 0, 1, SIZE, 1000)->rail = 1;
    say(sim, 1, 0, SIZE, 1000)->rail = 1;
    run_settle(sim, SIM_S(3));
    must_be_left(sim, false);
    fault->to = sim->now;
    rails_survive(sim, SIM_S(1));
}

static void must_be_used(sim_t *sim)
{
    must_be_within(sim, "times that a rail was found slow", found_slow(sim), 0);
    must_be_left(sim, false);
}

static void must_stay(sim_t *sim)
{
    must_be_used(sim);
    finish(sim);
}

void slow_rail_as_claimed(sim_t *sim)
{
    with_links(sim, FAST / 10);
    (void) put_rounds(sim, 500, 1200, 12000);
    must_stay(sim);
}

void slow_rail_for_a_moment(sim_t *sim)
{
    with_links(sim, FAST);
    (void) rounds(sim, 100);
    for (uint32_t i = 0; i < 3; i++) {
        links_rail(sim, 1, SLOW);
        (void) rounds(sim, 4);
        links_rail(sim, 1, FAST);
        (void) rounds(sim, 300);
    }
    must_stay(sim);
}

/* What both carried before counts no more, and by the fast one too little goes now to compare. */
void slow_rail_compared_with_little(sim_t *sim)
{
    with_links(sim, FAST);
    (void) rounds(sim, 300);
    links_rail(sim, 1, SLOW / 10);
    for (uint32_t i = 0; i < 200; i++) {
        say(sim, 0, 1, 300, 1000)->rail = 0;
        say(sim, 0, 1, 1000, 1000)->rail = 1;
        run_settle(sim, SIM_S(2));
    }
    must_be_used(sim);
    links_rail(sim, 1, FAST);
    finish(sim);
}

/* The rail that a datagram really goes by; see rail_open(). */
static bool lose_some(sim_t *sim, const datagram_t *d)
{
    return d->src % sim->nrails == 1 && rng_chance(&sim->rng, 10000);
}

void slow_rail_loses(sim_t *sim)
{
    with_links(sim, FAST);
    sim->drop = lose_some;
    (void) rounds(sim, 1000);
    sim->drop = NULL;
    must_stay(sim);
}

static void say_by(sim_t *sim, uint32_t rail, uint32_t count, uint32_t size)
{
    for (uint32_t i = 0; i < count; i++) {
        say(sim, 0, 1, size, 1000)->rail = rail;
    }
}

/* The peer takes messages over the first rail and then computes, so that the ACKs of those by the
 * second rail come late, always. */
static void computing(sim_t *sim, uint32_t rounds, uint32_t count, uint32_t size, uint64_t time)
{
    for (uint32_t i = 0; i < rounds; i++) {
        say_by(sim, 0, count, size);
        run_settle(sim, SIM_S(2));
        say_by(sim, 1, count, size);
        sim_run_until(sim, sim->now + SIM_US(10));
        proc_compute(&sim->procs[1], sim->now + time);
        run_settle(sim, SIM_S(2));
    }
}

void slow_peer(sim_t *sim)
{
    with_links(sim, FAST);
    sim->procs[0].idle_poll = SIM_MS(1);
    computing(sim, 30, 20, SIZE, SIM_MS(60));
    computing(sim, 500, 1, 8000, SIM_MS(4));
    must_stay(sim);
}

/* Operations of a window go by one rail, and what is long is divided among both. The two processes
 * share a processor: what one sent before its slice ended is acknowledged when it comes back, and
 * taken in bit by bit. */
void slow_rail_of_windows(sim_t *sim)
{
    with_links(sim, FAST);
    proc_share(sim, SIM_MS(4));
    for (uint32_t i = 0; i < 300; i++) {
        for (uint32_t n = 0; n < 100; n++) {
            op_plan(sim, 0, 1, (btl_ib_op_kind_t) (n % 3), 500, sim->now + SIM_US(100) * n)->rail =
                0;
        }
        sim_run_until(sim, sim->now + SIM_MS(10));
        for (uint32_t n = 0; n < 16; n++) {
            op_plan(sim, 0, 1, BTL_IB_OP_PUT, 12000, sim->now + 1000)->rail = n % 2;
        }
        run_settle(sim, SIM_S(2));
    }
    sim->slice = 0;
    must_stay(sim);
}
