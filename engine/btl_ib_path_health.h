/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which paths a connection has: one more where it is capped or slow, another port for a path that
 * is dead or slow (btl_ib_paths.h says when). */

#ifndef BTL_IB_PATH_HEALTH_H
#define BTL_IB_PATH_HEALTH_H

#include <stdbool.h>

struct btl_ib_conn;

/* Called after acknowledgements were taken in, while conn->capped.watched, or if the window was
 * what held the sender back (`limited`). */
void btl_ib_path_health_look(struct btl_ib_conn *conn, bool limited);

#endif
