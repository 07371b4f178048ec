/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_cc.h"

#include <string.h>

/* ---- cc ---- */

bool btl_ib_cc_parse(const char *name, btl_ib_cc_kind_t *kind)
{
    static const char *const names[] = {
        [BTL_IB_CC_AUTO] = "auto",
        [BTL_IB_CC_NONE] = "none",
        [BTL_IB_CC_SWIFT] = "swift",
        [BTL_IB_CC_CUBIC] = "cubic",
    };

    if (name == NULL || name[0] == '\0') {
        name = names[BTL_IB_CC_AUTO];
    }
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            *kind = (btl_ib_cc_kind_t) i;
            return true;
        }
    }
    return false;
}

const btl_ib_cc_ops_t *btl_ib_cc_choose(btl_ib_cc_kind_t kind, bool reliable)
{
    switch (kind) {
    case BTL_IB_CC_NONE:
        return &btl_ib_cc_none;
    case BTL_IB_CC_SWIFT:
        return &btl_ib_cc_swift;
    case BTL_IB_CC_CUBIC:
        return &btl_ib_cc_cubic;
    default:
        return reliable ? &btl_ib_cc_none : &btl_ib_cc_swift;
    }
}

/* ---- cc none ---- */

/*
 * No congestion control: for fabrics that lose nothing and hold senders back by themselves (RC with
 * link-level flow control). Credits, `max_pending_sends` and the depth limits remain.
 */

static void none_init(btl_ib_cc_t *cc)
{
    cc->window = cc->max;
}

static btl_ib_cc_round_t none_acked(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    (void) cc;
    (void) ack;
    return BTL_IB_CC_ROUND_NONE;
}

static void none_lost(btl_ib_cc_t *cc, uint64_t sent_at, uint64_t now)
{
    (void) cc;
    (void) sent_at;
    (void) now;
}

static bool none_marked(btl_ib_cc_t *cc, const btl_ib_cc_marks_t *marks)
{
    (void) cc;
    (void) marks;
    return false;
}

static void none_nothing(btl_ib_cc_t *cc)
{
    (void) cc;
}

const btl_ib_cc_ops_t btl_ib_cc_none = {
    .name = "none",
    .init = none_init,
    .acked = none_acked,
    .lost = none_lost,
    .marked = none_marked,
    .undo = none_nothing,
    .restart = none_nothing,
};
