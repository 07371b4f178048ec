/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Packetizes messages, one-sided operations and the answers to those of the peer: splits them into
 * segments, or bundles short messages in one. Writes conn->packetize. */

#ifndef BTL_IB_PACKETIZE_H
#define BTL_IB_PACKETIZE_H

#include "btl_ib_state.h"

/* A new incarnation of the connection: fragments are numbered anew. */
static inline void btl_ib_packetize_begin(btl_ib_conn_t *conn)
{
    conn->packetize.next_fragment = 0;
}

/* Makes segments of the next bytes of `out` for a channel, at most `most` (at least 1). Returns how
 * many. If there are fewer, the last segment of `out` is among them, or there is no buffer or no
 * place in the window for more. */
int btl_ib_packetize(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                     btl_ib_segment_t **segments, int most);

/* True if a datagram of `size` bytes may leave from the user's memory, without a copy. */
bool btl_ib_packetize_can_refer(const btl_ib_conn_t *conn, uint32_t size);

/* Undoes that for the newest segment: its bytes wait again. */
void btl_ib_packetize_undo(btl_ib_segment_t *segment);

/* True if what a segment is a piece of waits for its acknowledgement, because its memory stays in
 * use till then. Else segment->out is not kept once it has left. */
static inline bool btl_ib_packetize_waits(const btl_ib_segment_t *segment)
{
    return segment->type == BTL_IB_TYPE_CHUNK || segment->type == BTL_IB_TYPE_PUT;
}

/* How many messages at the head of `pending` fit together into `room` bytes, and in *size how many
 * bytes they take there. 0 or 1: there is nothing to bundle. */
uint32_t btl_ib_packetize_bundle_count(const btl_ib_list_t *pending, uint32_t room, uint32_t *size);

/* A BUNDLE of the first `count` of them, which take `size` bytes, for channel `channel`. They
 * move to the end of `bundled`. NULL: no buffer, or no place in the window. */
btl_ib_segment_t *btl_ib_packetize_bundle(btl_ib_conn_t *conn, btl_ib_list_t *pending,
                                          uint32_t count, uint32_t size, uint32_t channel,
                                          btl_ib_list_t *bundled);

/* Undoes that for the newest segment, if it is a BUNDLE: the messages in it, which are at the end
 * of `bundled`, wait again at the head of `pending`. */
void btl_ib_packetize_unbundle(const btl_ib_segment_t *segment, btl_ib_list_t *bundled,
                               btl_ib_list_t *pending);

#endif
