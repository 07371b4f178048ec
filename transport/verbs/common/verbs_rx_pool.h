/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Receive buffers of a queue pair or a shared receive queue. What posts a buffer is made once.
 * Buffers that were given back are collected ("idle") until it is worth a call to post them.
 */

#ifndef BTL_IB_VERBS_RX_POOL_H
#define BTL_IB_VERBS_RX_POOL_H

#include <stdint.h>

#include "verbs_library.h"

typedef struct btl_ib_verbs_rx_pool {
    void *owner;         /* the user's own */
    struct ibv_qp *qp;   /* where buffers are posted to, */
    struct ibv_srq *srq; /* unless this is not NULL */
    uint32_t lazy;       /* buffers that may lie idle */
    uint32_t posted;
    uint32_t idle_count;
    struct ibv_recv_wr *idle; /* a list */
    struct ibv_recv_wr **idle_last;
} btl_ib_verbs_rx_pool_t;

typedef struct btl_ib_verbs_rx_buffer {
    struct ibv_recv_wr wr;
    struct ibv_sge sge;
    btl_ib_verbs_rx_pool_t *pool;
} btl_ib_verbs_rx_buffer_t;

void btl_ib_verbs_rx_pool_init(btl_ib_verbs_rx_pool_t *pool, void *owner, uint32_t lazy);

/* Where its buffers are posted to: `srq` unless it is NULL. */
static inline void btl_ib_verbs_rx_pool_attach(btl_ib_verbs_rx_pool_t *pool, struct ibv_qp *qp,
                                               struct ibv_srq *srq)
{
    pool->qp = qp;
    pool->srq = srq;
}

/* Add a buffer: it is idle. `id` is that of its work request. */
void btl_ib_verbs_rx_pool_add(btl_ib_verbs_rx_pool_t *pool, btl_ib_verbs_rx_buffer_t *buffer,
                              uint64_t id, void *data, uint32_t size, uint32_t key);

/* Post all that are idle by one call. Returns 0 or an errno; those that were not taken stay
 * idle. */
int btl_ib_verbs_rx_pool_post(btl_ib_verbs_rx_pool_t *pool);

/* The device has filled a posted buffer, or will not. */
static inline void btl_ib_verbs_rx_pool_taken(btl_ib_verbs_rx_pool_t *pool)
{
    pool->posted--;
}

/* A buffer is free again. */
static inline void btl_ib_verbs_rx_pool_put(btl_ib_verbs_rx_buffer_t *buffer)
{
    btl_ib_verbs_rx_pool_t *pool = buffer->pool;

    *pool->idle_last = &buffer->wr;
    pool->idle_last = &buffer->wr.next;
    pool->idle_count++;
}

static inline uint8_t *btl_ib_verbs_rx_data(const btl_ib_verbs_rx_buffer_t *buffer)
{
    return (uint8_t *) (uintptr_t) buffer->sge.addr;
}

#endif
