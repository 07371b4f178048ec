/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_packet.h"

#include "btl_ib_list.h"

#include <string.h>

uint32_t btl_ib_conn_segment_max(const btl_ib_conn_t *conn)
{
    return conn->pmtud.datagram_max - btl_ib_packet_overhead(conn);
}

static void write_connect(const btl_ib_conn_t *conn, uint8_t *to)
{
    btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(conn->engine->config.name),
        .connection = BTL_IB_LE32(conn->identity.id),
        .epoch = BTL_IB_LE32(conn->identity.epoch),
        .from_rail = (uint8_t) conn->rail->index,
        .to_rail = (uint8_t) conn->identity.remote_rail,
        .floor = BTL_IB_LE32(conn->identity.peer_floor),
    };
    memcpy(to, &connect, sizeof(connect));
}

btl_ib_segment_t *btl_ib_packet_make(btl_ib_conn_t *conn, btl_ib_type_t type, uint32_t size)
{
    const uint32_t whole = btl_ib_packet_overhead(conn) + size;
    btl_ib_segment_t *segment = btl_ib_packet_make_whole(conn, type, whole);

    if (segment != NULL && btl_ib_packet_says_connect(conn)) {
        segment->flags = BTL_IB_FLAG_CONNECT;
        write_connect(conn, segment->wire + sizeof(btl_ib_wire_header_t));
    }
    return segment;
}

void btl_ib_packet_make_void(btl_ib_segment_t *segment)
{
    segment->type = BTL_IB_TYPE_VOID;
    segment->out = NULL;
    segment->outside = 0;
    segment->payload = 0;
    segment->parted = 0;
    segment->size = (uint32_t) (btl_ib_packet_body(segment) - segment->wire);
}

btl_ib_segment_t *btl_ib_packet_duplicate(const btl_ib_conn_t *conn,
                                          const btl_ib_segment_t *segment)
{
    uint32_t size = segment->size + segment->outside;
    btl_ib_segment_t *copy =
        btl_ib_pool_get(&conn->route.via->pool, size + conn->engine->protection.ops->trailer);

    if (copy == NULL) {
        return NULL;
    }
    copy->size = size;
    copy->type = segment->type;
    copy->flags = segment->flags;
    copy->tag = segment->tag;
    copy->channel = segment->channel;
    copy->seq = segment->seq;
    memcpy(copy->wire, segment->wire, segment->size);
    btl_ib_packet_copy(segment->iov, 2, 0, segment->outside, copy->wire + segment->size);
    return copy;
}

void btl_ib_packet_own_bytes(btl_ib_segment_t *segment)
{
    memcpy(segment->wire + segment->size, segment->iov[0].iov_base, segment->outside);
    segment->size += segment->outside;
    segment->outside = 0;
    segment->region = 0;
}

uint64_t btl_ib_packet_move_bytes(btl_ib_segment_t *segment, const struct iovec *from, uint8_t *to)
{
    uint64_t moved = 0;

    for (int i = 0; segment->outside > 0 && i < 2; i++) {
        struct iovec *part = &segment->iov[i];
        const uint64_t offset =
            (uint64_t) ((uintptr_t) part->iov_base - (uintptr_t) from->iov_base);

        if (part->iov_len > 0 && offset < from->iov_len) {
            part->iov_base = memcpy(to + offset, part->iov_base, part->iov_len);
            moved += part->iov_len;
        }
    }
    return moved;
}

struct iovec btl_ib_packet_part(const struct iovec *iov, uint64_t *offset, uint32_t *size)
{
    struct iovec part = {0};

    if (*offset >= iov->iov_len) {
        *offset -= iov->iov_len;
        return part;
    }
    part.iov_base = (uint8_t *) iov->iov_base + *offset;
    part.iov_len = btl_ib_clip_u32(iov->iov_len - *offset, *size);
    *size -= (uint32_t) part.iov_len;
    *offset = 0;
    return part;
}

void btl_ib_packet_copy(const struct iovec *iov, int count, uint64_t offset, uint32_t size,
                        uint8_t *to)
{
    for (int i = 0; i < count && size > 0; i++) {
        struct iovec part = btl_ib_packet_part(&iov[i], &offset, &size);
        if (part.iov_len > 0) {
            memcpy(to, part.iov_base, part.iov_len);
            to += part.iov_len;
        }
    }
}
