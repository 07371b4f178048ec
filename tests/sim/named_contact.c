/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios of first contact, farewell, restarts: lives of connections. */

#include "named.h"

static bool drop_closes(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_CLOSE;
}

/* p1 leaves and comes back, and p0 is not told. Its data name a connection that is gone, without a
 * CONNECT: nobody can answer those. */
void closes_lost(sim_t *sim)
{
    two(sim);
    start_warm(sim);
    sim->drop = drop_closes;
    app_close(&sim->procs[1], 0, 0, false);
    sim_run_until(sim, sim->now + SIM_MS(10));
    app_connect(&sim->procs[1], 0, 0);
    say(sim, 0, 1, 100, 1000); /* for the life that is gone */
    sim_run_until(sim, sim->now + SIM_MS(500));
    uint32_t first = sim->nmessages;
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_MS(10));
    if (sim->messages[first].delivered != 1) {
        sim_fail(sim, "the new life is not found");
    }
    sim->drop = NULL;
    finish(sim);
}

void both_at_once(sim_t *sim)
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
    return sim->scratch[0]++ == 0;
}

void connect_lost(sim_t *sim)
{
    two(sim);
    run_start(sim);
    sim->drop = drop_first;
    say(sim, 0, 1, 100, 1000);
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "repair of a lost CONNECT took ns", slowest(sim, 0), SIM_MS(6));
    finish(sim);
}

void never_added(sim_t *sim)
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

void burst_of_unknown_peers(sim_t *sim)
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

void restart(sim_t *sim)
{
    for (uint64_t k = 0; k < 2; k++) {
        two(sim);
        sim->procs[0].config.silence_limit = 5000000;
        sim->procs[1].config.silence_limit = 5000000;
        sim->down_time = SIM_MS(1);
        start_warm(sim);
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

void refused(sim_t *sim)
{
    two(sim);
    sim->refuses = true;
    sim->down_time = SIM_S(5);
    start_warm(sim);
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

/* It has been silent, so that a row of refusals would be its death. */
static void must_live(sim_t *sim, uint64_t told)
{
    const btl_ib_counters_t *count = sim_counters(sim, 0);

    if (sim->applied[F_DEATH] != 0) {
        sim_fail(sim, "a peer was given up for what nobody had proved");
    }
    if (inside_datagram_max(proc_link(&sim->procs[0], 1, 0)->conn) < 1000) {
        sim_fail(sim, "the path was believed to carry less");
    }
    if (count->rejected_icmp + count->rejected_icmp_short != told) {
        sim_fail(sim, "%llu of %llu messages of the network were counted as rejected",
                 (unsigned long long) (count->rejected_icmp + count->rejected_icmp_short),
                 (unsigned long long) told);
    }
}

void forged_refusals(sim_t *sim)
{
    for (forgery_t how = FORGERY_RANDOM; how < FORGERIES; how++) {
        uint64_t told = 0;

        sim_procs(sim, 3, 1);
        run_defaults(sim);
        start_warm(sim);
        warm_up(sim, 0, 2);
        warm_up(sim, 2, 1);
        proc_compute(&sim->procs[1], sim->now + SIM_S(2));
        say(sim, 0, 1, 100, 1000);
        say(sim, 0, 1, 30000, 1000);
        for (; told < 300; told += 2) {
            sim_run_until(sim, sim->now + SIM_MS(10));
            net_forge(sim, sim->procs[0].rails[0], rail_address(sim->procs[1].rails[0]), how);
        }
        sim_run_until(sim, sim->now + SIM_MS(10));
        must_live(sim, told);
        finish(sim);
        if (how + 1 < FORGERIES) {
            again(sim, how + 2);
        }
    }
}

/* The peer closes and is silent then: what the life before sent is refused late, and proves nothing
 * of this one. */
void late_refusals(sim_t *sim)
{
    const uint64_t told = 40;

    two(sim);
    start_warm(sim);
    rail_t *rail = sim->procs[0].rails[0];
    const uint32_t address = rail_address(sim->procs[1].rails[0]);
    const quote_t before = rail_quote(rail, address);
    app_close(&sim->procs[1], 0, 0, true);
    run_settle(sim, SIM_S(2));
    warm_up(sim, 0, 1);
    proc_compute(&sim->procs[1], sim->now + SIM_S(2));
    say(sim, 0, 1, 100, 1000);
    for (uint64_t i = 0; i < told / 2; i++) {
        sim_run_until(sim, sim->now + SIM_MS(50));
        rail_told(rail, address, 0, before, true);
        rail_told(rail, address, 600, before, true);
    }
    sim_run_until(sim, sim->now + SIM_MS(10));
    must_live(sim, told);
    finish(sim);
}

void device_failure(sim_t *sim)
{
    two(sim);
    sim->procs[1].config.silence_limit = 5000000;
    start_warm(sim);
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

void close_and_reopen(sim_t *sim)
{
    two(sim);
    start_warm(sim);
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
