/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Messages, operations and answers to those of the peer become segments. */

#ifndef BTL_IB_PACKETIZE_H
#define BTL_IB_PACKETIZE_H

#include "btl_ib_state.h"

/* Cut pieces of `out` for a channel, at most `most` (at least 1). Returns how many; fewer: its last is among them,
 * or there are no more buffers or places in the window. */
int btl_ib_packetize(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t space,
                     btl_ib_segment_t **segments, int most);

/* As if it had never been cut. */
void btl_ib_packetize_undo(btl_ib_segment_t *segment);

/* It has left: keep segment->out only if that waits for its acknowledgement. */
void btl_ib_packetize_left(btl_ib_segment_t *segment);

/* How many messages at the head of those that wait in a channel fit together into `room` bytes; *size:
 * what they take. 0 or 1: there is nothing to bundle. */
uint32_t btl_ib_packetize_bundle_count(const btl_ib_list_t *pending, uint32_t room, uint32_t *size);

/* A BUNDLE of the first `count` of them, `size` bytes, for channel `space`; they move to the end of `bundled`. NULL: no
 * buffer, or no place in the window. */
btl_ib_segment_t *btl_ib_packetize_bundle(btl_ib_conn_t *conn, btl_ib_list_t *pending,
                                          uint32_t count, uint32_t size, uint32_t space,
                                          btl_ib_list_t *bundled);

#endif
