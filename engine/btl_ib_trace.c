/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_trace.h"

#include "btl_ib_packet.h"
#include "btl_ib_wire.h"

#include <assert.h>

/* ---- names, for what reads traces (btl_ib_trace_event.h) ---- */

static_assert(sizeof(btl_ib_trace_event_t) == 64, "an event has no padding");

#define NAME(name, text)         ",\n  {\"name\": \"" #name "\", \"text\": \"" text "\"}"
#define TYPE(name, number, text) NAME(name, text)
#define FIELD(type, bits, name, text)                                                              \
    ",\n  {\"name\": \"" #name "\", \"bits\": " #bits ", \"text\": \"" text "\"}"

const btl_ib_trace_list_t btl_ib_trace_lists[] = {
    {"fields", BTL_IB_TRACE_FIELDS(FIELD)},
    {"kinds", BTL_IB_TRACE_KINDS(NAME)},
    {"causes", BTL_IB_TRACE_CAUSES(NAME)},
    {"types", BTL_IB_TYPES(TYPE)},
    {NULL, NULL},
};

/* ---- recording ---- */

static_assert((int) BTL_IB_CAUSE_lost - (int) BTL_IB_CAUSE_silence == (int) BTL_IB_DEATH_HOST_LOST,
              "the last causes are those of btl_ib_death_t");

btl_ib_counters_t *btl_ib_trace_new(const btl_ib_engine_t *engine)
{
    const bool wanted = engine->config.trace && engine->ops->trace != NULL;

    return wanted ? btl_ib_zalloc(&engine->mem, sizeof(btl_ib_counters_t)) : NULL;
}

static void record(const btl_ib_engine_t *engine, const btl_ib_trace_event_t *event)
{
    engine->ops->trace(engine->ops_context, event);
}

/* Makes an event of what all have, and of what a connection (else NULL) is known of. */
static btl_ib_trace_event_t event_of(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                                     btl_ib_trace_cause_t cause)
{
    btl_ib_trace_event_t event = {
        .count = 1,
        .kind = (uint8_t) kind,
        .cause = (uint8_t) cause,
        .ack_channel = BTL_IB_TRACE_NO_CHANNEL,
    };

    if (conn != NULL) {
        event.peer = conn->identity.name;
        event.connection = conn->identity.id;
        event.window = conn->cc.window;
        event.in_flight = conn->sentmap.in_flight;
        event.srtt = btl_ib_rtt_smoothed(&conn->loss.rtt, 0);
        event.rto = btl_ib_rtt_timeout(&conn->loss.rtt, conn->engine->config.rto_initial)
                    + conn->identity.peer_ack_delay;
        event.rail = (uint8_t) conn->route.via->index;
    }
    return event;
}

void btl_ib_trace_record(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                         btl_ib_trace_cause_t cause, const btl_ib_segment_t *segment,
                         uint32_t number)
{
    btl_ib_trace_event_t event = event_of(conn, kind, cause);

    if (segment != NULL) {
        event.seq = segment->seq;
        event.size = segment->size + segment->outside + conn->engine->protection.ops->trailer;
        event.type = segment->type;
        event.flags = segment->flags;
        event.channel = segment->channel;
    } else if (kind == BTL_IB_TRACE_blocked) {
        event.channel = (uint8_t) number;
    } else {
        event.count = number;
        event.size = conn->pmtud.datagram_max;
    }
    record(conn->engine, &event);
}

/* Records each channel that an ACK speaks of; `event` is what they have in common. */
static void record_blocks(const btl_ib_engine_t *engine, const btl_ib_view_t *view,
                          btl_ib_trace_kind_t kind, btl_ib_trace_event_t event)
{
    btl_ib_ack_block_t block;
    uint32_t offset = 0;

    event.kind = (uint8_t) kind;
    while (btl_ib_wire_next_block(view, &offset, &block)) {
        uint32_t from, to = block.ack;
        if (block.ranges > 0) {
            btl_ib_wire_range(&block, block.ranges - 1, &from, &to);
        }
        event.seq = to;
        event.ack = block.ack;
        event.limit = block.rnr ? 0 : block.limit;
        event.count = block.ranges;
        event.cause = block.rnr ? BTL_IB_CAUSE_rnr : BTL_IB_CAUSE_none;
        event.channel = event.ack_channel = (uint8_t) block.channel;
        record(engine, &event);
    }
}

