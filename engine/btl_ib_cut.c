/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What is on its way out -> segments: messages, operations, and answers to those of the peer. */

#include "btl_ib_min.h"
#include "btl_ib_prefetch.h"
#include "btl_ib_calls.h"

#include <string.h>

/* What of `size` bytes from `offset` on of several pieces of memory is in this one: taken off both. */
static inline struct iovec part_of(const struct iovec *iov, uint64_t *offset, uint32_t *size)
{
    struct iovec part = {0};

    if (*offset >= iov->iov_len) {
        *offset -= iov->iov_len;
        return part;
    }
    uint64_t there = iov->iov_len - *offset;
    part.iov_base = (uint8_t *) iov->iov_base + *offset;
    part.iov_len = there < *size ? (size_t) there : *size;
    *size -= (uint32_t) part.iov_len;
    *offset = 0;
    return part;
}

void btl_ib_cut_copy(const struct iovec *iov, int count, uint64_t offset, uint32_t size,
                     uint8_t *to)
{
    for (int i = 0; i < count && size > 0; i++) {
        struct iovec part = part_of(&iov[i], &offset, &size);
        if (part.iov_len > 0) {
            memcpy(to, part.iov_base, part.iov_len);
            to += part.iov_len;
        }
    }
}

/* The same bytes are sent from where they are. */
static void refer(btl_ib_segment_t *segment, const struct iovec iov[2], uint64_t offset,
                  uint32_t size)
{
    int n = 0;

    segment->outside = size;
    segment->iov[1].iov_len = 0;
    for (int i = 0; i < 2 && size > 0; i++) {
        struct iovec part = part_of(&iov[i], &offset, &size);
        if (part.iov_len > 0) {
            segment->iov[n++] = part;
        }
    }
}

/* Memory that the transport would still read after send() must be ours; a guard wants all of a
 * datagram in one piece. */
static bool can_refer(const btl_ib_conn_t *conn, uint32_t size)
{
    const btl_ib_transport_attr_t *attr = &conn->via->transport->attr;
    return size <= attr->inline_size && attr->max_iov >= 3 && attr->registered_page == 0
           && conn->engine->guard.ops->trailer == 0;
}

/* What a segment is made of: a head of its type, then bytes. */
typedef struct piece {
    btl_ib_type_t type;
    const void *head;
    uint32_t head_size;
    const struct iovec *iov; /* two of them: where the bytes are */
    uint64_t offset;         /* of the bytes in there */
    uint32_t size;
    uint32_t pad;    /* zeros behind them */
    bool stays;      /* the bytes stay there until the segment is acknowledged */
    uint64_t region; /* or as long as this region of ours is registered; 0: no region */
} piece_t;

/* Bytes of a region are sent from where they are, but there is room to copy them should it be removed. */
static void lend(btl_ib_conn_t *conn, const piece_t *piece, btl_ib_segment_t *segment)
{
    segment->size -= piece->size;
    segment->region = piece->region;
    btl_ib_regions_lend(&conn->engine->regions, piece->region);
}

/* Zeros behind bytes that are sent from where they are; if those are in two places there is no third. */
static void pad_outside(btl_ib_segment_t *segment, uint32_t size)
{
    static const uint8_t zeros[BTL_IB_PAD_MAX];

    if (segment->iov[1].iov_len == 0) {
        segment->iov[1] = (struct iovec){.iov_base = (void *) (uintptr_t) zeros, .iov_len = size};
        segment->outside += size;
    }
}

static btl_ib_segment_t *make(btl_ib_conn_t *conn, const piece_t *piece)
{
    uint32_t whole = btl_ib_send_overhead(conn) + piece->head_size + piece->size + piece->pad;
    bool outside =
        (piece->stays || piece->region != 0) && piece->size > 0 && can_refer(conn, whole);
    bool room = !outside || piece->region != 0;
    btl_ib_segment_t *segment = btl_ib_send_prepare(
        conn, piece->type, piece->head_size + (room ? piece->size + piece->pad : 0));

    if (segment == NULL) {
        return NULL;
    }
    uint8_t *body = btl_ib_send_body(segment);
    if (piece->head_size > 0) {
        memcpy(body, piece->head, piece->head_size);
    }
    if (outside) {
        refer(segment, piece->iov, piece->offset, piece->size);
        pad_outside(segment, piece->pad);
        if (room) {
            lend(conn, piece, segment);
        }
    } else if (piece->size > 0) {
        btl_ib_cut_copy(piece->iov, 2, piece->offset, piece->size, body + piece->head_size);
        memset(body + piece->head_size + piece->size, 0, piece->pad);
    }
    segment->payload = piece->size;
    return segment;
}

