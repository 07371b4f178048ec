/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios in which a device, or the way behind it, fails while there is another: nothing is lost,
 * nobody dies. */

#include <stdio.h>

#include "named.h"

/* The rail that a datagram really goes by; see rail_open(). */
static uint32_t way_of(const sim_t *sim, const datagram_t *d)
{
    return d->src % sim->nrails;
}

static uint64_t failovers(sim_t *sim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sum += sim_counters(sim, i)->failovers;
    }
    return sum;
}

/* They start, and then everybody knows everybody over each rail. */
static void rails_meet(sim_t *sim)
{
    const uint32_t procs = sim->nprocs;

    run_start(sim);
    for (uint32_t rail = 0; rail < sim->nrails; rail++) {
        for (uint32_t i = 0; i < procs * procs; i++) {
            if (i / procs != i % procs) {
                say(sim, i / procs, i % procs, 100, 1000)->rail = rail;
            }
        }
    }
    run_settle(sim, SIM_MS(50));
    sim_run_until(sim, sim->now + SIM_MS(1));
}

/* Everybody knows everybody over each rail. A port may be down for `down_limit` us. */
static void acquainted_for(sim_t *sim, uint32_t procs, uint32_t rails, uint64_t down_limit)
{
    sim_procs(sim, procs, rails);
    run_defaults(sim);
    sim->survives = true;
    for (uint32_t i = 0; i < procs; i++) {
        sim->procs[i].config.down_limit = down_limit;
    }
    rails_meet(sim);
}

void rails_acquainted(sim_t *sim, uint32_t procs, uint32_t rails)
{
    acquainted_for(sim, procs, rails, UINT64_C(180) * 1000 * 1000);
}

/* Messages of all sizes both ways, over each rail, for some milliseconds. */
void rails_traffic(sim_t *sim)
{
    static const uint32_t sizes[] = {8, 60000, 1000, 300, 20000};
    uint32_t pairs = sim->nprocs * sim->nprocs;

    for (uint32_t n = 0; n < 60; n++) {
        for (uint32_t i = 0; i < pairs; i++) {
            if (i / sim->nprocs != i % sim->nprocs) {
                say(sim, i / sim->nprocs, i % sim->nprocs, sizes[n % 5], SIM_US(50) * n + 1000)
                    ->rail = n % sim->nrails;
            }
        }
    }
}

/* The same, and we are in the middle of it. */
void rails_in_traffic(sim_t *sim)
{
    rails_traffic(sim);
    sim_run_until(sim, sim->now + SIM_US(700));
}

/* A way breaks without a word, all goes by others, and the way heals. */
static void broken_for_a_while(sim_t *sim, bool (*drop)(sim_t *, const datagram_t *))
{
    sim->drop = drop;
    run_settle(sim, SIM_S(5));
    sim->drop = NULL;
}

/* All arrived within `time`, by the connections there were. */
void rails_survive(sim_t *sim, uint64_t time)
{
    run_settle(sim, time);
    must_be_within(sim, "connections lost with a device", sim->applied[F_DEATH], 0);
    if (failovers(sim) == 0) {
        sim_fail(sim, "nothing went over another rail");
    }
    finish(sim);
}

void failover_sender(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    rails_in_traffic(sim);
    rail_fail_device(sim->procs[0].rails[0]);
    run_settle(sim, SIM_MS(200));
    must_be_within(sim, "us for the slowest message", slowest(sim, 0) / 1000, 60);
    rails_survive(sim, SIM_MS(200));
}

/* The second rail of each side has smaller datagrams, other queues and other ways to send. */
static void shape_second(proc_t *proc)
{
    proc->config.window_max = 4; /* few chunks of a message leave at once */
    proc->attr.max_datagram = 9000;
    proc_vary(proc);
    shape_t *shape = &proc->shapes[1];
    shape->attr.max_datagram = 1472;
    shape->attr.inline_size = 64;
    shape->attr.max_iov = 1;
    shape->attr.max_batch = 4;
    shape->attr.headroom = 40;
    shape->attr.registered_page = REGISTERED_PAGE;
    snprintf(shape->queues, sizeof(shape->queues), "P,256,64:S,1472,64");
}

