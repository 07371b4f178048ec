/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_coalesce.h"

#include "btl_ib_state.h"
#include "btl_ib_sched.h"

enum {
    AT_ONCE_MOST = 16,
    /* us for each message held, since the last that left at once: longer than making one takes */
    AWAY = 20,
};

bool btl_ib_coalesce_fills_burst(const btl_ib_conn_t *conn, uint64_t size)
{
    const uint32_t burst = conn->cc.gso_segments;

    return burst > 1
           && conn->coalesce.held_bytes + size >= (uint64_t) burst * conn->pmtud.datagram_max;
}

void btl_ib_coalesce_bursts_left(btl_ib_conn_t *conn, uint64_t size, uint64_t left)
{
    btl_ib_coalesce_t *coalesce = &conn->coalesce;
    const uint64_t held = coalesce->held_bytes + size;

    coalesce->held_bytes = held > left ? held - left : 0;
    coalesce->held = 2; /* the last burst is not full: not "one message only" */
    coalesce->last_at = conn->engine->clock.now;
    btl_ib_conn_ready(conn);
}

void btl_ib_coalesce_release(btl_ib_coalesce_t *coalesce, uint64_t now)
{
    if (coalesce->held == 0) {
        return;
    }
    if (coalesce->held > 1 && now - coalesce->last_at <= (uint64_t) AWAY * coalesce->held) {
        coalesce->at_once_max = 1;
    } else if (coalesce->at_once_max < AT_ONCE_MOST) {
        coalesce->at_once_max *= 2;
    }
    btl_ib_coalesce_forget(coalesce);
}
