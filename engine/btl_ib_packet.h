/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments as they are on the wire: making one, what surrounds its body, and what it holds. */

#ifndef BTL_IB_PACKET_H
#define BTL_IB_PACKET_H

#include <string.h>

#include "btl_ib_state.h"

/* True if a segment made now carries a CONNECT block. */
static inline bool btl_ib_packet_says_connect(const btl_ib_conn_t *conn)
{
    return !conn->identity.peer_knows || conn->identity.force_connect;
}

/* Returns the bytes of a datagram besides its body: header, CONNECT block if needed, protection's
 * trailer. */
static inline uint32_t btl_ib_packet_overhead(const btl_ib_conn_t *conn)
{
    return (uint32_t) sizeof(btl_ib_wire_header_t) + conn->engine->protection.ops->trailer
           + (btl_ib_packet_says_connect(conn) ? (uint32_t) sizeof(btl_ib_wire_connect_t) : 0);
}

/* Returns the bytes of the datagram that a segment leaves in, if it leaves as a whole. */
static inline uint32_t btl_ib_packet_datagram_size(const btl_ib_conn_t *conn,
                                                   const btl_ib_segment_t *segment)
{
    return segment->size + segment->outside + conn->engine->protection.ops->trailer;
}

/* Returns where the body of a prepared segment goes. */
static inline uint8_t *btl_ib_packet_body(const btl_ib_segment_t *segment)
{
    return segment->wire + sizeof(btl_ib_wire_header_t)
           + (segment->flags & BTL_IB_FLAG_CONNECT ? sizeof(btl_ib_wire_connect_t) : 0);
}

/* Makes a segment of `type` for a datagram of `whole` bytes, without a CONNECT block; or returns
 * NULL. */
static inline btl_ib_segment_t *btl_ib_packet_make_whole(btl_ib_conn_t *conn, btl_ib_type_t type,
                                                         uint32_t whole)
{
    btl_ib_segment_t *segment = btl_ib_pool_get(&conn->route.via->pool, whole);

    if (segment != NULL) {
        segment->type = (uint8_t) type;
        segment->size = whole - conn->engine->protection.ops->trailer;
    }
    return segment;
}

/* Makes a segment of `type` with headers begun, for `size` bytes of body (chunk header included);
 * or returns NULL. */
btl_ib_segment_t *btl_ib_packet_make(btl_ib_conn_t *conn, btl_ib_type_t type, uint32_t size);

/* True if it is bulk: a piece of something long, or a part of a segment that was too large for the
 * path. */
static inline bool btl_ib_segment_is_bulk(const btl_ib_segment_t *segment)
{
    const uint32_t bulk = 1u << BTL_IB_TYPE_CHUNK | 1u << BTL_IB_TYPE_PUT | 1u << BTL_IB_TYPE_GOT
                          | 1u << BTL_IB_TYPE_PART;

    return (bulk >> segment->type & 1) != 0;
}

/* True if a segment is a probe of the path MTU search, perhaps of a route that was left. */
static inline bool btl_ib_segment_is_mtu_probe(const btl_ib_segment_t *segment)
{
    return segment->type == BTL_IB_TYPE_VOID
           && segment->wire + segment->size > btl_ib_packet_body(segment);
}

/* True if the last copy got RNR: it arrived, so what becomes of it says nothing of the network. */
static inline bool btl_ib_segment_got_rnr(const btl_ib_segment_t *segment)
{
    return segment->rnr_copy == segment->copies;
}

/* Returns the part of the *size bytes from *offset of several pieces of memory that lies in this
 * one. It is subtracted from both. */
struct iovec btl_ib_packet_part(const struct iovec *iov, uint64_t *offset, uint32_t *size);

/* Copies `size` bytes from `offset` of `count` pieces of memory to `to`. */
void btl_ib_packet_copy(const struct iovec *iov, int count, uint64_t offset, uint32_t size,
                        uint8_t *to);

/* Returns the message of an `out` of that kind (BTL_IB_OUT_MESSAGE). */
static inline btl_ib_msg_t *btl_ib_msg_of(btl_ib_out_t *out)
{
    return BTL_IB_CONTAINER(out, btl_ib_msg_t, out);
}

static inline void btl_ib_packet_copy_message(const btl_ib_msg_t *msg, uint8_t *to)
{
    for (int i = 0; i < 2; i++) {
        const size_t size = msg->iov[i].iov_len;
        if (size > 0) {
            to = (uint8_t *) memcpy(to, msg->iov[i].iov_base, size) + size;
        }
    }
}

/* ---- what a segment holds ---- */

/* Makes a VOID of a segment, which keeps its sequence: what it held is not sent any more. */
void btl_ib_packet_make_void(btl_ib_segment_t *segment);

/* Makes a copy of a segment for the present rail, all in one piece. Returns NULL if memory is
 * short. */
btl_ib_segment_t *btl_ib_packet_duplicate(const btl_ib_conn_t *conn,
                                          const btl_ib_segment_t *segment);

/* Copies those bytes of a segment that are in `from` to the same place in `to`; they are sent from
 * there. Returns how many. */
uint64_t btl_ib_packet_move_bytes(btl_ib_segment_t *segment, const struct iovec *from, uint8_t *to);

/* Copies the bytes of a segment, which are in a region that is about to be removed, into the
 * segment, which has room for them. */
void btl_ib_packet_own_bytes(btl_ib_segment_t *segment);

#endif
