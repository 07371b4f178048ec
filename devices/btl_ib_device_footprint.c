/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_device_footprint.h"

#include <inttypes.h>
#include <stdlib.h>

#include "btl_ib_params_engine.h"

static uint64_t aligned(uint64_t size)
{
    return (size + (uint64_t) opal_cache_line_size - 1) / (uint64_t) opal_cache_line_size
           * (uint64_t) opal_cache_line_size;
}

/* Fragments that each list has from the start; it has no upper bound. */
static void add_fragments(const btl_ib_process_sizes_t *sizes, const btl_ib_transport_attr_t *attr,
                          btl_ib_footprint_t *footprint)
{
    const uint64_t count = (uint64_t) sizes->params->free_list_num;
    const uint64_t eager =
        btl_ib_params_eager_limit(sizes->params, sizes->limits, attr, attr->rdma);

    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS,
                         count
                             * (aligned(sizes->fragment) + aligned(sizes->fragment + eager)
                                + aligned(sizes->fragment + sizes->limits->btl_max_send_size)),
                         0, "fragments, %" PRIu64 " of each size", count);
}

void btl_ib_device_footprint(const btl_ib_process_sizes_t *sizes,
                             const btl_ib_transport_type_t *type,
                             const btl_ib_device_plan_t *plan, uint32_t peers,
                             btl_ib_footprint_t *footprint)
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

    if (NULL == now) {
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
