/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Header prediction (Van Jacobson's), for this protocol: the message that is expected next, in a
 * segment of its own, whose header acknowledges at most one segment, takes a straight way. All that
 * is asked is asked first, and changes nothing; what does not fit takes the general way.
 *
 * The message is delivered before anything else is done of it (usnic's fast receive): its
 * acknowledgement, credit, counters and round-trip sample, and what its header acknowledges, wait
 * until the callback returns or something is called meanwhile. So nobody notices but the clock: the
 * message is matched after a third of the instructions.
 */

#ifndef BTL_IB_PREDICT_H
#define BTL_IB_PREDICT_H

#include "btl_ib_state.h"

/* Delivers a datagram that is the next message of a settled connection, as most short ones are, at
 * once, and then takes it in. Returns false if it is something else, and nothing was done. Only
 * where engine->predicts, and not in asynchronous progress. */
bool btl_ib_predict(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* True if a message is being delivered, and nothing else was done of it. */
static inline bool btl_ib_has_unaccounted(const btl_ib_engine_t *engine)
{
    return engine->predicted.conn != NULL;
}

/* Does the part of btl_ib_account() for a message that waits for it. */
void btl_ib_predict_account(btl_ib_engine_t *engine);

/* Does what waits until a message is delivered. Whatever is called within a callback, or by another
 * thread meanwhile, begins with it: so what it sends acknowledges that message, and what it ends
 * had all of it. */
static inline void btl_ib_account(btl_ib_engine_t *engine)
{
    if (btl_ib_has_unaccounted(engine)) {
        btl_ib_predict_account(engine);
    }
}

#endif
