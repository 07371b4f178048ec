/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_latency.h"

#include "btl_ib_list.h"
#include "btl_ib_state.h"
#include "btl_ib_packet.h"

enum {
    TURN_BYTES = 1024, /* bytes of payload that a turn for short messages receives at most */
    TURN_GAP = 1000,   /* us between two such turns, if they follow each other */
    /* short messages of one-sided operations that are not counted in advance */
    EXCUSED_MAX = 64,
    TURNS_MIN = 8,       /* turns until latency mode begins, the first not counted */
    BURSTS_WITHIN = 100, /* us since the last turn but one: bursts are short */
    LANE_WITHIN = 1000,  /* us since the last turn but one: bulk has its own lane */
};

/* True if the transport has a lane for bulk, enough turns with short messages followed each other,
 * and the last two were within `time` us. A few short messages do not count: they announce bulk, or
 * say that it is complete. */
static bool short_turns_within(const btl_ib_conn_t *conn, uint64_t time)
{
    const btl_ib_engine_t *engine = conn->engine;

    return conn->route.via->transport->attr.bulk_lane && engine->latency.streak >= TURNS_MIN
           && engine->clock.now - engine->latency.before < time;
}

bool btl_ib_latency_wants_lane(const btl_ib_conn_t *conn)
{
    return conn->route.via->transport->attr.bulk_apart || short_turns_within(conn, LANE_WITHIN);
}

bool btl_ib_latency_wants_short_bursts(const btl_ib_conn_t *conn)
{
    return short_turns_within(conn, BURSTS_WITHIN);
}

/* Returns how many of `messages` short ones count. About one for each one-sided operation only
 * announces the operation, or says that it is complete; such messages are excused. */
static uint64_t counted_for(btl_ib_engine_t *engine, uint64_t messages)
{
    const btl_ib_counters_t *count = &engine->count;
    const uint64_t ops = count->served_gets + count->started_gets + count->started_puts;
    const uint64_t excused = engine->latency.excused + ops - engine->latency.ops;
    const uint64_t now = messages < excused ? messages : excused;

    engine->latency.ops = ops;
    engine->latency.excused = excused - now < EXCUSED_MAX ? excused - now : EXCUSED_MAX;
    return messages - now;
}

/* Has bulk wait for the next turn if this one received only short messages: the application has the
 * messages first, because a burst of bulk takes as long as a short message's whole way. Bulk does
 * not wait two turns in succession. btl_ib_batch.c says what waits. */
void btl_ib_latency_turn(btl_ib_engine_t *engine, uint64_t messages, uint64_t bytes)
{
    messages = engine->count.received_messages - messages;
    const bool is_short = messages > 0 && engine->count.received_bytes - bytes <= TURN_BYTES;

    engine->latency.hold_bulk = is_short && !engine->latency.hold_bulk;
    if (is_short) {
        const bool counts = counted_for(engine, messages) > 0;
        engine->latency.streak =
            engine->clock.now - engine->latency.at > TURN_GAP ? 0 : engine->latency.streak + counts;
        engine->latency.before = engine->latency.at;
        engine->latency.at = engine->clock.now;
    }
}

bool btl_ib_latency_holds_bulk(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    return engine->turn.sending && engine->latency.hold_bulk
           && short_turns_within(conn, LANE_WITHIN);
}
