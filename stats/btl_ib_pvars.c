/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_pvars.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "btl_ib_"

/* Variables of one kind: how their names begin, and their values. */
typedef struct kind {
    const char *prefix; /* behind PREFIX */
    const char *whose;  /* added to descriptions */
    const btl_ib_counter_info_t *tables[2];
    int class[2];
    mca_base_get_value_fn_t get;
    mca_base_notify_fn_t bound;
} kind_t;

static int get_process(const mca_base_pvar_t *pvar, void *value, void *object);
static int get_devices(const mca_base_pvar_t *pvar, void *value, void *object);
static int get_channels(const mca_base_pvar_t *pvar, void *value, void *object);
static int get_peers(const mca_base_pvar_t *pvar, void *value, void *object);
static int bind_one(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object, int *count);
static int bind_devices(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                        int *count);
static int bind_channels(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                         int *count);
static int bind_peers(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object, int *count);

enum {
    COUNTER = MCA_BASE_PVAR_CLASS_COUNTER,
    LEVEL = MCA_BASE_PVAR_CLASS_LEVEL,
};

static const kind_t of_process = {
    "",
    "of this process",
    {btl_ib_counter_infos, btl_ib_device_counter_infos},
    {COUNTER, COUNTER},
    get_process,
    bind_one,
};
static const kind_t of_devices = {
    "device_",          "of each device", {btl_ib_rail_counter_infos, btl_ib_device_counter_infos},
    {COUNTER, COUNTER}, get_devices,      bind_devices,
};
static const btl_ib_counter_info_t none[] = {{NULL, 0, NULL}};
static const kind_t of_channels = {
    "channel_",
    "of each queue of btl_ib_receive_queues, the smallest first: sent ones by the peer's, received "
    "ones by ours",
    {btl_ib_channel_counter_infos, none},
    {COUNTER, COUNTER},
    get_channels,
    bind_channels,
};
static const kind_t of_peers = {
    "peer_",
    "of what goes to or comes from each process, by its rank in MPI_COMM_WORLD",
    {btl_ib_conn_counter_infos, btl_ib_conn_level_infos},
    {COUNTER, LEVEL},
    get_peers,
    bind_peers,
};

/* ---- reading ---- */

/* What a variable shows: the entry of its table, and which of the two of its kind that is. */
static const btl_ib_counter_info_t *find(const mca_base_pvar_t *pvar, const kind_t *kind,
                                         int *table)
{
    const char *name = pvar->name + strlen(PREFIX) + strlen(kind->prefix);

    for (*table = 0; *table < 2; ++*table) {
        for (const btl_ib_counter_info_t *info = kind->tables[*table]; info->name != NULL; ++info) {
            if (strcmp(info->name, name) == 0) {
                return info;
            }
        }
    }
    return NULL; /* not of this version of the component */
}

/* The engine, with its lock held; NULL: there is none, and no lock is held. */
static const btl_ib_engine_t *hold(const btl_ib_stats_t *stats)
{
    if (stats->config.engine == NULL) {
        return NULL;
    }
    btl_ib_biased_lock_acquire(stats->config.lock);
    if (stats->config.engine == NULL) {
        btl_ib_biased_lock_release(stats->config.lock);
        return NULL;
    }
    return stats->config.engine;
}

static int get_process(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const btl_ib_stats_t *stats = pvar->ctx;
    unsigned long long *out = value;
    btl_ib_process_counters_t counters;
    int table;
    const btl_ib_counter_info_t *info = find(pvar, &of_process, &table);

    (void) object;
    *out = 0;
    if (info != NULL && hold(stats) != NULL) {
        btl_ib_stats_process(stats, &counters);
        btl_ib_biased_lock_release(stats->config.lock);
        *out = btl_ib_counter_value(info, table == 0 ? (const void *) &counters.engine
                                                     : (const void *) &counters.devices);
    }
    return OPAL_SUCCESS;
}

static int get_devices(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const btl_ib_stats_t *stats = pvar->ctx;
    unsigned long long *out = value;
    btl_ib_rail_counters_t rail;
    btl_ib_device_counters_t device;
    int table;
    const btl_ib_counter_info_t *info = find(pvar, &of_devices, &table);
    const btl_ib_engine_t *engine;

    (void) object;
    memset(out, 0, BTL_IB_RAILS_MAX * sizeof(*out));
    engine = info != NULL ? hold(stats) : NULL;
    if (engine == NULL) {
        return OPAL_SUCCESS;
    }
    for (uint32_t i = 0; i < btl_ib_engine_rails(engine); ++i) {
        btl_ib_engine_rail_counters(engine, i, &rail);
        btl_ib_stats_device(stats, i, &device);
        out[i] =
            btl_ib_counter_value(info, table == 0 ? (const void *) &rail : (const void *) &device);
    }
    btl_ib_biased_lock_release(stats->config.lock);
    return OPAL_SUCCESS;
}

