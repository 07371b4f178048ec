/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_wanted_buffers.h"

#include <assert.h>

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
        const bool shared = BTL_IB_QUEUE_SHARED == q->type;

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
