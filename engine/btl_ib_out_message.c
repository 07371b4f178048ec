/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_out_message.h"

#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"
#include "btl_ib_zcopy.h"

enum {
    MORE_CHUNKS = 16, /* of so many chunks there may be one more, if that makes all of one size */
};

/* ---- a message that is split ---- */

/*
 * Returns the bytes of each chunk of a message of `size` bytes. Where the network segments bursts
 * of datagrams of one size (GSO), chunks of one size are worth more than few that are full: then
 * all chunks of several messages leave in one burst. Segments are a multiple of 8 bytes, so that
 * those in a burst are aligned. What that adds up to must fit into the padding of the last one,
 * else there are a few more chunks, if any such number will do.
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

/* Writes the headers of chunks that begin at `offset` of a message. They differ in their index: the
 * rest stays in registers. */
static void write_chunks(const btl_ib_msg_t *msg, uint64_t offset,
                         btl_ib_segment_t *const *segments, int count)
{
    /* nothing was received since the first was made: all have a CONNECT block, or none */
    const size_t body = (size_t) (btl_ib_packet_body(segments[0]) - segments[0]->wire);
    const btl_ib_wire_chunk_t chunk = {
        .fragment = BTL_IB_LE32(msg->id),
        .total = BTL_IB_LE32(msg->out.size),
        .unit = BTL_IB_LE16(msg->unit),
    };
    uint32_t index = (uint32_t) (offset / msg->unit);

    for (int i = 0; i < count; i++, index++) {
        btl_ib_wire_chunk_t *to = (btl_ib_wire_chunk_t *) (void *) (segments[i]->wire + body);
        to->fragment = chunk.fragment;
        to->total = chunk.total;
        to->index = BTL_IB_LE16(index);
        to->unit = chunk.unit;
    }
}

static int make_chunks(btl_ib_conn_t *conn, btl_ib_msg_t *msg, uint32_t channel,
                       btl_ib_segment_t **segments, int most)
{
    const uint64_t offset = msg->out.offset;

    if (msg->unit == 0) {
        msg->unit = unit_of(conn, msg->out.size);
        msg->id = conn->message.next_fragment++;
    }
    btl_ib_series_t series = {
        .piece = {.type = BTL_IB_TYPE_CHUNK, .head = sizeof(btl_ib_wire_chunk_t), .iov = msg->iov},
        .unit = msg->unit,
        .pad_most = conn->cc.gso_segments <= 1 ? 0 : BTL_IB_PAD_MAX,
        .tag = msg->tag,
        .ask_ack = msg->want_ack_now,
    };
    const int count = btl_ib_packetize_series(conn, &msg->out, channel, &series, segments, most);
    msg->refers |= series.refers;
    if (count > 0) {
        write_chunks(msg, offset, segments, count);
    }
    return count;
}

/* ---- a message, whole or split ---- */

/* Makes the segment of a message that leaves as a whole. */
static int make_data(btl_ib_conn_t *conn, btl_ib_msg_t *msg, btl_ib_segment_t **segments)
{
    const uint32_t size = (uint32_t) msg->out.size;

    segments[0] =
        btl_ib_packetize_plain(conn, &msg->out, BTL_IB_TYPE_DATA, size, msg->want_ack_now);
    if (segments[0] == NULL) {
        return 0;
    }
    segments[0]->tag = msg->tag;
    btl_ib_packet_copy_message(msg, btl_ib_packet_body(segments[0]));
    conn->engine->count.copied_out += size;
    return 1;
}

/* Makes the next segments of a message. A short message is split, into one chunk, if its order
 * matters: only chunks are delivered in the order of sending. */
int btl_ib_message_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                            btl_ib_segment_t **segments, int most)
{
    btl_ib_msg_t *msg = btl_ib_msg_of(out);

    return msg->ordered || msg->unit != 0 || out->size > btl_ib_conn_segment_max(conn)
               ? make_chunks(conn, msg, channel, segments, most)
               : make_data(conn, msg, segments);
}

bool btl_ib_message_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied)
{
    conn->engine->count.sent_messages++;
    out->sent_due = copied || !btl_ib_zcopy_left(conn, btl_ib_msg_of(out));
    return copied;
}

bool btl_ib_message_ended(btl_ib_out_t *out, int status)
{
    if (btl_ib_zcopy_end(out->conn->engine, btl_ib_msg_of(out)) && status == 0) {
        out->sent_due = true;
    }
    return true;
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

uint32_t btl_ib_message_bundle_count(const btl_ib_list_t *pending, uint32_t room, uint32_t *size)
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

btl_ib_segment_t *btl_ib_message_bundle(btl_ib_conn_t *conn, btl_ib_list_t *pending, uint32_t count,
                                        uint32_t size, uint32_t channel, btl_ib_list_t *bundled)
{
    if (!btl_ib_packetize_reserve(conn, channel, 1)) {
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

void btl_ib_message_unbundle(const btl_ib_segment_t *segment, btl_ib_list_t *bundled,
                             btl_ib_list_t *pending)
{
    for (uint32_t n = segment->bundled; n > 0; n--) {
        btl_ib_list_t *item = btl_ib_list_last(bundled);
        BTL_IB_CONTAINER(item, btl_ib_out_t, link)->offset = 0;
        btl_ib_list_remove(item);
        btl_ib_list_push_head(pending, item);
    }
}

void btl_ib_message_left_bundled(btl_ib_conn_t *conn, btl_ib_list_t *bundled, uint32_t count)
{
    btl_ib_engine_t *engine = conn->engine;

    engine->count.sent_bundles++;
    engine->count.sent_messages += count;
    btl_ib_list_t *const first = btl_ib_list_first(bundled);
    btl_ib_list_t *last = bundled;
    for (; count > 0; count--) {
        last = last->next;
        btl_ib_out_t *out = BTL_IB_CONTAINER(last, btl_ib_out_t, link);
        (void) btl_ib_zcopy_end(engine, btl_ib_msg_of(out));
        out->sent_due = true;
        out->done_due = true;
        out->status = 0;
    }
    btl_ib_list_move_tail(&engine->events, first, last);
    btl_ib_work_note(&engine->work);
}
