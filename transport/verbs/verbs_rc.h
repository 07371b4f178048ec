/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: devices, memory, sending, and operations on memory as the engine
 * starts them. */

#ifndef BTL_IB_VERBS_RC_H
#define BTL_IB_VERBS_RC_H

#include "transport.h"

/* Operations on memory, as the engine starts them: btl_ib_rdma_ops_t. */

extern const btl_ib_rdma_ops_t btl_ib_rc_rdma_ops;

#endif
