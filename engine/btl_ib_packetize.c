/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_packetize.h"

#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_state.h"

#include <string.h>

/* Notes that `count` segments, as the one given, have the next bytes of `out`; `ask_ack`: its last
 * one asks for its acknowledgement. */
static inline void piece_made(btl_ib_out_t *out, btl_ib_segment_t *segment, uint32_t count,
                              bool ask_ack)
{
    segment->out = out;
    out->offset += (uint64_t) count * segment->payload;
    btl_ib_out_count(out, btl_ib_packetize_waits(segment) ? (int) count : 0);
    segment->last = out->offset == out->size;
    if (segment->last && ask_ack) {
        segment->flags |= BTL_IB_FLAG_ACK_NOW;
    }
}

btl_ib_segment_t *btl_ib_packetize_plain(btl_ib_conn_t *conn, btl_ib_out_t *out, btl_ib_type_t type,
                                         uint32_t size, bool ask_ack)
{
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, type, size);

    if (segment != NULL) {
        segment->payload = size;
        piece_made(out, segment, 1, ask_ack);
    }
    return segment;
}

/* ---- bytes of a caller's memory: copied behind the headers, or sent from where they are ---- */

/* Makes a segment with room for its headers, and its bytes in it or referred to. Bytes of a region
 * are referred to, but there is room to copy them in case the region is removed. Returns NULL
 * without memory. */
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

uint32_t btl_ib_packetize_room(const btl_ib_conn_t *conn, uint32_t channel, uint32_t head)
{
    const uint32_t largest =
        btl_ib_min_u32(conn->peer_queues->q[channel].size, conn->pmtud.datagram_max);

    return largest - btl_ib_packet_overhead(conn) - head;
}

/* ---- what is split: long messages, PUTs, what a GET asked for ---- */

/* True if a segment may refer to its bytes. Memory that the transport would read after send()
 * returned must be ours, and protection needs all of a datagram in one piece. */
bool btl_ib_packetize_can_refer(const btl_ib_conn_t *conn, uint32_t size)
{
    const btl_ib_transport_attr_t *attr = &conn->route.via->transport->attr;
    return size <= attr->inline_size && attr->max_iov >= 3 && attr->registered_page == 0
           && conn->engine->protection.ops->trailer == 0;
}

/* Makes the next piece. Returns NULL without memory. */
static btl_ib_segment_t *make_piece(btl_ib_conn_t *conn, btl_ib_out_t *out, btl_ib_series_t *series)
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
    segment->tag = series->tag;
    return segment;
}

/* Pieces that continue `before`, at most `most`: they differ from it in their place only. Returns
 * how many; the first that cannot be had so is made by make_piece(). */
static uint32_t continue_piece(btl_ib_conn_t *conn, btl_ib_series_t *series,
                               const btl_ib_segment_t *before, btl_ib_segment_t **segments,
                               uint32_t most)
{
    if (before->outside != series->unit || before->iov[1].iov_len != 0 || before->flags != 0) {
        return 0;
    }
    /* bytes of a region may have to be copied into it */
    const uint32_t room = before->size + (before->region != 0 ? before->payload : 0);
    const uint32_t count = btl_ib_pool_take(before, room, series->unit, segments,
                                            btl_ib_clip_u32(series->ahead / series->unit, most));
    series->ahead -= (uint64_t) count * series->unit;
    if (before->region != 0) {
        btl_ib_regions_lend(&conn->engine->regions, before->region, count);
    }
    return count;
}

int btl_ib_packetize_series(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                            btl_ib_series_t *series, btl_ib_segment_t **segments, int most)
{
    const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    const uint32_t size = btl_ib_packet_overhead(conn) + series->piece.head + series->unit;
    int n = 0;

    series->beyond_rail = size > conn->route.via->transport->attr.max_datagram;
    series->piece.refers = series->beyond_rail || btl_ib_packetize_can_refer(conn, size);
    series->refers = series->piece.refers;
    do {
        segments[n] = make_piece(conn, out, series);
        if (segments[n] == NULL) {
            break;
        }
        piece_made(out, segments[n++], 1, series->ask_ack);
        if (n < most) {
            const uint32_t places = btl_ib_tx_window_room(window) - (uint32_t) n;
            const uint32_t more = continue_piece(conn, series, segments[n - 1], segments + n,
                                                 btl_ib_min_u32(places, (uint32_t) (most - n)));
            if (more > 0) {
                n += (int) more;
                piece_made(out, segments[n - 1], more, series->ask_ack);
            }
        }
    } while (n < most && !segments[n - 1]->last && btl_ib_packetize_reserve(conn, channel, n + 1));
    return n;
}

void btl_ib_packetize_undo(btl_ib_segment_t *segment)
{
    segment->out->offset -= segment->payload;
    btl_ib_out_count(segment->out, -btl_ib_packetize_waits(segment));
}
