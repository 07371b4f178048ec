/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Latency mode: while short messages come one after the other, bulk leaves in short bursts, by a lane of its own where the
 * transport has one, and after them.
 */

#ifndef BTL_IB_LATENCY_H
#define BTL_IB_LATENCY_H

#include "btl_ib_state.h"

/* Do others overtake bulk, and do short messages come one after the other? Then bulk leaves by its own lane. */
bool btl_ib_latency_short_ones_come(const btl_ib_conn_t *conn);

/* The same, and so soon that they are not to wait long for either host: bursts are short and leave one by one. */
bool btl_ib_latency_short_ones_are_about(const btl_ib_conn_t *conn);

/* In this turn whoever waits for a short message has it before bulk leaves. */
bool btl_ib_latency_holds_bulk(const btl_ib_conn_t *conn);

/* A turn took in what the counters of the engine say it did, since they were `messages` and `bytes`. */
void btl_ib_latency_turn(btl_ib_engine_t *engine, uint64_t messages, uint64_t bytes);

/* Nobody waits: a turn of the progress thread. */
void btl_ib_latency_nobody_waits(btl_ib_engine_t *engine);

#endif
