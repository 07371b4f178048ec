/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What connections and rails tell of themselves: counters, levels, text. Changes nothing. What
 * statistics ask for is declared in btl_ib_engine.h (btl_ib_conn_levels() and others). */

#ifndef BTL_IB_CONN_INFO_H
#define BTL_IB_CONN_INFO_H

#include "btl_ib_engine.h"

/* Adds to `sum` what a connection counted; all of it, or its segments on one channel. */
void btl_ib_conn_add_counters(btl_ib_rail_counters_t *sum, const btl_ib_conn_t *conn);
void btl_ib_conn_add_channel(btl_ib_channel_counters_t *sum, const btl_ib_conn_t *conn,
                             uint32_t channel);

#endif
