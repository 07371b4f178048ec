/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_conn_info.h"

#include "btl_ib_state.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_send_limits.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* ---- counters ---- */

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

void btl_ib_conn_add_counters(btl_ib_rail_counters_t *sum, const btl_ib_conn_t *conn)
{
    const btl_ib_conn_counters_t count = btl_ib_conn_counters(conn);

#define BTL_IB_ADD(field) sum->field += count.field;
    BTL_IB_CONN_COUNTERS(BTL_IB_ADD)
#undef BTL_IB_ADD
}

void btl_ib_conn_add_channel(btl_ib_channel_counters_t *sum, const btl_ib_conn_t *conn,
                             uint32_t channel)
{
    if (channel < conn->peer_queues->count) {
        sum->sent_segments += conn->tx[channel].sentmap.sent;
    }
    if (channel < conn->rail->queues.count) {
        sum->received_segments += conn->rx[channel].accept.received;
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
                btl_ib_conn_add_counters(out, conn);
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
                btl_ib_conn_add_channel(&count, conn, channel);
            }
        }
    }
    return count;
}

const btl_ib_transport_t *btl_ib_engine_rail_transport(const btl_ib_engine_t *engine, uint32_t rail)
{
    return engine->rails[rail]->transport;
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
    const uint32_t rto =
        btl_ib_rtt_timeout(&conn->loss.rtt, config->rto_initial) + conn->identity.peer_ack_delay;

    return (btl_ib_conn_levels_info_t){
        .in_flight = conn->sentmap.in_flight,
        .window = conn->cc.window,
        .share = conn->incast.segments == UINT32_MAX ? 0 : btl_ib_max_u32(conn->incast.segments, 1),
        .srtt = btl_ib_rtt_smoothed(&conn->loss.rtt, 0),
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
        .refused = conn->loss.refused_since != 0 || conn->validation.refused_at != 0,
        .contact = btl_ib_pmtud_contact_size(conn),
        .sent = conn->pmtud.proven,
        .came = conn->pmtud.received,
        .most = conn->pmtud.home,
        .rtt = conn->loss.rtt.min,
    };
}

/* ---- text ---- */

/* Returns what stops the first channel that has something queued; "" if none has. */
static const char *stopped_by(const btl_ib_conn_t *conn)
{
    static const char *const causes[] = {
        [BTL_IB_GO] = ", which nothing stops",
        [BTL_IB_NO_CREDIT] = ", stopped by credit",
        [BTL_IB_NO_WINDOW] = ", stopped by the window",
        [BTL_IB_NO_SHARE] = ", stopped by the share that the peer allows",
        [BTL_IB_NO_DEPTH] = ", stopped by the limits on all connections",
        [BTL_IB_TOO_SOON] = ", stopped by pacing",
        [BTL_IB_NO_ANSWER] = ", stopped until the path is validated",
    };

    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        if (!btl_ib_list_empty(&conn->tx[i].submit.pending)) {
            return causes[btl_ib_send_limits_check(conn, i)];
        }
    }
    return "";
}

/* Returns the us since the oldest segment in flight was first sent; 0: there is none. */
static uint64_t oldest_age(const btl_ib_conn_t *conn)
{
    uint64_t since = UINT64_MAX;

    for (int i = 0; i < btl_ib_sent_lists(conn); i++) {
        const btl_ib_segment_t *segment =
            BTL_IB_LIST_FIRST(btl_ib_segment_t, btl_ib_sent_list(conn, i), link);
        if (segment != NULL && segment->first_sent < since) {
            since = segment->first_sent;
        }
    }
    return since == UINT64_MAX ? 0 : conn->engine->clock.awake - since;
}

int btl_ib_conn_format(const btl_ib_conn_t *conn, uint64_t now, char *out, size_t len)
{
    static const char *const states[] = {"open", "closing", "dead", "gone"};
    const btl_ib_engine_t *engine = conn->engine;
    uint64_t since_turn = now < engine->clock.turned_at ? 0 : now - engine->clock.turned_at;
    uint32_t pending = 0;
    const uint64_t oldest = oldest_age(conn);
    char heard[40] = "never heard", age[40] = "";

    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        pending += !btl_ib_list_empty(&conn->tx[i].submit.pending);
    }
    if (conn->loss.heard_at != 0) {
        snprintf(heard, sizeof(heard), "heard %" PRIu64 " us ago",
                 engine->clock.awake - conn->loss.heard_at + since_turn);
    }
    if (oldest != 0) {
        snprintf(age, sizeof(age), " (oldest %" PRIu64 " us)", oldest + since_turn);
    }
    return snprintf(
        out, len,
        "%s%s%s, epoch %u, %u segments in flight%s, %u channels with queued messages%s, "
        "%u probes since progress, window %u (%s), SRTT %u us, %s",
        states[conn->state], conn->identity.bound ? ", connected" : "",
        conn->draining ? ", draining" : "", conn->identity.epoch, conn->sentmap.in_flight, age,
        pending, stopped_by(conn), conn->loss.probes, conn->cc.window, conn->cc.ops->name,
        btl_ib_rtt_smoothed(&conn->loss.rtt, 0), heard);
}
