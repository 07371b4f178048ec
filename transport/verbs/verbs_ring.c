/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_ring.h"

#include <stddef.h>

/* ---- receive buffers ---- */

void btl_ib_verbs_rx_pool_init(btl_ib_verbs_rx_pool_t *pool, void *owner, uint32_t lazy)
{
    *pool = (btl_ib_verbs_rx_pool_t){.owner = owner, .lazy = lazy, .idle_last = &pool->idle};
}

void btl_ib_verbs_rx_pool_add(btl_ib_verbs_rx_pool_t *pool, btl_ib_verbs_rx_buffer_t *buffer,
                              uint64_t id, void *data, uint32_t size, uint32_t key)
{
    buffer->pool = pool;
    buffer->sge = (struct ibv_sge){.addr = (uintptr_t) data, .length = size, .lkey = key};
    buffer->wr = (struct ibv_recv_wr){.wr_id = id, .sg_list = &buffer->sge, .num_sge = 1};
    btl_ib_verbs_rx_pool_put(buffer);
}

int btl_ib_verbs_rx_pool_post(btl_ib_verbs_rx_pool_t *pool)
{
    struct ibv_recv_wr *bad = NULL;

    if (pool->idle_count == 0) {
        return 0;
    }
    *pool->idle_last = NULL;
    const int error = pool->srq != NULL ? ibv_post_srq_recv(pool->srq, pool->idle, &bad)
                                        : ibv_post_recv(pool->qp, pool->idle, &bad);
    if (error == 0) {
        pool->posted += pool->idle_count;
        pool->idle = NULL;
        pool->idle_last = &pool->idle;
        pool->idle_count = 0;
        return 0;
    }
    while (bad != NULL && pool->idle != bad) {
        pool->idle = pool->idle->next;
        pool->idle_count--;
        pool->posted++;
    }
    return error;
}
