/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What we owe one peer for its one-sided operations (conn->answers): results, which leave in REPLY
 * segments, and the bytes of each GET, a stream of GOT segments. There is room for BTL_IB_OPS_MAX of
 * both together, which is as many operations as a peer may have outstanding.
 */

#ifndef BTL_IB_ANSWERS_H
#define BTL_IB_ANSWERS_H

#include "btl_ib_state.h"

void btl_ib_answers_init(btl_ib_conn_t *conn);

/* Is there room, and memory, for one more? Else it is counted why not. */
bool btl_ib_answers_room(btl_ib_conn_t *conn);

/* The result of operation `id` is due. There is room for it. */
void btl_ib_answers_reply(btl_ib_conn_t *conn, uint32_t id, uint32_t status, uint64_t result);

/* A stream for a GET, whose bytes are in that region; not begun yet. NULL without memory (counted). */
btl_ib_stream_t *btl_ib_answers_stream(btl_ib_conn_t *conn, const btl_ib_view_t *get,
                                       const btl_ib_region_key_t *key, uint64_t offset);

/* It is due. There is room for it. */
void btl_ib_answers_begin(btl_ib_stream_t *stream);

/* Find the memory of a stream. False if peers may not read it any more: the stream is gone, and a
 * reply says so. */
bool btl_ib_answers_find(btl_ib_stream_t *stream);

/* Copy the next `size` bytes of replies. */
void btl_ib_answers_write(const btl_ib_conn_t *conn, uint8_t *to, uint32_t size);

/* A stream, or all replies, are over, sent or not. A stream is freed. It is on no list. */
void btl_ib_answers_end(btl_ib_out_t *out);

/* Free what idle connections do not need. */
void btl_ib_answers_shrink(btl_ib_conn_t *conn);

#endif
