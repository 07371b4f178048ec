/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What every scenario goes through, and what is demanded at each stage. */

#include <stdio.h>
#include <string.h>

#include "counted.h"
#include "sim.h"

enum { BURST_PAIRS = 24 }; /* between which there is a burst at rest, at most */

void run_defaults(sim_t *sim)
{
    sim->known_ppm = 1000000;
    sim->pinned_ppm = 1000000;
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_t *proc = &sim->procs[i];
        btl_ib_engine_config_default(&proc->config);
        proc->config.eager_max = 65536;
        proc->attr = (btl_ib_transport_attr_t){
            .max_datagram = 1472,
            .inline_size = 65536,
            .max_iov = 3,
            .max_batch = 16,
            .tx_depth = 256,
            .rx_depth = 4096,
            .bandwidth = 10000,
            .knows_source = true,
        };
        snprintf(proc->queues, sizeof(proc->queues), "%s",
                 "P,128,256,128,16:S,1024,256,128,32:S,4096,256,128,32:S,65536,256,128,32");
        proc->clock_base = rng_range(&sim->rng, 1, SIM_S(100));
        proc->clock_grain = 1;
        proc->burst = 16;
        proc->step = 300;
        proc->idle_polls = 4;
    }
}

void run_start(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_start(&sim->procs[i], false);
    }
}

static void tag_event(sim_t *sim, void *arg, uint64_t value)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_wake(&sim->procs[i], sim->now);
    }
}

void run_tag_from(sim_t *sim, uint64_t at)
{
    sim->tag_from = at;
    sim_at(sim, at, tag_event, NULL, 0);
}

static void phase(sim_t *sim, uint64_t which)
{
    sim_trace(sim, T_PHASE, which, sim->events, sim->undelivered, sim->undone, 0, 0);
}

static void fail_open(sim_t *sim)
{
    const message_t *m = ledger_open(sim);

    if (sim->open != NULL) {
        const onesided_t *op = sim->open;
        sim_fail(sim, "operation %u (p%u > p%u, kind %d, %llu bytes) has no end", op->id, op->src,
                 op->dst, (int) op->op.kind, (unsigned long long) op->bytes);
    }
    if (m == NULL && sim->ops_waiting > 0) {
        sim_fail(sim, "%u operations could not even be started", sim->ops_waiting);
    }
    if (m == NULL) {
        sim_fail(sim, "%u messages could not even be handed to the engine", sim->unaccepted);
    }
    sim_fail(sim, "message %u (p%u > p%u, %u bytes, tag %u, accepted at %.3f us, kept %d) is %s",
             m->id, m->src, m->dst, m->size, m->tag, (double) m->accepted_at / 1000.0, m->kept,
             m->delivered == 0 ? "not delivered, nor its connection dead" : "delivered, not done");
}

void run_settle(sim_t *sim, uint64_t limit)
{
    uint64_t until = sim->now + limit;
    bool extended = false;

    phase(sim, 1);
    for (uint64_t n = 1;; n++) {
        bool maybe = sim->undelivered == 0 && sim->undone == 0;
        if ((maybe || n % 512 == 0) && ledger_settled(sim)) {
            return;
        }
        if (!sim_step(sim, until)) {
            if (ledger_settled(sim)) {
                return;
            }
            if (extended || sim->applied[F_DEATH] == 0) {
                fail_open(sim);
            }
            extended = true; /* a process that was given up finds out by silence as well */
            until += 2 * run_longest_silence(sim);
        }
    }
}

static bool all_quiet(const sim_t *sim)
{
    if (sim->in_flight > 0) {
        return false;
    }
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        const proc_t *proc = &sim->procs[i];
        if (!proc_quiet(proc) || (proc->up && proc->busy_until > sim->now)) {
            return false;
        }
    }
    return true;
}

static uint64_t datagrams(const sim_t *sim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sum += sim->procs[i].datagrams;
    }
    return sum;
}

/* Idle engines hold no more than what connections and pools are allowed. */
static void check_idle_memory(sim_t *sim, const proc_t *proc)
{
    const btl_ib_engine_config_t *config = &proc->config;
    uint64_t pools = 0;
    uint64_t links = (uint64_t) sim->nprocs * sim->nrails;

    for (uint32_t i = 0; i < sim->nrails; i++) {
        pools +=
            ((uint64_t) config->depth_total + 4096) * (proc_attr(proc, i)->max_datagram + 512u);
    }
    uint64_t bound = (256u << 10) + pools + links * (4096 + config->eager_max)
                     + (uint64_t) config->reassembly_max * (config->eager_max + 4096u);

    if (proc->bytes > bound) {
        sim_fail(sim, "p%u is idle and holds %zu bytes, at most %llu are expected", proc->index,
                 proc->bytes, (unsigned long long) bound);
    }
    for (uint32_t i = 0; i < sim->nrails; i++) {
        if (rail_held(proc->rails[i]) != 0) {
            sim_fail(sim, "p%u is idle and holds %u receive buffers", proc->index,
                     rail_held(proc->rails[i]));
        }
    }
}

