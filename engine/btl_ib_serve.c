/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations, the target's side: what peers may do with our regions.
 *
 * PUT: placed from the receive buffer. A refused one is not acknowledged, because its acknowledgement
 * would say that it was placed: its sender is told by a REFUSED, and makes the segments void. That is
 * no segment that needs credit or window, because both may be used up by segments that the peer refuses
 * likewise. If it is lost, the segment that comes again leads to the next one.
 *
 * GET becomes a stream of GOT segments. ATOMIC is executed when its sequence is taken in, so once; the
 * result is in a REPLY, which is a segment like any other, kept and repeated until it is acknowledged.
 *
 * A peer has at most BTL_IB_OPS_MAX operations running, and there is room for so many replies and
 * streams. So a request never waits for answers to leave: else two processes could wait for each other,
 * their windows full of requests. Only a peer that breaks that rule finds no room: what it asks for is
 * not acknowledged.
 */

#include "btl_ib_prefetch.h"
#include "btl_ib_calls.h"
#include "btl_ib_pending.h"

#include <string.h>

enum { REPLY_BYTES = sizeof(btl_ib_wire_reply_t) };

/* ---- replies ---- */

static uint32_t replies_due(const btl_ib_serve_t *serve)
{
    return (uint32_t) ((serve->out.size - serve->out.offset) / REPLY_BYTES);
}

/* Make sure that there is room for one more reply. */
static bool has_room(btl_ib_conn_t *conn)
{
    btl_ib_serve_t *serve = &conn->serve;
    btl_ib_engine_t *engine = conn->engine;

    if (replies_due(serve) + serve->streams >= BTL_IB_OPS_MAX) {
        engine->count.refused_no_room++;
        return false;
    }
    if (serve->replies == NULL) {
        serve->replies = btl_ib_zalloc(&engine->mem, BTL_IB_OPS_MAX * sizeof(*serve->replies));
    }
    if (serve->replies == NULL) {
        engine->count.refused_no_memory++;
        return false;
    }
    return true;
}

/* There is room for it. */
static void reply(btl_ib_conn_t *conn, uint32_t id, uint32_t status, uint64_t result)
{
    btl_ib_serve_t *serve = &conn->serve;
    uint64_t at = serve->out.size / REPLY_BYTES % BTL_IB_OPS_MAX;

    serve->replies[at] = (btl_ib_wire_reply_t){
        .result = BTL_IB_LE64(result),
        .operation = BTL_IB_LE32(id),
        .status = BTL_IB_LE32(status),
    };
    serve->out.size += REPLY_BYTES;
    if (btl_ib_list_empty(&serve->out.link)) {
        btl_ib_send_queue(conn, &serve->out, 0);
    }
    btl_ib_conn_ready(conn);
}

void btl_ib_serve_write(const btl_ib_conn_t *conn, uint8_t *to, uint32_t size)
{
    const btl_ib_serve_t *serve = &conn->serve;
    uint64_t at = serve->out.offset / REPLY_BYTES;

    for (uint32_t done = 0; done < size; done += REPLY_BYTES, at++) {
        memcpy(to + done, &serve->replies[at % BTL_IB_OPS_MAX], REPLY_BYTES);
    }
}

/* ---- checks ---- */

/* Count what is wrong with a request. Returns true if nothing is. */
static bool judge(btl_ib_conn_t *conn, btl_ib_region_result_t result)
{
    btl_ib_counters_t *count = &conn->engine->count;

    count->served_elsewhere += result == BTL_IB_REGION_ELSEWHERE;
    count->rejected_region += result == BTL_IB_REGION_UNKNOWN;
    count->rejected_bounds += result == BTL_IB_REGION_BOUNDS;
    count->rejected_right += result == BTL_IB_REGION_RIGHT;
    return btl_ib_region_allows(result);
}

/* ---- PUT ---- */

/* Tell the sender, once for what comes together. */
static void refuse_put(btl_ib_conn_t *conn, uint32_t id)
{
    btl_ib_serve_t *serve = &conn->serve;
    uint32_t wire = BTL_IB_LE32(id);

    conn->engine->count.refused_put++;
    if (serve->refused == id && serve->refused_in == conn->engine->turn.batch) {
        return;
    }
    btl_ib_segment_t *segment = btl_ib_send_prepare(conn, BTL_IB_TYPE_REFUSED, sizeof(wire));
    if (segment == NULL) {
        return;
    }
    memcpy(btl_ib_send_body(segment), &wire, sizeof(wire));
    if (btl_ib_send_segments(conn, &segment, 1) == 1) {
        serve->refused = id;
        serve->refused_in = conn->engine->turn.batch;
        conn->engine->count.sent_refusals++;
    }
    btl_ib_pool_put(segment);
}

bool btl_ib_serve_put(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    uint8_t *memory = NULL;
    btl_ib_region_result_t result =
        btl_ib_regions_check(&engine->regions, &view->op.key, view->op.offset,
                             view->op.end - view->op.offset, BTL_IB_ACCESS_WRITE, &memory);

    if (!judge(conn, result)) {
        refuse_put(conn, view->op.id);
        return false;
    }
    if (view->size > 0) {
        memcpy(memory, view->payload, view->size);
        btl_ib_prefetch_target(memory, view->op.end - view->op.offset, view->size);
    }
    engine->count.placed_puts++;
    btl_ib_recv_take_in(conn, view);
    return true;
}

