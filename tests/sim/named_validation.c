/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios in which a pair of rails leads nowhere, or is refused on the way: that closes this
 * pair, and no connection is lost while there is another. And what is no loss: a process of another
 * job that has left. */

#include "named.h"

/* The rail that a datagram really goes by; see rail_open(). */
static uint32_t way_of(const sim_t *sim, const datagram_t *d)
{
    return d->src % sim->nrails;
}

static bool by_first_way(sim_t *sim, const datagram_t *d)
{
    return way_of(sim, d) == 0;
}

static bool by_any_way(sim_t *sim, const datagram_t *d)
{
    return true;
}

static bool out_by_first_way(sim_t *sim, const datagram_t *d)
{
    return way_of(sim, d) == 0 && d->from == 0;
}

static void two_ways(sim_t *sim)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    sim->survives = true;
}

/* Messages of all sizes both ways, over each rail, for some milliseconds. */
static void traffic(sim_t *sim)
{
    static const uint32_t sizes[] = {8, 60000, 1000, 300, 20000};

    for (uint32_t n = 0; n < 40; n++) {
        for (uint32_t from = 0; from < 2; from++) {
            say(sim, from, 1 - from, sizes[n % 5], SIM_US(50) * n + 1000)->rail = n % sim->nrails;
        }
    }
}

/* A message each way over each rail. */
static void greet(sim_t *sim)
{
    for (uint32_t i = 0; i < 4; i++) {
        say(sim, i / 2, 1 - i / 2, 100, 1000)->rail = i % sim->nrails;
    }
    run_settle(sim, SIM_MS(50));
    sim_run_until(sim, sim->now + SIM_MS(1));
}

/* All arrives within that time, and nobody dies. */
static void all_arrive(sim_t *sim, uint64_t time)
{
    run_settle(sim, time);
    must_be_within(sim, "connections lost with a way", sim->applied[F_DEATH], 0);
    must_be_within(sim, "us for the slowest message", slowest(sim, 0) / 1000, time / 1000);
}

void way_silent_from_the_first(sim_t *sim)
{
    two_ways(sim);
    sim->drop = by_first_way;
    run_start(sim);
    traffic(sim);
    all_arrive(sim, SIM_MS(100));
    finish(sim);
}

/* Two hosts with a bridge of one address each: what goes there is refused by one's own host. */
void way_refused_from_the_first(sim_t *sim)
{
    two_ways(sim);
    sim->reject = by_first_way;
    run_start(sim);
    traffic(sim);
    all_arrive(sim, SIM_MS(10));
    finish(sim);
}

/* Only ACKs, which ask: anything else would be lost there, or come to somebody else. */
static bool nothing_but_questions(sim_t *sim, const datagram_t *d)
{
    if (way_of(sim, d) == 0 && type_of(d) != BTL_IB_TYPE_ACK && type_of(d) != BTL_IB_TYPE_CLOSE) {
        sim_fail(sim, "p%u sends data by a way that did not answer yet", d->from);
    }
    sim->scratch[0] += way_of(sim, d) == 0;
    return way_of(sim, d) == 0;
}

/* protocol: R28 */
void way_without_answer(sim_t *sim)
{
    two_ways(sim);
    sim->drop = nothing_but_questions;
    run_start(sim);
    say(sim, 0, 1, 100, 1000)->rail = 1;
    say(sim, 1, 0, 100, 1000)->rail = 1;
    run_settle(sim, SIM_MS(50));
    const uint32_t before = sim->nmessages;
    for (uint32_t i = 0; i < 20; i++) {
        say(sim, i % 2, 1 - i % 2, i % 4 < 2 ? 300 : 30000, SIM_US(10) * i + 1000)->rail = 0;
    }
    all_arrive(sim, SIM_MS(100));
    if (sim->scratch[0] == 0) {
        sim_fail(sim, "nobody asked by the way that leads nowhere");
    }
    /* It heals: from then on it is used. */
    sim->drop = NULL;
    for (int i = 0; i < 8; i++) {
        say(sim, 0, 1, 1000, SIM_S(1) * (uint64_t) i + 1000)->rail = 0;
    }
    sim_run_until(sim, sim->now + SIM_S(9));
    const btl_ib_conn_t *conn = proc_link(&sim->procs[0], 1, 0)->conn;
    if (!inside_by_its_own(conn) || !inside_own_is_valid(conn)) {
        sim_fail(sim, "the healed way is not taken");
    }
    must_be_within(sim, "messages", sim->nmessages - before, 28);
    finish(sim);
}

