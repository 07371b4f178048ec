/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios of the command channel beside bulk on the data channels: what is short must not wait
 * for what is long. */

#include <stdio.h>

#include "named.h"

enum { COMMAND, DATA }; /* BUNDLEs seen by channel */

static uint32_t channel_of(const datagram_t *d)
{
    return d->data[2] & 0xf;
}

static bool count_bundles(sim_t *sim, const datagram_t *d)
{
    if (d->from == 0 && type_of(d) == BTL_IB_TYPE_BUNDLE) {
        sim->scratch[channel_of(d) == 0 ? COMMAND : DATA]++;
    }
    return false;
}

static void begin(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,256,256:P,65536,256");
    }
    start_warm(sim);
}

/* Bursts of short messages: alone they leave in few large datagrams; while a long message is on its
 * way by the data channel they take the command channel, which each of them fits. protocol: R56 */
void command_beside_bulk(sim_t *sim)
{
    begin(sim);
    sim->drop = count_bundles;
    for (uint32_t bulk = 0; bulk <= 1; bulk++) {
        sim->scratch[COMMAND] = 0;
        sim->scratch[DATA] = 0;
        if (bulk > 0) { /* one at a time, so that the window has room for more */
            say(sim, 0, 1, 60000, SIM_US(5))->chain = 40;
        }
        for (uint32_t i = 0; i < 400; i++) {
            say(sim, 0, 1, 20, SIM_US(50) + SIM_US(10) * (i / 20));
        }
        sim_run_until(sim, sim->now + SIM_MS(1));
        const uint64_t there = sim->scratch[bulk > 0 ? COMMAND : DATA];
        const uint64_t not_there = sim->scratch[bulk > 0 ? DATA : COMMAND];
        if (there == 0 || 10 * not_there > there) {
            sim_fail(sim, "%s bulk: %llu bundles by the command channel, %llu by another",
                     bulk > 0 ? "beside" : "without", (unsigned long long) sim->scratch[COMMAND],
                     (unsigned long long) sim->scratch[DATA]);
        }
        run_settle(sim, SIM_S(1));
    }
    finish(sim);
}

/* ---- while bulk is repeated ---- */

enum { BULK_TO_LOSE };

static bool drop_bulk(sim_t *sim, const datagram_t *d)
{
    return d->from == 0 && channel_of(d) > 0 && !(d->data[1] & BTL_IB_FLAG_RETRANSMISSION)
           && sim->scratch[BULK_TO_LOSE] > 0 && sim->scratch[BULK_TO_LOSE]-- > 0;
}

/* So much is lost at once that repeating it takes the transport many turns, as it takes few at a
 * time. Short messages leave in the first of them. protocol: R34 */
void command_beside_repeats(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,256,256:P,65536,256");
        sim->procs[i].attr.tx_depth = 4;
        sim->procs[i].attr.inline_size = 0;
        sim->procs[i].attr.max_batch = 4;
        sim->procs[i].config.cc = BTL_IB_CC_NONE;
    }
    sim->procs[0].step = SIM_US(2);
    start_warm(sim);
    sim->drop = drop_bulk;
    for (uint32_t i = 0; i < 4; i++) {
        say(sim, 0, 1, 60000, SIM_US(1));
    }
    sim->scratch[BULK_TO_LOSE] = 160;
    while (sim_counters(sim, 0)->losses < 50 && sim_step(sim, SIM_S(1))) {
    }
    const uint32_t first = sim->nmessages;
    for (uint32_t i = 0; i < 50; i++) {
        say(sim, 0, 1, 20, SIM_US(2) * i);
    }
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "beside what is repeated a short message took ns", slowest(sim, first),
                   SIM_US(20));
    finish(sim);
}
