/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_stats_line.h"

void btl_ib_stats_begin(btl_ib_stats_t *stats, const btl_ib_stats_config_t *config)
{
    *stats = (btl_ib_stats_t){
        .config = *config,
        .processes = config->processes,
        .due = 0 == config->interval ? UINT64_MAX : config->now + config->interval,
    };
}

void btl_ib_stats_end(btl_ib_stats_t *stats)
{
    stats->config.engine = NULL;
    stats->due = UINT64_MAX;
    btl_ib_stats_records_free(&stats->records);
    free(stats->config.file);
    stats->config.file = NULL;
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

void btl_ib_stats_end_peer(btl_ib_stats_t *stats, const btl_ib_conn_t *conn, const char *host,
                           const char *address)
{
    if (NULL != stats->config.file) {
        btl_ib_stats_record_peer(&stats->records, conn, host, address);
    }
}

void btl_ib_stats_interval(btl_ib_stats_t *stats, uint64_t now)
{
    const btl_ib_stats_config_t *config = &stats->config;
    const uint64_t at = now - config->now;
    btl_ib_process_counters_t counters;
    char when[48];

    btl_ib_stats_process(stats, &counters);
    if (config->prints) {
        const btl_ib_process_counters_t more = btl_ib_stats_between(&stats->told, &counters);

        snprintf(when, sizeof(when), " %s %" PRIu64 ".%" PRIu64 " s,",
                 config->relative ? "since the last line, after" : "after", at / 1000000,
                 at / 100000 % 10);
        btl_ib_stats_print((uint32_t) config->name, config->host, when,
                           config->relative ? &more : &counters);
    }
    if (NULL != config->file) {
        btl_ib_stats_record_sample(&stats->records, at, &counters);
    }
    stats->told = counters;
    while (stats->due <= now) { /* the application may have computed for long */
        stats->due += config->interval;
    }
}

void btl_ib_stats_last(const btl_ib_stats_t *stats)
{
    btl_ib_process_counters_t counters;

    if (stats->config.prints) {
        btl_ib_stats_process(stats, &counters);
        btl_ib_stats_print((uint32_t) stats->config.name, stats->config.host, "", &counters);
    }
}
