/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Acts on silence of the peer: probes, another route, and in the end giving it up. */

#ifndef BTL_IB_PROBE_H
#define BTL_IB_PROBE_H

#include "btl_ib_state.h"

/* The recovery timer of a connection expired. May end the connection. */
void btl_ib_probe_timer(btl_ib_conn_t *conn);

#endif
