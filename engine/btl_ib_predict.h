/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Header prediction (Van Jacobson's), for this protocol: the message that is expected next, in a
 * segment of its own, whose header acknowledges at most one segment, takes a straight way. All that
 * is asked is asked first, and changes nothing; what does not fit takes the general way.
 */

#ifndef BTL_IB_PREDICT_H
#define BTL_IB_PREDICT_H

#include "btl_ib_engine.h"

/* A datagram that is the next message of a settled connection, as most short ones are, is taken in
 * at once. False: it is something else, and nothing was done. Only where engine->predicts, and not
 * in asynchronous progress. */
bool btl_ib_predict(btl_ib_rail_t *rail, const btl_ib_event_t *event);

#endif
