/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios for exact situations. Each is a function that sets one up and says what must come of
 * it. */

#include <stdio.h>
#include <string.h>

#include "named.h"

static const char mixed_queues[] = "P,128,16,4:S,512,64:P,1472,16";

/* ---- helpers ---- */

void two(sim_t *sim)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
}

void again(sim_t *sim, uint64_t seed)
{
    uint64_t applied[F_COUNT];
    uint64_t events = sim->events;
    const char *scenario = sim->scenario;
    bool verbose = sim->verbose, terse = sim->terse;

    memcpy(applied, sim->applied, sizeof(applied));
    sim_free(sim);
    sim_init(sim, seed, scenario);
    memcpy(sim->applied, applied, sizeof(applied));
    sim->events = events;
    sim->verbose = verbose;
    sim->terse = terse;
}

message_t *say(sim_t *sim, uint32_t from, uint32_t to, uint32_t size, uint64_t after)
{
    message_t *m = app_plan(&sim->procs[from], to, size, sim->now + after);

    m->mode = SEND_NORMAL;
    return m;
}

void finish(sim_t *sim)
{
    run_settle(sim, SIM_S(20));
    run_quiet(sim, SIM_S(60));
    run_rest_burst(sim);
    run_farewell(sim);
}

static uint64_t again_sum(const sim_t *sim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sum += sim->procs[i].again;
    }
    return sum;
}

uint64_t slowest(const sim_t *sim, uint32_t from)
{
    uint64_t worst = 0;

    for (uint32_t i = from; i < sim->nmessages; i++) {
        const message_t *m = &sim->messages[i];
        uint64_t time = m->delivered_at - m->accepted_at;
        worst = time > worst ? time : worst;
    }
    return worst;
}

void must_be_within(sim_t *sim, const char *what, uint64_t value, uint64_t bound)
{
    if (value > bound) {
        sim_fail(sim, "%s: %llu, at most %llu", what, (unsigned long long) value,
                 (unsigned long long) bound);
    }
}

static uint8_t type_of(const datagram_t *d)
{
    return d->data[0] & 0xf;
}

/* Let both get to know each other and the round-trip time. */
void warm_up(sim_t *sim, uint32_t a, uint32_t b)
{
    message_t *m = say(sim, a, b, 100, 1000);

    m->replies = 20;
    run_settle(sim, SIM_S(5));
    sim_run_until(sim, sim->now + SIM_MS(1));
}

/* ---- first contact ---- */

static void both_at_once(sim_t *sim)
{
    two(sim);
    sim->clean = true;
    run_start(sim);
    for (int i = 0; i < 10; i++) {
        say(sim, 0, 1, 10 + (uint32_t) i, 1000);
        say(sim, 1, 0, 3000, 1000);
    }
    run_settle(sim, SIM_MS(5));
    must_be_within(sim, "first contact took ns", slowest(sim, 0), SIM_US(200));
    finish(sim);
}

static bool drop_first(sim_t *sim, const datagram_t *d)
{
    (void) d;
    return sim->scratch[0]++ == 0;
}

static void connect_lost(sim_t *sim)
{
    two(sim);
    run_start(sim);
    sim->drop = drop_first;
    say(sim, 0, 1, 100, 1000);
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "repair of a lost CONNECT took ns", slowest(sim, 0), SIM_MS(6));
    finish(sim);
}

static void never_added(sim_t *sim)
{
    two(sim);
    sim->clean = true;
    run_start(sim);
    say(sim, 0, 1, 100, 1000);
    run_settle(sim, SIM_MS(10));
    if (sim->applied[F_PASSIVE] == 0) {
        sim_fail(sim, "nobody was told of the connection");
    }
    say(sim, 1, 0, 100, 1000); /* adopts it */
    finish(sim);
}

