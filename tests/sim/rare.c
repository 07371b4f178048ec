/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What few random seeds have: another congestion control, traces, questions to silent peers, what
 * tools ask of an engine, messages of the network that are true, addresses that change or are
 * rewritten. Drawn apart from all else, so that a seed that has none of it is what it would be
 * without this file.
 */

#include "sim.h"

static rng_t row_of(const sim_t *sim, uint64_t subject)
{
    rng_t rng;

    rng_seed(&rng, mix64(sim->seed ^ subject));
    return rng;
}

/* Swift (or what the transport wants) in most seeds, else the same in all processes or not. */
static void choose_cc(sim_t *sim)
{
    static const btl_ib_cc_kind_t kinds[] = {BTL_IB_CC_NONE, BTL_IB_CC_CUBIC, BTL_IB_CC_SWIFT};
    rng_t rng = row_of(sim, 0x6363);

    if (!rng_chance(&rng, 300000)) {
        return;
    }
    const bool mixed = rng_chance(&rng, 300000);
    btl_ib_cc_kind_t kind = kinds[rng_range(&rng, 0, 2)];
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        kind = mixed ? kinds[rng_range(&rng, 0, 2)] : kind;
        sim->procs[i].config.cc = kind;
    }
}

void rare_options(sim_t *sim)
{
    rng_t rng = row_of(sim, 0x72617265);
    const bool traced = rng_chance(&rng, 150000);
    const bool asks = !sim->clean && rng_chance(&rng, 150000);

    choose_cc(sim);
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_t *proc = &sim->procs[i];
        proc->traced = traced && rng_chance(&rng, 700000);
        if (asks && rng_chance(&rng, 700000)) {
            proc->config.keepalive = rng_log(&rng, 50000, 2000000);
        }
    }
    sim->joins = rng_chance(&rng, 500000);
    sim->aborts = rng_chance(&rng, 100000);
    sim->unreachable = rng_chance(&rng, 300000);
}

/* All that a tool may ask of an engine between two calls. Nothing may come of it. */
static void ask(const proc_t *proc)
{
    const btl_ib_conn_t *conn = NULL;
    char line[512];

    while ((conn = btl_ib_engine_next_conn(proc->engine, conn)) != NULL) {
        const btl_ib_conn_levels_info_t levels = btl_ib_conn_levels(conn);
        const btl_ib_path_info_t path = btl_ib_conn_path(conn);
        const btl_ib_diagnosis_t diagnosis = btl_ib_conn_diagnosis(conn);

        (void) levels;
        (void) path;
        (void) diagnosis;
        (void) btl_ib_conn_is_busy(conn);
        (void) btl_ib_conn_answered_ago(conn);
        (void) btl_ib_conn_flow_text(conn, true, line, sizeof(line));
        (void) btl_ib_conn_format(conn, proc->clock_max, line, sizeof(line));
    }
    (void) btl_ib_engine_answers(proc->engine);
    (void) btl_ib_engine_serves(proc->engine);
    (void) btl_ib_engine_turned_at(proc->engine);
}

static void ask_event(sim_t *sim, void *arg, uint64_t value)
{
    const proc_t *proc = arg;

    if (proc->up) {
        ask(proc);
    }
}

static void check_path_event(sim_t *sim, void *arg, uint64_t peer)
{
    proc_t *proc = arg;
    link_t *link = proc_link(proc, (uint32_t) peer, 0);

    if (proc->up && proc->busy_until <= sim->now && link->conn != NULL && !link->dead
        && !link->draining) {
        proc->checks_path = true;
        btl_ib_conn_check_path(link->conn, proc_clock(proc));
        proc_wake(proc, sim->now + 1000);
    }
}

/* A router that is right: the path carries less than it did. */
static void narrow_event(sim_t *sim, void *arg, uint64_t value)
{
    const proc_t *proc = arg;
    rail_t *rail = proc->rails[0];
    const rail_t *peer = sim->procs[value >> 32].rails[0];

    if (proc->up && rail != NULL && peer != NULL && rail_address(rail) != rail_address(peer)) {
        rail_narrowed(rail, rail_address(peer), (uint32_t) value);
    }
}

