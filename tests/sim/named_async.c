/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios in which processes compute, while a progress thread takes turns, or come seldom. */

#include "named.h"

#define ASYNC_AFTER SIM_MS(10)
#define LIMIT       5000000 /* us of silence */

static void must_be_some(sim_t *sim, const char *what, uint64_t value)
{
    if (value == 0) {
        sim_fail(sim, "%s: none", what);
    }
}

static uint64_t window_of(sim_t *sim, uint32_t from, uint32_t to)
{
    return btl_ib_conn_levels(proc_link(&sim->procs[from], to, 0)->conn).window;
}

/* Processes of which those from `first` on have a progress thread, started. */
static void with_threads(sim_t *sim, uint32_t nprocs, uint32_t first)
{
    sim_procs(sim, nprocs, 1);
    run_defaults(sim);
    for (uint32_t i = first; i < nprocs; i++) {
        sim->procs[i].thread_after = ASYNC_AFTER;
    }
}

static bool drop_one_data(sim_t *sim, const datagram_t *d)
{
    bool data = type_of(d) <= BTL_IB_TYPE_CHUNK;

    return data && sim->scratch[0] > 0 && sim->scratch[0]-- > 0;
}

void async_repairs(sim_t *sim)
{
    for (uint64_t copies = 1; copies <= 3; copies++) {
        uint32_t first = sim->nmessages;

        if (copies == 1) {
            with_threads(sim, 2, 0);
            start_warm(sim);
            first = sim->nmessages;
        }
        sim->scratch[0] = copies;
        sim->drop = drop_one_data;
        uint64_t async_turns = sim_counters(sim, 0)->async_turns;
        say(sim, 0, 1, 100, 1000);
        sim_run_until(sim, sim->now + SIM_US(2));
        proc_compute(&sim->procs[0], sim->now + SIM_S(20));
        sim_run_until(sim, sim->now + SIM_S(19));
        must_be_within(sim, "messages not repaired by the thread", sim->undelivered, 0);
        must_be_within(sim, "repair took ns", slowest(sim, first),
                       ASYNC_AFTER + SIM_US(500) + copies * SIM_MS(1));
        must_be_within(sim, "asynchronous turns for it",
                       sim_counters(sim, 0)->async_turns - async_turns, 4 + copies);
        sim_run_until(sim, sim->now + SIM_S(2));
    }
    finish(sim);
}

static bool drop_to_2(sim_t *sim, const datagram_t *d)
{
    return d->to == 2;
}

/* p1 computes, its progress thread takes turns all the time: what it sent to p2 gets lost. */
static void compute_unanswered(sim_t *sim, uint64_t time)
{
    sim->drop = drop_to_2;
    say(sim, 1, 2, 100, 1000);
    sim_run_until(sim, sim->now + SIM_US(2));
    proc_compute(&sim->procs[1], sim->now + time);
    sim_run_until(sim, sim->now + ASYNC_AFTER + SIM_MS(1));
}

/* The same from the start: p1 knows p0, and p2, which does not hear it. */
static void start_unanswered(sim_t *sim, uint64_t time)
{
    start_warm(sim);
    warm_up(sim, 1, 2);
    compute_unanswered(sim, time);
}

void async_backlog_full(sim_t *sim)
{
    with_threads(sim, 3, 1);
    sim->procs[1].config.backlog_max = 20000;
    sim->procs[1].config.reassembly_max = 1;
    start_unanswered(sim, SIM_S(1));
    size_t before = sim->procs[1].bytes;
    for (uint32_t i = 0; i < 100; i++) {
        say(sim, 0, 1, 20 * i, SIM_US(300) * i);
        say(sim, 0, 1, i % 10 == 0 ? 5000 : 0, SIM_US(300) * i);
    }
    sim_run_until(sim, sim->now + SIM_MS(500));
    must_be_some(sim, "messages refused for want of room", sim_counters(sim, 1)->rnr_backlog);
    /* Besides two reassembly buffers; and windows grow. */
    must_be_within(sim, "bytes kept", sim->procs[1].bytes - before, 20000 + 2 * 70000 + 4096);
    sim->drop = NULL;
    finish(sim);
}

