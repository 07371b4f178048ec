/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_keepalive.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_state.h"

#include <errno.h>

enum {
    VISITED = 128, /* slots of the table in one look, at least */
    PASSES = 16,   /* pauses of btl_ib_keepalive in which all are asked, if all are silent */
    QUESTIONS = 4, /* without an answer, until what the network says is believed */
};

static uint64_t silence_of(const btl_ib_conn_t *conn)
{
    return conn->engine->clock.awake - conn->loss.heard_at;
}

/* True if the connection is asked for: one that goes by another's rails is asked for by that
 * one. */
static bool is_watched(const btl_ib_conn_t *conn)
{
    return btl_ib_conn_alive(conn) && !conn->draining && conn->identity.bound
           && btl_ib_route_is_own(conn) && btl_ib_rail_usable(conn->rail);
}

/* True if the question was lost. What the network said before the last question may be over: that
 * has to be answered so, too. */
static bool is_lost(const btl_ib_conn_t *conn)
{
    const int said = btl_ib_conn_diagnosis(conn).said;

    return conn->keepalive.asked >= QUESTIONS
           && silence_of(conn) >= QUESTIONS * conn->engine->config.keepalive
           && (said == EHOSTUNREACH || said == ENETUNREACH)
           && conn->validation.net_error_at >= conn->keepalive.awake;
}

/* Asks the peer. While something is unacknowledged probes ask; but seldom, or no more, for credits
 * given back. */
static void ask(btl_ib_conn_t *conn)
{
    conn->keepalive.asked_at = conn->engine->clock.now;
    conn->keepalive.awake = conn->engine->clock.awake;
    if (conn->keepalive.asked < QUESTIONS) {
        conn->keepalive.asked++;
    }
    if (btl_ib_conn_only_skips(conn)) {
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
}

/* True if a question to the peer is due. Of those asked before if `again`, else of the others. */
static bool is_question_due(const btl_ib_conn_t *conn, bool again)
{
    const uint64_t keepalive = conn->engine->config.keepalive;

    if (again) {
        /* soon if it was refused: a series of refusals is believed, one is not */
        const bool soon = conn->loss.refused_since != 0 && conn->keepalive.asked < QUESTIONS;
        return conn->keepalive.asked > 0
               && conn->engine->clock.now - conn->keepalive.asked_at
                      >= (soon ? BTL_IB_REFUSED_LONG : keepalive);
    }
    return conn->keepalive.asked == 0 && silence_of(conn) >= keepalive;
}

/* Goes on through the table from `*next`, for at most so many slots, until `most` were asked or one
 * was given up. Returns whether one was. */
static bool ask_round(btl_ib_engine_t *engine, uint32_t *next, uint32_t slots, uint32_t most,
                      bool again)
{
    uint32_t asked = 0;

    for (uint32_t i = 0; i < slots && i < engine->table.size && asked < most; i++) {
        const uint32_t slot = *next & (engine->table.size - 1);
        btl_ib_conn_t *conn = btl_ib_table_at(&engine->table, slot);

        *next = slot + 1;
        if (conn == NULL || !is_watched(conn)) {
            continue;
        }
        if (conn->loss.heard_at >= conn->keepalive.awake) { /* since it was asked last */
            conn->keepalive.asked = 0;
        } else if (again && is_lost(conn)) {
            btl_ib_conn_kill(conn, BTL_IB_DEATH_HOST_LOST);
            return true;
        }
        if (is_question_due(conn, again)) {
            ask(conn);
            asked++;
        }
    }
    return false;
}

/* Asks in two rounds: peers that did not answer have one of their own, which takes one pause: else
 * a host that is gone would be noticed only after as many rounds through all silent peers as there
 * are questions. */
void btl_ib_keepalive_look(btl_ib_engine_t *engine)
{
    const btl_ib_table_t *table = &engine->table;
    const uint32_t looks =
        btl_ib_max_u32(1, (uint32_t) (engine->config.keepalive / BTL_IB_KEEPALIVE_EACH));
    const uint32_t slots = btl_ib_max_u32(VISITED, table->size / looks + 1);
    const uint32_t most = btl_ib_max_u32(1, table->size / (PASSES * looks));

    if (!ask_round(engine, &engine->asking.again, slots, most, true)) {
        (void) ask_round(engine, &engine->asking.first, slots, most, false);
    }
}
