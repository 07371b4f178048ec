/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What protects the datagrams of a scenario, and how the simulator itself looks through it. */

#include "sim.h"

void guard_choose(sim_t *sim, btl_ib_guard_kind_t kind)
{
    btl_ib_guard_init(&sim->guard, kind);
}

uint32_t guard_open(const sim_t *sim, const uint8_t *data, uint32_t size)
{
    const btl_ib_guard_ops_t *ops = sim->guard.ops;

    if (size <= ops->trailer || !ops->open(&sim->guard, data, size - ops->trailer)) {
        return 0;
    }
    return size - ops->trailer;
}
