/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma_replies.h"

#include "btl_ib_sched.h"
#include "btl_ib_state.h"

#include <string.h>

enum { REPLY_BYTES = sizeof(btl_ib_wire_reply_t) };

void btl_ib_replies_init(btl_ib_conn_t *conn)
{
    conn->replies.out.conn = conn;
    conn->replies.out.kind = BTL_IB_OUT_REPLIES;
    btl_ib_list_init(&conn->replies.out.link);
}

/* Replies and streams not packetized completely. */
static uint64_t due(const btl_ib_replies_t *replies)
{
    return (replies->out.size - replies->out.offset) / REPLY_BYTES + replies->streams;
}

bool btl_ib_replies_reserve(btl_ib_conn_t *conn)
{
    btl_ib_replies_t *replies = &conn->replies;
    btl_ib_engine_t *engine = conn->engine;

    if (due(replies) >= BTL_IB_OPS_MAX) {
        engine->count.rnr_operations++;
        return false;
    }
    if (replies->ring == NULL) {
        replies->ring = btl_ib_zalloc(&engine->mem, BTL_IB_OPS_MAX * sizeof(*replies->ring));
    }
    if (replies->ring == NULL) {
        engine->count.rnr_memory++;
        return false;
    }
    return true;
}

void btl_ib_replies_add(btl_ib_conn_t *conn, uint32_t id, uint32_t status, uint64_t result)
{
    btl_ib_replies_t *replies = &conn->replies;
    uint64_t at = replies->out.size / REPLY_BYTES % BTL_IB_OPS_MAX;

    replies->ring[at] = (btl_ib_wire_reply_t){
        .result = BTL_IB_LE64(result),
        .operation = BTL_IB_LE32(id),
        .status = BTL_IB_LE32(status),
    };
    replies->out.size += REPLY_BYTES;
    if (btl_ib_list_empty(&replies->out.link)) {
        btl_ib_pending_add(conn, &replies->out, 0);
    }
    btl_ib_conn_ready(conn);
}

btl_ib_stream_t *btl_ib_replies_stream(btl_ib_conn_t *conn, const btl_ib_view_t *get,
                                       const btl_ib_region_key_t *key, uint64_t offset)
{
    btl_ib_stream_t *stream = btl_ib_zalloc(&conn->engine->mem, sizeof(*stream));

    if (stream == NULL) {
        conn->engine->count.rnr_memory++;
        btl_ib_replies_shrink(conn); /* nothing was begun: an idle connection keeps no replies */
        return NULL;
    }
    stream->id = get->op.id;
    stream->key = *key;
    stream->offset = offset;
    stream->out = (btl_ib_out_t){
        .conn = conn,
        .size = get->op.end - get->op.offset,
        .kind = BTL_IB_OUT_STREAM,
    };
    btl_ib_list_init(&stream->out.link);
    return stream;
}

void btl_ib_replies_begin(btl_ib_stream_t *stream)
{
    btl_ib_conn_t *conn = stream->out.conn;

    conn->replies.streams++;
    btl_ib_pending_add(conn, &stream->out, sizeof(btl_ib_wire_got_t));
    btl_ib_conn_ready(conn);
}

bool btl_ib_replies_find_or_reject(btl_ib_stream_t *stream)
{
    btl_ib_conn_t *conn = stream->out.conn;
    btl_ib_engine_t *engine = conn->engine;
    const btl_ib_region_result_t result =
        btl_ib_regions_resolve(&engine->regions, &stream->key, &stream->offset, stream->out.size,
                               BTL_IB_ACCESS_READ, &stream->memory);

    if (btl_ib_region_judge(&engine->count, result)) {
        return true;
    }
    const uint32_t id = stream->id;
    btl_ib_list_remove(&stream->out.link);
    btl_ib_replies_end(&stream->out);
    btl_ib_replies_add(conn, id, BTL_IB_REPLY_REJECTED, 0);
    return false;
}

void btl_ib_replies_write(const btl_ib_conn_t *conn, uint8_t *to, uint32_t size)
{
    const btl_ib_replies_t *replies = &conn->replies;
    uint64_t at = replies->out.offset / REPLY_BYTES;

    for (uint32_t done = 0; done < size; done += REPLY_BYTES, at++) {
        memcpy(to + done, &replies->ring[at % BTL_IB_OPS_MAX], REPLY_BYTES);
    }
}

void btl_ib_replies_end(btl_ib_out_t *out)
{
    btl_ib_conn_t *conn = out->conn;

    if (out->kind == BTL_IB_OUT_REPLIES) {
        out->offset = out->size;
    } else {
        conn->replies.streams--;
        btl_ib_free(&conn->engine->mem, BTL_IB_CONTAINER(out, btl_ib_stream_t, out));
    }
}

void btl_ib_replies_shrink(btl_ib_conn_t *conn)
{
    if (due(&conn->replies) == 0) {
        btl_ib_free(&conn->engine->mem, conn->replies.ring);
        conn->replies.ring = NULL;
    }
}
