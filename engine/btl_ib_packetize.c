/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_packetize.h"

#include "btl_ib_rma_replies.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_state.h"

#include <string.h>

enum {
    MORE_CHUNKS = 16, /* of so many chunks there may be one more, if that makes all of one size */
};

static inline btl_ib_op_t *op_of(btl_ib_out_t *out)
{
    return BTL_IB_CONTAINER(out, btl_ib_op_t, out);
}

static inline btl_ib_stream_t *stream_of(btl_ib_out_t *out)
{
    return BTL_IB_CONTAINER(out, btl_ib_stream_t, out);
}

/* ---- the headers of each type, behind the common one: pictures are in btl_ib_wire.h ---- */

static void write_chunk(const btl_ib_msg_t *msg, uint64_t offset, uint8_t *to)
{
    const btl_ib_wire_chunk_t chunk = {
        .fragment = BTL_IB_LE32(msg->id),
        .total = BTL_IB_LE32(msg->out.size),
        .index = BTL_IB_LE16(offset / msg->unit),
        .unit = BTL_IB_LE16(msg->unit),
    };
    memcpy(to, &chunk, sizeof(chunk));
}

/* Writes the target of a segment that begins at byte `offset` of the operation. */
static void write_target(const btl_ib_op_t *op, uint64_t offset, uint8_t *to)
{
    const btl_ib_wire_target_t target = {
        .region = BTL_IB_LE64(op->key.id),
        .secret = BTL_IB_LE64(op->key.secret),
        .offset = BTL_IB_LE64(op->offset + offset),
        .end = BTL_IB_LE64(op->offset + op->size),
        .operation = BTL_IB_LE32(op->id),
    };
    memcpy(to, &target, sizeof(target));
}

