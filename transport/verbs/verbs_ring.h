/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The requests of a queue pair: those that send, and the buffers that receive. */

#ifndef BTL_IB_VERBS_RING_H
#define BTL_IB_VERBS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "verbs_library.h"

/* ---- send ring ---- */

/*
 * The work requests of a send queue, in the order of posting. Numbers only grow (modulo 2^32):
 *
 *      reported <= completed <= posted <= reported + depth
 *
 * A completion says that all requests up to it are over, so that few need to ask for one (selective
 * signaling).
 */

typedef struct btl_ib_verbs_send_ring {
    void **context;      /* of each request, for its event; NULL: it makes none */
    uint32_t depth;      /* a power of two */
    uint32_t posted;     /* the number of the next request */
    uint32_t completed;  /* those before are over */
    uint32_t reported;   /* those before have made their events */
    uint32_t unsignaled; /* requests since the last one that makes a completion */
} btl_ib_verbs_send_ring_t;

/* `depth` is a power of two. Returns whether there was memory. */
static inline bool btl_ib_verbs_send_ring_init(btl_ib_verbs_send_ring_t *ring, uint32_t depth)
{
    *ring = (btl_ib_verbs_send_ring_t){.depth = depth,
                                       .context = calloc(depth, sizeof(*ring->context))};
    return ring->context != NULL;
}

static inline void btl_ib_verbs_send_ring_free(btl_ib_verbs_send_ring_t *ring)
{
    free(ring->context);
}

/* How many requests can be posted? */
static inline uint32_t btl_ib_verbs_send_ring_room(const btl_ib_verbs_send_ring_t *ring)
{
    return ring->depth - (ring->posted - ring->reported);
}

/* A request was posted. */
static inline void btl_ib_verbs_send_ring_post(btl_ib_verbs_send_ring_t *ring, void *context,
                                               bool signaled)
{
    ring->context[ring->posted++ & (ring->depth - 1)] = context;
    ring->unsignaled = signaled ? 0 : ring->unsignaled + 1;
}

/* Skip requests that make no event. Returns whether one that does is next. */
static inline bool btl_ib_verbs_send_ring_skip(btl_ib_verbs_send_ring_t *ring)
{
    while (ring->reported != ring->completed
           && ring->context[ring->reported & (ring->depth - 1)] == NULL) {
        ring->reported++;
    }
    return ring->reported != ring->completed;
}

/* All requests before that number are over. Returns whether there are events to make. */
static inline bool btl_ib_verbs_send_ring_complete(btl_ib_verbs_send_ring_t *ring,
                                                   uint32_t completed)
{
    ring->completed = completed;
    return btl_ib_verbs_send_ring_skip(ring);
}

/* The context of the next event, NULL if there is none. */
static inline void *btl_ib_verbs_send_ring_next(btl_ib_verbs_send_ring_t *ring)
{
    if (!btl_ib_verbs_send_ring_skip(ring)) {
        return NULL;
    }
    return ring->context[ring->reported++ & (ring->depth - 1)];
}

/* No request makes an event any more. */
static inline void btl_ib_verbs_send_ring_forget(btl_ib_verbs_send_ring_t *ring)
{
    for (uint32_t i = ring->reported; i != ring->posted; i++) {
        ring->context[i & (ring->depth - 1)] = NULL;
    }
    (void) btl_ib_verbs_send_ring_skip(ring);
}

/* The failed queue was made anew: nothing is unsignaled. */
static inline void btl_ib_verbs_send_ring_restart(btl_ib_verbs_send_ring_t *ring)
{
    ring->unsignaled = 0;
}

/* ---- receive buffers ---- */

/*
 * Receive buffers of a queue pair or a shared receive queue. What posts a buffer is made once.
 * Buffers that were given back are collected ("idle") until it is worth a call to post them.
 */

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