/* The larger rail fails in the middle of a message, or before it, or behind it. */
void failover_other_shape(sim_t *sim)
{
    for (uint32_t n = 0; n < 8; n++) {
        if (n > 0) {
            again(sim, n + 1);
        }
        sim_procs(sim, 2, 2);
        run_defaults(sim);
        sim->survives = true;
        shape_second(&sim->procs[0]);
        shape_second(&sim->procs[1]);
        rails_meet(sim);
        rails_traffic(sim);
        sim_run_until(sim, sim->now + SIM_MS(1) + SIM_US(45) * n);
        rail_fail_device(sim->procs[0].rails[0]);
        rails_survive(sim, SIM_MS(500));
    }
}

/* PUTs of one message each way, divided among two rails as their rates are: 1 to 3. */
static void put_striped(sim_t *sim)
{
    for (uint32_t n = 0; n < 12; n++) {
        for (uint32_t rail = 0; rail < 2; rail++) {
            op_plan(sim, n % 2, 1 - n % 2, BTL_IB_OP_PUT, 4000 + 8000 * rail, sim->now + 1000)
                ->rail = rail;
        }
    }
}

/* ns until the last operation of a rail from number `first` on has ended. */
static uint64_t striped_took(const sim_t *sim, uint32_t first, uint32_t rail)
{
    uint64_t last = 0;

    for (uint32_t i = first; i < sim->nops; i++) {
        if (sim->ops[i]->rail == rail && sim->ops[i]->done_at > last) {
            last = sim->ops[i]->done_at;
        }
    }
    return last - sim->ops[first]->started_at;
}

/* Both rails end their share at about the same time. Then the faster one is lost in the middle: all
 * PUTs end well by the other, in the place and with the bytes that the arena's owner checks. */
void failover_striped(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    links_make(sim, 1000, 1000, 0);
    links_rail(sim, 1, 3000);
    put_striped(sim);
    run_settle(sim, SIM_MS(50));
    must_be_within(sim, "ns for the slower rail's share", striped_took(sim, 0, 0), SIM_US(400));
    must_be_within(sim, "ns for the faster rail's share", striped_took(sim, 0, 1), SIM_US(400));

    uint32_t first = sim->nops;
    put_striped(sim);
    sim_run_until(sim, sim->now + SIM_US(100));
    if (sim->ops[sim->nops - 1]->done) {
        sim_fail(sim, "nothing is under way over the faster rail any more");
    }
    rail_fail_device(sim->procs[0].rails[1]);
    run_settle(sim, SIM_MS(200));
    for (uint32_t i = first; i < sim->nops; i++) {
        if (!sim->ops[i]->done || sim->ops[i]->status != 0) {
            sim_fail(sim, "PUT %u ends with %d", i - first, sim->ops[i]->status);
        }
    }
    rails_survive(sim, SIM_MS(200));
}

void failover_many(sim_t *sim)
{
    rails_acquainted(sim, 5, 3);
    rails_in_traffic(sim);
    rail_fail_device(sim->procs[0].rails[1]);
    sim_run_until(sim, sim->now + SIM_US(300));
    rail_fail_device(sim->procs[1].rails[1]);
    sim_run_until(sim, sim->now + SIM_US(300));
    rail_fail_device(sim->procs[1].rails[0]);
    rails_survive(sim, SIM_S(5));
}

/* Both ends of a wire at once: each finds the other by the next. */
void failover_both(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    rails_in_traffic(sim);
    rail_fail_device(sim->procs[0].rails[1]);
    rail_fail_device(sim->procs[1].rails[1]);
    rails_survive(sim, SIM_MS(200));
}

void failover_idle(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    rail_fail_device(sim->procs[0].rails[0]);
    sim_run_until(sim, sim->now + SIM_S(10));
    say(sim, 1, 0, 100, 1000)->rail = 0;
    say(sim, 0, 1, 30000, 1000)->rail = 0;
    rails_survive(sim, SIM_MS(20));
}

