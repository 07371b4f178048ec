/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_stats_values.h"

const btl_ib_counter_info_t btl_ib_device_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field, text) {#field, offsetof(btl_ib_device_counters_t, field), text},
    BTL_IB_DEVICE_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};

btl_ib_process_counters_t btl_ib_stats_between(const btl_ib_process_counters_t *before,
                                               const btl_ib_process_counters_t *after)
{
    btl_ib_process_counters_t more = *after;

#define BTL_IB_TAKE_OFF(field, text) more.engine.field -= before->engine.field;
    BTL_IB_COUNTERS(BTL_IB_TAKE_OFF)
#undef BTL_IB_TAKE_OFF
#define BTL_IB_TAKE_OFF(field, text) more.devices.field -= before->devices.field;
    BTL_IB_DEVICE_COUNTERS(BTL_IB_TAKE_OFF)
#undef BTL_IB_TAKE_OFF
    return more;
}
