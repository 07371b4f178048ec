/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_retry_budget.h"

enum {
    SHARE = 16,   /* one copy for so many acknowledged segments, */
    EACH = 50000, /* and for so many us */
    FEW = 4,      /* copies saved by time, at most: what one silent peer needs, or a few */
    MOST = 16,    /* saved at most */
};

void btl_ib_retry_budget_init(btl_ib_retry_budget_t *budget)
{
    btl_ib_list_init(&budget->waiting);
    budget->shares = FEW * SHARE;
}

/* Adds shares of a copy, as long as there are at most so many copies then. */
static void retry_budget_fill(btl_ib_retry_budget_t *budget, uint64_t shares, uint32_t copies)
{
    const uint32_t most = copies * SHARE;

    if (budget->shares < most) {
        const uint32_t room = most - budget->shares;
        budget->shares += shares < room ? (uint32_t) shares : room;
    }
}

void btl_ib_retry_budget_acked(btl_ib_retry_budget_t *budget, uint32_t segments)
{
    retry_budget_fill(budget, segments, MOST);
}

bool btl_ib_retry_budget_take(btl_ib_retry_budget_t *budget, uint64_t now)
{
    const uint64_t copies = (now - budget->filled_at) / EACH;

    retry_budget_fill(budget, copies * SHARE, FEW);
    budget->filled_at += copies * EACH;
    if (budget->shares < SHARE) {
        return false;
    }
    budget->shares -= SHARE;
    return true;
}
