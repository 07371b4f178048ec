/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios of first contact and farewell that engine/model/contact.pml showed to be possible. */

#include "named.h"

static bool drop_closes(sim_t *sim, const datagram_t *d)
{
    (void) sim;
    return (d->data[0] & 0xf) == BTL_IB_TYPE_CLOSE;
}

/* p1 leaves and comes back, and p0 is not told. Its data name a connection that is gone, without a
 * CONNECT: nobody can answer those. */
void closes_lost(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
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
