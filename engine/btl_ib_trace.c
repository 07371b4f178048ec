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

#define BTL_IB_TRACE_INFO(name, text) {#name, text, 0},
const btl_ib_trace_info_t btl_ib_trace_kind_infos[] = {
    BTL_IB_TRACE_KINDS(BTL_IB_TRACE_INFO){NULL, NULL, 0}};
const btl_ib_trace_info_t btl_ib_trace_cause_infos[] = {
    BTL_IB_TRACE_CAUSES(BTL_IB_TRACE_INFO){NULL, NULL, 0}};
#undef BTL_IB_TRACE_INFO

#define BTL_IB_TRACE_INFO(type, bits, name, text) {#name, text, bits},
const btl_ib_trace_info_t btl_ib_trace_field_infos[] = {
    BTL_IB_TRACE_FIELDS(BTL_IB_TRACE_INFO){NULL, NULL, 0}};
#undef BTL_IB_TRACE_INFO

const btl_ib_trace_info_t btl_ib_trace_type_infos[] = {
    [BTL_IB_TYPE_DATA] = {"DATA", "a message", 0},
    [BTL_IB_TYPE_CHUNK] = {"CHUNK", "a piece of a message", 0},
    [BTL_IB_TYPE_SKIP] = {"SKIP", "credits are given back", 0},
    [BTL_IB_TYPE_ACK] = {"ACK", "acknowledgements of all channels; has no sequence", 0},
    [BTL_IB_TYPE_CLOSE] = {"CLOSE", "the connection ends", 0},
    [BTL_IB_TYPE_PUT] = {"PUT", "a piece of a put", 0},
    [BTL_IB_TYPE_GET] = {"GET", "a get is asked for", 0},
    [BTL_IB_TYPE_ATOMIC] = {"ATOMIC", "an atomic operation is asked for", 0},
    [BTL_IB_TYPE_GOT] = {"GOT", "a piece of the answer to a get", 0},
    [BTL_IB_TYPE_REPLY] = {"REPLY", "answers to operations", 0},
    [BTL_IB_TYPE_VOID] = {"VOID", "given up, or a probe of the path MTU", 0},
    [BTL_IB_TYPE_REJECTED] = {"REJECTED", "an operation is rejected", 0},
    [BTL_IB_TYPE_BUNDLE] = {"BUNDLE", "several messages", 0},
    [BTL_IB_TYPE_PART] = {"PART", "a part of a segment that is larger than the path MTU", 0},
    [BTL_IB_TYPE_PATH_RESPONSE] = {"PATH_RESPONSE", "a first contact arrived", 0},
    {NULL, NULL, 0},
};

/* ---- recording ---- */

static_assert((int) BTL_IB_CAUSE_lost - (int) BTL_IB_CAUSE_silence == (int) BTL_IB_DEATH_HOST_LOST,
              "the last causes are those of btl_ib_death_t");

struct btl_ib_trace {
    btl_ib_counters_t seen; /* the engine's counters after the last datagram */
};

btl_ib_trace_t *btl_ib_trace_new(const btl_ib_engine_t *engine)
{
    const bool wanted = engine->config.trace && engine->ops->trace != NULL;

    return wanted ? btl_ib_zalloc(&engine->mem, sizeof(btl_ib_trace_t)) : NULL;
}

static void record(const btl_ib_engine_t *engine, const btl_ib_trace_event_t *event)
{
    engine->ops->trace(engine->ops_context, event);
}

/* What all events have that a connection is known of. */
static btl_ib_trace_event_t event_of(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                                     btl_ib_trace_cause_t cause)
{
    const btl_ib_engine_config_t *config = &conn->engine->config;

    return (btl_ib_trace_event_t){
        .peer = conn->identity.name,
        .connection = conn->identity.id,
        .count = 1,
        .window = conn->cc.window,
        .in_flight = conn->sentmap.in_flight,
        .srtt = btl_ib_rtt_smoothed(&conn->loss.rtt, 0),
        .rto = btl_ib_rtt_timeout(&conn->loss.rtt, config->rto_initial)
               + conn->identity.peer_ack_delay,
        .kind = (uint8_t) kind,
        .cause = (uint8_t) cause,
        .rail = (uint8_t) conn->route.via->index,
        .ack_channel = BTL_IB_TRACE_NO_CHANNEL,
    };
}

