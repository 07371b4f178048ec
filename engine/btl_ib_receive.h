/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of a received datagram, and of the other events of transports. Polls rails. */

#ifndef BTL_IB_RECEIVE_H
#define BTL_IB_RECEIVE_H

#include "btl_ib_engine.h"
#include "btl_ib_state.h"

/* Events that a poll takes onto the stack, at most. */
enum { BTL_IB_FEW_EVENTS = 8 };

/* Collects up to `max` events of a rail. Returns how many. */
static inline int btl_ib_rail_poll_transport(const btl_ib_engine_t *engine,
                                             const btl_ib_rail_t *rail, btl_ib_event_t *events,
                                             int max)
{
    btl_ib_transport_t *transport = rail->transport;

    return transport->ops->poll(transport, engine->clock.now, events, max);
}

/* Returns how many events a batch may have, if `left` datagrams may still be received. */
static inline int btl_ib_rail_batch_max(const btl_ib_engine_t *engine, int left)
{
    const int most = engine->polled.in_hand ? BTL_IB_FEW_EVENTS : BTL_IB_BATCH;

    return left < most ? left : most;
}

/* Notes that a rail was found empty: what came during any pause but the last is all received. */
static inline void btl_ib_rail_note_empty(btl_ib_rail_t *rail, const btl_ib_clock_t *clock)
{
    rail->polled.empty_at = clock->now;
    rail->polled.pause = clock->away;
    rail->polled.pause_until = clock->now + clock->away;
}

/* Events polled in one batch, which may have waited for `poll_gap` us: because this process paused,
 * for `pause` us. */
typedef struct btl_ib_polled_batch {
    uint32_t number;
    uint32_t poll_gap;
    uint32_t pause;
} btl_ib_polled_batch_t;

/*
 * Begins a batch of events that were just polled. How long at most they may have waited here is the
 * time since the turn before; or, if a turn receives only a part of what there is
 * (attr.partial_poll), since the rail was last found empty. The latter is a queue, too, but the
 * receiver's own, which credits limit: the sender makes it no shorter by sending later. The sender
 * is to know only of a long one, unless we paused. What came during a pause takes several turns to
 * be received, but no longer than the pause.
 */
static inline btl_ib_polled_batch_t btl_ib_rail_begin_batch(btl_ib_rail_t *rail)
{
    const btl_ib_clock_t *clock = &rail->engine->clock;
    btl_ib_polled_batch_t polled = {.number = ++rail->engine->turn.batches, .poll_gap = clock->gap};

    if (clock->now > rail->polled.pause_until) {
        rail->polled.pause = 0;
    }
    if (clock->away > rail->polled.pause) {
        rail->polled.pause = clock->away;
        rail->polled.pause_until = clock->now + clock->away;
    }
    if (rail->transport->attr.partial_poll) {
        const uint32_t queued = btl_ib_clip_u32(clock->now - rail->polled.empty_at,
                                                BTL_IB_QUEUE_BORNE + rail->polled.pause);
        polled.poll_gap = btl_ib_max_u32(clock->gap, queued);
    }
    polled.pause = btl_ib_pause_of(rail->polled.pause) > 0 ? btl_ib_pause_of(polled.poll_gap) : 0;
    return polled;
}

/* Polls a rail, for at most `left` datagrams. `polled` events are in hand already. Returns how many
 * datagrams there were. */
int btl_ib_rail_poll(btl_ib_rail_t *rail, int left, int polled);

/* Receives first contacts that were kept, `most` of them: here the runtime can be asked, as little
 * of the stack is used. */
void btl_ib_receive_unidentified(btl_ib_engine_t *engine, int most);

#endif
