/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations of a process on its own memory, by its processor. osc/rdma wants the module
 * that it chose to reach every process of a window, the own one included.
 */

#ifndef BTL_IB_LOOPBACK_H
#define BTL_IB_LOOPBACK_H

#include "btl_ib_engine.h"

/*
 * Carry out an operation at `target`, or if that is NULL where its key and offset say. Returns what
 * another process would answer: 0 or a negative errno. Completes nothing. Called with the lock
 * held.
 */
int btl_ib_loopback_execute(btl_ib_engine_t *engine, btl_ib_op_t *op, void *target);

#endif
