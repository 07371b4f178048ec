/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What memory an engine takes, with its rails and connections. */

#include "btl_ib_engine.h"

#include "btl_ib_list.h"
#include "btl_ib_state.h"
#include "footprint.h"

enum { TX_RING = 8 * sizeof(void *) }; /* of a space that sends; btl_ib_window.c */

static void add_segments(const btl_ib_engine_config_t *config, const btl_ib_transport_attr_t *attr,
                         uint32_t peers, btl_ib_footprint_t *footprint)
{
    static const char *const names[BTL_IB_SEGMENT_KINDS] = {"small", "medium", "large"};
    const uint32_t limit = btl_ib_rail_segments(config, attr, peers);
    uint64_t held = 0;
    uint64_t most = 0;

    for (int kind = 0; kind < BTL_IB_SEGMENT_KINDS; kind++) {
        btl_ib_pool_footprint(attr, kind, limit, &held, &most);
        btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS, peers > 0 ? held : 0, most,
                             "segments to send, %s", names[kind]);
    }
}

void btl_ib_engine_footprint(const btl_ib_engine_config_t *config,
                             const btl_ib_transport_attr_t *attr,
                             const btl_ib_queue_table_t *queues, uint32_t peers,
                             btl_ib_footprint_t *footprint)
{
    const bool keyed = btl_ib_guard_ops(config->guard)->keyed;
    /* Peers are taken to have the same queues. */
    const uint64_t conn = sizeof(btl_ib_conn_t)
                          + queues->count * (sizeof(btl_ib_tx_space_t) + sizeof(btl_ib_rx_space_t))
                          + (keyed ? sizeof(btl_ib_guard_keys_t) : 0);
    const uint64_t shared = peers > 0 ? sizeof(btl_ib_table_entry_t) + BTL_IB_TOMBSTONES_BYTES : 0;
    const uint64_t windows = (uint64_t) peers * queues->count
                             * (config->window_max * sizeof(void *) + config->window_max / 8);
    const uint64_t reassembled = btl_ib_reasm_bytes(config->eager_max);

    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS,
                         sizeof(btl_ib_engine_t) + sizeof(btl_ib_rail_t), 0, "engine");
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS,
                         peers * conn + btl_ib_table_bytes(peers) + shared, 0, "connections");
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS,
                         (uint64_t) peers * queues->count * TX_RING, windows, "windows");
    add_segments(config, attr, peers, footprint);
    /* One is kept for the next message. */
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS, peers > 0 ? reassembled : 0,
                         ((uint64_t) peers + config->reassembly_max) * reassembled,
                         "reassembly, %llu bytes each", (unsigned long long) reassembled);
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS, 0, config->backlog_max,
                         "backlog of the progress thread");
}