void failover_in_async(sim_t *sim)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    sim->survives = true;
    sim->procs[0].thread_after = SIM_MS(10);
    run_start(sim);
    for (uint32_t i = 0; i < 4; i++) {
        say(sim, i / 2, 1 - i / 2, 100, 1000)->rail = i % 2;
    }
    run_settle(sim, SIM_MS(50));
    say(sim, 0, 1, 60000, 1000)->rail = 0;
    sim_run_until(sim, sim->now + SIM_US(2));
    proc_compute(&sim->procs[0], sim->now + SIM_S(1));
    rail_fail_device(sim->procs[0].rails[0]);
    sim_run_until(sim, sim->now + SIM_MS(100));
    must_be_within(sim, "messages that wait for the end of a computation", sim->undelivered, 0);
    rails_survive(sim, SIM_S(2));
}

static bool drop_news(sim_t *sim, const datagram_t *d)
{
    return d->from == 0 && d->rail == 0 && way_of(sim, d) == 1 && sim->scratch[0] > 0
           && sim->scratch[0]-- > 0;
}

/* Nobody tells the peer: it finds out. */
void failover_news_lost(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    sim->scratch[0] = 1;
    sim->drop = drop_news;
    rail_fail_device(sim->procs[0].rails[0]);
    sim_run_until(sim, sim->now + SIM_MS(1));
    must_be_within(sim, "datagrams still to be lost", sim->scratch[0], 0);
    for (uint32_t i = 0; i < 10; i++) {
        say(sim, 1, 0, 3000, 1000)->rail = 0;
    }
    rails_survive(sim, SIM_S(3));
}

static bool drop_first_way(sim_t *sim, const datagram_t *d)
{
    return way_of(sim, d) == 0;
}

/* No device says anything, but nothing gets through any more over one rail. */
void failover_broken_way(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    rails_in_traffic(sim);
    sim->drop = drop_first_way;
    rails_survive(sim, SIM_S(5));
}

/* The same, where the peer was away for 10 ms now and then, for which timeouts wait: few probes in
 * a quarter of a second say as much as ten elsewhere. */
void failover_after_pauses(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    for (uint32_t i = 0; i < 40; i++) {
        proc_compute(&sim->procs[1], sim->now + SIM_MS(10));
        say(sim, 0, 1, 3000, 1000)->rail = i % 2;
        run_settle(sim, SIM_MS(50));
    }
    sim->drop = drop_first_way;
    const uint64_t begun = sim->now;
    say(sim, 0, 1, 3000, 1000)->rail = 0;
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "ms until it went elsewhere", (sim->now - begun) / SIM_MS(1), 600);
    rails_survive(sim, SIM_S(5));
}

static bool drop_large_by_first_way(sim_t *sim, const datagram_t *d)
{
    return way_of(sim, d) == 0 && d->size > 300;
}

/* One rail carries less than anybody would cut segments for, and yet answers. */
void failover_narrow_way(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    sim->drop = drop_large_by_first_way;
    say(sim, 0, 1, 30000, 1000)->rail = 0;
    rails_survive(sim, SIM_S(30));
}

/* The way heals, and then the other one fails: back to the first. */
void failover_back(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    rails_in_traffic(sim);
    broken_for_a_while(sim, drop_first_way);
    rails_in_traffic(sim);
    rail_fail_device(sim->procs[0].rails[1]);
    rails_survive(sim, SIM_S(5));
}

static bool drop_second_way(sim_t *sim, const datagram_t *d)
{
    return way_of(sim, d) == 1;
}

/* The way heals, and then the other one breaks, without a word: the first is found again. */
void failover_in_turn(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    for (int i = 0; i < 4; i++) {
        rails_in_traffic(sim);
        broken_for_a_while(sim, i % 2 == 0 ? drop_first_way : drop_second_way);
        sim_run_until(sim, sim->now + SIM_S(20));
    }
    rails_survive(sim, SIM_S(5));
}

/* A connection is away from its own rail when the device that it goes by fails, and so is the other
 * one's. */
void failover_away(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    btl_ib_conn_t *b = proc_link(&sim->procs[0], 1, 1)->conn;
    if (!inside_fail_over(b)) {
        sim_fail(sim, "there is no other way");
    }
    rail_fail_device(sim->procs[0].rails[0]);
    rails_traffic(sim);
    rails_survive(sim, SIM_S(1));
}

