/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_counters.h"

#include <string.h>

const btl_ib_counter_info_t btl_ib_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field, text) {#field, offsetof(btl_ib_counters_t, field), text},
    BTL_IB_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};

const btl_ib_counter_info_t btl_ib_conn_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field) {#field, offsetof(btl_ib_conn_counters_t, field), NULL},
    BTL_IB_CONN_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};

const btl_ib_counter_info_t btl_ib_rail_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field) {#field, offsetof(btl_ib_rail_counters_t, field), NULL},
    BTL_IB_RAIL_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};

const btl_ib_counter_info_t btl_ib_channel_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field) {#field, offsetof(btl_ib_channel_counters_t, field), NULL},
    BTL_IB_CHANNEL_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};

const btl_ib_counter_info_t btl_ib_conn_level_infos[] = {
#define BTL_IB_COUNTER_INFO(field, text) {#field, offsetof(btl_ib_conn_levels_info_t, field), text},
    BTL_IB_CONN_LEVELS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};

const char *btl_ib_counter_text(const btl_ib_counter_info_t *info)
{
    const btl_ib_counter_info_t *same = btl_ib_counter_infos;

    while (info->text == NULL && strcmp(same->name, info->name) != 0) {
        same++;
    }
    return info->text != NULL ? info->text : same->text;
}

const btl_ib_counter_info_t *btl_ib_counter_next_drop(const btl_ib_counter_info_t *info,
                                                      const btl_ib_counters_t *before,
                                                      const btl_ib_counters_t *after)
{
    static const char prefix[] = "dropped_";

    for (info = info == NULL ? btl_ib_counter_infos : info + 1; info->name != NULL; info++) {
        if (strncmp(info->name, prefix, sizeof(prefix) - 1) == 0
            && btl_ib_counter_value(info, before) != btl_ib_counter_value(info, after)) {
            return info;
        }
    }
    return NULL;
}
