/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The work requests of a send queue, in the order of posting. Numbers only grow (modulo 2^32):
 *
 *      reported <= completed <= posted <= reported + depth
 *
 * A completion says that all requests up to it are over, so that few need to ask for one (selective
 * signaling).
 */

#ifndef BTL_IB_VERBS_SEND_RING_H
#define BTL_IB_VERBS_SEND_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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

#endif