/* Demands that p0, which sent what the receiver was not ready for, concluded nothing from it. */
static void must_conclude_nothing(sim_t *sim, uint64_t window)
{
    const btl_ib_counters_t *count = sim_counters(sim, 0);

    must_be_within(sim, "path MTUs taken for smaller", count->black_holes, 0);
    must_be_within(sim, "segments taken for lost", count->losses, 0);
    must_be_within(sim, "rails taken for slow", count->slow_rails, 0);
    must_be_within(sim, "rails left", count->failovers, 0);
    must_be_within(sim, "deaths reported", sim->applied[F_DEATH], 0);
    must_be_at_least(sim, "the window", window_of(sim, 0, 1), window);
}

/* p1 naps for some seconds while p0 sends it more than a backlog, a window and the list of deferred
 * segments hold; the first nap teaches p0 the path. What got RNR has arrived. */
static void nap(sim_t *sim, uint32_t threads_from, uint32_t tag)
{
    with_threads(sim, 3, threads_from);
    sim->procs[1].config.backlog_max = 100 * 1000;
    start_warm(sim);
    warm_up(sim, 1, 2);
    for (uint32_t seconds = 2; seconds <= 6; seconds += 2) {
        const uint64_t window = window_of(sim, 0, 1);
        run_tag_from(sim, sim->now + SIM_S(seconds));
        compute_unanswered(sim, SIM_S(seconds));
        for (uint32_t i = 0; i < 1500; i++) {
            message_t *m = say(sim, 0, 1, i % 50 == 0 ? 20000 : 1000, SIM_US(20) * i);
            m->tag = (uint8_t) (tag != 0 ? tag : m->tag);
        }
        sim_run_until(sim, sim->now + SIM_S(seconds));
        sim->drop = NULL;
        run_settle(sim, SIM_S(20));
        must_conclude_nothing(sim, window - window / 8); /* swift sees the delay of the end */
    }
}

void async_nap_backlog(sim_t *sim)
{
    nap(sim, 1, 0);
    must_be_some(sim, "messages refused for want of room", sim_counters(sim, 1)->rnr_backlog);
    finish(sim);
}

void async_nap_tag(sim_t *sim)
{
    nap(sim, 1, 200);
    must_be_some(sim, "messages refused for want of a receiver", sim_counters(sim, 1)->rnr_tag);
    finish(sim);
}

/* Nobody acknowledges anything meanwhile. */
void async_nap_without_thread(sim_t *sim)
{
    nap(sim, 2, 0);
    must_be_within(sim, "asynchronous turns", sim_counters(sim, 1)->async_turns, 0);
    finish(sim);
}

/* What did not fit comes as soon as its receiver looks again. */
void async_backlog_ready(sim_t *sim)
{
    with_threads(sim, 3, 1);
    sim->procs[1].config.backlog_max = 20000;
    start_unanswered(sim, SIM_S(2));
    for (uint32_t i = 0; i < 200; i++) {
        say(sim, 0, 1, 900, 1000);
    }
    uint64_t until = sim->procs[1].busy_until;
    sim_run_until(sim, until - 1000);
    must_be_some(sim, "messages refused for want of room", sim_counters(sim, 1)->rnr_backlog);
    sim->drop = NULL;
    sim_run_until(sim, until + SIM_MS(1));
    for (uint32_t i = 0; i < sim->nmessages; i++) {
        if (sim->messages[i].dst == 1 && sim->messages[i].delivered == 0) {
            sim_fail(sim, "message %u did not come soon after its receiver looked again", i);
        }
    }
    finish(sim);
}

/* Those of one segment, and those in chunks. */
static void in_order(sim_t *sim, const message_t *m)
{
    uint64_t *last = &sim->scratch[m->chunked ? 1 : 2];

    if (m->dst != 1 || m->src != 0) {
        return;
    }
    if (m->id < *last) {
        sim_fail(sim, "message %u was delivered after %llu", m->id, (unsigned long long) *last);
    }
    *last = m->id;
}

