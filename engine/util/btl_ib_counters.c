/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_counters.h"

const btl_ib_counter_info_t btl_ib_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field, text) {#field, offsetof(btl_ib_counters_t, field)},
    BTL_IB_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0},
};
