/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Coalescing: which messages and operations are held back to travel with others. It works like
 * Nagle's algorithm or TCP_CORK, but in turns (progress calls) instead of time.
 *
 * The first ones of a turn leave at once. Those that follow before progress is called again are
 * held until that call, or until there are many. They leave together, in few datagrams and one call
 * of the transport. How many leave at once is learned. It is two at first, and one where others
 * followed soon. It doubles where only one was held, as with blocking sends, or where the next
 * progress call was long in coming: a process that computes between send and wait wants all data on
 * the wire.
 *
 * With GSO a short burst costs nearly as much as a full one. So of long messages only full bursts
 * leave before the turn ends; the rest leaves with the next messages.
 */

#ifndef BTL_IB_COALESCE_H
#define BTL_IB_COALESCE_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* Messages and operations that wait for others to travel with. */
typedef struct btl_ib_coalesce {
    uint32_t turn;      /* the turn to which `left` belongs */
    uint32_t left;      /* messages and operations that left at once in it */
    uint32_t alone_max; /* how many may leave at once */
    uint32_t held;      /* messages and operations held */
    uint64_t held_bytes;
    uint64_t left_at; /* us: when the last left at once */
} btl_ib_coalesce_t;

/* An incarnation of the connection begins. */
void btl_ib_coalesce_begin(btl_ib_coalesce_t *coalesce);

/* The peer's incarnation ended: nothing is held any more. */
static inline void btl_ib_coalesce_forget(btl_ib_coalesce_t *coalesce)
{
    coalesce->held = 0;
    coalesce->held_bytes = 0;
}

/* Is something that is submitted now to be held until the next turn? */
static inline bool btl_ib_coalesce_waits(const btl_ib_coalesce_t *coalesce, uint32_t turn)
{
    return coalesce->left >= coalesce->alone_max && coalesce->turn == turn;
}

/* Something leaves at once. */
static inline void btl_ib_coalesce_left(btl_ib_coalesce_t *coalesce, uint32_t turn, uint64_t now)
{
    coalesce->left = coalesce->turn == turn ? coalesce->left + 1 : 1;
    coalesce->turn = turn;
    coalesce->left_at = now;
}

/* Something that would be held leaves, together with what is held. */
static inline void btl_ib_coalesce_joins(btl_ib_coalesce_t *coalesce)
{
    coalesce->held++;
}

/* Hold `size` bytes more. False: there are many now, and all are to leave. */
bool btl_ib_coalesce_hold(btl_ib_conn_t *conn, uint64_t size);

/* Do those held, with `size` bytes more, fill a GSO burst? */
bool btl_ib_coalesce_fills_burst(const btl_ib_conn_t *conn, uint64_t size);

/* Of these, `left` bytes left in full bursts; the rest leaves with the next turn. */
void btl_ib_coalesce_bursts_left(btl_ib_conn_t *conn, uint64_t size, uint64_t left);

/* All that is held leaves now. */
void btl_ib_coalesce_release(btl_ib_coalesce_t *coalesce, uint64_t now);

#endif