static void write_atomic(const btl_ib_op_t *op, uint8_t *to)
{
    const btl_ib_wire_atomic_t atomic = {
        .region = BTL_IB_LE64(op->key.id),
        .secret = BTL_IB_LE64(op->key.secret),
        .offset = BTL_IB_LE64(op->offset),
        .operand = BTL_IB_LE64(op->operand),
        .compare = BTL_IB_LE64(op->compare),
        .operation = BTL_IB_LE32(op->id),
        .code = (uint8_t) op->code,
        .type = (uint8_t) op->type,
    };
    memcpy(to, &atomic, sizeof(atomic));
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

/* ---- bytes of a caller's memory: copied behind the headers, or sent from where they are ---- */

/* What a segment is made of: the header of its type, which the caller of make_segment() writes,
 * then bytes. */
typedef struct btl_ib_piece {
    btl_ib_type_t type;
    uint32_t head;           /* bytes of that header */
    const struct iovec *iov; /* two elements: where the bytes are */
    uint64_t offset;         /* of the first byte in there */
    uint32_t size;
    uint32_t pad; /* zeros behind them */
    /* The bytes are sent from where they are. They stay there until acknowledged, or as long as our
     * `region` is registered (0: they are in none). */
    bool refers;
    uint64_t region;
} btl_ib_piece_t;

/* A segment with room for its headers, and its bytes in it or referred to. Bytes of a region are
 * referred to, but there is room to copy them in case the region is removed. NULL: no memory. */
static btl_ib_segment_t *make_segment(btl_ib_conn_t *conn, const btl_ib_piece_t *piece)
{
    static const uint8_t zeros[BTL_IB_PAD_MAX];
    const bool outside = piece->refers && piece->size > 0;
    const bool room = !outside || piece->region != 0;
    btl_ib_segment_t *segment =
        btl_ib_packet_make(conn, piece->type, piece->head + (room ? piece->size + piece->pad : 0));

    if (segment == NULL) {
        return NULL;
    }
    segment->payload = piece->size;
    if (outside) {
        uint64_t offset = piece->offset;
        uint32_t rest = piece->size, bytes = piece->size;
        struct iovec iov[2] = {btl_ib_packet_part(&piece->iov[0], &offset, &rest)};
        if (rest > 0) {
            iov[iov[0].iov_len > 0] = btl_ib_packet_part(&piece->iov[1], &offset, &rest);
        }
        if (iov[1].iov_len == 0) { /* bytes in two places leave no third for zeros */
            iov[1] = (struct iovec){.iov_base = (void *) (uintptr_t) zeros, .iov_len = piece->pad};
            bytes += piece->pad;
        }
        segment->iov[0] = iov[0];
        segment->iov[1] = iov[1];
        segment->outside = bytes;
        if (room) {
            segment->size -= piece->size;
            segment->region = piece->region;
            btl_ib_regions_lend(&conn->engine->regions, piece->region, 1);
        }
    } else if (piece->size > 0) {
        uint8_t *bytes = btl_ib_packet_body(segment) + piece->head;
        btl_ib_packet_copy(piece->iov, 2, piece->offset, piece->size, bytes);
        memset(bytes + piece->size, 0, piece->pad);
        conn->engine->count.copied_out += piece->size;
    }
    return segment;
}

/* The most bytes that a segment of `channel` holds behind a header of `head` bytes. */
static uint32_t segment_room(const btl_ib_conn_t *conn, uint32_t channel, uint32_t head)
{
    const uint32_t largest =
        btl_ib_min_u32(conn->peer_queues->q[channel].size, conn->pmtud.datagram_max);

    return largest - btl_ib_packet_overhead(conn) - head;
}

/* ---- what is split: long messages, PUTs, what a GET asked for ---- */

/* What the segments of one thing have in common, and the one to be made next. */
typedef struct series {
    btl_ib_piece_t piece;
    struct iovec memory[2]; /* of a PUT, and of what a GET asked for */
    uint32_t unit;          /* bytes in each segment but the last */
    uint32_t pad_most;      /* zeros that the last may get to be as long as the others, at most */
    uint64_t ahead;         /* bytes that follow the last one made without a gap in memory */
    /* Chunks that were begun on a rail with larger datagrams: the present rail carries no full one
     * whole, nor has it buffers for them. They leave in parts, which are copies, so they refer to
     * their bytes whatever the rail can refer to; by another rail they leave as copies, too. */
    bool beyond_rail;
} series_t;

/*
 * Bytes of each chunk of a message of `size` bytes. Where the network segments bursts of datagrams
 * of one size (GSO), chunks of one size are worth more than few that are full: then all chunks of
 * several messages leave in one burst. Segments are a multiple of 8 bytes, so that those in a burst
 * are aligned. What that adds up to must fit into the padding of the last one, else there are
 * a few more chunks, if any such number will do.
 */
static uint32_t unit_of(const btl_ib_conn_t *conn, uint64_t size)
{
    const uint32_t heads = btl_ib_packet_overhead(conn) + (uint32_t) sizeof(btl_ib_wire_chunk_t);
    const uint32_t most = conn->pmtud.datagram_max - heads;

    if (conn->cc.gso_segments <= 1) {
        return most;
    }
    const uint64_t least = (size + most - 1) / most;
    for (uint64_t chunks = least; chunks <= least + least / MORE_CHUNKS; chunks++) {
        const uint32_t segment = (heads + (uint32_t) ((size + chunks - 1) / chunks) + 7) & ~7u;
        const uint32_t unit = btl_ib_min_u32(segment - heads, most);
        if ((unit - size % unit) % unit <= BTL_IB_PAD_MAX) {
            return unit;
        }
    }
    return most;
}

/* A message becomes chunks, from its first one on. */
static void begin_chunks(btl_ib_conn_t *conn, btl_ib_msg_t *msg, series_t *series)
{
    if (msg->unit == 0) {
        msg->unit = unit_of(conn, msg->out.size);
        msg->id = conn->packetize.next_fragment++;
    }
    series->unit = msg->unit;
    series->pad_most = conn->cc.gso_segments <= 1 ? 0 : BTL_IB_PAD_MAX;
    series->piece.type = BTL_IB_TYPE_CHUNK;
    series->piece.head = sizeof(btl_ib_wire_chunk_t);
    series->piece.iov = msg->iov;
}

static void begin_memory(const btl_ib_conn_t *conn, const btl_ib_out_t *out, uint32_t channel,
                         void *memory, series_t *series)
{
    series->memory[0] = (struct iovec){.iov_base = memory, .iov_len = (size_t) out->size};
    series->memory[1] = (struct iovec){.iov_len = 0};
    series->unit = segment_room(conn, channel, series->piece.head);
    series->pad_most = 0;
    series->piece.iov = series->memory;
}

/* Memory that the transport would read after send() returned must be ours, and protection needs all
 * of a datagram in one piece. */
bool btl_ib_packetize_can_refer(const btl_ib_conn_t *conn, uint32_t size)
{
    const btl_ib_transport_attr_t *attr = &conn->route.via->transport->attr;
    return size <= attr->inline_size && attr->max_iov >= 3 && attr->registered_page == 0
           && conn->engine->protection.ops->trailer == 0;
}

static void begin_series(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel, series_t *series)
{
    series->piece.region = 0;
    if (out->kind == BTL_IB_OUT_MESSAGE) {
        begin_chunks(conn, btl_ib_msg_of(out), series);
    } else if (out->kind == BTL_IB_OUT_PUT) {
        series->piece.type = BTL_IB_TYPE_PUT;
        series->piece.head = sizeof(btl_ib_wire_target_t);
        begin_memory(conn, out, channel, op_of(out)->local, series);
    } else {
        series->piece.type = BTL_IB_TYPE_GOT;
        series->piece.head = sizeof(btl_ib_wire_got_t);
        series->piece.region = stream_of(out)->key.id;
        begin_memory(conn, out, channel, stream_of(out)->memory, series);
    }
    const uint32_t size = btl_ib_packet_overhead(conn) + series->piece.head + series->unit;
    series->beyond_rail = size > conn->route.via->transport->attr.max_datagram;
    series->piece.refers = series->beyond_rail || btl_ib_packetize_can_refer(conn, size);
    if (series->piece.refers && out->kind == BTL_IB_OUT_MESSAGE) {
        btl_ib_msg_of(out)->refers = true;
    }
}

/* Writes the header of a piece whose bytes begin at `offset` of `out`. */
static void write_place(btl_ib_out_t *out, uint64_t offset, const btl_ib_segment_t *segment)
{
    uint8_t *body = btl_ib_packet_body(segment);

    if (out->kind == BTL_IB_OUT_MESSAGE) {
        write_chunk(btl_ib_msg_of(out), offset, body);
    } else if (out->kind == BTL_IB_OUT_PUT) {
        write_target(op_of(out), offset, body);
    } else {
        write_got(stream_of(out), offset, body);
    }
}

/* Writes the headers of `count` pieces that are as `before`, which is in front of out->offset and
 * has no CONNECT block: each has its own `unit` bytes. */
static void write_places(btl_ib_out_t *out, uint32_t unit, const btl_ib_segment_t *before,
                         btl_ib_segment_t *const *segments, uint32_t count)
{
    const bool is_message = out->kind == BTL_IB_OUT_MESSAGE;
    uint8_t *bytes = before->iov[0].iov_base;
    btl_ib_wire_chunk_t chunk = {0};

    if (is_message) {
        write_chunk(btl_ib_msg_of(out), out->offset, (uint8_t *) &chunk);
    }
    const uint32_t first = BTL_IB_LE16(chunk.index);
    for (uint32_t i = 0; i < count; i++) {
        bytes += unit;
        segments[i]->iov[0].iov_base = bytes;
        segments[i]->continues = true;
        if (is_message) {
            chunk.index = BTL_IB_LE16(first + i);
            memcpy(segments[i]->wire + sizeof(btl_ib_wire_header_t), &chunk, sizeof(chunk));
        } else {
            write_place(out, out->offset + (uint64_t) i * unit, segments[i]);
        }
    }
}

/* The next piece. NULL: no memory. */
static btl_ib_segment_t *make_piece(btl_ib_conn_t *conn, btl_ib_out_t *out, series_t *series)
{
    const uint64_t rest = out->size - out->offset;
    btl_ib_piece_t *piece = &series->piece;

    piece->offset = out->offset;
    piece->size = btl_ib_clip_u32(rest, series->unit);
    piece->pad = rest < series->unit && series->unit - rest <= series->pad_most
                     ? series->unit - (uint32_t) rest
                     : 0;
    if (series->beyond_rail) { /* the last one may be shorter, and leave whole */
        piece->refers = btl_ib_packet_overhead(conn) + piece->head + piece->size + piece->pad
                        > conn->route.via->transport->attr.max_datagram;
    }
    btl_ib_segment_t *segment = make_segment(conn, piece);
    if (segment == NULL) {
        return NULL;
    }
    const uint64_t end = piece->offset + piece->size;
    const uint64_t first = piece->iov[0].iov_len;
    series->ahead = end <= first ? first - end : out->size - end;
    if (out->kind == BTL_IB_OUT_MESSAGE) {
        segment->tag = btl_ib_msg_of(out)->tag;
    }
    write_place(out, piece->offset, segment);
    return segment;
}

/* Pieces that continue `before`, at most `most`: they differ from it in their place only. Returns
 * how many; the first that cannot be had so is made by make_piece(). */
static uint32_t continue_piece(btl_ib_conn_t *conn, btl_ib_out_t *out, series_t *series,
                               const btl_ib_segment_t *before, btl_ib_segment_t **segments,
                               uint32_t most)
{
    if (before->outside != series->unit || before->iov[1].iov_len != 0 || before->flags != 0) {
        return 0;
    }
    /* bytes of a region may have to be copied into it */
    const uint32_t room = before->size + (before->region != 0 ? before->payload : 0);
    const uint32_t count = btl_ib_pool_take(before, room, segments,
                                            btl_ib_clip_u32(series->ahead / series->unit, most));
    write_places(out, series->unit, before, segments, count);
    series->ahead -= (uint64_t) count * series->unit;
    if (before->region != 0) {
        btl_ib_regions_lend(&conn->engine->regions, before->region, count);
    }
    return count;
}

/* ---- what fits into one segment: short messages, requests, replies ---- */

static btl_ib_segment_t *make_message(btl_ib_conn_t *conn, const btl_ib_msg_t *msg)
{
    const btl_ib_piece_t piece = {
        .type = BTL_IB_TYPE_DATA,
        .iov = msg->iov,
        .size = (uint32_t) msg->out.size,
    };
    btl_ib_segment_t *segment = make_segment(conn, &piece);

    if (segment != NULL) {
        segment->tag = msg->tag;
    }
    return segment;
}

static btl_ib_segment_t *make_request(btl_ib_conn_t *conn, const btl_ib_op_t *op)
{
    const bool get = op->kind == BTL_IB_OP_GET;
    const btl_ib_piece_t piece = {
        .type = get ? BTL_IB_TYPE_GET : BTL_IB_TYPE_ATOMIC,
        .head = get ? sizeof(btl_ib_wire_target_t) : sizeof(btl_ib_wire_atomic_t),
    };
    btl_ib_segment_t *segment = make_segment(conn, &piece);

    if (segment != NULL) {
        if (get) {
            write_target(op, 0, btl_ib_packet_body(segment));
        } else {
            write_atomic(op, btl_ib_packet_body(segment));
        }
        segment->payload = (uint32_t) op->out.size;
    }
    return segment;
}

/* Writes as many replies as fit. */
static btl_ib_segment_t *make_replies(btl_ib_conn_t *conn, const btl_ib_out_t *out,
                                      uint32_t channel)
{
    uint32_t size = btl_ib_clip_u32(out->size - out->offset, segment_room(conn, channel, 0));

    size -= size % (uint32_t) sizeof(btl_ib_wire_reply_t);
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_REPLY, size);
    if (segment != NULL) {
        btl_ib_replies_write(conn, btl_ib_packet_body(segment), size);
        segment->payload = size;
    }
    return segment;
}

