/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Messages, from the queue of their channel on: the segments that they become, by themselves or
 * several in one, and what happens when those have left and when they are acknowledged. */

#ifndef BTL_IB_OUT_MESSAGE_H
#define BTL_IB_OUT_MESSAGE_H

#include "btl_ib_state.h"

/* Implements out_ops (btl_ib_completion.c) for messages. */
int btl_ib_message_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                            btl_ib_segment_t **segments, int most);
bool btl_ib_message_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied);
bool btl_ib_message_ended(btl_ib_out_t *out, int status);

/* Returns how many messages at the head of `pending` fit together into `room` bytes, and in *size
 * how many bytes they take there. 0 or 1: there is nothing to bundle. */
uint32_t btl_ib_message_bundle_count(const btl_ib_list_t *pending, uint32_t room, uint32_t *size);

/* Makes a BUNDLE of the first `count` of them, which take `size` bytes, for channel `channel`. They
 * move to the end of `bundled`. Returns NULL without a buffer, or a place in the window. */
btl_ib_segment_t *btl_ib_message_bundle(btl_ib_conn_t *conn, btl_ib_list_t *pending, uint32_t count,
                                        uint32_t size, uint32_t channel, btl_ib_list_t *bundled);

/* Undoes that for the newest segment, if it is a BUNDLE: the messages in it, which are at the end
 * of `bundled`, wait again at the head of `pending`. */
void btl_ib_message_unbundle(const btl_ib_segment_t *segment, btl_ib_list_t *bundled,
                             btl_ib_list_t *pending);

/* Ends the first `count` messages of the list, which were sent in a BUNDLE, a copy of them. Takes
 * them off the list. */
void btl_ib_message_left_bundled(btl_ib_conn_t *conn, btl_ib_list_t *bundled, uint32_t count);

#endif
