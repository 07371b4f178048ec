/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_credit.h"

/* The low watermark of a grant that is smaller than the queue: in proportion, below the grant. */
static uint32_t low_of(const btl_ib_credit_t *credit, const btl_ib_queue_t *queue)
{
    return (uint32_t) ((uint64_t) queue->low * credit->grant / queue->num);
}

static bool pool_take(btl_ib_credit_pool_t *pool, uint32_t count)
{
    if (pool->depth != 0 && pool->granted + count > pool->depth) {
        return false;
    }
    pool->granted += count;
    return true;
}

void btl_ib_credit_init(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                        const btl_ib_queue_t *queue, uint32_t init, uint32_t first_seq)
{
    uint32_t grant = btl_ib_credit_initial(queue, init);

    *credit = (btl_ib_credit_t){
        .grant = grant,
        .limit = first_seq + grant,
        .told = first_seq + grant,
    };
    pool->granted += grant;
}

void btl_ib_credit_fini(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool)
{
    pool->granted -= credit->grant;
    credit->grant = 0;
}

/* Repost what was used if the low watermark is reached. */
static bool repost(btl_ib_credit_t *credit, const btl_ib_queue_t *queue)
{
    if (credit->grant - credit->used > low_of(credit, queue)) {
        return false;
    }
    credit->limit += credit->used;
    credit->used = 0;
    return true;
}

void btl_ib_credit_use(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                       const btl_ib_queue_t *queue)
{
    credit->used++;
    if (!repost(credit, queue)) {
        return;
    }
    uint32_t more = queue->num - credit->grant;
    more = more < credit->grant ? more : credit->grant;
    if (more > 0 && pool_take(pool, more)) {
        credit->grant += more;
        credit->limit += more;
    }
}

void btl_ib_credit_give_back(btl_ib_credit_t *credit, btl_ib_credit_pool_t *pool,
                             const btl_ib_queue_t *queue, uint32_t count)
{
    credit->grant -= count;
    pool->granted -= count;
    (void) repost(credit, queue); /* the smaller grant has another watermark */
}

bool btl_ib_credit_due(const btl_ib_credit_t *credit, const btl_ib_queue_t *queue)
{
    uint32_t window = (uint32_t) ((uint64_t) queue->window * credit->grant / queue->num);
    uint32_t banked = credit->limit - credit->told;
    /* The peer is out of them once all that is outstanding is what it was not told of. */
    uint32_t outstanding = credit->grant - credit->used;

    return banked > 0 && (banked >= window || banked >= outstanding);
}
