/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_keepalive.h"

#include <errno.h>

#include "btl_ib_conn.h"
#include "btl_ib_path.h"
#include "btl_ib_state.h"
#include "btl_ib_table.h"
#include "btl_ib_transmit.h"

enum {
    VISITED = 1024, /* slots of the table in one look, at most */
    QUESTIONS = 4,  /* without an answer, until what the network says is believed */
};

static uint64_t silence_of(const btl_ib_conn_t *conn)
{
    return conn->engine->clock.awake - conn->recovery.heard_at;
}

/* Connections that go by another's rails are asked for by that one. */
static bool is_watched(const btl_ib_conn_t *conn)
{
    return btl_ib_conn_alive(conn) && !conn->draining && conn->identity.bound
           && btl_ib_route_is_own(conn) && btl_ib_rail_usable(conn->rail);
}

static bool is_lost(const btl_ib_conn_t *conn)
{
    const int said = btl_ib_conn_trouble(conn).said;

    return conn->keepalive.asked >= QUESTIONS
           && silence_of(conn) >= QUESTIONS * conn->engine->config.keepalive
           && (said == EHOSTUNREACH || said == ENETUNREACH);
}

/* While something is unacknowledged probes ask. */
static void ask(btl_ib_conn_t *conn)
{
    conn->keepalive.asked_at = conn->engine->clock.now;
    if (conn->keepalive.asked < QUESTIONS) {
        conn->keepalive.asked++;
    }
    if (conn->sentmap.unacked == 0) {
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
}

void btl_ib_keepalive_look(btl_ib_engine_t *engine)
{
    const uint64_t keepalive = engine->config.keepalive;

    for (uint32_t i = 0; i < VISITED && i < engine->table.size; i++) {
        const uint32_t slot = engine->asking.next & (engine->table.size - 1);
        btl_ib_conn_t *conn = btl_ib_table_at(&engine->table, slot);

        engine->asking.next = slot + 1;
        if (conn == NULL || !is_watched(conn)) {
            continue;
        }
        if (silence_of(conn) < keepalive) {
            conn->keepalive.asked = 0;
        } else if (is_lost(conn)) {
            btl_ib_conn_kill(conn, BTL_IB_DEATH_LOST);
            return;
        } else if (conn->keepalive.asked == 0
                   || engine->clock.now - conn->keepalive.asked_at >= keepalive) {
            ask(conn);
            return;
        }
    }
}
