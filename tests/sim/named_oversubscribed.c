/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios of a host that has far more processes than processors: a process that waits for one is
 * neither gone nor behind a firewall, and copies are sent to it for nothing. */

#include "named.h"

enum {
    SLICE = 4000000, /* ns, as Linux gives */
};

/* Processes with a thread that answers, on one processor. */
static void begin(sim_t *sim, uint32_t nprocs)
{
    sim_procs(sim, nprocs, 1);
    run_defaults(sim);
    sim->events_max = UINT64_MAX;
    for (uint32_t i = 0; i < nprocs; i++) {
        sim->procs[i].thread_after = SIM_MS(10);
        sim->procs[i].answers = true;
    }
    run_start(sim);
    sim_run_until(sim, SIM_MS(2));
    proc_share(sim, SLICE);
}

/* The messages so far arrive within so many rounds of the processor, and at most so many segments
 * are sent again. No process takes a busy host for a firewall, or drops a first contact that was
 * kept. */
static void settle_within(sim_t *sim, uint32_t rounds, uint64_t copies)
{
    uint64_t again = 0, refused = 0, told = 0;

    run_settle(sim, rounds * (uint64_t) sim->nprocs * SLICE);
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        const btl_ib_counters_t *count = sim_counters(sim, i);
        again += count->retransmits;
        refused += count->dropped_source;
        told += sim->procs[i].unanswered;
    }
    must_be_within(sim, "segments sent again", again, copies);
    must_be_within(sim, "datagrams of peers whose address seems unknown", refused, 0);
    must_be_within(sim, "peers that are said not to answer", told, 0);
}

static void everybody_to_everybody(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        for (uint32_t k = 1; k < sim->nprocs; k++) {
            say(sim, i, (i + k) % sim->nprocs, 8, 1000);
        }
    }
}

static void stop_all(sim_t *sim)
{
    sim->slice = 0;
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_stop(&sim->procs[i]);
    }
}

/* Each sends to all others, and again. What that takes is a datagram and an ACK each; a twentieth
 * more may be copies. */
static void crowd(sim_t *sim, uint32_t nprocs)
{
    const uint64_t copies = 2 * (uint64_t) nprocs * (nprocs - 1) / 20;

    begin(sim, nprocs);
    everybody_to_everybody(sim);
    settle_within(sim, 3, copies);
    everybody_to_everybody(sim);
    settle_within(sim, 3, copies);
    stop_all(sim);
}

void oversubscribed_16(sim_t *sim)
{
    for (uint64_t seed = 2; seed < 6; seed++) {
        crowd(sim, 16);
        again(sim, seed);
    }
    crowd(sim, 16);
}

/* protocol: R62 */
void oversubscribed_128(sim_t *sim)
{
    crowd(sim, 128);
}

void oversubscribed_256(sim_t *sim)
{
    crowd(sim, 256);
}

/* A tree, as collectives make it, and all to the first. It takes two rounds of 4 s: meanwhile a
 * silent peer is asked now and then. */
void oversubscribed_1000(sim_t *sim)
{
    begin(sim, 1000);
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        say(sim, i, 0, 8, 1000);
        for (uint32_t k = 1; k < sim->nprocs; k *= 2) {
            say(sim, i, (i + k) % sim->nprocs, 8, 1000);
        }
    }
    settle_within(sim, 3, 1000 * 8 * 5);
    stop_all(sim);
}

static bool drop_some(sim_t *sim, const datagram_t *d)
{
    return rng_chance(&sim->rng, 50000);
}

/* On hosts with time, many first contacts some of which are lost: those that are answered pay for
 * the copies. What a peer's thread answered is asked again after 200 ms, since its process is to
 * look first: so much may a contact take of which that answer arrived, and the next one did not. */
void contacts_lost(sim_t *sim)
{
    sim_procs(sim, 128, 1);
    run_defaults(sim);
    run_start(sim);
    sim->drop = drop_some;
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        say(sim, 0, i, 8, 1000);
    }
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "first contacts with many, a twentieth of which is lost, took ns",
                   slowest(sim, 0), SIM_MS(210));
    sim->drop = NULL;
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_stop(&sim->procs[i]);
    }
}

static bool drop_all(sim_t *sim, const datagram_t *d)
{
    return true;
}

/* A process that polls each 500 ms only, since others have its processor, and is not answered for
 * 20 s, knows nothing of a firewall. */
void starved_suspects_nobody(sim_t *sim)
{
    two(sim);
    sim->drop = drop_all;
    run_start(sim);
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_US(5));
    sim->procs[0].seldom = SIM_MS(500);
    sim_run_until(sim, sim->now + SIM_S(20));
    must_be_within(sim, "peers that are said not to answer", sim->procs[0].unanswered, 0);
    sim->drop = NULL;
    run_settle(sim, SIM_S(1));
    for (uint32_t i = 0; i < 2; i++) {
        proc_stop(&sim->procs[i]);
    }
}