static void burst_of_strangers(sim_t *sim)
{
    sim_procs(sim, 9, 1);
    run_defaults(sim);
    sim->clean = true;
    run_start(sim);
    for (uint32_t i = 1; i < 9; i++) {
        for (uint32_t n = 0; n < 8; n++) {
            say(sim, i, 0, 50 * n, 1000);
        }
    }
    run_settle(sim, SIM_MS(10));
    must_be_within(sim, "first contact took ns", slowest(sim, 0), SIM_MS(1));
    finish(sim);
}

/* ---- loss ---- */

static bool drop_last_data(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_DATA && sim->scratch[0] != 0 && --sim->scratch[0] == 0;
}

static void tail_loss(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
    uint32_t first = sim->nmessages;
    sim->scratch[0] = 20;
    sim->drop = drop_last_data;
    for (int i = 0; i < 20; i++) {
        say(sim, 0, 1, 50, 1000);
    }
    run_settle(sim, SIM_S(1));
    /* By the tail probe, which is sooner than the shortest timeout. */
    must_be_within(sim, "repair of a lost tail took ns", slowest(sim, first), SIM_US(245));
    must_be_within(sim, "datagrams sent again", again_sum(sim), 3);
    finish(sim);
}

static bool drop_nth(sim_t *sim, const datagram_t *d)
{
    (void) d;
    return sim->scratch[0]++ == sim->scratch[1];
}

static void each_lost(sim_t *sim)
{
    for (uint64_t k = 0;; k++) {
        two(sim);
        run_start(sim);
        sim->drop = drop_nth;
        sim->scratch[1] = k;
        for (uint32_t i = 0; i < 3; i++) {
            say(sim, 0, 1, 40 + 2500 * i, 1000 + SIM_US(100) * i)->replies = 1;
            say(sim, 1, 0, 300, SIM_US(150) * i);
        }
        run_settle(sim, SIM_S(1));
        bool dropped = sim->scratch[0] > k;
        must_be_within(sim, "repair took ns", slowest(sim, 0), SIM_MS(10));
        must_be_within(sim, "datagrams sent again", again_sum(sim), 6);
        finish(sim);
        if (!dropped) {
            break;
        }
        again(sim, k + 2);
    }
}

static void each_duplicated(sim_t *sim)
{
    two(sim);
    run_start(sim);
    fault_add(sim, F_DUPLICATE, 0, SIM_NEVER, 1000000, SIM_MS(1));
    for (uint32_t i = 0; i < 50; i++) {
        say(sim, i % 2, 1 - i % 2, i * 100, SIM_US(20) * i)->replies = 2;
    }
    run_settle(sim, SIM_S(1));
    run_heal(sim);
    finish(sim);
}

/* Each kind of damage by itself, to what comes back, while data are lost on the way there: who
 * believes a forged acknowledgement loses messages, who believes a forged limit breaks a promise. */
static void forged(sim_t *sim)
{
    for (uint32_t which = 1; which <= SIM_CORRUPTIONS; which++) {
        if (which > 1) {
            again(sim, which);
        }
        two(sim);
        for (int i = 0; i < 2; i++) {
            snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "%s", mixed_queues);
        }
        run_start(sim);
        warm_up(sim, 0, 1);
        fault_add(sim, F_LOSS_ONE_WAY, 0, sim->now + SIM_MS(5), 300000, 0)->src = 0;
        fault_add(sim, F_CORRUPT, 0, sim->now + SIM_MS(5), 500000, which)->src = 1;
        for (uint32_t i = 0; i < 200; i++) {
            say(sim, 0, 1, 20 + 30 * (i % 50), SIM_US(10) * i);
            say(sim, 1, 0, 20 + 30 * (i % 50), SIM_US(20) * i);
        }
        run_settle(sim, SIM_S(2));
        run_heal(sim);
        finish(sim);
    }
}

static bool drop_tenth(sim_t *sim, const datagram_t *d)
{
    return d->to == 1 && type_of(d) == BTL_IB_TYPE_DATA && sim->scratch[0]++ == 10;
}

/* An ACK tells of the gap; the headers that come behind it tell nothing new, and must not make its
 * sender wait for more. */
