/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments of a pool: how many are free or in use, and what happens when there are none. Included by one
 * source of a test, after btl_ib_state.h. */

#ifndef POOL_SEGMENTS_H
#define POOL_SEGMENTS_H

static inline uint32_t free_segments(const btl_ib_pool_t *pool, int kind)
{
    const btl_ib_list_t *list = &pool->kind[kind].free;
    uint32_t count = 0;

    for (const btl_ib_list_t *item = btl_ib_list_first(list); item != NULL;
         item = btl_ib_list_next(list, item)) {
        count++;
    }
    return count;
}

static inline uint32_t segments_in_use(const btl_ib_pool_t *pool)
{
    uint32_t count = 0;

    for (int kind = 0; kind < BTL_IB_SEGMENT_KINDS; kind++) {
        count += pool->kind[kind].made - free_segments(pool, kind);
    }
    return count;
}

/* Takes all free segments out of a pool that may not grow, and gives them back. */
typedef struct hidden {
    btl_ib_pool_t *pool;
    uint32_t limit;
    btl_ib_list_t segments[BTL_IB_SEGMENT_KINDS];
} hidden_t;

static inline void hide_segments(hidden_t *hidden, btl_ib_pool_t *pool)
{
    hidden->pool = pool;
    hidden->limit = pool->limit;
    pool->limit = 0;
    for (int kind = 0; kind < BTL_IB_SEGMENT_KINDS; kind++) {
        btl_ib_list_init(&hidden->segments[kind]);
        btl_ib_list_splice_tail(&hidden->segments[kind], &pool->kind[kind].free);
    }
}

static inline void show_segments(hidden_t *hidden)
{
    hidden->pool->limit = hidden->limit;
    for (int kind = 0; kind < BTL_IB_SEGMENT_KINDS; kind++) {
        btl_ib_list_splice_tail(&hidden->pool->kind[kind].free, &hidden->segments[kind]);
    }
}

#endif
