/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What waits in channels to be sent: messages, operations and answers, in order. */

#ifndef BTL_IB_PENDING_H
#define BTL_IB_PENDING_H

#include "btl_ib_state.h"

/* Queue it on the smallest channel whose segment holds what is left of it behind `head` bytes,
 * else on the channel of the largest datagram. */
void btl_ib_pending_add(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t head);

/* Datagrams are smaller from now on: messages that must be split now move to that channel, too. */
void btl_ib_pending_shrunk(btl_ib_conn_t *conn);

/* Does something wait that was never sent, for whatever reason? */
bool btl_ib_pending_any(const btl_ib_conn_t *conn);

/* Acknowledgements or credits came: schedule the connection if something may be sendable now. */
void btl_ib_pending_wake(btl_ib_conn_t *conn);

/* Is there anything to send: never sent, lost, or an operation that waits for a slot? */
bool btl_ib_pending_work(const btl_ib_conn_t *conn);

/* Is it time to search for a larger path MTU? */
bool btl_ib_pending_mtu_search(const btl_ib_conn_t *conn);

#endif
