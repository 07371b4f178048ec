/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Limits how many unknown senders are looked up, answered and given a connection, because anybody
 * can ask for that. Keeps first contacts that cannot be looked up yet. Writes engine->admission.
 */

#ifndef BTL_IB_ADMISSION_H
#define BTL_IB_ADMISSION_H

#include "btl_ib_state.h"

/* May one more sender be looked up now? Not if there are passive_max connections already, unless it
 * takes the place of a `known` peer. True counts as a lookup. */
bool btl_ib_admission_looks_up(btl_ib_engine_t *engine, bool known);

/* The same for another path to a known peer, by which a datagram of it came: a share of the lookups
 * is for that. */
bool btl_ib_admission_looks_for_path(btl_ib_engine_t *engine);

/* May an unknown sender be told now that its datagram got here? True counts as a response. */
bool btl_ib_admission_responds(btl_ib_engine_t *engine);

/* The sender cannot be looked up by the progress thread: keep its datagram for the application's
 * own progress. True if the sender is to be told that it got here. */
bool btl_ib_admission_keep(btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival);

/* From now on no unknown sender gets a connection. */
static inline void btl_ib_admission_close(btl_ib_engine_t *engine)
{
    engine->admission.closed = true;
}

/* There is one connection more, or less, that the component has not adopted. */
static inline void btl_ib_admission_passive(btl_ib_engine_t *engine, int32_t more)
{
    engine->admission.passive += (uint32_t) more;
}

#endif