/* ---- all of them ---- */

/* True if it is split, even if into one piece only. A short message is if its order matters: only
 * chunks are delivered in the order of sending. */
static bool is_in_pieces(const btl_ib_conn_t *conn, const btl_ib_out_t *out)
{
    if (out->kind != BTL_IB_OUT_MESSAGE) {
        return btl_ib_out_is_memory(out);
    }
    const btl_ib_msg_t *msg = BTL_IB_CONTAINER(out, const btl_ib_msg_t, out);
    return msg->ordered || msg->unit != 0 || msg->out.size > btl_ib_conn_segment_max(conn);
}

/* `count` segments, as the one given, have the next bytes of `out`. Its last one asks for its
 * acknowledgement if somebody waits for that. */
static void piece_made(btl_ib_out_t *out, btl_ib_segment_t *segment, uint32_t count)
{
    segment->out = out;
    out->offset += (uint64_t) count * segment->payload;
    btl_ib_out_count(out, btl_ib_packetize_waits(segment) ? (int) count : 0);
    segment->last = out->offset == out->size;
    if (segment->last
        && (out->kind == BTL_IB_OUT_PUT
            || (out->kind == BTL_IB_OUT_MESSAGE && btl_ib_msg_of(out)->want_ack_now))) {
        segment->flags |= BTL_IB_FLAG_ACK_NOW;
    }
}

