/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Our replies to one peer's one-sided operations (conn->replies): results, which leave in REPLY
 * segments, and the bytes of each GET, a stream of GOT segments. A result is kept here until it is
 * in a segment, and by that segment until it is acknowledged: it is sent again as any other, and
 * the operation is never executed twice. There is room for BTL_IB_OPS_MAX of both together: as
 * many operations as a peer may have outstanding.
 */

#ifndef BTL_IB_RMA_REPLIES_H
#define BTL_IB_RMA_REPLIES_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

typedef struct btl_ib_replies {
    btl_ib_out_t out;          /* the replies: size and offset count since the beginning */
    btl_ib_wire_reply_t *ring; /* BTL_IB_OPS_MAX of them; NULL: not allocated */
    uint32_t streams;          /* streams that are not over */
} btl_ib_replies_t;

/* The bytes that answer a GET of a peer. */
typedef struct btl_ib_stream {
    btl_ib_out_t out;
    /* The region that holds the bytes, and where in there, as last looked up: its segments are lent
     * on that one. */
    btl_ib_region_key_t key;
    uint64_t offset;
    uint8_t *memory; /* address of that, as last checked */
    uint32_t id;     /* of the operation, chosen by the peer */
} btl_ib_stream_t;

void btl_ib_replies_init(btl_ib_conn_t *conn);

/* Reserves memory for one more. False: no room or no memory, which is counted. */
bool btl_ib_replies_reserve(btl_ib_conn_t *conn);

/* Adds the result of operation `id`. There must be room (btl_ib_replies_reserve()). */
void btl_ib_replies_add(btl_ib_conn_t *conn, uint32_t id, uint32_t status, uint64_t result);

/* Makes a stream for a GET of those bytes of a region; it is not begun. NULL: no memory
 * (counted). */
btl_ib_stream_t *btl_ib_replies_stream(btl_ib_conn_t *conn, const btl_ib_view_t *get,
                                       const btl_ib_region_key_t *key, uint64_t offset);

/* Begins to send it. There must be room. */
void btl_ib_replies_begin(btl_ib_stream_t *stream);

/* Looks up the memory of a stream, and the region that holds it now: the one before may be gone,
 * and the bytes in another of a window. False: peers may not read it any more. Then the stream is
 * freed, and a reply says so. */
bool btl_ib_replies_find_or_reject(btl_ib_stream_t *stream);

/* Implements out_ops (btl_ib_completion.c) for streams and replies. Frees a stream that is over. */
int btl_ib_stream_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                           btl_ib_segment_t **segments, int most);
bool btl_ib_stream_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied);
bool btl_ib_stream_ended(btl_ib_out_t *out, int status);
int btl_ib_replies_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                            btl_ib_segment_t **segments, int most);
bool btl_ib_replies_ended(btl_ib_out_t *out, int status);

/* Drops what was not sent yet. */
void btl_ib_replies_drop(btl_ib_conn_t *conn);

/* Frees what idle connections do not need. */
void btl_ib_replies_shrink(btl_ib_conn_t *conn);

#endif
