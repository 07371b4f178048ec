/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_arrival.h"

#include "btl_ib_ack_rx.h"
#include "btl_ib_burst.h"
#include "btl_ib_conn.h"
#include "btl_ib_failover.h"
#include "btl_ib_handshake.h"
#include "btl_ib_input.h"
#include "btl_ib_route.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"
#include "btl_ib_validation.h"

static bool is_told(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const bool genuine = btl_ib_failover_is_told(conn, view);

    conn->engine->count.dropped_token += !genuine;
    return genuine;
}

/* It was taken in, and ends something: the connection's incarnation, or an address of the peer. */
static void end(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (view->type == BTL_IB_TYPE_ADDRESS) {
        btl_ib_failover_told(conn, view);
        return;
    }
    /* It closed. What was acknowledged until now stays valid; this incarnation ends. */
    conn->engine->count.connections_closed++;
    BTL_IB_LOG(conn->engine, 10, "peer %u.%u: closed by the peer",
               BTL_IB_NAME_ARGS(conn->identity.name));
    btl_ib_trace_conn(conn, BTL_IB_TRACE_peer_closed, BTL_IB_CAUSE_none, 1);
    btl_ib_conn_reset(conn);
}

int btl_ib_recv(btl_ib_rail_t *rail, const btl_ib_event_t *event, int count)
{
    btl_ib_engine_t *engine = rail->engine;
    uint32_t trailer = engine->guard.ops->trailer;
    btl_ib_arrival_t arrival;

    engine->count.received_datagrams++;
    rail->count.received_datagrams++;
    if (event->size < trailer) {
        engine->count.dropped_short++;
        return 1;
    }
    arrival.data = event->data;
    arrival.size = event->size - trailer;
    arrival.from = event->from;
    arrival.event = event;
    btl_ib_burst_none(&arrival.view.more);
    if (!btl_ib_input_look_at(engine, &arrival)) {
        return 1;
    }
    btl_ib_conn_t *conn = btl_ib_handshake_accept(rail, &arrival);
    btl_ib_view_t *view = &arrival.view;
    if (conn == NULL) {
        return 1;
    }
    const bool acks = btl_ib_ack_rx_is_new(conn, view);
    const bool sequenced = btl_ib_type_is_sequenced(view->type);
    if ((acks && !btl_ib_ack_rx_check(conn, view))
        || (sequenced ? !btl_ib_input_check(conn, view, event->size)
                      : view->type == BTL_IB_TYPE_ADDRESS && !is_told(conn, view))) {
        return 1;
    }
    if (sequenced && count > 1) {
        btl_ib_input_burst(conn, &arrival, (uint32_t) count - 1);
    }
    if (rail != conn->route.via
        || (arrival.from != conn->route.to && arrival.from != BTL_IB_ADDR_UNKNOWN)) {
        btl_ib_failover_follow(conn, rail, arrival.from, view->stamp);
    }
    if (btl_ib_route_owns(conn, rail, arrival.from) && btl_ib_validation_heard(conn)) {
        btl_ib_failover_validated(conn);
    }
    if (btl_ib_input_take(conn, view, acks)) {
        end(conn, view);
    }
    engine->count.received_datagrams += view->more.count;
    rail->count.received_datagrams += view->more.count;
    return 1 + (int) view->more.count;
}
