/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Scenarios of ECN: links that mark what finds more than so many bytes in their queue (a step, as
 * switches are told for DCTCP), and networks that clear the codepoints, change them, drop what has
 * one, or mark everything.
 */

#include <stdio.h>
#include <stdlib.h>

#include "named.h"

#define LARGE 65536u

enum {
    RATE = 10000,      /* Mbit/s of the link that all share */
    RTT = SIM_US(100), /* ns */
    STEP = 30 * 1472,  /* bytes of queue above which it marks */
    QUEUE = 512 << 10, /* bytes that fit in */
};

/* Pairs of processes that share a link, which marks. */
static void begin_pairs(sim_t *sim, uint32_t pairs, btl_ib_cc_kind_t cc, bool ecn, uint64_t rate)
{
    sim_procs(sim, 2 * pairs, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < 2 * pairs; i++) {
        proc_t *proc = &sim->procs[i];
        snprintf(proc->queues, sizeof(proc->queues), "P,256,256,128,32:S,65536,1024,512,512");
        proc->config.cc = cc;
        proc->attr.ecn = ecn;
    }
    sim->delay = RTT / 2;
    sim->events_max = UINT64_MAX;
    links_make(sim, 4 * rate, 4 * rate, 4 << 20);
    sim->core = (wire_t){.rate = rate, .queue = QUEUE, .mark = STEP};
    run_start(sim);
}

static void stream_from(sim_t *sim, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < 8; i++) {
        say(sim, from, to, LARGE, 1000)->chain = UINT32_MAX;
    }
}

static void stop(sim_t *sim)
{
    sim->stopping = true;
    run_settle(sim, SIM_S(5));
    run_farewell(sim);
}

static uint64_t answers(const sim_t *sim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sum += sim_counters(sim, i)->ecn_cuts;
    }
    return sum;
}

static uint64_t paths_off(const sim_t *sim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sum += sim_counters(sim, i)->ecn_paths_off;
    }
    return sum;
}

/* ---- a queue that marks ---- */

/* Streams of all pairs but the last, which has a short message each 50 us. The queue grows to twice
 * the step at most, nothing is dropped, and no sender answers more than once a round trip. */
static void step_of(sim_t *sim, uint32_t pairs, btl_ib_cc_kind_t cc, uint64_t rate)
{
    const uint64_t time = SIM_MS(50) * (10000 / rate);
    const uint64_t queued = 2 * STEP * 8000ull / rate; /* ns */

    begin_pairs(sim, pairs + 1, cc, true, rate);
    for (uint32_t i = 0; i < pairs; i++) {
        stream_from(sim, i, pairs + 1 + i);
    }
    sim_run_until(sim, sim->now + time / 2);
    const wire_t before = sim->core;
    const uint64_t cuts = answers(sim);
    const uint32_t first = sim->nmessages;
    sim->core.waited_most = 0;
    for (uint64_t at = 0; at < time; at += SIM_US(50)) {
        say(sim, pairs, 2 * pairs + 1, 8, at);
    }
    const uint32_t last = sim->nmessages;
    sim_run_until(sim, sim->now + time);
    const wire_t *core = &sim->core;
    must_be_at_least(sim, "thousandths of the link",
                     (core->carried - before.carried) * 8000 * 1000 / (time * rate), 950);
    must_be_within(sim, "bytes of queue", core->waited_most, 2 * STEP);
    must_be_within(sim, "datagrams dropped", core->dropped - before.dropped, 0);
    must_be_at_least(sim, "datagrams marked", core->marked - before.marked, 100);
    must_be_at_least(sim, "answers", answers(sim) - cuts, 10);
    must_be_within(sim, "answers", answers(sim) - cuts, pairs * (time / RTT));
    must_be_within(sim, "paths without ECN", paths_off(sim), 0);
    uint64_t late = 0;
    for (uint32_t i = first; i < last; i++) {
        const message_t *m = &sim->messages[i];
        late += m->size == 8 && m->delivered_at - m->accepted_at > RTT / 2 + queued + SIM_US(20);
    }
    must_be_within(sim, "short messages that were late", late, (last - first) / 100);
    stop(sim);
}

void ecn_step(sim_t *sim)
{
    step_of(sim, 16, BTL_IB_CC_SWIFT, RATE);
}

void ecn_step_slow(sim_t *sim)
{
    step_of(sim, 16, BTL_IB_CC_SWIFT, RATE / 10);
}

void ecn_step_cubic(sim_t *sim)
{
    step_of(sim, 1, BTL_IB_CC_CUBIC, RATE / 10);
}

/* ---- networks that spoil it ---- */

/* One stream from p0 to p1 for `time` ns. Returns the bytes that arrived in the last half. */
static uint64_t stream_for(sim_t *sim, uint64_t time)
{
    stream_from(sim, 0, 1);
    sim_run_until(sim, sim->now + time / 2);
    const uint64_t before = sim_counters(sim, 1)->received_bytes;
    sim_run_until(sim, sim->now + time / 2);
    return sim_counters(sim, 1)->received_bytes - before;
}

/* One pair, of which what p0 sends meets a fault. Without ECN it goes as fast as where nobody has
 * ECN, but for a tenth. */
static void spoiled_by(sim_t *sim, fault_kind_t kind)
{
    const uint64_t time = SIM_MS(100);

    begin_pairs(sim, 1, BTL_IB_CC_SWIFT, false, RATE);
    const uint64_t usual = stream_for(sim, time);
    stop(sim);
    again(sim, 1);
    begin_pairs(sim, 1, BTL_IB_CC_SWIFT, true, RATE);
    fault_add(sim, kind, 0, SIM_NEVER, 0, 0)->src = 0;
    must_be_at_least(sim, "bytes", stream_for(sim, time), usual - usual / 10);
    must_be_at_least(sim, "paths without ECN", sim_counters(sim, 0)->ecn_paths_off, 1);
    must_be_within(sim, "paths without ECN", paths_off(sim), 1);
}

