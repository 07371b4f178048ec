/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How messages, operations and answers end: when their last piece has left, or is acknowledged, and the callbacks that say so. */

#ifndef BTL_IB_COMPLETION_H
#define BTL_IB_COMPLETION_H

#include "btl_ib_state.h"

/* The last piece has left. What was copied whole is done with it. */
void btl_ib_out_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied);

/* The first `count` messages of the list have left in a BUNDLE, which is a copy of them: off the list. */
void btl_ib_out_left_bundled(btl_ib_conn_t *conn, btl_ib_list_t *bundled, uint32_t count);

/* It is over. Callbacks come later; a stream is freed. */
void btl_ib_completion_add(btl_ib_out_t *out, int status);

/* Call the callbacks that are due. */
void btl_ib_completion_callbacks(btl_ib_engine_t *engine);

#endif
