/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The own process as a peer. osc/rdma wants the module that it chose to reach every process of a
 * window, the own one included. Nothing goes through the engine: what is sent is delivered before
 * the call returns, as btl self does, and one-sided operations are carried out at once.
 *
 * Messages come this way only if no BTL of a higher exclusivity serves the own process, that is
 * without btl self.
 */

#ifndef BTL_IB_SELF_H
#define BTL_IB_SELF_H

#include "btl_ib_frag.h"

/*
 * The module's endpoint of the own process, made at the first call. NULL if memory is short, or if
 * the module offers no one-sided operations: nobody wants it then. Called with the lock held.
 */
struct mca_btl_base_endpoint_t *btl_ib_self_endpoint(btl_ib_module_t *module,
                                                     struct opal_proc_t *proc);

/*
 * The connection with ourselves by the module's device, for atomics on memory whose words only devices change: made at
 * the first call, NULL if that fails. It sends nothing. Called with the lock held.
 */
btl_ib_conn_t *btl_ib_self_conn(btl_ib_module_t *module);

/* A connection is about to be destroyed: if it was that one it is no more. Called with the lock held. */
void btl_ib_self_forget(const btl_ib_conn_t *conn);

/* The endpoint goes, and the connection with it. Called with the lock held. */
void btl_ib_self_leave(btl_ib_module_t *module);

/* Deliver a fragment to ourselves. Returns 1 or an OPAL status as btl_send does. Called without the
 * lock. */
int btl_ib_self_send(btl_ib_frag_t *frag, mca_btl_base_tag_t tag);

/*
 * Carry out a one-sided operation on our own memory: at `here`, or if that is NULL where its key
 * and offset say. Returns what would come back from another process: 0 or a negative errno. Called
 * with the lock held.
 */
int btl_ib_self_execute(btl_ib_op_t *op, void *here);

#endif