/* p0 closes while p1 computes and `waiting` messages wait there or on their way to p2. */
static void close_in_async(sim_t *sim, uint32_t waiting)
{
    if (sim->undelivered != waiting) {
        sim_fail(sim, "%u messages wait while their receiver computes, not %u", sim->undelivered,
                 waiting);
    }
    app_close(&sim->procs[0], 1, 0, true);
    sim_run_until(sim, sim->now + SIM_MS(100));
    must_be_some(sim, "CLOSEs that came in asynchronous turns",
                 sim_counters(sim, 1)->connections_closed);
    say(sim, 0, 1, 50, 1000); /* the next life, while the last one's messages still wait */
    say(sim, 0, 1, 20000, 1000);
    sim_run_until(sim, sim->now + SIM_S(1));
    for (uint32_t i = 0; i < sim->nmessages; i++) {
        if (sim->messages[i].delivered != 1 && sim->messages[i].dst == 1) {
            sim_fail(sim, "message %u was acknowledged, but not delivered", i);
        }
    }
}

void async_close(sim_t *sim)
{
    with_threads(sim, 3, 1);
    start_unanswered(sim, SIM_S(1));
    sim->on_deliver = in_order;
    for (uint32_t i = 0; i < 20; i++) {
        say(sim, 0, 1, i % 5 == 4 ? 10000 : i, SIM_US(2000) * i);
    }
    sim_run_until(sim, sim->now + SIM_MS(100));
    close_in_async(sim, 21);
    sim->drop = NULL;
    run_settle(sim, SIM_S(1));
    sim_run_until(sim, sim->now + SIM_MS(500));
    for (uint32_t i = 0; i < 3;
         i++) { /* soon after their last traffic, long before they are idle */
        if (btl_ib_engine_async_due(sim->procs[i].engine) != UINT64_MAX
            || btl_ib_engine_next_due(sim->procs[i].engine) == UINT64_MAX) {
            sim_fail(sim, "p%u wants asynchronous progress only to become idle, or is idle already",
                     i);
        }
    }
    finish(sim);
}

static bool drop_to_2_and_one_chunk(sim_t *sim, const datagram_t *d)
{
    bool chunk = type_of(d) == BTL_IB_TYPE_CHUNK && d->from == 0;

    return drop_to_2(sim, d) || (chunk && sim->scratch[0] > 0 && sim->scratch[0]-- > 0);
}

void async_close_behind(sim_t *sim)
{
    with_threads(sim, 3, 1);
    start_unanswered(sim, SIM_S(1));
    sim->scratch[0] = 1;
    sim->drop = drop_to_2_and_one_chunk;
    sim->on_deliver = in_order;
    for (uint32_t i = 0; i < 4; i++) {
        say(sim, 0, 1, i % 2 == 0 ? 10000 : 10, 1000)->ordered = true;
    }
    sim_run_until(sim, sim->now + SIM_MS(100));
    close_in_async(sim, 5);
    sim->drop = NULL;
    finish(sim);
}

/* p1 computes, and messages of p0 wait in its engine. Returns the number of the first. */
static uint32_t let_some_wait(sim_t *sim)
{
    with_threads(sim, 3, 1);
    start_unanswered(sim, SIM_S(1));
    uint32_t first = sim->nmessages;
    for (uint32_t i = 0; i < 6; i++) {
        say(sim, 0, 1, i % 3 == 2 ? 10000 : i, SIM_US(2000) * i);
    }
    sim_run_until(sim, sim->now + SIM_MS(100));
    return first;
}

void async_destroyed(sim_t *sim)
{
    uint32_t first = let_some_wait(sim);

    app_destroy(&sim->procs[1], proc_link(&sim->procs[1], 0, 0)); /* by another of its threads */
    sim_run_until(sim, sim->now + SIM_S(1));
    for (uint32_t i = first; i < sim->nmessages; i++) {
        must_be_within(sim, "messages delivered after their connection was destroyed",
                       sim->messages[i].delivered, 0);
    }
    sim->drop = NULL;
    finish(sim);
}

