/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Operations on memory, as the engine starts them: btl_ib_rdma_ops_t. */

#ifndef BTL_IB_VERBS_RC_RDMA_OPS_H
#define BTL_IB_VERBS_RC_RDMA_OPS_H

#include "transport.h"

extern const btl_ib_rdma_ops_t btl_ib_rc_rdma_ops;

#endif
