/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* RACK: the newest data known to have arrived, by which losses are found (RFC 8985). */

#ifndef BTL_IB_RACK_H
#define BTL_IB_RACK_H

#include <stdint.h>

typedef struct btl_ib_rack {
    uint64_t xmit_ts; /* us: when it was sent */
    uint64_t order;   /* its place among all segments sent */
    uint64_t at;      /* us: when its acknowledgement came */
    /* `order` when the mark was set (docs/architecture.md): what is older `mark_at` judges. */
    uint64_t mark_order;
    uint64_t mark_at; /* us */
} btl_ib_rack_t;

/* Notes at `now` that a copy of a segment, with that place and time of sending, has arrived. */
static inline void btl_ib_rack_note(btl_ib_rack_t *rack, uint64_t order, uint64_t sent_at,
                                    uint64_t now)
{
    if (order > rack->order) {
        rack->order = order;
        rack->xmit_ts = sent_at;
        rack->at = now;
    }
}

/* Forgets all, and counts `now` as the time of an arrival. */
static inline void btl_ib_rack_begin(btl_ib_rack_t *rack, uint64_t now)
{
    *rack = (btl_ib_rack_t){.at = now};
}

/* Marks what has arrived by now, unless the last mark is still to judge what is older: it does that
 * `rest` us after it was set. */
static inline void btl_ib_rack_mark(btl_ib_rack_t *rack, uint64_t now, uint64_t rest)
{
    if (now >= rack->mark_at + rest) {
        rack->mark_order = rack->order;
        rack->mark_at = now;
    }
}

#endif
