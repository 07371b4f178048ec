/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Completion of messages, operations and answers: when their last piece was sent or
 * acknowledged. Callbacks are queued (engine->events) and called later. */

#ifndef BTL_IB_COMPLETION_H
#define BTL_IB_COMPLETION_H

#include "btl_ib_engine.h"
#include "btl_ib_list.h"
#include "btl_ib_rma.h"

/* Notes that the last piece left. `copied`: the caller's memory is free, so a message is done now;
 * else it waits for acknowledgements. */
void btl_ib_out_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied);

/* The memory of a message that left before is free: on_sent is due. */
void btl_ib_completion_sent(btl_ib_out_t *out);

/* The first `count` messages of the list were sent in a BUNDLE, which is a copy of them. Takes
 * them off the list. */
void btl_ib_out_left_bundled(btl_ib_conn_t *conn, btl_ib_list_t *bundled, uint32_t count);

/* Ends what was sent in pieces with `status` (0 or -errno). Callbacks come later; a stream is
 * freed. */
void btl_ib_completion_add(btl_ib_out_t *out, int status);

/* Calls the callbacks that are due. */
void btl_ib_completion_callbacks(btl_ib_engine_t *engine);

#endif