void async_killed(sim_t *sim)
{
    uint32_t first = let_some_wait(sim);

    fault_applied(sim, F_DEVICE);
    btl_ib_conn_kill(proc_link(&sim->procs[1], 0, 0)->conn, BTL_IB_DEATH_DEVICE);
    must_be_some(sim, "deaths after a kill", sim->applied[F_DEATH]);
    for (uint32_t i = first; i < sim->nmessages; i++) {
        if (sim->messages[i].delivered != 1) {
            sim_fail(sim, "message %u was acknowledged, and its connection killed before it came",
                     i);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        proc_stop(&sim->procs[i]);
    }
}

void async_refused(sim_t *sim)
{
    with_threads(sim, 2, 0);
    sim->refuses = true;
    start_warm(sim);
    proc_stop(&sim->procs[1]);
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_US(2));
    proc_compute(&sim->procs[0], sim->now + SIM_S(2));
    sim_run_until(sim, sim->now + SIM_S(2) - SIM_MS(1));
    must_be_some(sim, "refusals that came in asynchronous turns", sim->applied[F_REFUSED]);
    sim_run_until(sim, sim->now + SIM_S(1));
    must_be_some(sim, "deaths of a peer that its host refuses", sim->applied[F_DEATH]);
    run_quiet(sim, SIM_S(60));
    run_farewell(sim);
}

void async_restarted(sim_t *sim)
{
    with_threads(sim, 2, 0);
    sim->down_time = SIM_MS(20);
    start_warm(sim);
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_US(2));
    proc_compute(&sim->procs[0], sim->now + SIM_S(1));
    proc_restart(&sim->procs[1], false); /* before it got that */
    sim_run_until(sim, sim->now + SIM_MS(30));
    message_t *m = say(sim, 1, 0, 100, 1000);
    uint32_t id = m->id;
    sim_run_until(sim, sim->now + SIM_MS(900));
    must_be_within(sim, "deaths reported in asynchronous turns", sim->applied[F_DEATH], 0);
    must_be_some(sim, "CONNECTs of the new life that came in asynchronous turns",
                 sim_counters(sim, 0)->dropped_lookup);
    run_settle(sim, SIM_S(1));
    must_be_some(sim, "restarts seen", sim->applied[F_DEATH]);
    must_be_within(sim, "messages of the new life that are missing",
                   1 - sim->messages[id].delivered, 0);
    finish(sim);
}

void async_no_memory(sim_t *sim)
{
    for (uint32_t ppm = 300000; ppm <= 1000000; ppm += 350000) {
        if (sim->nprocs == 0) {
            with_threads(sim, 3, 1);
            start_warm(sim);
            warm_up(sim, 1, 2);
        }
        compute_unanswered(sim, SIM_S(1));
        fault_t *fault = fault_add(sim, F_NO_MEMORY, 0, sim->now + SIM_MS(500), ppm, 0);
        fault->src = 1;
        fault->dst = 1;
        for (uint32_t i = 0; i < 30; i++) {
            say(sim, 0, 1, i % 5 == 4 ? 10000 : i, SIM_US(1000) * i);
        }
        sim_run_until(sim, sim->now + SIM_MS(990));
        sim->drop = NULL;
        run_settle(sim, SIM_S(2));
    }
    must_be_some(sim, "messages refused for want of memory", sim_counters(sim, 1)->rnr_backlog);
    finish(sim);
}

static void fail_device(sim_t *sim, void *arg, uint64_t value)
{
    rail_fail_device(arg);
}

void async_device_failure(sim_t *sim)
{
    with_threads(sim, 3, 1);
    start_unanswered(sim, SIM_S(1));
    sim_at(sim, sim->now + SIM_MS(20), fail_device, sim->procs[1].rails[0], 0);
    fault_applied(sim, F_DEVICE);
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_MS(900));
    must_be_within(sim, "deaths reported in asynchronous turns", sim->applied[F_DEATH], 0);
    sim_run_until(sim, sim->now + SIM_MS(200));
    must_be_within(sim, "connections not reported dead", 2 - sim->applied[F_DEATH], 0);
    if (sim->messages[sim->nmessages - 1].delivered != 1) {
        sim_fail(sim, "what came before the device failed was not delivered");
    }
    for (uint32_t i = 0; i < 3; i++) {
        proc_stop(&sim->procs[i]);
    }
}

/* p0 loses sight of p1 for `time`. */
static void cut_off(sim_t *sim, uint64_t time)
{
    fault_t *fault = fault_add(sim, F_PARTITION, 0, sim->now + time, 1000000, 0);

    fault->src = 1;
    fault->both = true;
}

