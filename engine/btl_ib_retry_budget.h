/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What all connections together may ask peers again that have never answered. Each of them alone
 * cannot know that it asks in vain; but where many are silent their hosts are busy, and copies make
 * them busier. So there is one budget, as RPC systems have: a share of what is acknowledged, and a
 * few copies a second. Connections that find it empty wait in line.
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

/* Adds the share of `segments` that were acknowledged. */
void btl_ib_retry_budget_acked(btl_ib_retry_budget_t *budget, uint32_t segments);

/* Takes one copy at `now` (us). False: the budget is empty. */
bool btl_ib_retry_budget_take(btl_ib_retry_budget_t *budget, uint64_t now);

#endif