/* While traffic goes on a healed way is taken back. */
void failover_home(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    rails_in_traffic(sim);
    broken_for_a_while(sim, drop_first_way);
    const btl_ib_conn_t *a = proc_link(&sim->procs[0], 1, 0)->conn;
    if (inside_by_its_own(a)) {
        sim_fail(sim, "the broken way is not left");
    }
    for (int i = 0; i < 10; i++) {
        say(sim, 0, 1, 1000, SIM_S(1) * (uint64_t) i + 1000)->rail = 0;
    }
    sim_run_until(sim, sim->now + SIM_S(10));
    if (!inside_by_its_own(a)) {
        sim_fail(sim, "the healed way is not taken back");
    }
    rails_survive(sim, SIM_S(1));
}

static bool drop_two_ways(sim_t *sim, const datagram_t *d)
{
    return way_of(sim, d) < 2;
}

/* Two of three ways are dark, and nobody used the third just now. */
void failover_third(sim_t *sim)
{
    rails_acquainted(sim, 2, 3);
    sim->drop = drop_two_ways;
    sim_run_until(sim, sim->now + SIM_S(10));
    for (uint32_t i = 0; i < 4; i++) {
        say(sim, i % 2, 1 - i % 2, 3000, 1000)->rail = i / 2;
    }
    rails_survive(sim, SIM_S(3));
}

/* What one moves to has failed at the other. */
void failover_crossed(sim_t *sim)
{
    rails_acquainted(sim, 2, 3);
    rails_in_traffic(sim);
    rail_fail_device(sim->procs[0].rails[0]);
    rail_fail_device(sim->procs[1].rails[1]);
    rails_survive(sim, SIM_S(5));
}

/* Datagrams of the old way come later than those of the new one: nobody goes back for them. */
void failover_late(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    fault_add(sim, F_JITTER, 0, sim->now + SIM_S(1), 1000000, SIM_MS(2));
    rails_traffic(sim);
    sim_run_until(sim, sim->now + SIM_MS(1));
    rail_fail_device(sim->procs[0].rails[0]);
    sim_run_until(sim, sim->now + SIM_MS(20));
    must_be_within(sim, "ways taken", sim_counters(sim, 1)->failovers, 1);
    rails_survive(sim, SIM_S(5));
}

/* Both move at once, to different ways: they come to agree. */
void failover_disagree(sim_t *sim)
{
    rails_acquainted(sim, 2, 3);
    btl_ib_conn_t *a = proc_link(&sim->procs[0], 1, 0)->conn;
    btl_ib_conn_t *b = proc_link(&sim->procs[1], 0, 0)->conn;
    if (!inside_fail_over(a) || !inside_fail_over(a) || !inside_fail_over(b)) {
        sim_fail(sim, "there is no other way");
    }
    rails_traffic(sim);
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "ways taken", failovers(sim), 4);
    if (inside_rail(a) != inside_rail(b)) {
        sim_fail(sim, "one goes by rail %u, the other by rail %u", inside_rail(a), inside_rail(b));
    }
    rails_survive(sim, SIM_S(1));
}

/* A peer that computes is silent over all rails: that moves nothing. */
void failover_not_for_silence(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    proc_compute(&sim->procs[1], sim->now + SIM_S(20));
    for (uint32_t i = 0; i < 10; i++) {
        say(sim, 0, 1, 3000, SIM_MS(100) * i + 1000)->rail = i % 2;
    }
    run_settle(sim, SIM_S(25));
    must_be_within(sim, "connections moved for a peer that computed", failovers(sim), 0);
    finish(sim);
}

/* Nor does a hole: the peer, which looks up from its work now and then, answers by this way what is
 * small. */
void failover_not_for_hole(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    fault_add(sim, F_HOLE, 0, SIM_NEVER, 0, 1000);
    say(sim, 0, 1, 60000, 1000)->rail = 0;
    sim_run_until(sim, sim->now + SIM_US(10));
    for (uint32_t i = 0; i < 80 && sim->undelivered > 0; i++) {
        proc_compute(&sim->procs[1], sim->now + SIM_MS(100));
        sim_run_until(sim, sim->now + SIM_MS(100) + SIM_US(50));
    }
    must_be_within(sim, "large messages that do not arrive", sim->undelivered, 0);
    must_be_within(sim, "connections moved for a hole", failovers(sim), 0);
    run_heal(sim);
    finish(sim);
}

