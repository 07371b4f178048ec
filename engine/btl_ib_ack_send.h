/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* ACK segments: when they leave, in a turn or at once. btl_ib_ack_write.c says what is in them. */

#ifndef BTL_IB_ACK_SEND_H
#define BTL_IB_ACK_SEND_H

#include "btl_ib_engine.h"

/* Acknowledges all that is due, with `flags` (BTL_IB_FLAG_) added. False if the transport or memory
 * did not allow it. */
bool btl_ib_ack_send(btl_ib_conn_t *conn, uint8_t flags);

/* Sends the acknowledgements that are due in this turn; `all`: also those that would wait to be
 * piggybacked, as there may be no other turn soon. */
void btl_ib_ack_turn(btl_ib_engine_t *engine, bool all);

#endif
