/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_arrival.h"

#include "btl_ib_ack_rx.h"
#include "btl_ib_conn.h"
#include "btl_ib_failover.h"
#include "btl_ib_handshake.h"
#include "btl_ib_input.h"
#include "btl_ib_state.h"
#include "btl_ib_validation.h"

static bool is_told(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const bool genuine = btl_ib_failover_is_told(conn, view);

    conn->engine->count.dropped_token += !genuine;
    return genuine;
}

void btl_ib_recv(btl_ib_rail_t *rail, const btl_ib_event_t *event)
{
    btl_ib_engine_t *engine = rail->engine;
    uint32_t trailer = engine->guard.ops->trailer;
    btl_ib_arrival_t arrival;

    engine->count.received_datagrams++;
    rail->count.received_datagrams++;
    if (event->size < trailer) {
        engine->count.dropped_short++;
        return;
    }
    arrival.data = event->data;
    arrival.size = event->size - trailer;
    arrival.from = event->from;
    arrival.event = event;
    if (!btl_ib_input_look_at(engine, &arrival)) {
        return;
    }
    btl_ib_conn_t *conn = btl_ib_handshake_accept(rail, &arrival);
    const btl_ib_view_t *view = &arrival.view;
    if (conn == NULL) {
        return;
    }
    const bool acks = btl_ib_ack_rx_is_new(conn, view);
    if ((acks && !btl_ib_ack_rx_check(conn, view))
        || (btl_ib_type_is_sequenced(view->type)
                ? !btl_ib_input_check(conn, view, event->size)
                : view->type == BTL_IB_TYPE_ADDRESS && !is_told(conn, view))) {
        return;
    }
    if (rail != conn->route.via) {
        btl_ib_failover_follow(conn, rail, arrival.from, view->stamp);
    }
    if (rail == conn->rail && btl_ib_validation_heard(conn)) {
        btl_ib_failover_validated(conn);
    }
    if (!btl_ib_input_take(conn, view, acks)) {
        return;
    }
    if (view->type == BTL_IB_TYPE_ADDRESS) {
        btl_ib_failover_told(conn, view);
        return;
    }
    /* It closed. What was acknowledged until now stays valid; this incarnation ends. */
    engine->count.connections_closed++;
    BTL_IB_LOG(engine, 10, "peer %u.%u: closed by the peer", BTL_IB_NAME_ARGS(conn->identity.name));
    btl_ib_conn_reset(conn);
}