static void loss_both_ways(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
    uint32_t first = sim->nmessages;
    sim->drop = drop_tenth;
    for (uint32_t i = 0; i < 40; i++) {
        say(sim, 0, 1, 100, 1000 + SIM_US(6) * i);
        say(sim, 1, 0, 100, 1000 + SIM_US(6) * i + SIM_US(3));
    }
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "repair took ns", slowest(sim, first), SIM_US(70));
    finish(sim);
}

static bool drop_44(sim_t *sim, const datagram_t *d)
{
    if (type_of(d) > BTL_IB_TYPE_CHUNK) {
        return false;
    }
    sim->scratch[0]++;
    return sim->scratch[0] > 10 && sim->scratch[0] <= 54;
}

static void burst_loss(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
    uint32_t first = sim->nmessages;
    sim->drop = drop_44;
    for (int i = 0; i < 3; i++) {
        say(sim, 0, 1, 65536, 1000);
    }
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "repair of a lost burst took ns", slowest(sim, first), SIM_MS(5));
    must_be_within(sim, "datagrams sent again", again_sum(sim), 60);
    finish(sim);
}

static void pingpong_loss(sim_t *sim)
{
    uint64_t sum = 0, slow = 0, n = 0;

    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
    uint32_t first = sim->nmessages;
    fault_add(sim, F_LOSS, 0, SIM_NEVER, 10000, 0);
    for (int i = 0; i < 100; i++) {
        say(sim, 0, 1, 8, SIM_US(500) * (uint64_t) i)->replies = 40;
    }
    run_settle(sim, SIM_S(10));
    for (uint32_t i = first; i < sim->nmessages; i++, n++) {
        uint64_t time = sim->messages[i].delivered_at - sim->messages[i].accepted_at;
        sum += time;
        slow += time > SIM_MS(2);
    }
    must_be_within(sim, "mean latency at 1 % loss, ns", sum / n, SIM_US(40));
    must_be_within(sim, "messages that took 2 ms", slow, n / 100);
    run_heal(sim);
    finish(sim);
}

static bool drop_some_acks(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_ACK && sim->scratch[0] != 0 && sim->scratch[0]-- > 0;
}

static void credit_update_lost(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,144,4,2,1");
    }
    run_start(sim);
    sim->drop = drop_some_acks;
    for (uint64_t lost = 1; lost < 6; lost++) {
        sim->scratch[0] = lost;
        for (int i = 0; i < 20; i++) {
            say(sim, 0, 1, 20, 1000);
        }
        run_settle(sim, SIM_MS(300));
    }
    finish(sim);
}

static void both_out_of_credit(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,144,2,1");
        sim->procs[i].config.credit_init = 1;
    }
    sim->clean = true;
    run_start(sim);
    for (int i = 0; i < 100; i++) {
        say(sim, 0, 1, 20, 1000);
        say(sim, 1, 0, 500, 1000);
    }
    run_settle(sim, SIM_MS(200));
    finish(sim);
}

/* ---- silence ---- */