int btl_ib_packetize(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                     btl_ib_segment_t **segments, int most)
{
    btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    const bool in_pieces = is_in_pieces(conn, out);
    series_t series;
    int n = 0;

    if (in_pieces) {
        begin_series(conn, out, channel, &series);
    }
    do {
        if (btl_ib_tx_window_reserve(window, (uint32_t) n + 1, &conn->engine->mem) != 0) {
            break;
        }
        segments[n] = in_pieces                         ? make_piece(conn, out, &series)
                      : out->kind == BTL_IB_OUT_REQUEST ? make_request(conn, op_of(out))
                      : out->kind == BTL_IB_OUT_REPLIES ? make_replies(conn, out, channel)
                                                        : make_message(conn, btl_ib_msg_of(out));
        if (segments[n] == NULL) {
            break;
        }
        piece_made(out, segments[n++], 1);
        if (in_pieces && n < most) {
            const uint32_t places = btl_ib_tx_window_room(window) - (uint32_t) n;
            const uint32_t more = continue_piece(conn, out, &series, segments[n - 1], segments + n,
                                                 btl_ib_min_u32(places, (uint32_t) (most - n)));
            if (more > 0) {
                n += (int) more;
                piece_made(out, segments[n - 1], more);
            }
        }
    } while (n < most && !segments[n - 1]->last);
    return n;
}