static void refused_for_a_while(sim_t *sim, bool (*reject)(sim_t *, const datagram_t *))
{
    two_ways(sim);
    run_start(sim);
    greet(sim);
    traffic(sim);
    sim_run_until(sim, sim->now + SIM_US(500));
    sim->reject = reject;
    all_arrive(sim, SIM_MS(400));
    /* More than a row of refusals, and then a stop. */
    for (uint32_t i = 0; i < 20; i++) {
        say(sim, i % 2, 1 - i % 2, 1000, SIM_MS(50) * i + 1000)->rail = 0;
    }
    all_arrive(sim, SIM_S(2));
    sim->reject = NULL;
    for (int i = 0; i < 16; i++) {
        say(sim, 0, 1, 1000, SIM_S(1) * (uint64_t) i + 1000)->rail = 0;
    }
    sim_run_until(sim, sim->now + SIM_S(17));
    const btl_ib_conn_t *conn = proc_link(&sim->procs[0], 1, 0)->conn;
    if (!inside_by_its_own(conn)) {
        sim_fail(sim, "the healed way is not taken back");
    }
    finish(sim);
}

void way_refused_later(sim_t *sim)
{
    refused_for_a_while(sim, by_first_way);
}

void way_refused_at_one_end(sim_t *sim)
{
    refused_for_a_while(sim, out_by_first_way);
}

/* Until somebody is told of a death; at most `time`. */
static void until_death(sim_t *sim, uint64_t time)
{
    const uint64_t from = sim->now;

    sim->death_ok = true;
    while (sim->applied[F_DEATH] == 0 && sim_step(sim, from + 2 * time)) {
    }
    must_be_within(sim, "the death was reported after us", (sim->now - from) / 1000, time / 1000);
}

static void stop_both(sim_t *sim)
{
    sim->stopping = true;
    sim_run_until(sim, sim->now + SIM_S(20));
    proc_stop(&sim->procs[0]);
    proc_stop(&sim->procs[1]);
}

void paths_all_refused(sim_t *sim)
{
    two_ways(sim);
    run_start(sim);
    greet(sim);
    sim->reject = by_any_way;
    say(sim, 0, 1, 100, 1000)->rail = 0;
    until_death(sim, SIM_S(2));
    stop_both(sim);
}

/* ---- peers that have left ---- */

/* One of two processes is gone, of which the other hears nothing; what the other gives back of
 * credits is refused. */
static void leaves(sim_t *sim)
{
    run_start(sim);
    traffic(sim); /* enough for credits to be given back */
    run_settle(sim, SIM_MS(50));
    sim->reject = by_any_way;
    sim_run_until(sim, sim->now + SIM_S(60));
    if (sim->applied[F_REFUSED] < 2) {
        sim_fail(sim, "nothing was refused");
    }
}

void job_has_left(sim_t *sim)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
    sim->procs[1].name ^= UINT64_C(1) << 40;
    leaves(sim);
    must_be_within(sim, "deaths of peers that had nothing to say any more", sim->applied[F_DEATH],
                   0);
    /* And one that comes back is welcome. */
    sim->reject = NULL;
    say(sim, 0, 1, 100, 1000);
    say(sim, 1, 0, 100, 1000);
    finish(sim);
}

static bool from_the_first(sim_t *sim, const datagram_t *d)
{
    return d->from == 0;
}

/* What it gives back of credits is refused for a while; the other, of another job, is there, and
 * has more to say. */
void job_refused_for_a_while(sim_t *sim)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
    sim->procs[1].name ^= UINT64_C(1) << 40;
    run_start(sim);
    traffic(sim);
    run_settle(sim, SIM_MS(50));
    sim->reject = from_the_first;
    sim_run_until(sim, sim->now + SIM_S(60));
    if (sim->applied[F_REFUSED] < 2) {
        sim_fail(sim, "nothing was refused");
    }
    sim->reject = NULL;
    say(sim, 1, 0, 100, 1000);
    say(sim, 1, 0, 20000, 2000);
    finish(sim);
}

void rank_has_left(sim_t *sim)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
    sim->death_ok = true;
    leaves(sim);
    if (sim->applied[F_DEATH] == 0) {
        sim_fail(sim, "nobody was told that a process of the own job is gone");
    }
    stop_both(sim);
}

/* ---- peers that never answer ---- */

/* Both ends of a first contact have a thread that answers while they compute, if `answer`. */
static void two_that_answer(sim_t *sim, bool answer)
{
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].thread_after = answer ? SIM_MS(10) : 0;
        sim->procs[i].answers = answer;
    }
}

/* What nothing comes to polls all the same, as a process does that waits in MPI. */
static void two_that_wait(sim_t *sim)
{
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].idle_poll = SIM_MS(1);
    }
}

static void must_be_told(sim_t *sim, uint32_t proc, uint32_t times, uint32_t heard)
{
    const proc_t *by = &sim->procs[proc];

    if (by->unanswered != times || by->unanswered_heard != heard) {
        sim_fail(sim, "p%u says %u times that it is not answered, %u of them heard; not %u and %u",
                 proc, by->unanswered, by->unanswered_heard, times, heard);
    }
}

