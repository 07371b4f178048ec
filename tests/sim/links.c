/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Links with a rate and a queue that drops its tail, first in, first out:
 *
 *   process --out--> [ core ] --in--> process
 *            (its card)  (a bottleneck that all share, if it has a rate)  (the switch's port to it)
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

static wire_t *wire_of(sim_t *sim, const datagram_t *d, stage_t stage)
{
    uint32_t rail = d->src % sim->nrails; /* which it really goes by, see rail_open() */

    switch (stage) {
    case STAGE_OUT:
        return &sim->out[d->from * sim->nrails + rail];
    case STAGE_CORE:
        return &sim->core;
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

static void arrive_at(sim_t *sim, void *arg, uint64_t value);

/* On to the next link that exists. The sum of the delays comes before the last. */
static void go_on(sim_t *sim, datagram_t *d, stage_t stage)
{
    for (; stage < STAGE_END; stage++) {
        wire_t *wire = wire_of(sim, d, stage);
        if (wire->rate != 0) {
            uint64_t at = pass(sim, wire, d);
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
