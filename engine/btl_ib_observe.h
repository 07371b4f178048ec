/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What a connection and a rail are at, for statistics. Costs nothing until somebody asks. */

#ifndef BTL_IB_OBSERVE_H
#define BTL_IB_OBSERVE_H

#include "btl_ib_state.h"

/* The connection is no more: its rail keeps what it counted. */
void btl_ib_observe_end(btl_ib_conn_t *conn);

#endif