/* How many of the bytes that are left fit a segment of `space` behind a head of `head` bytes. */
static uint32_t portion(const btl_ib_conn_t *conn, uint32_t space, const btl_ib_out_t *out,
                        uint32_t head)
{
    uint32_t largest = conn->peer_queues->q[space].size;
    uint64_t rest = out->size - out->offset;

    largest = largest < conn->datagram_max ? largest : conn->datagram_max;
    largest -= btl_ib_send_overhead(conn) + head;
    return rest < largest ? (uint32_t) rest : largest;
}

/* ---- messages ---- */

/*
 * Bytes of each chunk of a message of `size` bytes. Where the network joins datagrams of one size, chunks of one size
 * are worth more than few that are full: then all of several messages travel as one. Segments are a multiple
 * of 8 bytes, so that what was joined is aligned.
 */
static uint32_t unit_of(const btl_ib_conn_t *conn, uint64_t size)
{
    const uint32_t heads = btl_ib_send_overhead(conn) + (uint32_t) sizeof(btl_ib_wire_chunk_t);
    const uint32_t most = conn->datagram_max - heads;

    if (conn->cc.train <= 1) {
        return most;
    }
    const uint64_t chunks = (size + most - 1) / most;
    const uint32_t segment = (heads + (uint32_t) ((size + chunks - 1) / chunks) + 7) & ~7u;
    return btl_ib_min_u32(segment - heads, most);
}

/* What makes the last chunk as long as the others, if that is little. */
static uint32_t pad_of(const btl_ib_conn_t *conn, const btl_ib_msg_t *msg, uint64_t rest)
{
    if (conn->cc.train <= 1 || rest >= msg->unit || msg->unit - rest > BTL_IB_PAD_MAX) {
        return 0;
    }
    return msg->unit - (uint32_t) rest;
}

static btl_ib_segment_t *cut_chunk(btl_ib_conn_t *conn, btl_ib_msg_t *msg)
{
    if (msg->unit == 0) {
        msg->unit = unit_of(conn, msg->out.size);
        msg->id = conn->next_fragment++;
    }
    uint64_t rest = msg->out.size - msg->out.offset;
    btl_ib_wire_chunk_t chunk = {
        .fragment = BTL_IB_LE32(msg->id),
        .total = BTL_IB_LE32(msg->out.size),
        .index = BTL_IB_LE16(msg->out.offset / msg->unit),
        .unit = BTL_IB_LE16(msg->unit),
    };
    piece_t piece = {
        .type = BTL_IB_TYPE_CHUNK,
        .head = &chunk,
        .head_size = sizeof(chunk),
        .iov = msg->iov,
        .offset = msg->out.offset,
        .size = rest < msg->unit ? (uint32_t) rest : msg->unit,
        .pad = pad_of(conn, msg, rest),
        .stays = true,
    };
    return make(conn, &piece);
}

/* All of it if it fits a segment, else a chunk. Chunks are what keeps an order. */
static btl_ib_segment_t *cut_message(btl_ib_conn_t *conn, btl_ib_msg_t *msg)
{
    btl_ib_segment_t *segment;

    if (!msg->ordered && msg->unit == 0 && msg->out.size <= btl_ib_conn_segment_max(conn)) {
        piece_t piece = {
            .type = BTL_IB_TYPE_DATA,
            .iov = msg->iov,
            .size = (uint32_t) msg->out.size,
        };
        segment = make(conn, &piece);
    } else {
        segment = cut_chunk(conn, msg);
    }
    if (segment != NULL) {
        segment->tag = msg->tag;
    }
    return segment;
}

/* ---- operations ---- */

/* From byte `offset` of the operation on. */
static btl_ib_wire_target_t target_of(const btl_ib_op_t *op, uint64_t offset)
{
    return (btl_ib_wire_target_t){
        .region = BTL_IB_LE64(op->key.id),
        .secret = BTL_IB_LE64(op->key.secret),
        .offset = BTL_IB_LE64(op->offset + offset),
        .end = BTL_IB_LE64(op->offset + op->size),
        .operation = BTL_IB_LE32(op->id),
    };
}

