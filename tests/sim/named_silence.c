/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios in which a peer, or a part of the network, is silent for long: a process that computes
 * is not dead, one that is gone is given up in time, and with the right reason. */

#include <stdio.h>

#include "named.h"

void computes(sim_t *sim)
{
    two(sim);
    start_warm(sim);
    uint64_t before = sim->procs[0].datagrams;
    proc_compute(&sim->procs[1], sim->now + SIM_S(60));
    for (int i = 0; i < 10; i++) {
        say(sim, 0, 1, 100, 1000);
    }
    say(sim, 0, 1, 60000, 1000);
    sim_run_until(sim, sim->now + SIM_S(59));
    must_be_within(sim, "datagrams sent to a peer that computes for a minute",
                   sim->procs[0].datagrams - before, 120 + 59 * 6);
    run_settle(sim, SIM_S(3));
    finish(sim);
}

/* Between its messages the peer computes again and again, for 1 to 4 ms: after the first times the
 * sender waits for it, and repeats no more than one probe a time. */
void computes_often(sim_t *sim)
{
    two(sim);
    snprintf(sim->procs[1].queues, sizeof(sim->procs[1].queues), "P,256,2");
    start_warm(sim);
    for (uint64_t i = 0; i < 100; i++) {
        proc_compute(&sim->procs[1], sim->now + SIM_MS(4 - i % 4));
        say(sim, 0, 1, 20000, 1000);
        run_settle(sim, SIM_MS(50));
    }
    must_be_within(sim, "timeouts for 100 pauses", sim_counters(sim, 0)->timeouts, 4);
    must_be_within(sim, "copies for 100 pauses", sim_counters(sim, 0)->retransmits, 110);
    finish(sim);
}

/* Both compute for `period` between any two calls from now on, p1 later than p0; 0: not any
 * more. */
static void set_seldom(sim_t *sim, uint64_t period)
{
    for (uint32_t i = 0; i < 2; i++) {
        proc_t *proc = &sim->procs[i];
        proc->seldom = period;
        proc->calls = 0;
        proc_compute(proc, sim->now + period * (i + 2) / 3);
        proc_wake(proc, sim->now + 1);
    }
}

/* 1 MB each way. Returns in how many calls of p0 all of it arrived. */
static uint64_t exchange_seldom(sim_t *sim, uint64_t period)
{
    for (uint32_t i = 0; i < 32; i++) {
        say(sim, i % 2, 1 - i % 2, 60000, 1000);
    }
    sim_run_until(sim, sim->now + SIM_US(2));
    set_seldom(sim, period);
    while (sim->undelivered > 0 && sim->procs[0].calls < 100) {
        sim_run_until(sim, sim->now + period / 4);
    }
    const uint64_t calls = sim->procs[0].calls;
    set_seldom(sim, 0);
    run_settle(sim, SIM_MS(50));
    return calls;
}

/* Once windows have grown each exchange takes a few calls, as the engine catches up in each. */
static void call_seldom(sim_t *sim, uint64_t period)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,256,512:P,1472,1024");
    }
    start_warm(sim);
    must_be_within(sim, "calls for the first MB", exchange_seldom(sim, period), 20);
    (void) exchange_seldom(sim, period);
    (void) exchange_seldom(sim, period);
    for (int i = 0; i < 6; i++) {
        must_be_within(sim, "calls for a MB", exchange_seldom(sim, period), 4);
    }
    for (uint32_t i = 0; i < 2; i++) {
        must_be_within(sim, "timeouts", sim_counters(sim, i)->timeouts, 0);
        must_be_within(sim, "copies", sim_counters(sim, i)->retransmits, 4);
    }
    finish(sim);
}

void calls_each_ms(sim_t *sim)
{
    call_seldom(sim, SIM_MS(1));
}

void calls_each_5_ms(sim_t *sim)
{
    call_seldom(sim, SIM_MS(5));
}

/* protocol: R57 */
void sends_then_computes(sim_t *sim)
{
    two(sim);
    run_start(sim);
    say(sim, 0, 1, 100, 1000);
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_US(2));
    proc_compute(&sim->procs[0], sim->now + SIM_S(20));
    sim_run_until(sim, sim->now + SIM_MS(1));
    if (sim->undelivered != 0) {
        sim_fail(sim, "%u of two messages are missing while the sender computes", sim->undelivered);
    }
    finish(sim);
}

