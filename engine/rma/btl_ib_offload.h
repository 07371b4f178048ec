/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations that the device of a connection's own rail does by itself: it moves the bytes, or
 * changes the word, and no segment travels. An operation waits until the transport takes it, is in the device
 * until the transport says how it ended, and is then over, or goes the other way (btl_ib_initiator.c):
 *
 *      begin --> waiting --start()--> in the device --event 0, EACCES--> over
 *                   |                      |
 *                   |  cannot, or for too  |  connection broken, device failed: outcome unknown
 *                   |  long                |
 *                   +----------------------+--> PUT, GET: emulated, as a whole. Nobody was told that it is done,
 *                                               so bytes that are placed twice are the same
 *                                          +--> ATOMIC: -EPIPE. Nobody knows whether it was executed, and whether
 *                                               words are changed by devices or by processors is a property of the
 *                                               region: the two are not atomic for each other
 *
 * That a PUT may be done again assumes that nothing of a connection which one end says is broken arrives after what is
 * sent then: nearly always true, and promised by nobody (docs/architecture.md, chapter 8).
 */

#ifndef BTL_IB_OFFLOAD_H
#define BTL_IB_OFFLOAD_H

#include "btl_ib_state.h"

void btl_ib_offload_init(btl_ib_conn_t *conn);

/* Could the device do it? And is it to be asked to: because it can, or because nobody else may? */
bool btl_ib_offload_possible(const btl_ib_conn_t *conn, const btl_ib_op_t *op);
bool btl_ib_offload_wanted(const btl_ib_conn_t *conn, const btl_ib_op_t *op);

/* Begin one that is wanted and possible. */
void btl_ib_offload_begin(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* Hand over what waits, as far as the transport takes it. */
void btl_ib_offload_push(btl_ib_conn_t *conn);

/* One is over, as the transport says. Calls nothing up, and ends no connection. */
void btl_ib_offload_event(const btl_ib_event_t *event);

/* All come back with `status`: their memory is no longer in use. */
void btl_ib_offload_give_up(btl_ib_conn_t *conn, int status);

/* The connection's own rail failed: what can goes on another way. */
void btl_ib_offload_device_failed(btl_ib_conn_t *conn);

#endif