static void computes(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
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

static void sends_then_computes(sim_t *sim)
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

static void wakes_after_limit(sim_t *sim)
{
    two(sim);
    sim->procs[0].config.silence_limit = 5000000;
    run_start(sim);
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

static void idle_peer_computes(sim_t *sim)
{
    two(sim);
    sim->procs[0].config.silence_limit = 5000000;
    run_start(sim);
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

static void partition(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
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

static void partition_too_long(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        sim->procs[i].config.silence_limit = 5000000;
    }
    run_start(sim);
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

static void hole(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        sim->procs[i].config.silence_limit = 3000000;
    }
    run_start(sim);
    warm_up(sim, 0, 1);
    fault_t *fault = fault_add(sim, F_HOLE, 0, SIM_NEVER, 0, 1000);
    uint64_t from = sim->now;
    sim->death_ok = true;
    say(sim, 0, 1, 5000, 1000);
    for (uint32_t i = 0; i < 1000; i++) { /* small ones get through all the time */
        say(sim, 0, 1, 20, SIM_MS(4) * i);
    }
    while (sim->applied[F_DEATH] == 0 && sim_step(sim, from + SIM_S(10))) {
    }
    must_be_within(sim, "the hole was reported after ns", sim->now - from, SIM_S(4));
    if (sim->applied[F_DEATH] == 0) {
        sim_fail(sim, "a hole for large datagrams is not reported");
    }
    sim_run_until(sim, from + SIM_S(8));
    fault->to = sim->now;
    finish(sim);
}

static void no_tag(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        sim->procs[i].config.silence_limit = 3000000;
    }
    run_start(sim);
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

/* ---- lives ---- */

static void restart(sim_t *sim)
{
    for (uint64_t k = 0; k < 2; k++) {
        two(sim);
        sim->procs[0].config.silence_limit = 5000000;
        sim->procs[1].config.silence_limit = 5000000;
        sim->down_time = SIM_MS(1);
        run_start(sim);
        warm_up(sim, 0, 1);
        for (int i = 0; i < 20; i++) {
            say(sim, 0, 1, 3000, 1000);
        }
        sim_run_until(sim, sim->now + SIM_US(30));
        proc_restart(&sim->procs[1], k == 1);
        sim_run_until(sim, sim->now + SIM_MS(3));
        say(sim, 1, 0, 100, 1000); /* tells p0 that it is another now */
        sim_run_until(sim, sim->now + SIM_MS(10));
        say(sim, 0, 1, 100, 1000);
        run_settle(sim, SIM_MS(500));
        if (sim->applied[F_DEATH] == k) {
            sim_fail(sim, "the restart was not noticed");
        }
        finish(sim);
        if (k == 0) {
            again(sim, 2);
        }
    }
}

static void refused(sim_t *sim)
{
    two(sim);
    sim->refuses = true;
    sim->down_time = SIM_S(5);
    run_start(sim);
    warm_up(sim, 0, 1);
    uint64_t from = sim->now;
    proc_restart(&sim->procs[1], false);
    say(sim, 0, 1, 100, 1000);
    while (sim->applied[F_DEATH] == 0 && sim_step(sim, from + SIM_S(4))) {
    }
    must_be_within(sim, "the refusal was believed after ns", sim->now - from, SIM_MS(600));
    sim_run_until(sim, from + SIM_S(6));
    say(sim, 0, 1, 100, 1000);
    finish(sim);
}

static void device_failure(sim_t *sim)
{
    two(sim);
    sim->procs[1].config.silence_limit = 5000000;
    run_start(sim);
    warm_up(sim, 0, 1);
    say(sim, 0, 1, 30000, 1000);
    sim_run_until(sim, sim->now + SIM_US(20));
    rail_fail_device(sim->procs[0].rails[0]);
    sim_run_until(sim, sim->now + SIM_MS(5));
    if (sim->applied[F_DEATH] == 0) {
        sim_fail(sim, "the failure of the device is not reported");
    }
    sim->stopping = true;
    sim_run_until(sim, sim->now + SIM_S(20));
    proc_stop(&sim->procs[0]);
    proc_stop(&sim->procs[1]);
}

static void close_and_reopen(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
    for (uint32_t i = 0; i < 10; i++) {
        for (uint32_t n = 0; n < i; n++) {
            say(sim, 0, 1, 700 * n, 1000);
            say(sim, 1, 0, 30, 1000);
        }
        sim_run_until(sim, sim->now + SIM_US(7) * i);
        app_close(&sim->procs[i % 2], 1 - i % 2, 0, i % 3 != 0);
        say(sim, 0, 1, 50, 1000);
        say(sim, 1, 0, 50, 1000);
        run_settle(sim, SIM_S(2));
    }
    finish(sim);
}

/* ---- limits ---- */

static void reassembly_exhausted(sim_t *sim)
{
    sim_procs(sim, 6, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < 6; i++) {
        sim->procs[i].config.reassembly_max = 0;
    }
    run_start(sim);
    for (uint32_t i = 1; i < 6; i++) {
        for (int n = 0; n < 6; n++) {
            say(sim, i, 0, 30000, 1000);
        }
    }
    run_settle(sim, SIM_S(5));
    finish(sim);
}

static void incast(sim_t *sim)
{
    sim_procs(sim, 17, 1);
    run_defaults(sim);
    sim->rx_bytes_max = 40000;
    run_start(sim);
    for (uint32_t i = 1; i < 17; i++) {
        for (int n = 0; n < 10; n++) {
            say(sim, i, 0, n == 5 ? 65536 : 900, 1000);
        }
    }
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "16 senders to one took ns", slowest(sim, 0), SIM_S(1));
    finish(sim);
}

static void stream(sim_t *sim)
{
    two(sim);
    sim->clean = true;
    run_start(sim);
    for (int i = 0; i < 32; i++) {
        say(sim, 0, 1, 65536, 1000);
    }
    run_settle(sim, SIM_S(1));
    uint64_t segments = btl_ib_engine_counters(sim->procs[0].engine)->sent_segments;
    must_be_within(sim, "datagrams for a stream of 2 MiB",
                   sim->procs[0].datagrams + sim->procs[1].datagrams, segments + segments / 2 + 50);
    finish(sim);
}

/* Fail the k-th allocation, once, for each k: nothing may be lost, leaked or left unfinished. */
static void each_allocation_fails(sim_t *sim)
{
    for (uint32_t k = 1;; k++) {
        two(sim);
        sim->procs[0].attr.needs_registration = true;
        run_start(sim);
        proc_t *proc = &sim->procs[k % 2];
        proc->fail_at = (k + 1) / 2;
        fault_applied(sim, F_NO_MEMORY);
        for (uint32_t i = 0; i < 6; i++) {
            say(sim, 0, 1, 2000 * i, 1000 * i)->replies = 1;
            say(sim, 1, 0, 20000, 1000 * i);
        }
        run_settle(sim, SIM_S(2));
        bool reached = proc->fail_at == 0;
        proc->fail_at = 0;
        finish(sim);
        if (!reached && k % 2 == 0) {
            break;
        }
        again(sim, k + 2);
    }
}

/* The same while an engine is made: it says so and leaves nothing behind. */
static void no_memory_at_start(sim_t *sim)
{
    two(sim);
    for (uint32_t k = 1;; k++) {
        proc_t *proc = &sim->procs[0];
        proc->fail_at = k;
        proc->config.name = 1;
        btl_ib_engine_t *engine = btl_ib_engine_create(&proc->config, &proc_ops, proc);
        if (engine != NULL) {
            btl_ib_engine_destroy(engine);
        }
        if (proc->bytes != 0) {
            sim_fail(sim, "%zu bytes are left of an engine", proc->bytes);
        }
        if (proc->fail_at != 0) {
            if (engine == NULL) {
                sim_fail(sim, "no engine, but memory was there");
            }
            break;
        }
        fault_applied(sim, F_NO_MEMORY);
    }
    sim->procs[0].fail_at = 0;
    run_start(sim);
    finish(sim);
}

/* ---- memory ---- */

#define IDLE_PEERS 1000u

static void idle_memory(sim_t *sim)
{
    size_t half = 0;

    sim_procs(sim, IDLE_PEERS + 1, 1);
    run_defaults(sim);
    run_start(sim);
    for (uint32_t i = 1; i <= IDLE_PEERS; i++) {
        say(sim, i, 0, 200, 1000)->replies = 3;
        say(sim, i, 0, 8000, 1000);
        say(sim, 0, i, 8000, SIM_US(50));
        if (i % 50 == 0) {
            run_settle(sim, SIM_S(2));
        }
        if (i == IDLE_PEERS / 2) {
            sim_run_until(sim, sim->now + SIM_S(10));
            half = sim->procs[0].bytes;
        }
    }
    sim_run_until(sim, sim->now + SIM_S(10));
    size_t all = sim->procs[0].bytes;
    uint64_t each = all <= half ? 0 : (all - half) / (IDLE_PEERS / 2);
    printf("idle_memory: %llu bytes for each idle connected peer, %zu bytes with %u of them\n",
           (unsigned long long) each, all, IDLE_PEERS);
    must_be_within(sim, "bytes for each idle connected peer", each, 4096);
    for (uint32_t i = 0; i <= IDLE_PEERS; i++) {
        proc_stop(&sim->procs[i]);
    }
}

const named_scenario_t named_scenarios[] = {
    {"both_at_once", "first contact in both directions at once", both_at_once},
    {"connect_lost", "the first datagram of all is lost", connect_lost},
    {"never_added", "a peer that was never added sends, and is then answered", never_added},
    {"burst_of_strangers", "eight unknown peers send a burst each at once", burst_of_strangers},
    {"tail_loss", "the last segment of a burst is lost", tail_loss},
    {"each_lost", "each datagram of a short exchange is lost in turn", each_lost},
    {"each_duplicated", "every datagram arrives twice", each_duplicated},
    {"forged", "acknowledgements and limits that cannot be", forged},
    {"flipped", "bits change on the way, behind the network's own checksum", flipped},
    {"insider", "whoever knows the token changes fields, with a guard", insider},
    {"replayed", "all datagrams of a life come again, in that life and in later ones", replayed},
    {"rekeyed", "a key serves its time while datagrams are lost and overtaken", rekeyed},
    {"loss_both_ways", "one loss while messages go in both directions", loss_both_ways},
    {"loss_one", "one segment is lost", loss_one},
    {"loss_of_retransmission", "a segment and its retransmission are lost", loss_of_retransmission},
    {"loss_three_times", "a segment is lost three times", loss_three_times},
    {"loss_of_tail_and_probe", "the last segment and the probe for it are lost",
     loss_of_tail_and_probe},
    {"loss_of_burst", "30 segments in a row are lost", loss_of_burst},
    {"loss_of_first_flight", "everything before the first acknowledgement is lost",
     loss_of_first_flight},
    {"loss_of_every_tenth", "every tenth segment is lost", loss_of_every_tenth},
    {"loss_of_acks", "four acknowledgements in a row are lost", loss_of_acks},
    {"reorder_only", "segments are overtaken, none is lost", reorder_only},
    {"spurious_count", "what the sender calls spurious is what the receiver saw twice",
     spurious_count},
    {"burst_loss", "44 segments in a row are lost", burst_loss},
    {"pingpong_loss", "latency of a ping-pong at 1 % loss", pingpong_loss},
    {"credit_update_lost", "news of credits is lost", credit_update_lost},
    {"both_out_of_credit", "two buffers on each side, a hundred messages each way",
     both_out_of_credit},
    {"computes", "the peer computes for 60 s", computes},
    {"sends_then_computes", "two sends, then the sender computes for 20 s", sends_then_computes},
    {"wakes_after_limit", "we compute for longer than the silence limit", wakes_after_limit},
    {"idle_peer_computes", "the peer computes for 60 s, and nothing is due", idle_peer_computes},
    {"kick_repairs", "the sender computes after a send that is lost, a kicker repairs it",
     kick_repairs},
    {"kick_store_full", "more comes in kicks than may be kept", kick_store_full},
    {"kick_store_ready", "what may not be kept comes when its receiver looks again",
     kick_store_ready},
    {"kick_close", "the peer closes while its messages wait", kick_close},
    {"kick_close_behind", "the same, and one waits behind another that was lost",
     kick_close_behind},
    {"kick_destroyed", "a connection is destroyed while its messages wait", kick_destroyed},
    {"kick_killed", "a connection is killed while its messages wait", kick_killed},
    {"kick_refused", "the peer's host refuses in kicks", kick_refused},
    {"kick_restarted", "the peer restarts under the same address, and is heard in kicks",
     kick_restarted},
    {"kick_no_memory", "no memory for what comes in kicks", kick_no_memory},
    {"kick_device_failure", "the device fails in a kick", kick_device_failure},
    {"kick_kills_nobody", "the silence limit passes in kicks", kick_kills_nobody},
    {"kick_no_room", "a peer computes for longer than the silence limit, its store full",
     kick_no_room},
    {"seldom", "progress is never called twice in a second", seldom},
    {"first_turn", "a message is sent before progress is called for the first time", first_turn},
    {"after_pause", "a message is sent after a pause, before the next progress call", after_pause},
    {"rail_full", "one rail cannot send, the other acknowledges", rail_full},
    {"partition", "a partition of 10 s heals", partition},
    {"partition_too_long", "a partition outlasts the silence limit", partition_too_long},
    {"hole", "large datagrams are lost for ever", hole},
    {"no_tag", "a tag gets its receiver late, or never", no_tag},
    {"ready_tag", "a hundred messages wait for the receiver of their tag", ready_tag},
    {"ready_beside_others", "the same, beside messages that get through", ready_beside_others},
    {"ready_buffers", "fragments wait for one without a receiver for its tag, and fill all buffers",
     ready_buffers},
    {"ready_lost", "the news that the tag has its receiver is lost three times", ready_lost},
    {"restart", "the peer restarts, under the same and under another address", restart},
    {"refused", "the peer's host says that nobody is there", refused},
    {"device_failure", "our device fails", device_failure},
    {"close_and_reopen", "connections are closed in many states and made again", close_and_reopen},
    {"closes_lost", "no CLOSE arrives, and the peer's new life has nothing to say", closes_lost},
    {"reassembly_exhausted", "no reassembly buffer but one for each peer", reassembly_exhausted},
    {"incast", "16 senders, one small receive buffer", incast},
    {"incast_16", "16 senders to one, 10 Gbit/s", incast_16},
    {"incast_shallow", "the same, and a switch with 96 KiB of queue", incast_shallow},
    {"incast_slow_link", "16 senders to one, 1 Gbit/s", incast_slow_link},
    {"bottleneck_2", "two pairs share a link, one begins later", bottleneck_2},
    {"bottleneck_4", "four pairs share a link, one begins after the other", bottleneck_4},
    {"bottleneck_8", "eight pairs share a link", bottleneck_8},
    {"bottleneck_shallow", "four pairs share a link with a queue of 27 segments",
     bottleneck_shallow},
    {"bottleneck_cubic", "four pairs share a link, CUBIC", bottleneck_cubic},
    {"slow_receiver", "a receiver that looks seldom and holds little", slow_receiver},
    {"mixed", "small messages beside large ones", mixed},
    {"stream", "2 MiB on a clean network", stream},
    {"each_allocation_fails", "each allocation fails in turn", each_allocation_fails},
    {"no_memory_at_start", "no memory while the engine is made", no_memory_at_start},
    {"idle_memory", "1000 idle peers", idle_memory},
    {"ops_clean", "one-sided operations of all kinds and sizes on a clean network", ops_clean},
    {"ops_take_turns", "a message does not wait for what GETs asked for", ops_take_turns},
    {"ops_each_lost", "each datagram of some one-sided operations is lost in turn", ops_each_lost},
    {"ops_duplicated", "every datagram of one-sided operations arrives twice", ops_duplicated},
    {"ops_refused", "one-sided operations with everything that can be wrong with them",
     ops_refused},
    {"ops_refused_both", "windows and credits are full of refused PUTs, on both sides",
     ops_refused_both},
    {"ops_refusal_lost", "the news that a PUT is refused is lost three times", ops_refusal_lost},
    {"ops_late_put", "a PUT comes again after its region was removed", ops_late_put},
    {"ops_region_removed", "a region is removed in the middle of a GET, and of a PUT",
     ops_region_removed},
    {"ops_cut_off", "connections end with one-sided operations under way", ops_cut_off},
    {"ops_old_answers", "answers to a life that is over reach the next one", ops_old_answers},
    {"ops_answer_never", "the peer dies between a request and its answer", ops_answer_never},
    {"ops_answer_late", "a living peer answers after the silence limit", ops_answer_late},
    {"ops_no_memory", "allocations of one-sided operations fail in turn", ops_no_memory},
    {NULL, NULL, NULL},
};
