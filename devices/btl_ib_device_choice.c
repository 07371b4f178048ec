/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_device_choice.h"

#include <assert.h>
#include <string.h>

/* ---- wire ---- */

int btl_ib_wire_plan(const char *wire, uint32_t processes, uint32_t rc_max_peers,
                     btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES])
{
    int count = 0;

    if (strcmp(wire, "auto") != 0) {
        tries[count++] = (btl_ib_wire_try_t){.wire = wire};
        return count;
    }
    if (processes > 0 && processes <= rc_max_peers) {
        tries[count++] = (btl_ib_wire_try_t){.wire = "rc", .sized = true};
    }
    tries[count++] = (btl_ib_wire_try_t){.wire = "ud"};
    /* iWARP has no other. A connection that the device has no room for is refused, and retried. */
    tries[count++] = (btl_ib_wire_try_t){.wire = "rc"};
    return count;
}

bool btl_ib_wire_suffices(uint32_t connections_max, uint32_t processes, uint32_t queues,
                          uint32_t rails)
{
    const uint64_t pairs = (uint64_t) processes * processes;

    return connections_max == 0 || pairs <= connections_max / (((uint64_t) queues + 1) * rails);
}

bool btl_ib_wire_shares(uint32_t processes, uint32_t srq_min_peers)
{
    return srq_min_peers != 0 && processes >= srq_min_peers;
}

/* ---- receive buffers ---- */

enum { PER_PEER = 16 }; /* the least that a new peer holds, where num is not less */

static_assert(BTL_IB_OPEN_QUEUES_MAX == BTL_IB_QUEUES_MAX, "each channel's queue can be asked for");

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

btl_ib_wanted_buffers_t btl_ib_wanted_buffers(const btl_ib_queue_table_t *table, uint32_t rx_depth,
                                              uint32_t credit_init)
{
    btl_ib_wanted_buffers_t wanted = {.rx_depth = rx_depth};
    const uint32_t per_peer = credit_init > 0 ? credit_init : PER_PEER;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < table->count; ++i) {
        sum += table->q[i].num;
    }
    if (rx_depth == 0) {
        wanted.rx_depth = sum > BTL_IB_QUEUE_NUM_MAX ? BTL_IB_QUEUE_NUM_MAX : (uint32_t) sum;
    }
    for (uint32_t i = 0; i < table->count; ++i) {
        const btl_ib_queue_t *q = &table->q[i];
        const uint64_t part = (uint64_t) q->num * wanted.rx_depth / sum;
        const uint32_t num = part > 0 ? (uint32_t) part : 1;
        const bool shared = q->type == BTL_IB_QUEUE_SHARED;

        wanted.queue[i] = (btl_ib_open_queue_t){
            .size = q->size,
            .num = num,
            .shared = shared,
            .reserve = q->reserve,
            .per_peer = shared ? 0 : at_most(per_peer, q->num),
            .init = shared ? q->init : num,
            .limit = shared ? q->limit : 0,
            .low = at_most(q->low, num - 1),
            .window = shared ? 0 : q->window,
        };
    }
    return wanted;
}
