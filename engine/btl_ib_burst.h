/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a peer sends in one call (UDP_SEGMENT) mostly arrives in one: segments of one message or
 * operation, one behind the other, whose headers differ in sequence and offset only. The first of
 * them is checked as any; those that continue it are placed and accepted with it, at once. The last
 * chunk of a message may be shorter, and ask for its acknowledgement.
 */

#ifndef BTL_IB_BURST_H
#define BTL_IB_BURST_H

#include <stdint.h>

#include "btl_ib_wire.h"
#include "transport.h"

/* Makes a burst of one segment, until more is known. */
static inline void btl_ib_burst_none(btl_ib_burst_t *burst)
{
    burst->count = 0;
    burst->less = 0;
    burst->asks = false;
}

/* Finds the burst that begins with `view`, the segment in the datagram of `first`. Sets view->more:
 * of the `most` events behind that one as many as continue it without an exception. */
void btl_ib_burst_find(btl_ib_view_t *view, const btl_ib_event_t *first, uint32_t most);

/* Returns the segments of a burst, at least 1, and the bytes in all of them. */
static inline uint32_t btl_ib_burst_count(const btl_ib_view_t *view)
{
    return 1 + view->more.count;
}

static inline uint64_t btl_ib_burst_bytes(const btl_ib_view_t *view)
{
    return (uint64_t) view->size * btl_ib_burst_count(view) - view->more.less;
}

/* Copies the bytes of all to `to`. Returns how many. */
uint64_t btl_ib_burst_place(const btl_ib_view_t *view, uint8_t *to);

#endif