void wakes_after_limit(sim_t *sim)
{
    two_with_limit(sim, 5000000);
    warm_up(sim, 0, 1);
    fault_t *fault = fault_add(sim, F_LOSS_ACK, 0, sim->now + SIM_S(1), 1000000, 0);
    fault->src = 1;
    say(sim, 0, 1, 100, 1000); /* its ACK is lost, and then the sender is away for 20 s */
    sim_run_until(sim, sim->now + SIM_US(30));
    proc_compute(&sim->procs[0], sim->now + SIM_S(20));
    sim_run_until(sim, sim->now + SIM_S(21));
    if (sim->applied[F_DEATH] != 0) {
        sim_fail(sim, "the peer was given up for a silence that was our own");
    }
    finish(sim);
}

void idle_peer_computes(sim_t *sim)
{
    two_with_limit(sim, 5000000);
    warm_up(sim, 0, 1);
    uint64_t before = sim->procs[0].datagrams;
    proc_compute(&sim->procs[1], sim->now + SIM_S(60));
    sim_run_until(sim, sim->now + SIM_S(59));
    if (sim->applied[F_DEATH] != 0) {
        sim_fail(sim, "a peer was given up to which nothing was to be sent");
    }
    must_be_within(sim, "datagrams to a peer that computes, with nothing to say",
                   sim->procs[0].datagrams - before, 20);
    sim_run_until(sim, sim->now + SIM_S(2));
    say(sim, 0, 1, 100, 1000);
    say(sim, 1, 0, 100, 1000);
    finish(sim);
}

static bool drop_skips(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_SKIP && sim->scratch[0] > 0 && sim->scratch[0]-- > 0;
}

/* Two idle channels give credits back, with a window for one segment. The first `lost` SKIPs are
 * lost. */
static void give_back_credits(sim_t *sim, uint32_t messages, uint64_t lost)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        proc_t *proc = &sim->procs[i];
        snprintf(proc->queues, sizeof(proc->queues), "P,128,64:P,512,64:P,1472,128");
        proc->config.depth_peer = 1;
        proc->config.credit_init = 1;
        proc->config.silence_limit = 5000000;
    }
    run_start(sim);
    for (uint32_t i = 0; i < 3 * messages; i++) {
        say(sim, 0, 1, i % 3 == 0 ? 8 : i % 3 == 1 ? 300 : 1000, SIM_US(50) * i);
    }
    run_settle(sim, SIM_S(1));
    sim->scratch[0] = lost;
    sim->drop = drop_skips;
}

/* Credits given back are lost, and go again. That is nothing that anybody waits for: a sender that
 * asked for it without end would give its idle peer up. With some numbers of messages the answer
 * brings new credit, with others it does not. */
static void lose_skips(sim_t *sim, uint32_t messages)
{
    give_back_credits(sim, messages, 2);
    sim_run_until(sim, sim->now + SIM_S(4));
    must_be_within(sim, "SKIPs still to be lost", sim->scratch[0], 0);
    uint64_t before = sim->procs[0].datagrams;
    sim_run_until(sim, sim->now + SIM_S(20));
    must_be_within(sim, "datagrams of an idle connection", sim->procs[0].datagrams - before, 10);
    must_be_within(sim, "idle peers given up", sim->applied[F_DEATH], 0);
    finish(sim);
}

void skips_lost(sim_t *sim)
{
    for (uint32_t messages = 2; messages < 24; messages++) {
        lose_skips(sim, messages);
        again(sim, messages);
    }
    lose_skips(sim, 24);
}

/* What is sent next overtakes those that were lost and go again. protocol: R54 */
void skips_overtaken(sim_t *sim)
{
    give_back_credits(sim, 24, 2);
    while (sim->scratch[0] > 0 && sim_step(sim, SIM_S(10))) {
    }
    for (uint32_t i = 0; i < 30; i++) {
        say(sim, 0, 1, i % 3 == 0 ? 8 : i % 3 == 1 ? 300 : 1000, 1000);
    }
    run_settle(sim, SIM_S(1));
    sim_run_until(sim, sim->now + SIM_S(20));
    must_be_at_least(sim, "SKIPs received", sim_counters(sim, 1)->received_skips, 2);
    finish(sim);
}

/* None of them ever arrives: a SKIP is nothing that is due. protocol: R63 */
void skips_unanswered(sim_t *sim)
{
    give_back_credits(sim, 24, UINT64_MAX);
    sim_run_until(sim, sim->now + SIM_S(80));
    must_be_at_least(sim, "SKIPs lost", UINT64_MAX - sim->scratch[0], 5);
    must_be_within(sim, "idle peers given up", sim->applied[F_DEATH], 0);
    sim->drop = NULL;
    finish(sim);
}

