/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Coalescing: which messages and operations wait for others to travel with. As Nagle's algorithm or
 * TCP_CORK, but in turns of progress instead of time.
 *
 * The first of a turn leave at once. Those that follow before progress is called again are a burst:
 * they wait for that call, or until they are many, and leave together, in few datagrams and one call
 * of the transport. How many leave at once is learned: two at first, one where others followed soon.
 * Twice as many where the one that waited stayed alone, as with blocking sends, or where the next
 * call was long in coming: a process that computes between sending and waiting wants everything to
 * be on its way.
 *
 * Where the transport segments (GSO) a burst costs nearly as much if it is short, so of long
 * messages only full bursts leave before the turn ends; the rest of one message travels with the
 * next.
 */

#ifndef BTL_IB_COALESCE_H
#define BTL_IB_COALESCE_H

#include <stdbool.h>
#include <stdint.h>

struct btl_ib_conn;

typedef struct btl_ib_coalesce {
    uint32_t turn;      /* the turn that the next two are about */
    uint32_t left;      /* messages and operations that left by themselves in it */
    uint32_t alone_max; /* so many may */
    uint32_t held;      /* messages and operations that wait */
    uint64_t held_bytes;
    uint64_t left_at; /* us: the last left by itself */
} btl_ib_coalesce_t;

/* An incarnation of the connection begins. */
void btl_ib_coalesce_begin(btl_ib_coalesce_t *coalesce);

/* The peer's part of the connection ended: what waited does so no longer for this reason. */
void btl_ib_coalesce_forget(btl_ib_coalesce_t *coalesce);

/* Would what comes now wait for the next turn? */
static inline bool btl_ib_coalesce_waits(btl_ib_coalesce_t *coalesce, uint32_t turn)
{
    if (coalesce->turn != turn) {
        coalesce->turn = turn;
        coalesce->left = 0;
    }
    return coalesce->left >= coalesce->alone_max;
}

/* Something leaves by itself. */
static inline void btl_ib_coalesce_left(btl_ib_coalesce_t *coalesce, uint64_t now)
{
    coalesce->left++;
    coalesce->left_at = now;
}

/* Something that would wait leaves with those that do. */
static inline void btl_ib_coalesce_joins(btl_ib_coalesce_t *coalesce)
{
    coalesce->held++;
}

/* `size` bytes more would wait: let them. False if they and those that wait already are many: then
 * none waits any longer. */
bool btl_ib_coalesce_hold(struct btl_ib_conn *conn, uint64_t size);

/* Do those that wait, with `size` bytes more, fill a GSO burst? */
bool btl_ib_coalesce_fills_burst(const struct btl_ib_conn *conn, uint64_t size);

/* Of these, `left` bytes did leave, in full bursts; the rest leaves with the next turn. */
void btl_ib_coalesce_bursts_left(struct btl_ib_conn *conn, uint64_t size, uint64_t left);

/* Those that wait leave now. */
void btl_ib_coalesce_release(btl_ib_coalesce_t *coalesce, uint64_t now);

#endif