uint64_t run_longest_silence(const sim_t *sim)
{
    uint64_t longest = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        uint64_t limit = SIM_US(sim->procs[i].config.silence_limit);
        longest = limit > longest ? limit : longest;
    }
    return longest;
}

/* Whatever came was counted once, by what became of it; and devices did nothing that protection
 * shall protect. */
static void check_counters(sim_t *sim, const proc_t *proc)
{
    const btl_ib_counters_t *count = btl_ib_engine_counters(proc->engine);

    if (bench_counted(count) != count->received_datagrams) {
        sim_fail(sim, "p%u received %llu datagrams, but %llu were accounted for", proc->index,
                 (unsigned long long) count->received_datagrams,
                 (unsigned long long) bench_counted(count));
    }
    if (bench_miscounted(proc->engine) != NULL) {
        sim_fail(sim, "p%u: %s is not what its rails counted", proc->index,
                 bench_miscounted(proc->engine));
    }
    if (count->rejected_icmp + count->rejected_icmp_short < proc->forged) {
        sim_fail(sim, "p%u was told %llu forged messages of the network, and believed some",
                 proc->index, (unsigned long long) proc->forged);
    }
    if (sim->protection.kind != BTL_IB_PROTECTION_NONE
        && count->offload_puts + count->offload_gets + count->offload_atomics != 0) {
        sim_fail(sim, "p%u: its device did operations although there is protection", proc->index);
    }
}

/* Nothing is under way in an engine that has nothing to do, and both ends of a connection know the
 * same of windows and credits. */
static void check_whole(sim_t *sim, proc_t *proc)
{
    const uint32_t all = sim->nprocs * (sim->nprocs - 1) * sim->nrails;
    const char *what = inside_unfinished(proc->engine);

    if (what != NULL) {
        sim_fail(sim, "p%u is at rest, but not all is over: %s", proc->index, what);
    }
    for (uint32_t i = 0; i < sim->nprocs * sim->nrails; i++) {
        proc_t *peer = &sim->procs[i / sim->nrails];
        const uint32_t rail = i % sim->nrails;
        if (peer == proc || !run_steady(sim, proc, peer, rail)) {
            continue;
        }
        const link_t *there = proc_link(peer, proc->index, rail);
        what = inside_ends_differ(proc_link(proc, peer->index, rail)->conn,
                                  there->conn != NULL ? there->conn : there->passive,
                                  sim->resting && all <= BURST_PAIRS);
        if (what != NULL) {
            sim_fail(sim, "p%u > p%u at rest, but not all is over: %s", proc->index, peer->index,
                     what);
        }
    }
}

/* All is done: no engine may have anything to do any more, and nothing may move. */
void run_quiet(sim_t *sim, uint64_t limit)
{
    uint64_t until = sim->now + limit;

    phase(sim, 2);
    while (!all_quiet(sim)) {
        if (!sim_step(sim, until)) {
            for (uint32_t i = 0; i < sim->nprocs; i++) {
                proc_t *proc = &sim->procs[i];
                if (!proc_quiet(proc)) {
                    sim_fail(sim, "p%u has nothing to do, but does not come to rest (due in %lld)",
                             i,
                             (long long) (btl_ib_engine_next_due(proc->engine) - proc_clock(proc)));
                }
            }
            sim_fail(sim, "the network does not come to rest");
        }
    }
    uint64_t before = datagrams(sim);
    sim_run_until(sim, sim->now + SIM_S(60));
    if (datagrams(sim) != before || !all_quiet(sim)) {
        sim_fail(sim, "%llu datagrams although everything was at rest",
                 (unsigned long long) (datagrams(sim) - before));
    }
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        if (!sim->procs[i].up) {
            continue;
        }
        check_idle_memory(sim, &sim->procs[i]);
        check_counters(sim, &sim->procs[i]);
        check_whole(sim, &sim->procs[i]);
        if (btl_ib_engine_async_due(sim->procs[i].engine) != UINT64_MAX) {
            sim_fail(sim, "p%u is idle, but wants asynchronous progress", i);
        }
    }
}

void run_heal_rest(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nfaults; i++) {
        sim->faults[i].lasts = false;
    }
    run_heal(sim);
}

void run_heal(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nfaults; i++) {
        if (sim->faults[i].to > sim->now && !sim->faults[i].lasts) {
            sim->faults[i].to = sim->now;
        }
    }
    sim->healed_at = sim->now;
    sim->drop = NULL;
    sim->cap.rate = 0;
    sim->spine[0].rate = 0;
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_wake(&sim->procs[i], sim->now);
    }
}