/* The rail that failed is one that these two never used; the peer does not know. */
void failover_first_contact(sim_t *sim)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    sim->survives = true;
    run_start(sim);
    say(sim, 0, 1, 100, 1000)->rail = 1;
    say(sim, 1, 0, 100, 1000)->rail = 1;
    run_settle(sim, SIM_MS(50));
    rail_fail_device(sim->procs[0].rails[0]);
    sim_run_until(sim, sim->now + SIM_MS(1));
    for (uint32_t i = 0; i < 5; i++) {
        say(sim, 1, 0, 3000, SIM_MS(1) * i + 1000)->rail = 0;
    }
    rails_survive(sim, SIM_S(5));
}

/* Nobody else is known over another rail: then the connection dies, as it would with one rail. */
void failover_nowhere(sim_t *sim)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    sim->procs[1].config.silence_limit = 5000000;
    start_warm(sim); /* over some rail */
    for (uint32_t rail = 0; rail < 2; rail++) {
        rail_fail_device(sim->procs[0].rails[rail]);
    }
    sim_run_until(sim, sim->now + SIM_MS(5));
    if (sim->applied[F_DEATH] == 0) {
        sim_fail(sim, "the failure of all devices is not reported");
    }
    sim->stopping = true;
    sim_run_until(sim, sim->now + SIM_S(20));
    proc_stop(&sim->procs[0]);
    proc_stop(&sim->procs[1]);
}

/* ---- ports that may come back ---- */

static void set_port(sim_t *sim, uint32_t rail, bool up)
{
    rail_set_port(sim->procs[0].rails[rail], up);
}

void port_flaps(sim_t *sim)
{
    rails_acquainted(sim, 2, 1);
    for (int i = 0; i < 3; i++) {
        rails_traffic(sim);
        sim_run_until(sim, sim->now + SIM_US(700));
        set_port(sim, 0, false);
        sim_run_until(sim, sim->now + SIM_S(100));
        must_be_within(sim, "connections lost with a port", sim->applied[F_DEATH], 0);
        set_port(sim, 0, true);
        run_settle(sim, SIM_MS(300));
    }
    must_be_within(sim, "connections lost with a port", sim->applied[F_DEATH], 0);
    must_be_within(sim, "ways taken", failovers(sim), 0);
    finish(sim);
}

void port_flaps_of_two(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    const btl_ib_conn_t *a = proc_link(&sim->procs[0], 1, 0)->conn;
    const btl_ib_conn_t *b = proc_link(&sim->procs[1], 0, 0)->conn;
    rails_traffic(sim);
    sim_run_until(sim, sim->now + SIM_US(700));
    set_port(sim, 0, false);
    run_settle(sim, SIM_MS(200));
    must_be_within(sim, "us for the slowest message", slowest(sim, 0) / 1000, 60);
    if (inside_by_its_own(a) || inside_by_its_own(b)) {
        sim_fail(sim, "the port that is down is still used");
    }
    sim_run_until(sim, sim->now + SIM_S(2));
    set_port(sim, 0, true);
    sim_run_until(sim, sim->now + SIM_MS(10));
    if (!inside_by_its_own(a) || !inside_by_its_own(b)) {
        sim_fail(sim, "the port that is back is not used");
    }
    rails_traffic(sim);
    rails_survive(sim, SIM_MS(200));
}

void port_first_back(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    rails_traffic(sim);
    sim_run_until(sim, sim->now + SIM_US(700));
    set_port(sim, 0, false);
    sim_run_until(sim, sim->now + SIM_US(100));
    set_port(sim, 1, false);
    sim_run_until(sim, sim->now + SIM_S(60));
    set_port(sim, 0, true);
    run_settle(sim, SIM_S(1));
    set_port(sim, 1, true);
    sim_run_until(sim, sim->now + SIM_S(1));
    rails_survive(sim, SIM_S(1));
}

