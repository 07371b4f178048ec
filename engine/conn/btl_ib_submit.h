/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The top of the send path: what the component sends, and what leaves when its turn has come. The component's own calls
 * (btl_ib_engine_send() and others) are in btl_ib_engine.h. */

#ifndef BTL_IB_SUBMIT_H
#define BTL_IB_SUBMIT_H

#include "btl_ib_state.h"

/* All messages and operations of the connection come back with `status`; messages all of which left
 * with `flight_status`. */
void btl_ib_send_give_back(btl_ib_conn_t *conn, int flight_status, int status);

/* Send whatever the limits let go. */
void btl_ib_send_push(btl_ib_conn_t *conn);

/* Give back the credits of a P channel beyond what an idle peer holds. Nothing is in flight. */
void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t space);

#endif
