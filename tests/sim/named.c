/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios for exact situations: the list of all, and what they share. Each is a function, in the
 * file of its subject (named_*.c), that sets one up and says what must come of it. */

#include <string.h>

#include "named.h"

void two(sim_t *sim)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
}

void two_with_limit(sim_t *sim, uint64_t limit)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        sim->procs[i].config.silence_limit = limit;
    }
    run_start(sim);
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

bool drop_nth(sim_t *sim, const datagram_t *d)
{
    return sim->scratch[0]++ == sim->scratch[1];
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

void must_be_at_least(sim_t *sim, const char *what, uint64_t value, uint64_t bound)
{
    if (value < bound) {
        sim_fail(sim, "%s: %llu, at least %llu", what, (unsigned long long) value,
                 (unsigned long long) bound);
    }
}

/* Let both get to know each other and the round-trip time. */
void warm_up(sim_t *sim, uint32_t a, uint32_t b)
{
    message_t *m = say(sim, a, b, 100, 1000);

    m->replies = 20;
    run_settle(sim, SIM_S(5));
    sim_run_until(sim, sim->now + SIM_MS(1));
}

void start_warm(sim_t *sim)
{
    run_start(sim);
    warm_up(sim, 0, 1);
}

static void end_event(sim_t *sim, void *arg, uint64_t how)
{
    proc_t *proc = arg;

    if (how == RESTARTED) {
        proc_restart(proc, false);
    } else {
        app_close(proc, 1 - proc->index, 0, how == DRAINED);
    }
}

void end_connection(sim_t *sim, uint32_t proc, uint64_t after, ending_t how)
{
    sim_at(sim, sim->now + after, end_event, &sim->procs[proc], how);
}

uint64_t again_sum(const sim_t *sim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sum += sim->procs[i].again;
    }
    return sum;
}

const named_scenario_t named_scenarios[] = {
#define SCENARIO(name, text) {#name, text, name},
#include "named_list.h"
#undef SCENARIO
    {NULL, NULL, NULL},
};
