/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which messages and operations are held back to travel with others. It works like Nagle's
 * algorithm or TCP_CORK, but in turns (progress calls) instead of time.
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

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_engine.h"

/* Messages and operations that leave at once in a turn, before anything is learned: the application
 * may send two and then compute. */
#define BTL_IB_AT_ONCE_FIRST 2u

/* The most messages, and the most full datagrams (or one GSO burst, if that is more) held, so that
 * the receiver has work while further ones are made. */
enum {
    BTL_IB_HELD_MOST = 128,
    BTL_IB_HELD_DATAGRAMS = 16,
};

/* Messages and operations that wait for others to travel with. */
typedef struct btl_ib_coalesce {
    uint32_t turn;        /* the turn to which `at_once` belongs */
    uint32_t at_once;     /* messages and operations that left at once in it */
    uint32_t at_once_max; /* how many may leave at once */
    uint32_t held;        /* messages and operations held */
    uint64_t held_bytes;
    uint64_t last_at; /* us: when the last left at once */
} btl_ib_coalesce_t;

/* Forgets what is held, as the peer's incarnation ended. */
static inline void btl_ib_coalesce_forget(btl_ib_coalesce_t *coalesce)
{
    coalesce->held = 0;
    coalesce->held_bytes = 0;
}

/* True if something that is submitted now is to be held until the next turn. */
static inline bool btl_ib_coalesce_waits(const btl_ib_coalesce_t *coalesce, uint32_t turn)
{
    return coalesce->at_once >= coalesce->at_once_max && coalesce->turn == turn;
}

/* Notes that something leaves at once. */
static inline void btl_ib_coalesce_at_once(btl_ib_coalesce_t *coalesce, uint32_t turn, uint64_t now)
{
    coalesce->at_once = coalesce->turn == turn ? coalesce->at_once + 1 : 1;
    coalesce->turn = turn;
    coalesce->last_at = now;
}

/* Holds one more of `size` bytes, where `most` bytes may be held. False: there are many now, and
 * all are to leave. */
static inline bool btl_ib_coalesce_hold(btl_ib_coalesce_t *coalesce, uint64_t size, uint64_t most)
{
    if (coalesce->held + 1 >= BTL_IB_HELD_MOST || size >= most
        || coalesce->held_bytes + size >= most) {
        return false;
    }
    coalesce->held++;
    coalesce->held_bytes += size;
    return true;
}

/* True if the messages held, with `size` bytes more, fill a GSO burst. */
bool btl_ib_coalesce_fills_burst(const btl_ib_conn_t *conn, uint64_t size);

/* Notes that `left` bytes of those held, and of `size` more, left in full bursts; the rest leaves
 * with the next turn. */
void btl_ib_coalesce_bursts_left(btl_ib_conn_t *conn, uint64_t size, uint64_t left);

/* Notes that all that is held leaves now. */
void btl_ib_coalesce_release(btl_ib_coalesce_t *coalesce, uint64_t now);

#endif
