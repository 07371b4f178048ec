/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_memory_max.h"

#include "btl_ib_params.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what devices take ---- */

static uint64_t aligned(uint64_t size)
{
    return (size + (uint64_t) opal_cache_line_size - 1) / (uint64_t) opal_cache_line_size
           * (uint64_t) opal_cache_line_size;
}

/* Fragments that each list has from the start; it has no upper bound. */
static void add_fragments(const btl_ib_process_sizes_t *sizes, const btl_ib_transport_attr_t *attr,
                          btl_ib_footprint_t *footprint)
{
    const uint64_t count = BTL_IB_FRAGS_AT_ONCE;
    const uint64_t eager =
        btl_ib_params_eager_limit(sizes->params, sizes->limits, attr, attr->rdma);

    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS,
                         count
                             * (aligned(sizes->fragment) + aligned(sizes->fragment + eager)
                                + aligned(sizes->fragment + sizes->limits->btl_max_send_size)),
                         0, "fragments, %" PRIu64 " of each size", count);
}

void btl_ib_device_footprint(const btl_ib_process_sizes_t *sizes,
                             const btl_ib_transport_type_t *type, const btl_ib_device_plan_t *plan,
                             uint32_t peers, btl_ib_footprint_t *footprint)
{
    btl_ib_transport_attr_t attr = plan->attr;
    btl_ib_engine_config_t config;

    btl_ib_params_engine(sizes->params, sizes->limits, &config);
    type->footprint(&plan->open, &attr, peers, footprint);
    if (attr.reliable) { /* then datagrams are as large as the queues */
        attr.max_datagram = plan->queues.q[plan->queues.count - 1].size;
    }
    btl_ib_engine_footprint(&config, &attr, &plan->queues, peers, footprint);
    add_fragments(sizes, &attr, footprint);
}

void btl_ib_device_footprint_report(const btl_ib_process_sizes_t *sizes,
                                    const btl_ib_transport_type_t *type, const char *name,
                                    const btl_ib_device_plan_t *plan, uint32_t peers)
{
    static const char *const owners[BTL_IB_FOOTPRINT_OWNERS] = {"process", "kernel", "device"};
    btl_ib_footprint_t *now = calloc(2, sizeof(*now)); /* too much for a short stack */
    const btl_ib_footprint_t *then = now + 1;

    if (now == NULL) {
        return;
    }
    btl_ib_device_footprint(sizes, type, plan, 0, now);
    btl_ib_device_footprint(sizes, type, plan, peers, now + 1);
    for (uint32_t i = 0; i < then->count; ++i) {
        const btl_ib_footprint_part_t *part = &then->part[i];

        opal_output(0,
                    "btl_ib: memory of %s: %s: %s: %" PRIu64 " bytes now, %" PRIu64
                    " with %u peers, %" PRIu64 " at most",
                    name, owners[part->owner], part->what, now->part[i].held, part->held, peers,
                    part->most);
    }
    for (int i = 0; i < BTL_IB_FOOTPRINT_OWNERS; ++i) {
        opal_output(0,
                    "btl_ib: memory of %s: %s: all: %" PRIu64 " bytes now, %" PRIu64
                    " with %u peers, %" PRIu64 " at most",
                    name, owners[i], btl_ib_footprint_held(now, (btl_ib_footprint_owner_t) i),
                    btl_ib_footprint_held(then, (btl_ib_footprint_owner_t) i), peers,
                    btl_ib_footprint_most(then, (btl_ib_footprint_owner_t) i));
    }
    free(now);
}

/* ---- limit ---- */

/* Queues with ever fewer buffers. */
static const char *const fewer[] = {
    "P,256,128:S,8192,512,256,32:S,65536,128,64,8",   "P,256,64:S,8192,256,128,16:S,65536,64,32,4",
    "P,256,32:S,8192,128,64,8:S,65536,32,16,2",       "P,256,16:S,8192,64,32,4:S,65536,16,8,1",
    "S,256,256,128,32:S,8192,64,32,4:S,65536,16,8,1",
};

enum { PLANNED, PLANNED_SHARED, OWN, OWN_SHARED, FEWER };
enum { CANDIDATES = FEWER + sizeof(fewer) / sizeof(fewer[0]) };

/* All queues of a table but the smallest, shared, with the defaults that follow from num. */
static bool share(const btl_ib_queue_table_t *table, btl_ib_queue_table_t *shared)
{
    btl_ib_queues_error_t error;
    char spec[512] = "";

    for (uint32_t i = 0; i < table->count; ++i) {
        const size_t len = strlen(spec);

        snprintf(spec + len, sizeof(spec) - len, "%s%c,%" PRIu32 ",%" PRIu32, i > 0 ? ":" : "",
                 i == 0 && table->q[i].type == BTL_IB_QUEUE_PER_PEER ? 'P' : 'S', table->q[i].size,
                 table->q[i].num);
    }
    return btl_ib_queues_parse(spec, shared, &error) == 0;
}

