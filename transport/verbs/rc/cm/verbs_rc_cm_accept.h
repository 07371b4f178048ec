/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Requests of peers: accepted or rejected. */

#ifndef BTL_IB_VERBS_RC_CM_ACCEPT_H
#define BTL_IB_VERBS_RC_CM_ACCEPT_H

#include "verbs_rc_rail.h"

/* A peer asks for a connection; `bytes` is the private data. */
void btl_ib_rc_cm_requested(btl_ib_rc_t *rc, struct rdma_cm_id *id, const void *bytes, size_t len);

#endif