static btl_ib_segment_t *cut_put(btl_ib_conn_t *conn, const btl_ib_op_t *op, uint32_t space)
{
    const struct iovec iov[2] = {{.iov_base = op->local, .iov_len = op->size}};
    btl_ib_wire_target_t target = target_of(op, op->out.offset);
    piece_t piece = {
        .type = BTL_IB_TYPE_PUT,
        .head = &target,
        .head_size = sizeof(target),
        .iov = iov,
        .offset = op->out.offset,
        .size = portion(conn, space, &op->out, sizeof(target)),
        .stays = true,
    };
    btl_ib_prefetch_source(op->local, piece.offset, piece.size);
    return make(conn, &piece);
}

static btl_ib_segment_t *cut_get(btl_ib_conn_t *conn, const btl_ib_op_t *op)
{
    btl_ib_wire_target_t target = target_of(op, 0);
    piece_t piece = {.type = BTL_IB_TYPE_GET, .head = &target, .head_size = sizeof(target)};
    return make(conn, &piece);
}

static btl_ib_segment_t *cut_atomic(btl_ib_conn_t *conn, const btl_ib_op_t *op)
{
    btl_ib_wire_atomic_t atomic = {
        .region = BTL_IB_LE64(op->key.id),
        .secret = BTL_IB_LE64(op->key.secret),
        .offset = BTL_IB_LE64(op->offset),
        .operand = BTL_IB_LE64(op->operand),
        .compare = BTL_IB_LE64(op->compare),
        .operation = BTL_IB_LE32(op->id),
        .code = (uint8_t) op->code,
        .type = (uint8_t) op->type,
    };
    piece_t piece = {.type = BTL_IB_TYPE_ATOMIC, .head = &atomic, .head_size = sizeof(atomic)};
    return make(conn, &piece);
}

static btl_ib_segment_t *cut_request(btl_ib_conn_t *conn, const btl_ib_op_t *op)
{
    btl_ib_segment_t *segment =
        op->kind == BTL_IB_OP_GET ? cut_get(conn, op) : cut_atomic(conn, op);

    if (segment != NULL) {
        segment->payload = (uint32_t) op->out.size;
    }
    return segment;
}

/* ---- answers ---- */

static btl_ib_segment_t *cut_stream(btl_ib_conn_t *conn, const btl_ib_stream_t *stream,
                                    uint32_t space)
{
    const struct iovec iov[2] = {{.iov_base = stream->memory, .iov_len = stream->out.size}};
    btl_ib_wire_got_t got = {
        .offset_low = BTL_IB_LE32(stream->out.offset & UINT32_MAX),
        .offset_high = BTL_IB_LE32(stream->out.offset >> 32),
        .operation = BTL_IB_LE32(stream->id),
    };
    piece_t piece = {
        .type = BTL_IB_TYPE_GOT,
        .head = &got,
        .head_size = sizeof(got),
        .iov = iov,
        .offset = stream->out.offset,
        .size = portion(conn, space, &stream->out, sizeof(got)),
        .region = stream->key.id,
    };
    btl_ib_prefetch_source(stream->memory, piece.offset, piece.size);
    return make(conn, &piece);
}

/* As many as fit. */
static btl_ib_segment_t *cut_replies(btl_ib_conn_t *conn, const btl_ib_out_t *out, uint32_t space)
{
    uint32_t size = portion(conn, space, out, 0);

    size -= size % (uint32_t) sizeof(btl_ib_wire_reply_t);
    btl_ib_segment_t *segment = btl_ib_send_prepare(conn, BTL_IB_TYPE_REPLY, size);
    if (segment != NULL) {
        btl_ib_serve_write(conn, btl_ib_send_body(segment), size);
        segment->payload = size;
    }
    return segment;
}

/* ---- all of them ---- */

static btl_ib_segment_t *cut(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t space)
{
    switch (out->kind) {
    case BTL_IB_OUT_PUT:
        return cut_put(conn, BTL_IB_CONTAINER(out, btl_ib_op_t, out), space);
    case BTL_IB_OUT_REQUEST:
        return cut_request(conn, BTL_IB_CONTAINER(out, btl_ib_op_t, out));
    case BTL_IB_OUT_STREAM:
        return cut_stream(conn, BTL_IB_CONTAINER(out, btl_ib_stream_t, out), space);
    case BTL_IB_OUT_REPLIES:
        return cut_replies(conn, out, space);
    default:
        return cut_message(conn, BTL_IB_CONTAINER(out, btl_ib_msg_t, out));
    }
}