void partition(sim_t *sim)
{
    two(sim);
    start_warm(sim);
    fault_add(sim, F_PARTITION, 0, sim->now + SIM_S(10), 1000000, 0);
    for (uint32_t i = 0; i < 20; i++) {
        say(sim, i % 2, 1 - i % 2, i * 300, SIM_MS(400) * i);
    }
    sim_run_until(sim, sim->now + SIM_S(10));
    uint64_t healed = sim->now;
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "after the partition it took ns", sim->now - healed, SIM_MS(500));
    finish(sim);
}

void partition_too_long(sim_t *sim)
{
    two_with_limit(sim, 5000000);
    warm_up(sim, 0, 1);
    fault_add(sim, F_PARTITION, 0, sim->now + SIM_S(8), 1000000, 0);
    uint64_t from = sim->now;
    say(sim, 0, 1, 100, 1000);
    while (sim->applied[F_DEATH] == 0 && sim_step(sim, from + SIM_S(8))) {
    }
    must_be_within(sim, "the death was reported after ns", sim->now - from, SIM_MS(5600));
    sim_run_until(sim, from + SIM_S(9));
    say(sim, 0, 1, 100, 1000); /* a new connection */
    say(sim, 1, 0, 100, 1000);
    finish(sim);
}

/* p1 gives up one of two connections for its silence. The other one is idle there; at p0 its own
 * rail fails, so it goes over the rails of the one that is no more. p1 must not be deaf to it, nor
 * be given up. */
void one_of_two_given_up(sim_t *sim)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    sim->procs[0].config.silence_limit = 20000000;
    sim->procs[1].config.silence_limit = 3000000;
    run_start(sim);
    sim->death_ok = true;
    for (uint32_t rail = 0; rail < 2; rail++) {
        say(sim, 0, 1, 100, 1000)->rail = rail;
        say(sim, 1, 0, 100, 1000)->rail = rail;
    }
    run_settle(sim, SIM_S(1));
    sim_run_until(sim, sim->now + SIM_MS(10));
    fault_add(sim, F_PARTITION, 0, sim->now + SIM_MS(3600), 1000000, 0);
    say(sim, 1, 0, 100, 1000)->rail = 1;
    sim_run_until(sim, sim->now + SIM_S(1));
    rail_fail_device(sim->procs[0].rails[0]);
    sim_run_until(sim, sim->now + SIM_S(3));
    must_be_within(sim, "connections given up", sim->applied[F_DEATH], 1);
    say(sim, 0, 1, 100, 1000)->rail = 0;
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "connections given up in all", sim->applied[F_DEATH], 1);
    finish(sim);
}

/* More silent peers than all that may be on its way. A peer that answers is sent to as ever, and so
 * is each of them when it is back; none waits until others are given up. */
void silent_peers_fill_depth(sim_t *sim)
{
    const uint32_t procs = 12;

    for (uint32_t bytes = 0; bytes < 2; bytes++) {
        if (bytes > 0) {
            again(sim, 2);
        }
        sim_procs(sim, procs, 1);
        run_defaults(sim);
        sim->procs[0].config.depth_total = bytes > 0 ? 1000 : 8;
        sim->procs[0].config.depth_bytes = bytes > 0 ? 8000 : 1 << 20;
        run_start(sim);
        for (uint32_t i = 1; i < procs; i++) {
            warm_up(sim, 0, i);
        }
        for (uint32_t i = 1; i < procs - 1; i++) {
            fault_t *fault = fault_add(sim, F_PARTITION, 0, sim->now + SIM_S(20), 1000000, 0);
            fault->src = 0;
            fault->dst = (int) i;
            fault->both = true;
            say(sim, 0, i, 4000, 1000);
        }
        sim_run_until(sim, sim->now + SIM_S(1));
        const uint32_t first = sim->nmessages;
        for (uint32_t n = 0; n < 10; n++) {
            say(sim, 0, procs - 1, 6000, SIM_MS(1) * n);
        }
        sim_run_until(sim, sim->now + SIM_S(1));
        must_be_within(sim, "beside silent peers, ns", slowest(sim, first), SIM_MS(1));
        must_be_within(sim, "connections given up", sim->applied[F_DEATH], 0);
        run_heal(sim);
        finish(sim);
    }
}

/* What the first sends is lost, from its first datagram on. It hears the second, which over that
 * rail only asks whether it is there, so it must not say that nothing was heard when it gives it
 * up. And then it must not keep it waiting either: the second finds that out by silence, though the
 * first cannot look up all that it asks. */