/* Has it a connection with everybody, that both know of? Who begins only afterwards, and knows
 * nothing but what was published, does not find it. */
static bool is_known_to_all(sim_t *sim, proc_t *proc)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_t *peer = &sim->procs[i];
        if (peer != proc
            && !(proc_link(proc, i, 0)->answered && proc_link(peer, proc->index, 0)->answered)) {
            return false;
        }
    }
    return true;
}

static void lose_address_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_t *proc = arg;

    if (proc->up && proc->rails[0] != NULL && !rail_failed(proc->rails[0])
        && is_known_to_all(sim, proc)) {
        rail_lose_address(proc->rails[0]);
    }
}

static void route_event(sim_t *sim, void *arg, uint64_t value)
{
    const proc_t *proc = arg;

    if (proc->up && proc->rails[0] != NULL) {
        rail_route(proc->rails[0]);
    }
}

static proc_t *any_of(sim_t *sim, rng_t *rng)
{
    return &sim->procs[rng_range(rng, 0, sim->nprocs - 1)];
}

/* Can all follow an address that changes? Not where devices or flows fail, or connections end: no
 * way may be left then. */
static bool may_change(const sim_t *sim)
{
    bool may = !sim->clean && !sim->survives;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        const btl_ib_transport_attr_t *attr = proc_attr(&sim->procs[i], 0);
        may = may && attr->knows_source && !attr->rdma;
    }
    for (uint32_t i = 0; i < sim->nfaults; i++) {
        may = may && sim->faults[i].kind != F_FLOW && sim->faults[i].kind != F_PAIR;
    }
    return may;
}

/* The address of one process changes, or peers see another one from some time on. */
static void plan_address(sim_t *sim, uint64_t active, bool ends_lives)
{
    rng_t rng = row_of(sim, 0x61646472);

    if (ends_lives || !may_change(sim) || !rng_chance(&rng, 300000)) {
        return;
    }
    const event_fn_t fn = rng_chance(&rng, 500000) ? lose_address_event : route_event;
    proc_t *proc = any_of(sim, &rng);
    for (uint64_t n = rng_range(&rng, 1, 2); n > 0; n--) {
        sim_at(sim, sim->now + rng_range(&rng, 0, active), fn, proc, 0);
    }
}

void rare_events(sim_t *sim, uint64_t active, bool ends_lives)
{
    rng_t rng = row_of(sim, 0x61736b);

    for (uint32_t n = rng_chance(&rng, 200000) ? 30 : 0; n > 0; n--) {
        sim_at(sim, sim->now + rng_range(&rng, 0, 2 * active), ask_event, any_of(sim, &rng), 0);
    }
    for (uint32_t n = rng_chance(&rng, 100000) ? 5 : 0; n > 0; n--) {
        proc_t *proc = any_of(sim, &rng);
        const uint32_t peer = (uint32_t) rng_range(&rng, 0, sim->nprocs - 1);
        const uint64_t at = sim->now + rng_range(&rng, 0, active);

        if (peer != proc->index && !sim->clean) {
            sim_at(sim, at, check_path_event, proc, peer);
        }
    }
    for (uint32_t n = rng_chance(&rng, 100000) ? 5 : 0; n > 0; n--) {
        const uint64_t peer = rng_range(&rng, 0, sim->nprocs - 1);
        const uint64_t at = sim->now + rng_range(&rng, 0, active);
        const uint64_t size = rng_log(&rng, 576, 60000);

        if (!sim->clean) {
            sim_at(sim, at, narrow_event, any_of(sim, &rng), peer << 32 | size);
        }
    }
    plan_address(sim, active, ends_lives);
}

/* Questions go on as long as there are peers: nothing would come to rest. */
void rare_end(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sim->procs[i].config.keepalive = 0;
        if (sim->procs[i].up) {
            inside_ask_no_more(sim->procs[i].engine);
        }
    }
}