static int get_channels(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const btl_ib_stats_t *stats = pvar->ctx;
    unsigned long long *out = value;
    int table;
    const btl_ib_counter_info_t *info = find(pvar, &of_channels, &table);
    const btl_ib_engine_t *engine;

    (void) object;
    memset(out, 0, BTL_IB_QUEUES_MAX * sizeof(*out));
    engine = info != NULL ? hold(stats) : NULL;
    if (engine == NULL) {
        return OPAL_SUCCESS;
    }
    for (uint32_t i = 0; i < btl_ib_engine_rails(engine); ++i) {
        for (uint32_t c = 0; c < BTL_IB_QUEUES_MAX; ++c) {
            const btl_ib_channel_counters_t counters = btl_ib_engine_channel_counters(engine, i, c);

            out[c] += btl_ib_counter_value(info, &counters);
        }
    }
    btl_ib_biased_lock_release(stats->config.lock);
    return OPAL_SUCCESS;
}

/* Of several rails to one process counters are added; of levels the largest counts. */
static int get_peers(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const btl_ib_stats_t *stats = pvar->ctx;
    unsigned long long *out = value;
    int table;
    const btl_ib_counter_info_t *info = find(pvar, &of_peers, &table);
    const btl_ib_engine_t *engine;

    (void) object;
    memset(out, 0, stats->processes * sizeof(*out));
    engine = info != NULL ? hold(stats) : NULL;
    if (engine == NULL) {
        return OPAL_SUCCESS;
    }
    for (const btl_ib_conn_t *conn = btl_ib_engine_next_conn(engine, NULL); conn != NULL;
         conn = btl_ib_engine_next_conn(engine, conn)) {
        const uint64_t name = btl_ib_conn_name(conn);
        const uint32_t rank = (uint32_t) name;

        if (name >> 32 != stats->config.name >> 32 || rank >= stats->processes) {
            continue; /* of another job */
        }
        if (table == 0) {
            const btl_ib_conn_counters_t counters = btl_ib_conn_counters(conn);

            out[rank] += btl_ib_counter_value(info, &counters);
        } else {
            const btl_ib_conn_levels_info_t levels = btl_ib_conn_levels(conn);
            const uint64_t level = btl_ib_counter_value(info, &levels);

            out[rank] = level > out[rank] ? level : out[rank];
        }
    }
    btl_ib_biased_lock_release(stats->config.lock);
    return OPAL_SUCCESS;
}

/* ---- binding: how many values there are ---- */

static int set_count(mca_base_pvar_event_t event, int *count, int values)
{
    if (event == MCA_BASE_PVAR_HANDLE_BIND) {
        *count = values;
    }
    return OPAL_SUCCESS;
}

static int bind_one(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object, int *count)
{
    (void) pvar;
    (void) object;
    return set_count(event, count, 1);
}

static int bind_devices(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                        int *count)
{
    (void) pvar;
    (void) object;
    return set_count(event, count, BTL_IB_RAILS_MAX);
}

static int bind_channels(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object,
                         int *count)
{
    (void) pvar;
    (void) object;
    return set_count(event, count, BTL_IB_QUEUES_MAX);
}

static int bind_peers(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object, int *count)
{
    const btl_ib_stats_t *stats = pvar->ctx;

    (void) object;
    if (event != MCA_BASE_PVAR_HANDLE_BIND) {
        return OPAL_SUCCESS;
    }
    *count = (int) stats->processes;
    return 0 < *count ? OPAL_SUCCESS : OPAL_ERR_NOT_BOUND;
}

/* ---- registering ---- */

static void register_kind(const mca_base_component_t *component, const kind_t *kind,
                          btl_ib_stats_t *stats)
{
    char name[64];
    char text[256];

    for (int table = 0; table < 2; ++table) {
        for (const btl_ib_counter_info_t *info = kind->tables[table]; info->name != NULL; ++info) {
            snprintf(name, sizeof(name), "%s%s", kind->prefix, info->name);
            snprintf(text, sizeof(text), "%s, %s", btl_ib_counter_text(info), kind->whose);
            /* One that is refused is missing, no more. */
            (void) mca_base_component_pvar_register(
                component, name, text, OPAL_INFO_LVL_5, kind->class[table],
                MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
                MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, kind->get, NULL,
                kind->bound, stats);
        }
    }
}

void btl_ib_pvars_register(const mca_base_component_t *component, btl_ib_stats_t *stats)
{
    register_kind(component, &of_process, stats);
    register_kind(component, &of_devices, stats);
    register_kind(component, &of_channels, stats);
    register_kind(component, &of_peers, stats);
}
