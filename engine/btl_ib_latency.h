/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Latency mode: bulk waits for short messages. */

#ifndef BTL_IB_LATENCY_H
#define BTL_IB_LATENCY_H

#include "btl_ib_engine.h"

/*
 * Latency mode: while short messages follow each other, bulk leaves in short bursts, after them,
 * and by its own lane where the transport has one. Writes engine->latency.
 */

typedef struct btl_ib_latency {
    bool lane;        /* some transport has a lane for bulk; else there is no latency mode */
    bool hold_bulk;   /* in this turn bulk waits, because a short message came */
    uint32_t streak;  /* consecutive turns with short messages, each soon after the one before */
    uint64_t at;      /* us: the last turn with short messages */
    uint64_t before;  /* us: the one before */
    uint64_t ops;     /* one-sided operations that short messages belonged to */
    uint64_t excused; /* of these messages, those that may still come */
} btl_ib_latency_t;

/* True if latency mode is on, and the transport has a lane for bulk. Then bulk leaves by that
 * lane. */
bool btl_ib_latency_wants_lane(const btl_ib_conn_t *conn);

/* True if short messages follow each other so soon, by a shorter limit than that of latency mode,
 * that bulk is to leave in short bursts, one in a turn. */
bool btl_ib_latency_wants_short_bursts(const btl_ib_conn_t *conn);

/* True if bulk is to wait in this turn, so that the application has the short message that came
 * before bulk leaves. */
bool btl_ib_latency_holds_bulk(const btl_ib_conn_t *conn);

/* Notes what a turn has received, where there is a lane. `messages` and `bytes` are what the
 * engine's counters received_messages and received_bytes were before it. */
void btl_ib_latency_turn(btl_ib_engine_t *engine, uint64_t messages, uint64_t bytes);

/* Lets bulk go: this is a turn of the progress thread, or no message came. */
static inline void btl_ib_latency_release_bulk(btl_ib_latency_t *latency)
{
    latency->hold_bulk = false;
}

#endif