/* Does its memory stay in use until all of its segments are acknowledged? */
static bool counts_segments(const btl_ib_segment_t *segment)
{
    return segment->type == BTL_IB_TYPE_CHUNK || segment->type == BTL_IB_TYPE_PUT;
}

/* Does somebody wait for the acknowledgement of its last segment? */
static bool wants_ack_now(const btl_ib_out_t *out)
{
    return out->kind == BTL_IB_OUT_PUT
           || (out->kind == BTL_IB_OUT_MESSAGE
               && BTL_IB_CONTAINER(out, btl_ib_msg_t, out)->want_ack_now);
}

btl_ib_segment_t *btl_ib_cut(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t space)
{
    btl_ib_segment_t *segment = cut(conn, out, space);

    if (segment == NULL) {
        return NULL;
    }
    segment->out = out;
    out->offset += segment->payload;
    out->pending += counts_segments(segment);
    segment->last = out->offset == out->size;
    if (segment->last && wants_ack_now(out)) {
        segment->flags |= BTL_IB_FLAG_ACK_NOW;
    }
    return segment;
}

/* ---- several messages in one ---- */

static const btl_ib_msg_t *bundleable(const btl_ib_list_t *item)
{
    const btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);

    if (out->kind != BTL_IB_OUT_MESSAGE) {
        return NULL;
    }
    const btl_ib_msg_t *msg = BTL_IB_CONTAINER(out, btl_ib_msg_t, out);
    return msg->ordered || msg->unit != 0 ? NULL : msg;
}

uint32_t btl_ib_cut_count(const btl_ib_list_t *pending, uint32_t room, uint32_t *size)
{
    const btl_ib_list_t *item = btl_ib_list_first(pending);
    const btl_ib_msg_t *msg;
    uint32_t count = 0;

    *size = 0;
    for (; item != NULL && (msg = bundleable(item)) != NULL;
         item = btl_ib_list_next(pending, item)) {
        uint64_t more = btl_ib_wire_bundled_size(msg->out.size);
        if (more > room - *size) {
            break;
        }
        *size += (uint32_t) more;
        count++;
    }
    return count;
}

btl_ib_segment_t *btl_ib_cut_bundle(btl_ib_conn_t *conn, btl_ib_list_t *pending, uint32_t count,
                                    uint32_t size, btl_ib_list_t *bundled)
{
    btl_ib_segment_t *segment = btl_ib_send_prepare(conn, BTL_IB_TYPE_BUNDLE, size);

    if (segment == NULL) {
        return NULL;
    }
    uint8_t *to = btl_ib_send_body(segment);
    segment->bundled = count;
    for (; count > 0; count--) {
        btl_ib_list_t *item = btl_ib_list_pop(pending);
        btl_ib_msg_t *msg =
            BTL_IB_CONTAINER(BTL_IB_CONTAINER(item, btl_ib_out_t, link), btl_ib_msg_t, out);
        uint32_t bytes = (uint32_t) msg->out.size;
        btl_ib_cut_copy(msg->iov, 2, 0, bytes, btl_ib_wire_put_entry(to, bytes, msg->tag));
        to += btl_ib_wire_bundled_size(bytes);
        msg->out.offset = bytes;
        segment->payload += bytes;
        btl_ib_list_push_tail(bundled, item);
    }
    return segment;
}

void btl_ib_cut_own(btl_ib_segment_t *segment)
{
    memcpy(segment->wire + segment->size, segment->iov[0].iov_base, segment->outside);
    segment->size += segment->outside;
    segment->outside = 0;
    segment->region = 0;
}

void btl_ib_cut_undo(btl_ib_segment_t *segment)
{
    segment->out->offset -= segment->payload;
    segment->out->pending -= counts_segments(segment);
}

void btl_ib_cut_left(btl_ib_segment_t *segment)
{
    if (!counts_segments(segment)) {
        segment->out = NULL; /* the segment is a copy, and may outlive it */
    }
}
