/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations executed by the device of a connection's own rail (RDMA): it moves the bytes
 * or changes the word, and no segment is sent. An operation waits until the transport takes it, and
 * is in the device until the transport reports its end. Then it is over, or it is emulated (below):
 *
 *      begin --> waiting --start()--> in the device --event 0, EACCES--> over
 *                   |                      |
 *      impossible,  |                      |  connection broken, device failed: outcome unknown
 *      or too slow  |                      |
 *                   +----------------------+--> PUT, GET: emulated as a whole. Its end was not
 *                                          |    reported, so placing bytes twice does no harm.
 *                                          +--> ATOMIC: -EPIPE. Whether it was executed is unknown,
 *                                               and words of a region are changed either by devices
 *                                               or by processors: the two are not atomic for each
 *                                               other.
 *
 * Repeating a PUT assumes that nothing of a connection which one end reports as broken arrives
 * after what is sent then. That is nearly always true, but not guaranteed (docs/architecture.md,
 * chapter 8).
 */

#ifndef BTL_IB_RMA_OFFLOAD_H
#define BTL_IB_RMA_OFFLOAD_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* Operations of one connection that its device executes. */
typedef struct btl_ib_offload {
    btl_ib_list_t waiting; /* not taken by the transport yet, in order */
    btl_ib_list_t running; /* in the device */
    uint32_t count;        /* length of `running` */
    uint64_t moved_at;     /* awake: last start or end of one, or when the first began to wait */
} btl_ib_offload_t;

/* True if an operation is to be offloaded, because the device can execute it, or because only the
 * device may. */
bool btl_ib_offload_wanted(const btl_ib_conn_t *conn, const btl_ib_op_t *op);

/* True if the device can execute an operation. */
bool btl_ib_offload_possible(const btl_ib_conn_t *conn, const btl_ib_op_t *op);

/* Begins an operation that is wanted and possible. */
void btl_ib_offload_begin(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* Hands waiting operations over, as far as the transport takes them. */
void btl_ib_offload_push(btl_ib_conn_t *conn);

/* Handles the end of an operation, which the transport reports. Calls no callback, and ends no
 * connection. */
void btl_ib_offload_event(const btl_ib_event_t *event);

/* Ends all with `status`. Their memory is no longer in use. */
void btl_ib_offload_give_up(btl_ib_conn_t *conn, int status);

/* Emulates what can be emulated: the device at either end of the connection's own rails failed with
 * that errno. */
void btl_ib_offload_device_failed(btl_ib_conn_t *conn, int error);

#endif