/* Are both sides connected as they were from the first? Else a segment may well be sent again. */
bool run_steady(sim_t *sim, proc_t *a, proc_t *b, uint32_t rail)
{
    const link_t *ab = proc_link(a, b->index, rail);
    const link_t *ba = proc_link(b, a->index, rail);

    return a->up && b->up && ab->conn != NULL && (ba->conn != NULL || ba->passive != NULL)
           && !ab->dead && !ba->dead && ab->closings == 0 && ba->closings == 0
           && ab->peer_life == b->life && ba->peer_life == a->life && a->clock_grain == 1
           && a->leaped + b->leaped == 0 && b->clock_grain == 1 && sim->now >= a->busy_until
           && sim->now >= b->busy_until
           && !rail_failed(a->rails[rail])
           /* a peer that was never told of that finds out by silence */
           && !rail_failed(b->rails[rail]);
}

/* No credit was lost: a further burst in each direction gets through, and at once. */
void run_rest_burst(sim_t *sim)
{
    uint32_t pairs = 0;
    uint32_t first = sim->nmessages;

    phase(sim, 3);
    sim->resting = true;
    for (uint32_t i = 0; i < sim->nprocs; i++) { /* one that is slow to answer may be asked again */
        sim->procs[i].burst = 64;
        sim->procs[i].step = 200;
    }
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        for (uint32_t k = 0; k < sim->nprocs; k++) {
            for (uint32_t r = 0; r < sim->nrails && i != k && pairs < BURST_PAIRS; r++) {
                if (!run_steady(sim, &sim->procs[i], &sim->procs[k], r)) {
                    continue;
                }
                pairs++;
                for (uint32_t n = 0; n < 12; n++) {
                    uint64_t at = sim->now + 1000 + 1000 * (uint64_t) pairs;
                    message_t *m = app_plan(&sim->procs[i], k, n % 4 == 3 ? 300 : n, at);
                    m->rail = r;
                }
            }
        }
    }
    uint64_t segments = 12ull * pairs * 8;
    uint64_t search = sim->hole > 0 ? SIM_S(1) : 0; /* for one that runs into it only now */
    run_settle(sim, SIM_MS(20) + search + segments * (2 * sim->delay + SIM_US(300)));
    for (uint32_t i = first; i < sim->nmessages; i++) {
        if (sim->messages[i].delivered != 1) {
            sim_fail(sim, "message %u, sent at rest, was not delivered", i);
        }
    }
    run_quiet(sim, SIM_S(60));
    sim->resting = false;
}

/* ---- farewell ---- */

static void leave_at_once(sim_t *sim, void *arg, uint64_t value)
{
    proc_t *proc = arg;

    if (proc->up) {
        proc_stop(proc);
    }
}

static void leave_politely(sim_t *sim, void *arg, uint64_t deadline)
{
    proc_t *proc = arg;
    bool left = false;

    if (!proc->up) {
        return;
    }
    btl_ib_engine_refuse_new(proc->engine, proc_clock(proc));
    proc_wake(proc, sim->now + 1000);
    for (uint32_t i = 0; i < sim->nprocs * sim->nrails; i++) {
        link_t *link = &proc->links[i];
        if (link->passive != NULL) { /* refused with all others */
            link->passive = NULL;
            link->closed_at = sim->now;
            link->closings++;
        }
        if (link->conn != NULL && !link->draining && !link->dead) {
            app_close(proc, link->peer, link->rail, true);
        }
        left = left || link->conn != NULL;
    }
    if (!left && !btl_ib_engine_lingering(proc->engine)) {
        proc_stop(proc);
        return;
    }
    if (sim->now > deadline) {
        sim_fail(sim, "p%u cannot leave: %s", proc->index,
                 left ? "a connection does not drain" : "it lingers");
    }
    sim_at(sim, sim->now + SIM_US(100), leave_politely, proc, deadline);
}

/* All leave: some with a drain, some without a word. */
void run_farewell(sim_t *sim)
{
    phase(sim, 4);
    sim->stopping = true;
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        uint64_t at = sim->now + rng_log(&sim->rng, 1, SIM_MS(5));
        bool polite = rng_chance(&sim->rng, 800000);
        uint64_t deadline = at + SIM_S(2) + 10000 * sim->procs[i].clock_grain;
        sim_at(sim, at, polite ? leave_politely : leave_at_once, &sim->procs[i], deadline);
    }
    sim_run_until(sim, sim->now + SIM_S(4));
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        if (sim->procs[i].up) {
            sim_fail(sim, "p%u is still there", i);
        }
    }
}
