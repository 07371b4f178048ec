/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The receiver's side of one P channel with one peer: how many buffers the peer may use.
 *
 * A credit is the right to use one sequence. What was granted is told as an absolute limit, "every
 * sequence below this one", which only grows: losing, repeating or reordering updates neither
 * leaks nor invents a credit.
 *
 *     sequences:  ....received....|...outstanding...|
 *                                                limit
 *     grant = outstanding + used (received, but its buffer not yet reposted)
 *
 * Buffers are reposted in one batch when no more than `low` are left, or when the peer is told
 * something: then their credits become free and the limit moves on. Whatever is sent to the peer
 * tells it. If nothing is, an explicit update is due after `window` buffers, also if that is less
 * than a batch (in openib, where credits come free in batches only, the larger of both counts). A
 * new or idle peer has a small grant. A peer that uses it up is busy, and gets twice as much, up to
 * `num` and to an equal share of the pool for each busy peer. A peer that holds more, because
 * others were not busy then, gets fewer credits back than it used: its limit only moves less far.
 */

#ifndef BTL_IB_CREDIT_H
#define BTL_IB_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_receive_queues.h"
#include "transport.h"

/* What all peers of one queue hold together. A credit counts by what its datagrams take of the
 * receive buffers, which may differ between peers. */
typedef struct btl_ib_credit_pool {
    uint64_t depth; /* most that may be granted in all; 0: as much as every peer may have */
    uint64_t granted;
    uint32_t busy; /* peers that used up a batch since they were idle */
} btl_ib_credit_pool_t;

typedef struct btl_ib_credit {
    uint32_t grant; /* buffers this peer may count on now */
    uint32_t used;  /* of them, received and not yet reposted */
    uint32_t since; /* received since the last batch */
    uint32_t limit; /* sequences below it may be used */
    uint32_t told;  /* the limit that the peer was last told */
    uint32_t cost;  /* of the pool, for each of the grant */
    uint32_t batch; /* so many are reposted together: all of the grant above its low watermark */
    uint32_t bank;  /* so many credits that it was not told of are worth an explicit update */
    bool busy;      /* counted in the pool */
    bool over;      /* at the last batch it had more than its share */
} btl_ib_credit_t;

/* Returns the initial grant of a peer that was never heard of: both ends compute it alike. */
static inline uint32_t btl_ib_credit_initial(const btl_ib_queue_t *queue, uint32_t init)
{
    uint32_t most = queue->num < init ? queue->num : init;
    return most == 0 ? 1 : most;
}

/* Sets the depth of each queue's pool. A credit promises a buffer, so the depth is how many of the
 * largest datagrams the transport can hold if all queues are full and `reserve` of the first is
 * used; or, if the transport has buffers for each queue, all that are that queue's own. */
void btl_ib_credit_share(btl_ib_credit_pool_t *pools, const btl_ib_queue_table_t *queues,
                         const btl_ib_transport_t *transport);

/* Returns the cost of one credit of a queue in its pool, with datagrams of up to `largest` bytes,
 * such that no more than `most` (0: any number) are granted in all. */
uint32_t btl_ib_credit_cost(const btl_ib_credit_pool_t *pool, const btl_ib_queue_t *queue,
                            const btl_ib_transport_t *transport, uint32_t most, uint32_t largest);

/* Starts with the initial grant, which the pool must bear even if it is used up. `cost` of the pool
 * for each credit, at least 1. */
void btl_ib_credit_init(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                        const btl_ib_queue_t *queue, uint32_t init, uint32_t first_seq,
                        uint32_t cost);

/* Gives everything back to the pool: the connection ends. */
void btl_ib_credit_fini(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool);

/* Does the part of btl_ib_credit_use() for one batch or several. */
void btl_ib_credit_use_batch(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                             const btl_ib_queue_t *queue, uint32_t count, bool gap);

/* Notes that `count` buffers were used: so many new sequences arrived. `gap`: one before them is
 * missing. That may be a SKIP, which gives credits of the present grant back, so the grant must not
 * shrink meanwhile. */
static inline void btl_ib_credit_use(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                                     const btl_ib_queue_t *queue, uint32_t count, bool gap)
{
    if (credit->since + count >= credit->batch) {
        btl_ib_credit_use_batch(credit, pool, queue, count, gap);
    } else {
        credit->used += count;
        credit->since += count;
    }
}

/* Raises the limit as far as possible before the peer is told it, unless the peer is to hold
 * less. */
static inline void btl_ib_credit_top_up(btl_ib_credit_t *credit)
{
    if (!credit->over) {
        credit->limit += credit->used;
        credit->used = 0;
    }
}

/* Notes that the peer was told that limit. */
static inline void btl_ib_credit_told(btl_ib_credit_t *credit, uint32_t limit)
{
    credit->told = limit;
}

/* Gives an idle peer's share to the others. It may keep the credits that it holds, or give them
 * back. */
static inline void btl_ib_credit_rest(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool)
{
    pool->busy -= credit->busy;
    credit->busy = false;
}

/* Takes `count` outstanding credits back from the peer. */
void btl_ib_credit_give_back(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                             const btl_ib_queue_t *queue, uint32_t count);

/* True if an explicit credit update is due: so many credits are banked, or the peer has none left.
 * If the peer is likely to be told `soon` anyway only the latter counts. */
static inline bool btl_ib_credit_due(const btl_ib_credit_t *credit, bool soon)
{
    const uint32_t more = credit->over ? 0 : credit->used; /* what telling would free */
    const uint32_t banked = credit->limit + more - credit->told;
    /* The peer has no credit left once all that it holds is what it was not told of. */
    const uint32_t outstanding = credit->grant - credit->used + more;

    return banked > 0 && (banked >= outstanding || (!soon && banked >= credit->bank));
}

#endif