void port_stays_down(sim_t *sim)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
    sim->procs[0].config.down_limit = 30000000;
    sim->procs[1].config.silence_limit = 60000000;
    start_warm(sim);
    set_port(sim, 0, false);
    sim_run_until(sim, sim->now + SIM_S(29));
    must_be_within(sim, "connections that ended too soon", sim->applied[F_DEATH], 0);
    sim_run_until(sim, sim->now + SIM_S(2));
    if (sim->applied[F_DEATH] == 0) {
        sim_fail(sim, "a port that is down for good is not reported");
    }
    sim->stopping = true;
    proc_stop(&sim->procs[0]);
    proc_stop(&sim->procs[1]);
}

/* Do both sides use (or, if `uses` is false, leave) their rail 0? */
void rails_must_use_first(sim_t *sim, bool uses, const char *when)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (inside_by_its_own(proc_link(&sim->procs[i], 1 - i, 0)->conn) != uses) {
            sim_fail(sim, "p%u %s its first rail %s", i, uses ? "does not use" : "uses", when);
        }
    }
}

/* Ports of the first of two rails, of `ends` processes, are down for longer than anybody waits,
 * twice. */
static void down_beyond_the_limit(sim_t *sim, uint32_t ends)
{
    acquainted_for(sim, 2, 2, 5000000);
    for (int k = 0; k < 2; k++) {
        rails_in_traffic(sim);
        for (uint32_t i = 0; i < ends; i++) {
            rail_set_port(sim->procs[i].rails[0], false);
        }
        run_settle(sim, SIM_S(1));
        sim_run_until(sim, sim->now + SIM_S(20));
        rails_must_use_first(sim, false, "while its port is down");
        rails_in_traffic(sim);
        for (uint32_t i = 0; i < ends; i++) {
            rail_set_port(sim->procs[i].rails[0], true);
            sim_run_until(sim, sim->now + SIM_MS(300)); /* in between nothing must break */
        }
        run_settle(sim, SIM_S(1));
        rails_traffic(sim);
        run_settle(sim, SIM_S(1));
        rails_must_use_first(sim, true, "although its port is up");
    }
    rails_survive(sim, SIM_S(1));
}

void port_back_late(sim_t *sim)
{
    down_beyond_the_limit(sim, 1);
}

void port_back_late_at_both(sim_t *sim)
{
    down_beyond_the_limit(sim, 2);
}

/* A process without another rail loses its connections, as ever. When the port is back there are
 * new ones. */
void port_back_late_alone(sim_t *sim)
{
    acquainted_for(sim, 2, 1, 5000000);
    sim->survives = false;
    set_port(sim, 0, false);
    sim_run_until(sim, sim->now + SIM_S(6));
    must_be_within(sim, "connections lost with the port, less 1", sim->applied[F_DEATH] - 1, 0);
    sim_run_until(sim, sim->now + SIM_S(10));
    set_port(sim, 0, true);
    sim_run_until(sim, sim->now + SIM_MS(10));
    say(sim, 0, 1, 30000, 1000);
    run_settle(sim, SIM_S(1));
    say(sim, 1, 0, 30000, 1000);
    run_settle(sim, SIM_S(1));
    finish(sim);
}

/* A port goes down while its owner computes with something on the way, and is back after `down`. */
static void down_while_computing(sim_t *sim, uint64_t down)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
    sim->survives = true;
    sim->procs[0].thread_after = SIM_MS(10);
    sim->procs[0].config.down_limit = 5000000;
    start_warm(sim);
    say(sim, 0, 1, 60000, 1000);
    sim_run_until(sim, sim->now + SIM_US(2));
    proc_compute(&sim->procs[0], sim->now + SIM_S(60));
    set_port(sim, 0, false);
    sim_run_until(sim, sim->now + down);
    set_port(sim, 0, true);
    sim_run_until(sim, sim->now + SIM_S(1));
    must_be_within(sim, "messages that wait for the end of a computation", sim->undelivered, 0);
    run_settle(sim, SIM_S(61));
    must_be_within(sim, "connections lost with a port", sim->applied[F_DEATH], 0);
    finish(sim);
}

/* Back before the application was told that it had failed: it never learns of it. */
void port_back_unnoticed(sim_t *sim)
{
    down_while_computing(sim, SIM_S(10));
}

void port_down_in_async(sim_t *sim)
{
    down_while_computing(sim, SIM_S(3));
}