void partition_one_way(sim_t *sim)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    sim->procs[0].config.silence_limit = 3000000;
    sim->procs[0].config.lookups_max = 1;
    sim->procs[1].config.silence_limit = 6000000;
    run_start(sim);
    fault_add(sim, F_PARTITION_ONE_WAY, 0, sim->now + SIM_S(4), 1000000, 0)->src = 0;
    sim->death_ok = true;
    app_connect(&sim->procs[1], 0, 1);
    say(sim, 0, 1, 100, 1000)->rail = 1;
    say(sim, 1, 0, 100, 1000)->rail = 0;
    sim_run_until(sim, sim->now + SIM_MS(3500)); /* a death of another name: check_death() */
    must_be_within(sim, "connections given up", sim->applied[F_DEATH], 1);
    must_be_within(sim, "connections to be given up", 1 - sim->applied[F_DEATH], 0);
    say(sim, 1, 0, 100, 1000)->rail = 1;
    run_settle(sim, SIM_S(8));
    must_be_within(sim, "connections given up by the second", sim->applied[F_DEATH], 2);
    finish(sim);
}

/* ---- questions to peers that nobody owes anything ---- */

enum { ASKED_EACH = 1000000 }; /* us of silence: the least */

/* Processes that wait in progress, each with a connection to the first, which asks after
 * `keepalive` us. Its host is up for `uptime` us; 0: any. */
static void asked_at(sim_t *sim, uint32_t nprocs, uint64_t uptime, uint64_t keepalive)
{
    sim_procs(sim, nprocs, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < nprocs; i++) {
        sim->procs[i].idle_poll = SIM_MS(20);
    }
    sim->procs[0].config.keepalive = keepalive;
    sim->procs[0].clock_base = uptime != 0 ? uptime : sim->procs[0].clock_base;
    run_start(sim);
    for (uint32_t i = 1; i < nprocs; i++) {
        warm_up(sim, 0, i);
    }
}

static void asked(sim_t *sim, uint32_t nprocs)
{
    asked_at(sim, nprocs, 0, ASKED_EACH);
}

static bool to_second(sim_t *sim, const datagram_t *d)
{
    return d->to == 1;
}

static bool to_or_from_second(sim_t *sim, const datagram_t *d)
{
    return d->to == 1 || d->from == 1;
}

/* Its power is gone, and the switch or router says so. */
static void lose_host(sim_t *sim)
{
    proc_stop(&sim->procs[1]);
    sim->death_ok = true;
    sim->unreachable = true;
    sim->reject = to_second;
    const uint64_t from = sim->now;
    const uint64_t dead = sim->applied[F_DEATH];
    while (sim->applied[F_DEATH] == dead && sim_step(sim, from + SIM_S(20))) {
    }
    must_be_within(sim, "the loss of a host was reported after ns", sim->now - from, SIM_S(8));
    must_be_at_least(sim, "the loss of a host was reported after ns", sim->now - from, SIM_S(3));
    proc_stop(&sim->procs[0]);
}

void keepalive_lost_host(sim_t *sim)
{
    asked(sim, 2);
    lose_host(sim);
}

/* It has ended, and its host says so; questions are as far apart as they are by default. */
void keepalive_ended(sim_t *sim)
{
    asked_at(sim, 2, 0, 30 * ASKED_EACH);
    sim_run_until(sim, sim->now + SIM_S(10)); /* credits are given back */
    proc_stop(&sim->procs[1]);
    sim->death_ok = true;
    sim->reject = to_second;
    const uint64_t from = sim->now;
    while (sim->applied[F_DEATH] == 0 && sim_step(sim, from + SIM_S(200))) {
    }
    must_be_within(sim, "the end of a process was reported after ns", sim->now - from, SIM_S(35));
    proc_stop(&sim->procs[0]);
}

static uint64_t network_says(const sim_t *sim)
{
    return (uint64_t) btl_ib_conn_diagnosis(proc_link((proc_t *) &sim->procs[0], 1, 0)->conn).said;
}

/* What the network says counts until the peer is heard, however long its host is up: ms since its
 * start need 31 bits after 25 days, and 32 after 50. */
void network_error_uptime(sim_t *sim)
{
    for (uint64_t days = 20; days <= 60; days += 20) {
        if (days > 20) {
            again(sim, days);
        }
        asked_at(sim, 2, days * 24 * 3600 * 1000000, ASKED_EACH);
        sim->unreachable = true;
        sim->reject = to_second;
        say(sim, 0, 1, 100, 1000);
        sim_run_until(sim, sim->now + SIM_MS(300));
        must_be_at_least(sim, "the network's words, an errno", network_says(sim), 1);
        sim->reject = NULL;
        run_settle(sim, SIM_S(3));
        sim_run_until(sim, sim->now + SIM_S(5));
        warm_up(sim, 0, 1);
        must_be_within(sim, "words from before the peer was heard", network_says(sim), 0);
        lose_host(sim);
    }
}