/* Can the device share so many buffers? Others than connections have one pool for all peers. */
static bool can_share(const btl_ib_queue_table_t *table, const btl_ib_transport_attr_t *attr)
{
    for (uint32_t i = 0; attr->reliable && i < table->count; ++i) {
        if (table->q[i].type == BTL_IB_QUEUE_SHARED && table->q[i].num > attr->shared_max) {
            return false;
        }
    }
    return true;
}

/* Candidate `i`, if there is one: as text, or made of what is planned. */
static bool candidate(const btl_ib_transport_type_t *type, const btl_ib_device_plan_t *plan, int i,
                      btl_ib_queue_table_t *table, const char **spec)
{
    btl_ib_queues_error_t error;

    *spec = i >= FEWER        ? fewer[i - FEWER]
            : i == OWN        ? type->default_queues
            : i == OWN_SHARED ? type->shared_queues
                              : NULL;
    if (i < OWN) {
        *table = plan->queues;
        return plan->queues.count > 0 && (i == PLANNED || share(&plan->queues, table));
    }
    return *spec != NULL && btl_ib_queues_parse(*spec, table, &error) == 0;
}

/* Bytes of this process with shared queues as large as they may grow; UINT64_MAX: no memory. */
static uint64_t cost(const btl_ib_process_sizes_t *sizes, const btl_ib_transport_type_t *type,
                     const btl_ib_queue_table_t *table, uint32_t peers,
                     const btl_ib_device_plan_t *plan)
{
    struct {
        btl_ib_footprint_t footprint;
        btl_ib_device_plan_t grown;
        btl_ib_queue_table_t queues;
    } *work = calloc(1, sizeof(*work)); /* too much for a short stack */
    uint64_t held;

    if (work == NULL) {
        return UINT64_MAX;
    }
    work->grown = *plan;
    work->queues = *table;
    for (uint32_t i = 0; i < work->queues.count; ++i) {
        btl_ib_queue_t *queue = &work->queues.q[i];

        queue->init = queue->type == BTL_IB_QUEUE_SHARED ? queue->num : queue->init;
    }
    btl_ib_device_plan_use(sizes->params, &work->queues, &work->grown);
    btl_ib_device_footprint(sizes, type, &work->grown, peers, &work->footprint);
    held = btl_ib_footprint_held(&work->footprint, BTL_IB_FOOTPRINT_PROCESS);
    free(work);
    return held;
}

btl_ib_memory_max_info_t btl_ib_memory_max_fit(const btl_ib_process_sizes_t *sizes,
                                               const btl_ib_transport_type_t *type, uint32_t peers,
                                               uint64_t bytes, btl_ib_device_plan_t *plan)
{
    btl_ib_memory_max_info_t info = {.taken = UINT64_MAX};
    btl_ib_queue_table_t table, least;
    const char *spec;

    for (int i = 0; i < CANDIDATES && info.taken > bytes; ++i) {
        uint64_t taken;

        if (!candidate(type, plan, i, &table, &spec)
            || (i != PLANNED && !can_share(&table, &plan->attr))) {
            continue;
        }
        taken = cost(sizes, type, &table, peers, plan);
        info.wanted = i == PLANNED ? taken : info.wanted;
        if (taken < info.taken) {
            info.taken = taken;
            info.spec = spec;
            least = table;
        }
    }
    if (info.taken != UINT64_MAX) {
        btl_ib_device_plan_use(sizes->params, &least, plan);
    }
    return info;
}

void btl_ib_memory_max_apply(const btl_ib_process_sizes_t *sizes,
                             const btl_ib_transport_type_t *type, const char *name, uint32_t peers,
                             uint64_t bytes, btl_ib_device_plan_t *plan)
{
    char before[512], after[512];
    btl_ib_memory_max_info_t info;

    btl_ib_queues_format(&plan->queues, before, sizeof(before));
    info = btl_ib_memory_max_fit(sizes, type, peers, bytes, plan);
    btl_ib_queues_format(&plan->queues, after, sizeof(after));
    if (info.wanted > bytes && name != NULL && opal_process_info.my_local_rank == 0) {
        opal_output(0,
                    "btl_ib: %s: with %" PRIu32 " peers it takes %" PRIu64
                    " bytes of each process with receive queues %s; btl_ib_memory_max leaves it "
                    "%" PRIu64 ": %s are used, with which it takes %" PRIu64 "%s",
                    name, peers, info.wanted, before, bytes, after, info.taken,
                    info.taken > bytes ? ", as none take less" : "");
    }
}
