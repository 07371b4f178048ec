/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What all connections together may ask peers again that have never answered. Each of them alone
 * cannot know that it asks for nothing; but where many are silent their hosts are busy, and copies
 * make them busier. So there is one budget, as RPC systems have: a share of what is acknowledged,
 * and a few copies a second. Connections that find it empty wait in line.
 */

#ifndef BTL_IB_RETRY_BUDGET_H
#define BTL_IB_RETRY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"

typedef struct btl_ib_retry_budget {
    btl_ib_list_t waiting; /* connections whose probe is due, by loss.in_line: btl_ib_probe.c */
    uint64_t filled_at;    /* us */
    uint32_t shares;       /* of a copy, that may be taken */
} btl_ib_retry_budget_t;

void btl_ib_retry_budget_init(btl_ib_retry_budget_t *budget);

enum {
    BTL_IB_RETRY_SHARE = 16,  /* acknowledged segments that earn one copy */
    BTL_IB_RETRIES_SAVED = 16 /* copies, at most */
};

/* Adds shares of a copy, as long as they make at most `most` copies. */
static inline void btl_ib_retry_budget_add(btl_ib_retry_budget_t *budget, uint64_t shares,
                                           uint32_t most)
{
    const uint32_t full = most * BTL_IB_RETRY_SHARE;

    if (budget->shares < full) {
        const uint32_t room = full - budget->shares;
        budget->shares += shares < room ? (uint32_t) shares : room;
    }
}

/* Takes one copy at `now` (us). False: the budget is empty. */
bool btl_ib_retry_budget_take(btl_ib_retry_budget_t *budget, uint64_t now);

#endif
