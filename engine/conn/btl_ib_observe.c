/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_observe.h"

/* Add what a connection counted. */
static void add(btl_ib_rail_counters_t *sum, const btl_ib_conn_counters_t *count)
{
#define BTL_IB_ADD(field) sum->field += count->field;
    BTL_IB_CONN_COUNTERS(BTL_IB_ADD)
#undef BTL_IB_ADD
}

void btl_ib_observe_end(btl_ib_conn_t *conn)
{
    add(&conn->rail->count, &conn->count);
}

uint32_t btl_ib_engine_rails(const btl_ib_engine_t *engine)
{
    return engine->rail_count;
}

void btl_ib_engine_rail_counters(const btl_ib_engine_t *engine, uint32_t rail,
                                 btl_ib_rail_counters_t *out)
{
    *out = engine->rails[rail]->count;
    BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, &engine->conns, all) {
        if (conn->rail->index == rail) {
            add(out, &conn->count);
        }
    }
    BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, &engine->closing, all) {
        if (conn->rail->index == rail) {
            add(out, &conn->count);
        }
    }
}

uint64_t btl_ib_engine_rail_overflows(const btl_ib_engine_t *engine, uint32_t rail)
{
    return engine->rails[rail]->overflows + engine->rails[rail]->transport->overflows;
}

const btl_ib_conn_t *btl_ib_engine_next_conn(const btl_ib_engine_t *engine,
                                             const btl_ib_conn_t *conn)
{
    const btl_ib_list_t *link = conn == NULL ? btl_ib_list_first(&engine->conns)
                                             : btl_ib_list_next(&engine->conns, &conn->all);

    return btl_ib_list_entry(link, offsetof(btl_ib_conn_t, all));
}

const btl_ib_conn_counters_t *btl_ib_conn_counters(const btl_ib_conn_t *conn)
{
    return &conn->count;
}

btl_ib_conn_levels_info_t btl_ib_conn_levels(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_config_t *config = &conn->engine->config;
    const uint32_t rto = btl_ib_rtt_timeout(&conn->recovery.rtt, config->rto_initial)
                         + conn->identity.peer_ack_delay;

    return (btl_ib_conn_levels_info_t){
        .in_flight = conn->sentmap.in_flight,
        .window = conn->cc.window,
        .srtt = btl_ib_rtt_smoothed(&conn->recovery.rtt, 0),
        .rto = rto > config->rto_min ? rto : config->rto_min,
        .datagram_max = conn->pmtud.datagram_max,
    };
}