void btl_ib_packetize_undo(btl_ib_segment_t *segment)
{
    segment->out->offset -= segment->payload;
    btl_ib_out_count(segment->out, -btl_ib_packetize_waits(segment));
}

/* ---- several short messages in one segment ---- */

static inline bool is_bundleable(const btl_ib_out_t *out)
{
    if (out->kind != BTL_IB_OUT_MESSAGE) {
        return false;
    }
    const btl_ib_msg_t *msg = BTL_IB_CONTAINER(out, btl_ib_msg_t, out);
    return !msg->ordered && msg->unit == 0;
}

uint32_t btl_ib_packetize_bundle_count(const btl_ib_list_t *pending, uint32_t room, uint32_t *size)
{
    uint64_t left = room;
    uint32_t count = 0;

    for (const btl_ib_list_t *item = pending->next; item != pending; item = item->next, count++) {
        const btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
        const uint64_t bytes = btl_ib_wire_bundled_size(out->size);
        if (bytes > left || !is_bundleable(out)) {
            break;
        }
        left -= bytes;
    }
    *size = room - (uint32_t) left;
    return count;
}

btl_ib_segment_t *btl_ib_packetize_bundle(btl_ib_conn_t *conn, btl_ib_list_t *pending,
                                          uint32_t count, uint32_t size, uint32_t channel,
                                          btl_ib_list_t *bundled)
{
    if (btl_ib_tx_window_reserve(&conn->tx[channel].sentmap.window, 1, &conn->engine->mem) != 0) {
        return NULL;
    }
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_BUNDLE, size);
    if (segment == NULL) {
        return NULL;
    }
    btl_ib_list_t *const first = btl_ib_list_first(pending);
    btl_ib_list_t *last = pending;
    uint8_t *to = btl_ib_packet_body(segment);
    uint32_t payload = 0;
    segment->bundled = count;
    for (; count > 0; count--) {
        last = last->next;
        btl_ib_msg_t *msg = btl_ib_msg_of(BTL_IB_CONTAINER(last, btl_ib_out_t, link));
        uint32_t bytes = (uint32_t) msg->out.size;
        btl_ib_packet_copy_message(msg, btl_ib_wire_put_entry(to, bytes, msg->tag));
        to += btl_ib_wire_bundled_size(bytes);
        msg->out.offset = bytes;
        payload += bytes;
    }
    btl_ib_list_move_tail(bundled, first, last);
    segment->payload = payload;
    conn->engine->count.copied_out += payload;
    return segment;
}

void btl_ib_packetize_unbundle(const btl_ib_segment_t *segment, btl_ib_list_t *bundled,
                               btl_ib_list_t *pending)
{
    for (uint32_t n = segment->bundled; n > 0; n--) {
        btl_ib_list_t *item = btl_ib_list_last(bundled);
        BTL_IB_CONTAINER(item, btl_ib_out_t, link)->offset = 0;
        btl_ib_list_remove(item);
        btl_ib_list_push_head(pending, item);
    }
}
