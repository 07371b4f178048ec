/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Health of paths: one more where a connection is capped or slow, another port for one that is dead
 * or slow (btl_ib_paths.h says when). Of a flow: btl_ib_flow.h; of rails: btl_ib_rail.h,
 * btl_ib_goodput.h. */

#ifndef BTL_IB_PATH_HEALTH_H
#define BTL_IB_PATH_HEALTH_H

#include <stdbool.h>

struct btl_ib_conn;

/* Called after acknowledgements were taken in, while conn->capped.watched, or if the window was
 * what held the sender back (`limited`). */
void btl_ib_path_health_look(struct btl_ib_conn *conn, bool limited);

#endif
