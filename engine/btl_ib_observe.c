/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_observe.h"

#include "btl_ib_pmtud.h"
#include "btl_ib_path.h"

btl_ib_conn_counters_t btl_ib_conn_counters(const btl_ib_conn_t *conn)
{
    btl_ib_conn_counters_t count = conn->count;

    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        count.sent_segments += conn->tx[i].sentmap.sent;
    }
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        count.received_segments += conn->rx[i].accept.received;
    }
    return count;
}

/* Add what a connection counted. */
static void add(btl_ib_rail_counters_t *sum, const btl_ib_conn_t *conn)
{
    const btl_ib_conn_counters_t count = btl_ib_conn_counters(conn);

#define BTL_IB_ADD(field) sum->field += count.field;
    BTL_IB_CONN_COUNTERS(BTL_IB_ADD)
#undef BTL_IB_ADD
}

/* The same on one channel. */
static void add_channel(btl_ib_channel_counters_t *sum, const btl_ib_conn_t *conn, uint32_t channel)
{
    if (channel < conn->peer_queues->count) {
        sum->sent_segments += conn->tx[channel].sentmap.sent;
    }
    if (channel < conn->rail->queues.count) {
        sum->received_segments += conn->rx[channel].accept.received;
    }
}

void btl_ib_observe_end(btl_ib_conn_t *conn)
{
    add(&conn->rail->count, conn);
    for (uint32_t i = 0; i < BTL_IB_QUEUES_MAX; i++) {
        add_channel(&conn->rail->channels[i], conn, i);
    }
}

uint32_t btl_ib_engine_rails(const btl_ib_engine_t *engine)
{
    return engine->rail_count;
}

void btl_ib_engine_rail_counters(const btl_ib_engine_t *engine, uint32_t rail,
                                 btl_ib_rail_counters_t *out)
{
    const btl_ib_list_t *const lists[] = {&engine->conns, &engine->closing};

    *out = engine->rails[rail]->count;
    for (int i = 0; i < 2; i++) {
        BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, lists[i], all) {
            if (conn->rail->index == rail) {
                add(out, conn);
            }
        }
    }
}

btl_ib_channel_counters_t btl_ib_engine_channel_counters(const btl_ib_engine_t *engine,
                                                         uint32_t rail, uint32_t channel)
{
    const btl_ib_list_t *const lists[] = {&engine->conns, &engine->closing};
    btl_ib_channel_counters_t count = engine->rails[rail]->channels[channel];

    for (int i = 0; i < 2; i++) {
        BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, lists[i], all) {
            if (conn->rail->index == rail) {
                add_channel(&count, conn, channel);
            }
        }
    }
    return count;
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

btl_ib_path_info_t btl_ib_conn_path(const btl_ib_conn_t *conn)
{
    return (btl_ib_path_info_t){
        .checking = btl_ib_conn_alive(conn) && conn->pmtud.checking,
        .own = btl_ib_route_is_own(conn),
        .heard = conn->validation.valid,
        .answered = conn->validation.answered,
        .refused = conn->recovery.refused_since != 0 || conn->validation.refused_at != 0,
        .contact = btl_ib_pmtud_contact_size(conn),
        .sent = conn->pmtud.proven,
        .came = conn->pmtud.received,
        .most = conn->pmtud.home,
        .rtt = conn->recovery.rtt.min,
    };
}
