/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Destroyed connections are freed only when no call of the engine that may use one is on the
 * stack. */

#ifndef BTL_IB_DEFERRED_FREE_H
#define BTL_IB_DEFERRED_FREE_H

#include "btl_ib_state.h"

/* Begins a call that may run callbacks. */
static inline void btl_ib_engine_enter(btl_ib_engine_t *engine)
{
    engine->deferred_free.depth++;
}

/* Notes that a connection was made: rails may have more segments. */
void btl_ib_conn_allocated(btl_ib_engine_t *engine);

/* Frees all connections of a list. They hold no segments, operations or buffers any more. */
void btl_ib_conn_free_all(btl_ib_list_t *conns);

/* Ends a call that may run callbacks. The outermost one frees the connections that were destroyed
 * meanwhile. Inline, because every message passes here and there is hardly ever one. */
static inline void btl_ib_engine_leave(btl_ib_engine_t *engine)
{
    if (--engine->deferred_free.depth == 0 && !btl_ib_list_empty(&engine->deferred_free.gone)) {
        btl_ib_conn_free_all(&engine->deferred_free.gone);
    }
}

#endif
