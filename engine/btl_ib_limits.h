/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What may stop a new segment: limits, and bulk that waits for short messages. */

#ifndef BTL_IB_LIMITS_H
#define BTL_IB_LIMITS_H

#include "btl_ib_parts.h"

/* Latency mode: bulk waits for short messages. */
typedef struct btl_ib_latency {
    bool hold_bulk;   /* in this turn bulk waits, because a short message came */
    uint32_t row;     /* consecutive turns with short messages, each soon after the one before */
    uint64_t at;      /* us: the last turn with short messages */
    uint64_t before;  /* us: the one before */
    uint64_t ops;     /* one-sided operations that short messages belonged to */
    uint64_t excused; /* of these messages, those that may still come */
} btl_ib_latency_t;

/* ---- limits ---- */

/* The limits that may stop a new segment, and what is waited for then. */

/* May a new segment leave, and if not, why? */
typedef enum btl_ib_verdict {
    BTL_IB_GO,
    BTL_IB_NO_CREDIT,
    BTL_IB_NO_WINDOW,
    BTL_IB_NO_DEPTH,  /* a limit on all connections together */
    BTL_IB_TOO_SOON,  /* the congestion control paces */
    BTL_IB_NO_ANSWER, /* the route is not validated yet, but another one is */
} btl_ib_verdict_t;

/* How many new segments the windows and the peer's buffers for a channel allow. */
uint32_t btl_ib_limits_way(const btl_ib_conn_t *conn, uint32_t channel);

/* How many new segments may leave on a channel. It may be fewer than the limits allow, so
 * the caller asks again when they have left. 0: none may, and *verdict says why. */
uint32_t btl_ib_limits_room(const btl_ib_conn_t *conn, uint32_t channel, btl_ib_verdict_t *verdict);

/* Do the connections together have as much unacknowledged as they may? */
bool btl_ib_limits_full(const btl_ib_engine_t *engine);

/* May a new segment leave on a channel? */
static inline btl_ib_verdict_t btl_ib_limits_check(const btl_ib_conn_t *conn, uint32_t channel)
{
    btl_ib_verdict_t verdict;

    (void) btl_ib_limits_room(conn, channel, &verdict);
    return verdict;
}

/* May what was lost on a channel leave again, behind `count` others? */
bool btl_ib_limits_again(const btl_ib_conn_t *conn, uint32_t channel, uint32_t count);

/* Wait for what stopped the connection: the transport or memory (`full`: try again in the next
 * turn), the other connections, or an acknowledgement, which makes the connection ready again by
 * itself. */
void btl_ib_limits_wait(btl_ib_conn_t *conn, btl_ib_verdict_t verdict, bool full);

/* ---- latency mode ---- */

/*
 * Latency mode: while short messages follow each other, bulk leaves in short bursts, after them,
 * and by its own lane where the transport has one. Writes engine->latency.
 */

/* Is latency mode on, where the transport has a lane for bulk? Then bulk leaves by that lane. */
bool btl_ib_latency_wants_lane(const btl_ib_conn_t *conn);

/* The same with a shorter time limit: short messages follow each other so soon that bulk is to
 * leave in short bursts, one in a turn. */
bool btl_ib_latency_wants_short_bursts(const btl_ib_conn_t *conn);

/* Is bulk to wait in this turn, so that the application has the short message that came before bulk
 * leaves? */
bool btl_ib_latency_holds_bulk(const btl_ib_conn_t *conn);

/* A turn has received. `messages` and `bytes` are what the engine's counters received_messages and
 * received_bytes were before it. */
void btl_ib_latency_turn(btl_ib_engine_t *engine, uint64_t messages, uint64_t bytes);

/* Bulk need not wait: this is a turn of the progress thread. */
void btl_ib_latency_release_bulk(btl_ib_engine_t *engine);

#endif
