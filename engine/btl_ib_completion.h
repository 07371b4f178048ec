/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of what is sent in pieces, by its kind: a message, an operation, or an answer.
 * Callbacks are queued (engine->events) and called later. */

#ifndef BTL_IB_COMPLETION_H
#define BTL_IB_COMPLETION_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"
#include "btl_ib_rma.h"

/* Makes segments of the next bytes of `out` for a channel, at most `most` (at least 1). Returns how
 * many. If there are fewer, the last segment of `out` is among them, or there is no buffer or no
 * place in the window for more. */
int btl_ib_out_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                        btl_ib_segment_t **segments, int most);

/* Notes that the last piece left. `copied`: the caller's memory is free, so a message is done now;
 * else it waits for acknowledgements. */
void btl_ib_out_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied);

/* Makes on_sent due for a message that left before, and whose memory is free. */
void btl_ib_completion_sent(btl_ib_out_t *out);

/* Ends what was sent in pieces with `status`: 0, it was acknowledged or answered, or has
 * left as a copy; or -errno. Callbacks come later; a stream is freed. */
void btl_ib_completion_add(btl_ib_out_t *out, int status);

/* Calls the callbacks that are due. */
void btl_ib_completion_callbacks(btl_ib_engine_t *engine);

#endif