/* protocol: R26 */
void contact_while_it_computes(sim_t *sim)
{
    for (uint32_t kind = 0; kind < protection_kinds(); kind++) {
        protection_choose(sim, kind);
        two(sim);
        two_that_answer(sim, true);
        run_start(sim);
        sim_run_until(sim, SIM_MS(2));
        proc_compute(&sim->procs[1], sim->now + SIM_S(100));
        say(sim, 0, 1, 100, 1000);
        say(sim, 0, 1, 30000, 2000);
        sim_run_until(sim, sim->now + SIM_S(100));
        must_be_within(sim, "deaths of peers that compute", sim->applied[F_DEATH], 0);
        must_be_told(sim, 0, 0, 0);
        if (sim_counters(sim, 0)->received_responses == 0) {
            sim_fail(sim, "the first contact was not answered");
        }
        /* What came meanwhile is not lost: it does not wait for its sender's next question. */
        sim_run_until(sim, sim->now + SIM_MS(2));
        must_be_within(sim, "messages not delivered after the computation", sim->undelivered, 0);
        finish(sim);
        if (kind + 1 < protection_kinds()) {
            again(sim, kind + 2);
        }
    }
}

/* p0 sends, drains for nothing, and closes while p1 computes: its connection must not stay there.
 * */
void contact_and_close(sim_t *sim)
{
    two(sim);
    run_start(sim);
    sim_run_until(sim, SIM_MS(2));
    proc_compute(&sim->procs[1], sim->now + SIM_S(3));
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_MS(10));
    app_close(&sim->procs[0], 1, 0, true);
    sim_run_until(sim, sim->now + SIM_S(4));
    if (sim_counters(sim, 1)->received_unidentified == 0
        || sim_counters(sim, 1)->connections_closed == 0) {
        sim_fail(sim, "the connection of a process that has closed it is still there");
    }
    finish(sim);
}

/* Beyond the silence limit: a peer that says that it is there is not silent. */
void contact_while_it_computes_for_long(sim_t *sim)
{
    two(sim);
    two_that_answer(sim, true);
    run_start(sim);
    sim_run_until(sim, SIM_MS(2));
    proc_compute(&sim->procs[1], sim->now + SIM_S(1500));
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_S(1500));
    must_be_within(sim, "deaths of peers that compute", sim->applied[F_DEATH], 0);
    finish(sim);
}

static bool to_the_second(sim_t *sim, const datagram_t *d)
{
    return d->from == 0;
}

void contact_blocked(sim_t *sim)
{
    two(sim);
    two_that_answer(sim, true);
    sim->drop = by_any_way;
    sim->death_ok = true;
    two_that_wait(sim);
    run_start(sim);
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_MS(4900));
    must_be_told(sim, 0, 0, 0);
    sim_run_until(sim, sim->now + SIM_MS(600));
    must_be_told(sim, 0, 1, 0);
    until_death(sim, SIM_S(56));
    must_be_told(sim, 0, 1, 0);
    stop_both(sim);
}

/* The peer starts anew, by the same address, before the first datagram gets there: what is asked of
 * the life that was looked up, nobody answers. A second process is answered all the same. */
void contact_restarted(sim_t *sim)
{
    sim_procs(sim, 3, 1);
    run_defaults(sim);
    two_that_answer(sim, true);
    two_that_wait(sim);
    sim->down_time = SIM_US(20);
    run_start(sim);
    sim_run_until(sim, SIM_MS(2));
    say(sim, 0, 1, 100, 0);
    sim_run_until(sim, sim->now + 1);
    proc_restart(&sim->procs[1], false);
    sim_run_until(sim, sim->now + SIM_MS(1));
    say(sim, 2, 1, 100, 0);
    say(sim, 0, 2, 100, SIM_S(70)); /* until then p0 waits in MPI */
    sim_run_until(sim, sim->now + SIM_S(5) + SIM_MS(500));
    must_be_told(sim, 0, 1, 0);
    must_be_told(sim, 2, 0, 0);
    sim_run_until(sim,
                  sim->now + SIM_S(56)); /* no network that cuts: the oracle knows the reason */
    must_be_told(sim, 0, 1, 0);
    if (sim->applied[F_DEATH] != 1) {
        sim_fail(sim, "%llu deaths, not 1", (unsigned long long) sim->applied[F_DEATH]);
    }
    finish(sim);
}

/* Nobody promised to answer: then silence is no death. */
void contact_not_promised(sim_t *sim)
{
    two(sim);
    two_that_answer(sim, false);
    sim->drop = by_any_way;
    two_that_wait(sim);
    run_start(sim);
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_S(200));
    must_be_told(sim, 0, 1, 0);
    must_be_within(sim, "deaths of peers that promised nothing", sim->applied[F_DEATH], 0);
    sim->drop = NULL;
    finish(sim);
}