void btl_ib_trace_record_sent(const btl_ib_conn_t *conn, const btl_ib_wire_header_t *common,
                              btl_ib_segment_t *const *segments, const btl_ib_tx_t *tx, int count)
{
    const btl_ib_trace_event_t common_event = event_of(conn, BTL_IB_TRACE_sent, BTL_IB_CAUSE_none);
    btl_ib_trace_event_t event = common_event;

    if (common->flags & BTL_IB_FLAG_ACK) {
        event.ack = BTL_IB_LE32(common->ack);
        event.limit = event.ack + BTL_IB_LE16(common->credits);
        event.ack_channel = common->channels >> 4;
    }
    for (int i = 0; i < count; i++) {
        const btl_ib_segment_t *segment = segments[i];

        event.seq = btl_ib_type_is_sequenced(segment->type) ? segment->seq : 0;
        event.size = tx[i].size;
        event.type = segment->type;
        event.flags = common->flags | segment->flags;
        event.channel = segment->channel;
        record(conn->engine, &event);
        if (segment->type == BTL_IB_TYPE_ACK) { /* without payload outside, in the clear */
            const uint8_t *body = btl_ib_packet_body(segment);
            const btl_ib_view_t view = {
                .type = BTL_IB_TYPE_ACK,
                .payload = (uint8_t *) (uintptr_t) body,
                .size = (uint32_t) (segment->wire + segment->size - body),
            };
            record_blocks(conn->engine, &view, BTL_IB_TRACE_ack_sent, common_event);
        }
    }
}

void btl_ib_trace_response(const btl_ib_rail_t *rail, uint64_t peer, uint32_t size)
{
    btl_ib_trace_event_t event = event_of(NULL, BTL_IB_TRACE_sent, BTL_IB_CAUSE_none);

    if (rail->engine->trace != NULL) {
        event.peer = peer;
        event.size = size;
        event.rail = (uint8_t) rail->index;
        event.type = BTL_IB_TYPE_PATH_RESPONSE;
        record(rail->engine, &event);
    }
}

/* Returns the connection that a datagram named; NULL: it is none, or none any more. */
static const btl_ib_conn_t *named_by(const btl_ib_engine_t *engine, const btl_ib_view_t *view)
{
    const btl_ib_conn_t *conn =
        view->connection == 0 ? NULL : btl_ib_table_by_id(&engine->table, view->connection);

    if (conn == NULL && (view->flags & BTL_IB_FLAG_CONNECT)) {
        conn = btl_ib_table_by_name(&engine->table, view->connect.name, view->connect.to_rail,
                                    view->connect.from_rail);
    }
    return conn;
}

static btl_ib_trace_event_t arrival_event(const btl_ib_rail_t *rail, const btl_ib_view_t *view,
                                          uint32_t size)
{
    const btl_ib_conn_t *conn = named_by(rail->engine, view);
    btl_ib_trace_event_t event = event_of(conn, BTL_IB_TRACE_received, BTL_IB_CAUSE_none);

    if (conn == NULL) {
        event.peer =
            view->flags & BTL_IB_FLAG_CONNECT ? view->connect.name : BTL_IB_TRACE_PEER_UNKNOWN;
    }
    event.rail = (uint8_t) rail->index;
    event.type = view->type;
    event.flags = view->flags;
    event.channel = view->channel;
    event.seq = btl_ib_type_is_sequenced(view->type) ? view->seq : 0;
    event.size = size;
    if (view->flags & BTL_IB_FLAG_ACK) {
        event.ack = view->ack;
        event.limit = view->limit;
        event.ack_channel = view->ack_channel;
    }
    return event;
}

/* Records why the last datagram was not used, if it was not: a drop counter has grown. */
static void record_drops(btl_ib_engine_t *engine, btl_ib_trace_event_t event)
{
    btl_ib_counters_t *seen = engine->trace;
    const btl_ib_counter_info_t *info = NULL;

    event.kind = BTL_IB_TRACE_dropped;
    while ((info = btl_ib_counter_next_drop(info, seen, &engine->count)) != NULL) {
        event.cause = (uint8_t) (info - btl_ib_counter_infos);
        event.count = (uint32_t) (btl_ib_counter_value(info, &engine->count)
                                  - btl_ib_counter_value(info, seen));
        record(engine, &event);
    }
    *seen = engine->count;
}

void btl_ib_trace_received(const btl_ib_rail_t *rail, const btl_ib_event_t *events, int count)
{
    btl_ib_engine_t *engine = rail->engine;
    const uint32_t trailer = engine->protection.ops->trailer;
    btl_ib_trace_event_t event = {0};

    if (engine->trace == NULL) {
        return;
    }
    for (int i = 0; i < count; i++) {
        btl_ib_view_t view = {0};
        if (events[i].size < trailer
            || btl_ib_wire_parse(events[i].data, events[i].size - trailer, &view)
                   != BTL_IB_WIRE_OK) {
            view = (btl_ib_view_t){0};
        }
        event = arrival_event(rail, &view, events[i].size);
        if (events[i].buffer == NULL) { /* it was kept: its arrival is in the trace already */
            continue;
        }
        record(engine, &event);
        if (view.type == BTL_IB_TYPE_ACK) {
            record_blocks(engine, &view, BTL_IB_TRACE_ack_received, event);
        }
    }
    record_drops(engine, event);
}