/* Just when it sent something, with `limit` us of silence to wait. */
static void cut_off_sender(sim_t *sim, uint64_t limit, uint64_t time)
{
    sim->procs[0].config.silence_limit = limit;
    start_warm(sim);
    cut_off(sim, time);
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_US(2));
}

/* Nobody is given up for `time` ns, and somebody soon after. */
static void must_die_after(sim_t *sim, uint64_t time)
{
    sim_run_until(sim, sim->now + time);
    must_be_within(sim, "deaths before their time", sim->applied[F_DEATH], 0);
    sim_run_until(sim, sim->now + SIM_MS(300));
    must_be_some(sim, "deaths after the silence limit", sim->applied[F_DEATH]);
    run_heal(sim);
    finish(sim);
}

void async_kills_nobody(sim_t *sim)
{
    with_threads(sim, 2, 0);
    cut_off_sender(sim, LIMIT, SIM_S(30));
    proc_compute(&sim->procs[0], sim->now + SIM_S(10));
    /* It was heard all the time, so the first that may say so does. */
    must_die_after(sim, SIM_S(10) - SIM_MS(1));
}

void async_no_room(sim_t *sim)
{
    with_threads(sim, 3, 1);
    sim->procs[0].config.silence_limit = LIMIT;
    sim->procs[1].config.backlog_max = 2000;
    start_unanswered(sim, SIM_S(20));
    for (uint32_t i = 0; i < 10; i++) {
        say(sim, 0, 1, 1000, SIM_US(300) * i);
    }
    must_die_after(sim, SIM_S(5) - SIM_MS(10));
}

void seldom(sim_t *sim)
{
    two(sim);
    cut_off_sender(sim, 8000000, SIM_S(100));
    for (int i = 1; i <= 12; i++) {
        proc_compute(&sim->procs[0], sim->now + SIM_S(3));
        sim_run_until(sim, sim->now + SIM_S(3) + SIM_US(50));
        if (i == 7) { /* at 21 s, of which it was there for 7 */
            must_be_within(sim, "deaths for pauses of our own", sim->applied[F_DEATH], 0);
        }
    }
    must_be_some(sim, "deaths seen by a process that comes every 3 s", sim->applied[F_DEATH]);
    run_heal(sim);
    finish(sim);
}

/* p0, with 5 s of silence to wait, sends and asks into a partition before its next progress call:
 * it has to wait for all of them. */
static void between_turns(sim_t *sim)
{
    cut_off(sim, SIM_S(20));
    say(sim, 0, 1, 100, 0);
    (void) op_plan(sim, 0, 1, BTL_IB_OP_GET, 100, sim->now);
    must_die_after(sim, SIM_S(5) - SIM_MS(1));
}

void first_turn(sim_t *sim)
{
    two_with_limit(sim, LIMIT);
    between_turns(sim);
}

void after_pause(sim_t *sim)
{
    two_with_limit(sim, LIMIT);
    warm_up(sim, 0, 1);
    sim_run_until(sim, sim->now + SIM_MS(900));
    between_turns(sim);
}

static bool count_again_on_1(sim_t *sim, const datagram_t *d)
{
    sim->scratch[0] += d->rail == 1 && (d->data[1] & BTL_IB_FLAG_RETRANSMISSION);
    return false;
}

void rail_full(sim_t *sim)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    run_start(sim);
    for (uint32_t rail = 0; rail < 2; rail++) {
        for (uint32_t i = 0; i < 4; i++) {
            say(sim, i % 2, 1 - i % 2, 100, SIM_US(100) * i + 1000)->rail = rail;
        }
    }
    run_settle(sim, SIM_MS(10));
    sim_run_until(sim, sim->now + SIM_MS(1));
    fault_t *fault = fault_add(sim, F_TX_EAGAIN, 0, sim->now + SIM_MS(5), 1000000, 1);
    fault->src = 1;
    fault->dst = 1;
    sim->drop = count_again_on_1;
    for (uint32_t i = 0; i < 40; i++) {
        say(sim, 0, 1, 100, SIM_US(100) * i + 1000)->rail = i % 2;
    }
    sim_run_until(sim, sim->now + SIM_MS(4));
    must_be_within(sim, "datagrams sent again on the rail that works", sim->scratch[0], 0);
    run_heal(sim);
    finish(sim);
}