void contact_one_way(sim_t *sim)
{
    two(sim);
    two_that_answer(sim, true);
    sim->drop = to_the_second;
    sim->death_ok = true;
    two_that_wait(sim);
    run_start(sim);
    say(sim, 0, 1, 100, 1000);
    say(sim, 1, 0, 100, 1000);
    sim_run_until(sim, sim->now + SIM_S(7));
    must_be_told(sim, 0, 1, 1);
    must_be_told(sim, 1, 1, 0);
    until_death(sim, SIM_S(60));
    stop_both(sim);
}

static bool by_second_way(sim_t *sim, const datagram_t *d)
{
    return way_of(sim, d) == 1;
}

/* The network no longer lets anything through by the second way; by the first its host says that
 * nobody is there. */
void paths_refused_and_silent(sim_t *sim)
{
    two_ways(sim);
    two_that_answer(sim, true);
    run_start(sim);
    greet(sim);
    sim->reject = by_first_way;
    sim->drop = by_second_way;
    say(sim, 0, 1, 100, 1000)->rail = 0;
    until_death(sim, SIM_S(15));
    stop_both(sim);
}

/* More peers ask one that computes than it may look up in a second. */
void contact_of_many(sim_t *sim)
{
    const uint32_t n = 30;

    sim_procs(sim, n + 1, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i <= n; i++) {
        sim->procs[i].thread_after = SIM_MS(10);
        sim->procs[i].answers = true;
    }
    sim->procs[0].config.lookups_max = 10;
    run_start(sim);
    sim_run_until(sim, SIM_MS(2));
    proc_compute(&sim->procs[0], sim->now + SIM_S(100));
    for (uint32_t i = 1; i <= n; i++) {
        say(sim, i, 0, 100, 1000 * i);
    }
    sim_run_until(sim, sim->now + SIM_S(100));
    must_be_within(sim, "deaths of peers that compute", sim->applied[F_DEATH], 0);
    finish(sim);
}

/* The same, and it has as many passive peers as it may. */
void contact_beyond_passive(sim_t *sim)
{
    sim_procs(sim, 3, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i <= 2; i++) {
        sim->procs[i].thread_after = SIM_MS(10);
        sim->procs[i].answers = true;
    }
    sim->procs[0].config.passive_max = 1;
    run_start(sim);
    say(sim, 1, 0, 100, 1000);
    run_settle(sim, SIM_MS(50));
    say(sim, 2, 0, 100, 1000);
    sim_run_until(sim, sim->now + SIM_S(100));
    must_be_within(sim, "deaths of peers that are there", sim->applied[F_DEATH], 0);
    must_be_within(sim, "messages that wait for room", sim->undelivered, 1);
    for (uint32_t i = 0; i <= 2; i++) {
        proc_stop(&sim->procs[i]);
    }
}

static uint64_t failovers_of(sim_t *sim)
{
    return sim_counters(sim, 0)->failovers + sim_counters(sim, 1)->failovers;
}

/* A stream of single messages each way for 20 s, over the first rails. */
static void murmur(sim_t *sim, uint32_t rails)
{
    for (uint32_t i = 0; i < 2000; i++) {
        say(sim, i % 2, 1 - i % 2, 1000, SIM_MS(10) * i + 1000)->rail = i / 2 % rails;
    }
    sim_run_until(sim, sim->now + SIM_S(21));
}

/* A firewall refuses what one side sends by the first way; what the other sends comes by it all the
 * time. */
void way_refused_one_way_for_long(sim_t *sim)
{
    two_ways(sim);
    two_that_answer(sim, true);
    run_start(sim);
    greet(sim);
    sim->reject = out_by_first_way;
    murmur(sim, 1);
    must_be_within(sim, "connections lost with a way", sim->applied[F_DEATH], 0);
    must_be_within(sim, "times that a way was taken", failovers_of(sim), 10);
    must_be_within(sim, "us for the slowest message", slowest(sim, 0) / 1000, 400000);
    sim->reject = NULL;
    finish(sim);
}

static bool out_first_or_in_second(sim_t *sim, const datagram_t *d)
{
    return way_of(sim, d) == 0 ? d->from == 0 : d->from == 1;
}

/* Each way works in one direction only, not the same. */
void paths_work_one_way_each(sim_t *sim)
{
    two_ways(sim);
    two_that_answer(sim, true);
    run_start(sim);
    sim->reject = out_first_or_in_second;
    murmur(sim, 2);
    must_be_within(sim, "connections lost with a way", sim->applied[F_DEATH], 0);
    must_be_within(sim, "times that a way was taken", failovers_of(sim), 40);
    must_be_within(sim, "us for the slowest message", slowest(sim, 0) / 1000, 2500000);
    sim->reject = NULL;
    finish(sim);
}