/* Three tests, each of which ends with the batch that it is full in. */
#define TESTED 96

void ecn_cleared(sim_t *sim)
{
    spoiled_by(sim, F_ECT_CLEARED);
    must_be_within(sim, "answers", sim_counters(sim, 0)->ecn_cuts, 0);
    must_be_within(sim, "datagrams with ECT(0)", sim_counters(sim, 0)->ecn_sent, TESTED);
    stop(sim);
}

void ecn_changed(sim_t *sim)
{
    spoiled_by(sim, F_ECT_CHANGED);
    must_be_within(sim, "answers", sim_counters(sim, 0)->ecn_cuts, 0);
    must_be_within(sim, "datagrams with ECT(0)", sim_counters(sim, 0)->ecn_sent, TESTED);
    stop(sim);
}

void ecn_all_marked(sim_t *sim)
{
    spoiled_by(sim, F_MARK_ALL);
    stop(sim);
}

/* A switch marks all for a while, as a queue of others is there: half a minute later ECN is used
 * again, once. */
void ecn_all_marked_once(sim_t *sim)
{
    begin_pairs(sim, 1, BTL_IB_CC_SWIFT, true, RATE);
    fault_add(sim, F_MARK_ALL, 0, SIM_NEVER, 0, 0)->src = 0;
    (void) stream_for(sim, SIM_MS(100));
    must_be_at_least(sim, "paths without ECN", sim_counters(sim, 0)->ecn_paths_off, 1);
    sim->stopping = true;
    run_settle(sim, SIM_S(5));
    run_heal(sim);
    sim->stopping = false;
    const uint64_t before = sim_counters(sim, 0)->ecn_sent;
    (void) stream_for(sim, SIM_MS(10));
    must_be_within(sim, "datagrams with ECT(0)", sim_counters(sim, 0)->ecn_sent, before);
    sim->stopping = true;
    run_settle(sim, SIM_S(5));
    sim->stopping = false;
    sim_run_until(sim, sim->now + SIM_S(30));
    (void) stream_for(sim, SIM_MS(10));
    must_be_at_least(sim, "datagrams with ECT(0)", sim_counters(sim, 0)->ecn_sent, before + 100);
    must_be_within(sim, "paths without ECN", paths_off(sim), 1);
    stop(sim);
}

void ecn_dropped(sim_t *sim)
{
    spoiled_by(sim, F_ECT_DROPPED);
    must_be_within(sim, "datagrams with ECT(0)", sim_counters(sim, 0)->ecn_sent, TESTED);
    stop(sim);
    must_be_within(sim, "ns of the slowest message", slowest(sim, 0), SIM_MS(10));
}

void ecn_dropped_later(sim_t *sim)
{
    begin_pairs(sim, 1, BTL_IB_CC_SWIFT, true, RATE);
    (void) stream_for(sim, SIM_MS(20));
    must_be_at_least(sim, "paths with ECN", sim_counters(sim, 0)->ecn_paths, 1);
    fault_add(sim, F_ECT_DROPPED, sim->now, SIM_NEVER, 0, 0)->src = 0;
    (void) stream_for(sim, SIM_MS(50));
    must_be_at_least(sim, "paths without ECN", sim_counters(sim, 0)->ecn_paths_off, 1);
    stop(sim);
    must_be_within(sim, "ns of the slowest message", slowest(sim, 0), SIM_MS(10));
}

/* A receiver that got short datagrams alone does not read codepoints (BTL_IB_ECT_LEAST). That must
 * not look like a network that clears them. */
void ecn_short_puts(sim_t *sim)
{
    begin_pairs(sim, 1, BTL_IB_CC_SWIFT, true, RATE);
    for (uint32_t i = 0; i < 500; i++) {
        (void) op_plan(sim, 0, 1, BTL_IB_OP_PUT, 8, sim->now + SIM_US(20) * i);
    }
    sim_run_until(sim, sim->now + SIM_MS(20));
    must_be_within(sim, "datagrams with ECT(0)", sim_counters(sim, 0)->ecn_sent, 0);
    (void) stream_for(sim, SIM_MS(10));
    must_be_at_least(sim, "paths with ECN", sim_counters(sim, 0)->ecn_paths, 1);
    must_be_within(sim, "paths without ECN", paths_off(sim), 0);
    stop(sim);
}

/* The wiretap looks that p0 tells no counts. */
void ecn_one_side(sim_t *sim)
{
    two(sim);
    sim->procs[0].attr.ecn = true;
    start_warm(sim);
    (void) stream_for(sim, SIM_MS(10));
    must_be_within(sim, "datagrams with ECT(0)", sim_counters(sim, 0)->ecn_sent, 0);
    must_be_within(sim, "paths with ECN", sim_counters(sim, 0)->ecn_paths, 0);
    stop(sim);
}

void ecn_losses(sim_t *sim)
{
    begin_pairs(sim, 1, BTL_IB_CC_SWIFT, true, RATE);
    (void) fault_add(sim, F_LOSS, 0, SIM_NEVER, 100000, 0);
    (void) fault_add(sim, F_REORDER, 0, SIM_NEVER, 100000, SIM_US(200));
    (void) fault_add(sim, F_LOSS_ACK, 0, SIM_NEVER, 300000, 0);
    (void) stream_for(sim, SIM_MS(200));
    must_be_at_least(sim, "paths with ECN", sim_counters(sim, 0)->ecn_paths, 1);
    must_be_within(sim, "paths without ECN", paths_off(sim), 0);
    stop(sim);
}
