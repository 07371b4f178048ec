/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * No congestion control: for fabrics that lose nothing and hold senders back by themselves (RC with
 * link-level flow control). Credits, `max_pending_sends` and the depth limits remain.
 */

#include "btl_ib_cc.h"

static void init(btl_ib_cc_t *cc)
{
    cc->window = cc->max;
}

static void acked(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    (void) cc;
    (void) ack;
}

static void lost(btl_ib_cc_t *cc, uint64_t sent_at, uint64_t now)
{
    (void) cc;
    (void) sent_at;
    (void) now;
}

static void nothing(btl_ib_cc_t *cc)
{
    (void) cc;
}

const btl_ib_cc_ops_t btl_ib_cc_none = {
    .name = "none",
    .init = init,
    .acked = acked,
    .lost = lost,
    .undo = nothing,
    .restart = nothing,
};