/* Each channel that an ACK speaks of; `event` is what they have in common. */
static void record_blocks(const btl_ib_engine_t *engine, const btl_ib_view_t *view,
                          btl_ib_trace_event_t event)
{
    btl_ib_ack_block_t block;
    uint32_t offset = 0;

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

/* The blocks of an ACK that is sent: of segments without payload outside, in the clear. */
static void record_told(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    const uint8_t *body = btl_ib_packet_body(segment);
    const btl_ib_view_t view = {
        .type = BTL_IB_TYPE_ACK,
        .payload = (uint8_t *) (uintptr_t) body,
        .size = (uint32_t) (segment->wire + segment->size - body),
    };

    record_blocks(conn->engine, &view, event_of(conn, BTL_IB_TRACE_ack_sent, BTL_IB_CAUSE_none));
}

void btl_ib_trace_record_sent(const btl_ib_conn_t *conn, const btl_ib_wire_header_t *common,
                              btl_ib_segment_t *const *segments, const btl_ib_tx_t *tx, int count)
{
    const bool acks = common->flags & BTL_IB_FLAG_ACK;
    btl_ib_trace_event_t event = event_of(conn, BTL_IB_TRACE_sent, BTL_IB_CAUSE_none);

    if (acks) {
        event.ack = BTL_IB_LE32(common->ack);
        event.limit = event.ack + BTL_IB_LE16(common->credits);
        event.ack_channel = common->channels >> 4;
    }
    for (int i = 0; i < count; i++) {
        event.seq = btl_ib_type_is_sequenced(segments[i]->type) ? segments[i]->seq : 0;
        event.size = tx[i].size;
        event.type = segments[i]->type;
        event.flags = common->flags | segments[i]->flags;
        event.channel = segments[i]->channel;
        record(conn->engine, &event);
        if (segments[i]->type == BTL_IB_TYPE_ACK) {
            record_told(conn, segments[i]);
        }
    }
}

void btl_ib_trace_response(const btl_ib_rail_t *rail, uint64_t peer, uint32_t size)
{
    const btl_ib_trace_event_t event = {
        .peer = peer,
        .size = size,
        .count = 1,
        .kind = BTL_IB_TRACE_sent,
        .rail = (uint8_t) rail->index,
        .type = BTL_IB_TYPE_PATH_RESPONSE,
        .ack_channel = BTL_IB_TRACE_NO_CHANNEL,
    };

    if (rail->engine->trace != NULL) {
        record(rail->engine, &event);
    }
}

/* The connection that a datagram named; NULL: it is none, or none any more. */
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

static btl_ib_trace_event_t arrival_event(const btl_ib_rail_t *rail, const btl_ib_view_t *view)
{
    const btl_ib_conn_t *conn = named_by(rail->engine, view);
    btl_ib_trace_event_t event = {
        .peer = view->flags & BTL_IB_FLAG_CONNECT ? view->connect.name : BTL_IB_TRACE_PEER_UNKNOWN,
        .count = 1,
        .ack_channel = BTL_IB_TRACE_NO_CHANNEL,
    };

    if (conn != NULL) {
        event = event_of(conn, BTL_IB_TRACE_received, BTL_IB_CAUSE_none);
    }
    event.kind = BTL_IB_TRACE_received;
    event.rail = (uint8_t) rail->index;
    event.type = view->type;
    event.flags = view->flags;
    event.channel = view->channel;
    event.seq = btl_ib_type_is_sequenced(view->type) ? view->seq : 0;
    if (view->flags & BTL_IB_FLAG_ACK) {
        event.ack = view->ack;
        event.limit = view->limit;
        event.ack_channel = view->ack_channel;
    }
    return event;
}

/* Why the last datagram was not used, if it was not: a drop counter has grown. */
static void record_drops(btl_ib_engine_t *engine, btl_ib_trace_event_t event)
{
    btl_ib_trace_t *trace = engine->trace;
    const btl_ib_counter_info_t *info = NULL;

    event.kind = BTL_IB_TRACE_dropped;
    while ((info = btl_ib_counter_next_drop(info, &trace->seen, &engine->count)) != NULL) {
        event.cause = (uint8_t) (info - btl_ib_counter_infos);
        event.count = (uint32_t) (btl_ib_counter_value(info, &engine->count)
                                  - btl_ib_counter_value(info, &trace->seen));
        record(engine, &event);
    }
    trace->seen = engine->count;
}

void btl_ib_trace_received(const btl_ib_rail_t *rail, const btl_ib_event_t *events, int count)
{
    btl_ib_engine_t *engine = rail->engine;
    const uint32_t trailer = engine->protection.ops->trailer;
    btl_ib_trace_event_t event = {0};

    for (int i = 0; i < count && engine->trace != NULL; i++) {
        btl_ib_view_t view = {0};
        const bool parsed =
            events[i].size >= trailer
            && btl_ib_wire_parse(events[i].data, events[i].size - trailer, &view) == BTL_IB_WIRE_OK;
        if (!parsed) {
            view = (btl_ib_view_t){0};
        }
        event = arrival_event(rail, &view);
        event.size = events[i].size;
        if (events[i].buffer == NULL) { /* it was kept: its arrival is in the trace already */
            continue;
        }
        record(engine, &event);
        if (parsed && view.type == BTL_IB_TYPE_ACK) {
            event.kind = BTL_IB_TRACE_ack_received;
            record_blocks(engine, &view, event);
            event.kind = BTL_IB_TRACE_received;
        }
    }
    if (engine->trace != NULL) {
        record_drops(engine, event);
    }
}

void btl_ib_trace_segment(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                          btl_ib_trace_cause_t cause, const btl_ib_segment_t *segment)
{
    if (conn->engine->trace == NULL) {
        return;
    }
    btl_ib_trace_event_t event = event_of(conn, kind, cause);
    event.seq = segment->seq;
    event.size = segment->size + segment->outside + conn->engine->protection.ops->trailer;
    event.type = segment->type;
    event.flags = segment->flags;
    event.channel = segment->channel;
    record(conn->engine, &event);
}

void btl_ib_trace_conn(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                       btl_ib_trace_cause_t cause, uint32_t count)
{
    if (conn->engine->trace == NULL) {
        return;
    }
    btl_ib_trace_event_t event = event_of(conn, kind, cause);
    event.count = count;
    event.size = conn->pmtud.datagram_max;
    record(conn->engine, &event);
}

void btl_ib_trace_record_blocked(const btl_ib_conn_t *conn, uint32_t channel,
                                 btl_ib_trace_cause_t cause)
{
    btl_ib_trace_event_t event = event_of(conn, BTL_IB_TRACE_blocked, cause);

    event.channel = (uint8_t) channel;
    record(conn->engine, &event);
}
