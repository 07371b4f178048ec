/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of a received datagram, and of the other events of transports. Polls rails. */

#ifndef BTL_IB_RECEIVE_H
#define BTL_IB_RECEIVE_H

#include "btl_ib_engine.h"
#include "btl_ib_engine_internal.h"

/* Events that a poll takes onto the stack, at most. */
enum { BTL_IB_FEW_EVENTS = 8 };

/* Collect up to `max` events of a rail. Returns how many. */
static inline int btl_ib_rail_poll_transport(const btl_ib_engine_t *engine,
                                             const btl_ib_rail_t *rail, btl_ib_event_t *events,
                                             int max)
{
    btl_ib_transport_t *transport = rail->transport;

    return transport->ops->poll(transport, engine->clock.now, events, max);
}

/* How many events a batch may have, if `left` datagrams may still be received. */
static inline int btl_ib_rail_batch_max(const btl_ib_engine_t *engine, int left)
{
    const int most = engine->polled.in_hand ? BTL_IB_FEW_EVENTS : BTL_IB_BATCH;

    return left < most ? left : most;
}

/* A rail was found empty: what came during any pause but the last is all received. */
static inline void btl_ib_rail_note_empty(btl_ib_rail_t *rail, const btl_ib_clock_t *clock)
{
    rail->polled.empty_at = clock->now;
    rail->polled.pause = clock->gap;
    rail->polled.pause_until = clock->now + clock->gap;
}

/* Poll a rail, for at most `left` datagrams. `polled` events are in hand already. Returns how many
 * datagrams there were. */
int btl_ib_rail_poll(btl_ib_rail_t *rail, int left, int polled);

/* The first and only event in hand is the message that comes next, as most are: take it in without
 * what is asked of a batch. False: it is something else, and nothing was done. */
bool btl_ib_rail_poll_predicted(btl_ib_rail_t *rail);

/* First contacts that were kept, `most` of them: here the runtime can be asked, as little of the
 * stack is used. */
void btl_ib_receive_unidentified(btl_ib_engine_t *engine, int most);

#endif
