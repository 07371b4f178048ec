/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma_replies.h"

#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
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
    (void) btl_ib_stream_ended(&stream->out, 0);
    btl_ib_replies_add(conn, id, BTL_IB_REPLY_REJECTED, 0);
    return false;
}

/* ---- what leaves of them ---- */

static inline btl_ib_stream_t *stream_of(btl_ib_out_t *out)
{
    return BTL_IB_CONTAINER(out, btl_ib_stream_t, out);
}

static void write_got(const btl_ib_stream_t *stream, uint64_t offset, uint8_t *to)
{
    const btl_ib_wire_got_t got = {
        .offset_low = BTL_IB_LE32(offset & UINT32_MAX),
        .offset_high = BTL_IB_LE32(offset >> 32),
        .operation = BTL_IB_LE32(stream->id),
    };
    memcpy(to, &got, sizeof(got));
}

int btl_ib_stream_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                           btl_ib_segment_t **segments, int most)
{
    const btl_ib_stream_t *stream = stream_of(out);
    const struct iovec memory[2] = {{.iov_base = stream->memory, .iov_len = (size_t) out->size}};
    btl_ib_series_t series = {
        .piece = {.type = BTL_IB_TYPE_GOT,
                  .head = sizeof(btl_ib_wire_got_t),
                  .iov = memory,
                  .region = stream->key.id},
        .unit = btl_ib_packetize_room(conn, channel, sizeof(btl_ib_wire_got_t)),
    };
    uint64_t offset = out->offset;
    const int count = btl_ib_packetize_series(conn, out, channel, &series, segments, most);

    for (int i = 0; i < count; i++, offset += series.unit) {
        write_got(stream, offset, btl_ib_packet_body(segments[i]));
    }
    return count;
}

/* Notes that segments of a stream left. The region is lent to its segments, which need the stream
 * no more. */
bool btl_ib_stream_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied)
{
    (void) conn;
    (void) out;
    (void) copied;
    return true;
}

bool btl_ib_stream_ended(btl_ib_out_t *out, int status)
{
    btl_ib_conn_t *conn = out->conn;

    (void) status;
    conn->replies.streams--;
    btl_ib_free(&conn->engine->mem, stream_of(out));
    return false;
}

/* Copies the replies from `offset` of all that there ever were, `size` bytes, to `to`. */
static void write_replies(const btl_ib_replies_t *replies, uint64_t offset, uint8_t *to,
                          uint32_t size)
{
    uint64_t at = offset / REPLY_BYTES;

    for (uint32_t done = 0; done < size; done += REPLY_BYTES, at++) {
        memcpy(to + done, &replies->ring[at % BTL_IB_OPS_MAX], REPLY_BYTES);
    }
}

/* Makes the next REPLY segments, with as many replies in each as fit. */
int btl_ib_replies_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                            btl_ib_segment_t **segments, int most)
{
    const uint32_t room = btl_ib_packetize_room(conn, channel, 0);
    int n = 0;

    do {
        const uint64_t offset = out->offset;
        const uint32_t fit = btl_ib_clip_u32(out->size - offset, room);
        const uint32_t size = fit - fit % (uint32_t) REPLY_BYTES;

        segments[n] = btl_ib_packetize_plain(conn, out, BTL_IB_TYPE_REPLY, size, false);
        if (segments[n] == NULL) {
            break;
        }
        write_replies(&conn->replies, offset, btl_ib_packet_body(segments[n]), size);
        n++;
    } while (n < most && !segments[n - 1]->last && btl_ib_packetize_reserve(conn, channel, n + 1));
    return n;
}

/* Ends the replies of a connection: none is due any more. */
bool btl_ib_replies_ended(btl_ib_out_t *out, int status)
{
    (void) status;
    out->offset = out->size;
    return false;
}

void btl_ib_replies_drop(btl_ib_conn_t *conn)
{
    for (uint32_t channel = 0; channel < conn->peer_queues->count; channel++) {
        btl_ib_list_t *pending = &conn->tx[channel].submit.pending;
        btl_ib_list_t *next;
        for (btl_ib_list_t *item = btl_ib_list_first(pending); item != NULL; item = next) {
            btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
            next = btl_ib_list_next(pending, item);
            if (out->kind == BTL_IB_OUT_STREAM) {
                btl_ib_list_remove(item);
                (void) btl_ib_stream_ended(out, 0);
            } else if (out->kind == BTL_IB_OUT_REPLIES) {
                btl_ib_list_remove(item);
                (void) btl_ib_replies_ended(out, 0);
            }
        }
    }
}

void btl_ib_replies_shrink(btl_ib_conn_t *conn)
{
    if (due(&conn->replies) == 0) {
        btl_ib_free(&conn->engine->mem, conn->replies.ring);
        conn->replies.ring = NULL;
    }
}
