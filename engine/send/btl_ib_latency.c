/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_latency.h"

enum {
    SHORT_BYTES = 1024, /* of payload in a turn that is for short messages */
    SHORT_GAP = 1000,   /* us between two of a row of these */
    SHORT_EXCUSED = 64, /* that are not counted yet because of operations on memory */
    SHORT_ROW = 8,      /* turns with one, the first not counted */
    SHORT_ABOUT = 100,  /* us */
    SHORT_ALONE = 1000, /* us: without another before */
};
/* Do others overtake bulk, and has somebody had short messages one after the other, and more than once within `time` us?
 * Few are what announces bulk, and says that it is done. */
static bool short_ones_within(const btl_ib_conn_t *conn, uint64_t time)
{
    const btl_ib_engine_t *engine = conn->engine;

    return conn->route.via->transport->attr.bulk_lane && engine->latency.row >= SHORT_ROW
           && engine->clock.now - engine->latency.before < time;
}

bool btl_ib_latency_short_ones_come(const btl_ib_conn_t *conn)
{
    return short_ones_within(conn, SHORT_ALONE);
}

/* Then they are not to wait long for either host, so trains are short and leave one by one. */
bool btl_ib_latency_short_ones_are_about(const btl_ib_conn_t *conn)
{
    return short_ones_within(conn, SHORT_ABOUT);
}

/* Of short messages those that only announce operations on memory, or say that one is over: about one for each. */
static uint64_t counted_for(btl_ib_engine_t *engine, uint64_t messages)
{
    const btl_ib_counters_t *count = &engine->count;
    const uint64_t ops = count->served_gets + count->started_gets + count->started_puts;
    const uint64_t excused = engine->latency.excused + ops - engine->latency.ops;
    const uint64_t now = messages < excused ? messages : excused;

    engine->latency.ops = ops;
    engine->latency.excused = excused - now < SHORT_EXCUSED ? excused - now : SHORT_EXCUSED;
    return messages - now;
}

/* Was this turn's news a short message? Then whoever waits for it is not kept waiting while bulk leaves, for which one
 * train takes as long as a short message's whole way. The next turn does it (btl_ib_batch.c says what may wait). */
void btl_ib_latency_turn(btl_ib_engine_t *engine, uint64_t messages, uint64_t bytes)
{
    messages = engine->count.received_messages - messages;
    const bool is_short = messages > 0 && engine->count.received_bytes - bytes <= SHORT_BYTES;

    engine->latency.hold_bulk = is_short && !engine->latency.hold_bulk;
    if (is_short) {
        const bool counts = counted_for(engine, messages) > 0;
        engine->latency.row =
            engine->clock.now - engine->latency.at > SHORT_GAP ? 0 : engine->latency.row + counts;
        engine->latency.before = engine->latency.at;
        engine->latency.at = engine->clock.now;
    }
}

bool btl_ib_latency_holds_bulk(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    return engine->turn.sending && engine->latency.hold_bulk
           && short_ones_within(conn, SHORT_ALONE);
}

void btl_ib_latency_nobody_waits(btl_ib_engine_t *engine)
{
    engine->latency.hold_bulk = false;
}
