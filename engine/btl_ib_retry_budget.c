/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_retry_budget.h"

enum {
    EACH = 50000, /* us in which one copy is earned */
    FEW = 4,      /* copies saved by time, at most: what one silent peer needs, or a few */
};

void btl_ib_retry_budget_init(btl_ib_retry_budget_t *budget)
{
    btl_ib_list_init(&budget->waiting);
    budget->shares = FEW * BTL_IB_RETRY_SHARE;
}

bool btl_ib_retry_budget_take(btl_ib_retry_budget_t *budget, uint64_t now)
{
    const uint64_t copies = (now - budget->filled_at) / EACH;

    btl_ib_retry_budget_add(budget, copies * BTL_IB_RETRY_SHARE, FEW);
    budget->filled_at += copies * EACH;
    if (budget->shares < BTL_IB_RETRY_SHARE) {
        return false;
    }
    budget->shares -= BTL_IB_RETRY_SHARE;
    return true;
}