/* It does not answer, and takes no harm: a question each second is all that it gets. */
static void silent_peer(sim_t *sim)
{
    const uint64_t before = sim->procs[0].datagrams;

    sim_run_until(sim, sim->now + SIM_S(60));
    must_be_within(sim, "connections given up", sim->applied[F_DEATH], 0);
    must_be_within(sim, "questions in a minute", sim->procs[0].datagrams - before, 70);
    must_be_at_least(sim, "questions in a minute", sim->procs[0].datagrams - before, 40);
}

/* And after it all is as before. Then nobody waits any more. */
static void go_on(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sim->procs[i].idle_poll = 0;
    }
    say(sim, 0, 1, 100, 1000);
    say(sim, 1, 0, 20000, 1000);
    run_settle(sim, SIM_S(3));
    must_be_within(sim, "connections given up", sim->applied[F_DEATH], 0);
    finish(sim);
}

void keepalive_computes(sim_t *sim)
{
    asked(sim, 2);
    proc_compute(&sim->procs[1], sim->now + SIM_S(61));
    silent_peer(sim);
    go_on(sim);
}

/* What is stopped reads nothing, and its receive buffer is full. What is behind a network that
 * swallows everything looks the same. */
void keepalive_stopped(sim_t *sim)
{
    asked(sim, 2);
    sim->rx_bytes_max = 2000;
    proc_compute(&sim->procs[1], sim->now + SIM_S(61));
    silent_peer(sim);
    sim->rx_bytes_max = 0;
    go_on(sim);
    again(sim, 2);
    asked(sim, 2);
    sim->drop = to_or_from_second;
    silent_peer(sim);
    sim->drop = NULL;
    go_on(sim);
}

/* Each time for less than four questions: a cable that somebody plugs in elsewhere. Then for as
 * long as it takes to be believed, but the peer is heard. */
void keepalive_heals(sim_t *sim)
{
    asked(sim, 2);
    sim->unreachable = true;
    for (int i = 0; i < 10; i++) {
        sim->reject = to_or_from_second;
        sim_run_until(sim, sim->now + SIM_MS(2500));
        sim->reject = NULL;
        sim_run_until(sim, sim->now + SIM_S(3));
    }
    sim->reject = to_second;
    for (int i = 0; i < 10; i++) {
        say(sim, 1, 0, 100, 1000);
        sim_run_until(sim, sim->now + SIM_MS(700));
    }
    sim->reject = NULL;
    sim_run_until(sim, sim->now + SIM_S(3));
    go_on(sim);
}

/* Four questions a second in all, each peer in its turn, and the answers. */
void keepalive_many(sim_t *sim)
{
    const uint32_t procs = 40;
    uint64_t before[40];

    asked(sim, procs);
    sim_run_until(sim, sim->now + SIM_S(5)); /* idle ones give credits back */
    for (uint32_t i = 0; i < procs; i++) {
        before[i] = sim->procs[i].datagrams;
    }
    sim_run_until(sim, sim->now + SIM_S(20));
    must_be_within(sim, "questions in 20 s", sim->procs[0].datagrams - before[0], 80);
    for (uint32_t i = 1; i < procs; i++) {
        must_be_at_least(sim, "answers of a peer", sim->procs[i].datagrams - before[i], 1);
        must_be_within(sim, "answers of a peer", sim->procs[i].datagrams - before[i], 3);
    }
    go_on(sim);
}

/* protocol: R29, R48 */
void no_tag(sim_t *sim)
{
    two_with_limit(sim, 3000000);
    run_tag_from(sim, sim->now + SIM_S(1));
    say(sim, 0, 1, 100, 1000)->tag = 200;
    say(sim, 0, 1, 5000, 1000)->tag = 200;
    run_settle(sim, SIM_S(3));
    if (sim->applied[F_DEATH] != 0 || sim->applied[F_NO_TAG] == 0) {
        sim_fail(sim, "a tag that came late");
    }
    run_tag_from(sim, sim->now + SIM_S(10));
    sim->death_ok = true;
    say(sim, 0, 1, 100, 1000)->tag = 200;
    sim_run_until(sim, sim->now + SIM_S(5));
    if (sim->applied[F_DEATH] == 0) {
        sim_fail(sim, "a tag that never came is not reported");
    }
    sim_run_until(sim, sim->now + SIM_S(6));
    finish(sim);
}
