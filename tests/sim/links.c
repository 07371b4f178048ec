/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Links with a rate and a queue that drops its tail, first in, first out:
 *
 *   process --out--> [ core ] --in--> process
 *            (its card)  (a bottleneck that all share, if it has a rate)  (the switch's port to it)
 *
 * Instead of the core there may be a spine of two links, of which each flow takes one; before
 * either there may be a policer for each flow.
 */

#include <stdlib.h>

#include "sim.h"

typedef enum stage {
    STAGE_OUT,
    STAGE_CORE,
    STAGE_IN,
    STAGE_END,
} stage_t;

void links_make(sim_t *sim, uint64_t out, uint64_t in, uint64_t queue)
{
    uint32_t count = sim->nprocs * sim->nrails;

    sim->out = calloc(count, sizeof(*sim->out));
    sim->in = calloc(count, sizeof(*sim->in));
    for (uint32_t i = 0; i < count; i++) {
        sim->out[i].rate = out;
        sim->in[i].rate = in;
        sim->in[i].queue = queue;
    }
}

void links_rail(sim_t *sim, uint32_t rail, uint64_t rate)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sim->out[i * sim->nrails + rail].rate = rate;
        sim->in[i * sim->nrails + rail].rate = rate;
    }
}

/* What stands for the addresses and ports of a datagram. */
static uint64_t flow_of(const datagram_t *d)
{
    return (uint64_t) d->src << 40 | (uint64_t) d->dst << 16 | d->pair;
}

uint32_t links_spine(const sim_t *sim, const datagram_t *d)
{
    return (uint32_t) (mix64(flow_of(d) ^ sim->seed) & 1);
}

/* Finds the bucket of a flow, or fills one for it: that of the flow that was silent for longest, if
 * all are taken. */
static uint32_t bucket_of(sim_t *sim, uint64_t flow)
{
    cap_t *cap = &sim->cap;
    uint32_t i = 0, oldest = 0;

    for (; i < cap->buckets && cap->bucket[i].flow != flow; i++) {
        oldest = cap->bucket[i].at < cap->bucket[oldest].at ? i : oldest;
    }
    if (i < cap->buckets) {
        return i;
    }
    if (i == sizeof(cap->bucket) / sizeof(cap->bucket[0])) {
        i = oldest;
    } else {
        cap->buckets++;
    }
    cap->bucket[i].flow = flow;
    cap->bucket[i].tokens = cap->bytes * 8;
    cap->bucket[i].at = sim->now;
    return i;
}

/* Is there no token left for the datagram in the bucket of its flow? */
static bool links_police(sim_t *sim, const datagram_t *d)
{
    cap_t *cap = &sim->cap;
    const uint64_t bits = d->size * 8ull;

    if (cap->rate == 0) {
        return false;
    }
    const uint32_t i = bucket_of(sim, flow_of(d));
    const uint64_t more = (sim->now - cap->bucket[i].at) * cap->rate / 1000;
    const uint64_t tokens = cap->bucket[i].tokens + more;
    cap->bucket[i].at += more * 1000 / cap->rate;
    cap->bucket[i].tokens = tokens < cap->bytes * 8 ? tokens : cap->bytes * 8;
    if (cap->bucket[i].tokens < bits) {
        cap->dropped++;
        fault_applied(sim, F_CAPPED);
        return true;
    }
    cap->bucket[i].tokens -= bits;
    return false;
}

static wire_t *wire_of(sim_t *sim, const datagram_t *d, stage_t stage)
{
    uint32_t rail = d->src % sim->nrails; /* which it really goes by, see rail_open() */

    switch (stage) {
    case STAGE_OUT:
        return &sim->out[d->from * sim->nrails + rail];
    case STAGE_CORE:
        return sim->spine[0].rate != 0 ? &sim->spine[links_spine(sim, d)] : &sim->core;
    default:
        return &sim->in[d->to * sim->nrails + rail];
    }
}

/* When the datagram has left this link; SIM_NEVER if its queue is full. */
static uint64_t pass(sim_t *sim, wire_t *wire, datagram_t *d)
{
    const uint32_t size = d->size;
    uint64_t start = wire->free_at > sim->now ? wire->free_at : sim->now;
    uint64_t waiting = (start - sim->now) * wire->rate / 8000;

    if (wire->queue != 0 && waiting + size > wire->queue) {
        wire->dropped++;
        return SIM_NEVER;
    }
    if (wire->mark != 0 && waiting > wire->mark && d->codepoint == BTL_IB_CODEPOINT_ECT0) {
        d->codepoint = BTL_IB_CODEPOINT_CE;
        wire->marked++;
        fault_applied(sim, F_MARK);
    }
    wire->waited_most = waiting > wire->waited_most ? waiting : wire->waited_most;
    wire->carried += size;
    wire->free_at = start + size * 8000ull / wire->rate;
    return wire->free_at;
}

/* Is it lost because of its flow? */
static bool loses_flow(sim_t *sim, const datagram_t *d)
{
    const bool dead = sim->spine[0].rate != 0 && (int) links_spine(sim, d) == sim->spine_dead;

    return dead || links_police(sim, d);
}

static void arrive_at(sim_t *sim, void *arg, uint64_t value);

/* On to the next link that exists. The sum of the delays comes before the last. */
static void go_on(sim_t *sim, datagram_t *d, stage_t stage)
{
    for (; stage < STAGE_END; stage++) {
        wire_t *wire = wire_of(sim, d, stage);
        if (wire->rate != 0 || (stage == STAGE_CORE && sim->cap.rate != 0)) {
            uint64_t at = stage == STAGE_CORE && loses_flow(sim, d) ? SIM_NEVER
                          : wire->rate == 0                         ? sim->now
                                                                    : pass(sim, wire, d);
            if (at == SIM_NEVER) {
                fault_applied(sim, F_BOTTLENECK);
                sim->in_flight--;
                free(d);
            } else {
                sim_at(sim, at, arrive_at, d, stage + 1);
            }
            return;
        }
    }
    sim_at(sim, sim->now, d->arrive, d, 0);
}

static void delayed(sim_t *sim, void *arg, uint64_t value)
{
    go_on(sim, arg, (stage_t) value);
}

static void arrive_at(sim_t *sim, void *arg, uint64_t value)
{
    datagram_t *d = arg;

    if (value == STAGE_CORE) { /* it has left its host: the way is long */
        sim_at(sim, sim->now + d->delay, delayed, d, value);
    } else {
        go_on(sim, d, (stage_t) value);
    }
}

bool links_is_event(event_fn_t fn)
{
    return fn == arrive_at || fn == delayed;
}

void links_send(sim_t *sim, datagram_t *d, uint64_t delay, event_fn_t arrive)
{
    d->delay = delay;
    d->arrive = arrive;
    go_on(sim, d, STAGE_OUT);
}
