/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_stats.h"

#include <string.h>

const btl_ib_counter_info_t btl_ib_device_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field, text) {#field, offsetof(btl_ib_device_counters_t, field), text},
    BTL_IB_DEVICE_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};

void btl_ib_stats_begin(btl_ib_stats_t *stats, const btl_ib_stats_config_t *config)
{
    *stats = (btl_ib_stats_t){.config = *config, .processes = config->processes};
}

void btl_ib_stats_end(btl_ib_stats_t *stats)
{
    stats->config.engine = NULL;
}

void btl_ib_stats_add_device(btl_ib_stats_t *stats, uint32_t rail,
                             const btl_ib_registration_cache_t *cache)
{
    stats->caches[rail] = cache;
}

void btl_ib_stats_remove_device(btl_ib_stats_t *stats, uint32_t rail)
{
    btl_ib_stats_device(stats, rail, &stats->ended[rail]);
    stats->caches[rail] = NULL;
}

void btl_ib_stats_device(const btl_ib_stats_t *stats, uint32_t rail, btl_ib_device_counters_t *out)
{
    const btl_ib_registration_cache_t *cache = stats->caches[rail];

    *out = stats->ended[rail];
    if (NULL != cache) {
        out->registration_hits = cache->counts.hits;
        out->registration_misses = cache->counts.misses;
        out->registration_evictions = cache->counts.evictions;
        out->registration_unmapped = cache->counts.unmapped;
        out->registration_failures = cache->counts.failures;
    }
    if (NULL != stats->config.engine) {
        out->overflows = btl_ib_engine_rail_overflows(stats->config.engine, rail);
    }
}

void btl_ib_stats_process(const btl_ib_stats_t *stats, btl_ib_process_counters_t *out)
{
    btl_ib_device_counters_t device;

    memset(out, 0, sizeof(*out));
    if (NULL == stats->config.engine) {
        return;
    }
    out->engine = *btl_ib_engine_counters(stats->config.engine);
    for (uint32_t i = 0; i < btl_ib_engine_rails(stats->config.engine); ++i) {
        btl_ib_stats_device(stats, i, &device);
#define BTL_IB_ADD(field, text) out->devices.field += device.field;
        BTL_IB_DEVICE_COUNTERS(BTL_IB_ADD)
#undef BTL_IB_ADD
    }
}
