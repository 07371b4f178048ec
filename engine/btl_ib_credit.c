/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_credit.h"

#include "btl_ib_list.h"

/* A transport's receive buffers, in the unit in which they are shared among queues and peers. */
enum { WHOLE = 1 << 24 };

enum {
    /* Credits that each busy peer keeps, however many there are, */
    LEAST = 16,
    /* but of a pool that holds few of its datagrams one in so many at most, */
    LEAST_PART = 3,
    /* and at least so many. */
    LEAST_FEW = 4,
    /* Of buffers that all queues share no more than this part is kept for control traffic. */
    RESERVE_PART = 4,
};

/* Returns what one datagram of up to `size` bytes takes of a transport's receive buffers, in units
 * of 1/WHOLE. */
static uint32_t part_of(const btl_ib_transport_t *transport, uint32_t size)
{
    const uint32_t depth = transport->ops->rx_depth != NULL
                               ? transport->ops->rx_depth(transport, size)
                               : transport->attr.rx_depth;

    return depth < WHOLE ? WHOLE / (depth > 0 ? depth : 1) : 1;
}

/* Returns what is kept of buffers that all queues share for what needs no credit: `reserve` of the
 * first queue, by which it travels. A transport with buffers for each queue has these apart. */
static uint32_t reserve_of(const btl_ib_queue_table_t *queues, const btl_ib_transport_t *transport)
{
    const uint64_t wanted = (uint64_t) queues->q[0].reserve * part_of(transport, queues->q[0].size);

    return transport->attr.queue_buffers ? 0 : btl_ib_clip_u32(wanted, WHOLE / RESERVE_PART);
}

void btl_ib_credit_share(btl_ib_credit_pool_t *pools, const btl_ib_queue_table_t *queues,
                         const btl_ib_transport_t *transport)
{
    const uint32_t shared = WHOLE - reserve_of(queues, transport);
    uint64_t each = 0; /* what one datagram of each queue takes */

    for (uint32_t i = 0; i < queues->count; i++) {
        each += part_of(transport, queues->q[i].size);
    }
    for (uint32_t i = 0; i < queues->count; i++) {
        const uint32_t part = part_of(transport, queues->q[i].size);
        const uint64_t all = transport->attr.queue_buffers ? part : each;
        pools[i].depth = all < shared ? shared / all * part : part;
    }
}

uint32_t btl_ib_credit_cost(const btl_ib_credit_pool_t *pool, const btl_ib_queue_t *queue,
                            const btl_ib_transport_t *transport, uint32_t most, uint32_t largest)
{
    const uint32_t part = part_of(transport, btl_ib_min_u32(queue->size, largest));

    return most == 0 ? part : btl_ib_max_u32(part, (uint32_t) ((pool->depth + most - 1) / most));
}

/* Fits batch and bank to a grant that changed: if it is smaller than the queue the low watermark
 * shrinks in proportion, below the grant. `window` credits are banked before an explicit update,
 * but a quarter of the grant is left to the peer, which goes on with it until the update is there.
 * A peer that is to hold less gets credits back in batches only, so its window shrinks in
 * proportion, too. Computed here, not for each segment. */
static void proportion(btl_ib_credit_t *credit, const btl_ib_queue_t *queue)
{
    const uint64_t grant = credit->grant;

    credit->batch = (uint32_t) (grant - queue->low * grant / queue->num);
    credit->bank = credit->over ? (uint32_t) (queue->window * grant / queue->num)
                                : btl_ib_min_u32(queue->window, credit->grant - credit->grant / 4);
}

/* Returns the credits that each busy peer may have of the pool. */
static uint32_t share_of(const btl_ib_credit_t *credit, const btl_ib_credit_pool_t *pool,
                         const btl_ib_queue_t *queue)
{
    const uint32_t few =
        btl_ib_max_u32((uint32_t) (pool->depth / credit->cost / LEAST_PART), LEAST_FEW);
    const uint32_t most = btl_ib_min_u32(few, LEAST);
    const uint32_t least = btl_ib_credit_initial(queue, btl_ib_min_u32(queue->init, most));
    const uint64_t share = pool->depth == 0 ? queue->num : pool->depth / pool->busy / credit->cost;

    return share < queue->num ? btl_ib_max_u32((uint32_t) share, least) : queue->num;
}

void btl_ib_credit_init(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                        const btl_ib_queue_t *queue, uint32_t init, uint32_t first_seq,
                        uint32_t cost)
{
    uint32_t grant = btl_ib_credit_initial(queue, init);

    *credit = (btl_ib_credit_t){
        .grant = grant,
        .limit = first_seq + grant,
        .told = first_seq + grant,
        .cost = cost,
    };
    proportion(credit, queue);
    pool->granted += (uint64_t) grant * cost;
}

void btl_ib_credit_fini(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool)
{
    btl_ib_credit_rest(credit, pool);
    pool->granted -= (uint64_t) credit->grant * credit->cost;
    credit->grant = 0;
    credit->used = 0;
}

static void credit_repost(btl_ib_credit_t *credit)
{
    credit->limit += credit->used;
    credit->used = 0;
}

/* Reposts a batch of buffers that was used, and lets the grant follow the peer's share. */
static void credit_review(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                          const btl_ib_queue_t *queue, bool gap)
{
    credit->since = 0;
    pool->busy += !credit->busy;
    credit->busy = true;
    const uint32_t share = share_of(credit, pool, queue);
    if (credit->grant > share && !gap) {
        /* Credits above the share return to the pool as they are used. */
        const uint32_t less = btl_ib_min_u32(credit->grant - share, credit->used);
        credit->grant -= less;
        credit->used -= less;
        pool->granted -= (uint64_t) less * credit->cost;
    }
    credit_repost(credit);
    if (credit->grant < share) {
        /* Double the grant, as far as share and pool allow. */
        uint32_t more = btl_ib_min_u32(credit->grant, share - credit->grant);
        if (pool->depth != 0) {
            const uint64_t left = pool->depth > pool->granted ? pool->depth - pool->granted : 0;
            more = btl_ib_min_u32((uint32_t) (left / credit->cost), more);
        }
        credit->grant += more;
        credit->limit += more;
        pool->granted += (uint64_t) more * credit->cost;
    }
    credit->over = credit->grant > share;
    proportion(credit, queue);
}

void btl_ib_credit_use_batch(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                             const btl_ib_queue_t *queue, uint32_t count, bool gap)
{
    while (credit->since + count >= credit->batch) {
        const uint32_t n = credit->since < credit->batch ? credit->batch - credit->since : 1;
        credit->used += n;
        credit->since += n;
        count -= n;
        credit_review(credit, pool, queue, gap);
        if (count == 0) {
            return;
        }
    }
    credit->used += count;
    credit->since += count;
}

void btl_ib_credit_give_back(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                             const btl_ib_queue_t *queue, uint32_t count)
{
    credit->grant -= count;
    pool->granted -= (uint64_t) count * credit->cost;
    proportion(credit, queue);
    if (credit->used >= credit->batch) {
        credit_repost(credit);
    }
}