/* ---- GET ---- */

static void begin_stream(btl_ib_conn_t *conn, btl_ib_stream_t *stream, const btl_ib_view_t *view)
{
    stream->id = view->op.id;
    stream->out = (btl_ib_out_t){
        .conn = conn,
        .size = view->op.end - view->op.offset,
        .kind = BTL_IB_OUT_STREAM,
    };
    btl_ib_list_init(&stream->out.link);
    conn->serve.streams++;
    btl_ib_send_queue(conn, &stream->out, sizeof(btl_ib_wire_got_t));
    btl_ib_conn_ready(conn);
}

bool btl_ib_serve_get(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    const uint64_t size = view->op.end - view->op.offset;
    /* It goes on as a stream from the region that the bytes are in: that is lent, and may be
     * removed. */
    btl_ib_region_key_t key = view->op.key;
    uint64_t offset = view->op.offset;
    btl_ib_stream_t *stream = NULL;
    uint8_t *memory;

    if (!has_room(conn)) {
        return false;
    }
    const btl_ib_region_result_t result =
        btl_ib_regions_resolve(&engine->regions, &key, &offset, size, BTL_IB_ACCESS_READ, &memory);
    if (btl_ib_region_allows(result) && size > 0) {
        stream = btl_ib_zalloc(&engine->mem, sizeof(*stream));
        if (stream == NULL) {
            engine->count.refused_no_memory++;
            btl_ib_serve_shrink(conn); /* nothing came: an idle peer keeps no room for replies */
            return false;
        }
    }
    btl_ib_recv_take_in(conn, view);
    if (!judge(conn, result)) {
        reply(conn, view->op.id, BTL_IB_REPLY_REFUSED, 0);
        return true;
    }
    engine->count.served_gets++;
    if (stream == NULL) {
        reply(conn, view->op.id, BTL_IB_REPLY_DONE, 0);
    } else {
        stream->key = key;
        stream->offset = offset;
        begin_stream(conn, stream, view);
    }
    return true;
}

bool btl_ib_serve_find(btl_ib_stream_t *stream)
{
    btl_ib_conn_t *conn = stream->out.conn;
    btl_ib_region_result_t result =
        btl_ib_regions_check(&conn->engine->regions, &stream->key, stream->offset, stream->out.size,
                             BTL_IB_ACCESS_READ, &stream->memory);

    if (judge(conn, result)) {
        return true;
    }
    uint32_t id = stream->id;
    btl_ib_list_remove(&stream->out.link);
    btl_ib_serve_end(stream);
    reply(conn, id, BTL_IB_REPLY_REFUSED, 0);
    return false;
}

void btl_ib_serve_end(btl_ib_stream_t *stream)
{
    btl_ib_conn_t *conn = stream->out.conn;

    conn->serve.streams--;
    btl_ib_free(&conn->engine->mem, stream);
}

/* ---- ATOMIC ---- */

bool btl_ib_serve_atomic(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    uint32_t status = BTL_IB_REPLY_REFUSED;
    uint64_t before = 0;
    uint8_t *word;

    if (!has_room(conn)) {
        return false;
    }
    btl_ib_recv_take_in(conn, view);
    if (judge(conn, btl_ib_regions_check(&engine->regions, &view->op.key, view->op.offset,
                                         btl_ib_atomic_size(view->op.type), BTL_IB_ACCESS_ATOMIC,
                                         &word))) {
        if (btl_ib_atomic_execute(word, view->op.code, view->op.type, view->op.operand,
                                  view->op.compare, &before)
            == 0) {
            status = BTL_IB_REPLY_DONE;
            engine->count.served_atomics++;
        } else {
            engine->count.rejected_aligned++;
        }
    }
    reply(conn, view->op.id, status, before);
    return true;
}

/* ---- the end ---- */

void btl_ib_serve_init(btl_ib_conn_t *conn)
{
    conn->serve.out.conn = conn;
    conn->serve.out.kind = BTL_IB_OUT_REPLIES;
    btl_ib_list_init(&conn->serve.out.link);
}

void btl_ib_serve_drop(btl_ib_conn_t *conn)
{
    for (uint32_t space = 0; space < conn->peer_queues->count; space++) {
        btl_ib_list_t *pending = &conn->tx[space].submit.pending;
        btl_ib_list_t *next;
        for (btl_ib_list_t *item = btl_ib_list_first(pending); item != NULL; item = next) {
            btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
            next = btl_ib_list_next(pending, item);
            if (out->kind == BTL_IB_OUT_STREAM || out->kind == BTL_IB_OUT_REPLIES) {
                btl_ib_send_finish(out, 0);
            }
        }
    }
}

void btl_ib_serve_shrink(btl_ib_conn_t *conn)
{
    if (replies_due(&conn->serve) + conn->serve.streams == 0) {
        btl_ib_free(&conn->engine->mem, conn->serve.replies);
        conn->serve.replies = NULL;
    }
}
