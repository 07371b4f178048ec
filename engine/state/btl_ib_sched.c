/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_sched.h"

void btl_ib_sched_init(btl_ib_conn_t *conn)
{
    btl_ib_list_init(&conn->ready);
    btl_ib_timer_init(&conn->idle.timer, BTL_IB_TIMER_IDLE, conn);
    conn->idle.shrunk = true;
    conn->idle.active_at = conn->engine->clock.now;
}

void btl_ib_conn_starve(btl_ib_conn_t *conn)
{
    if (btl_ib_list_empty(&conn->ready)) {
        btl_ib_list_push_tail(&conn->engine->starved, &conn->ready);
        conn->sched.starved = true;
    }
}

btl_ib_conn_t *btl_ib_sched_pop(btl_ib_list_t *turn)
{
    btl_ib_conn_t *conn = BTL_IB_LIST_POP(btl_ib_conn_t, turn, ready);

    if (conn != NULL) {
        conn->sched.starved = false;
    }
    return conn;
}

void btl_ib_conn_fed(btl_ib_conn_t *conn)
{
    if (conn->sched.starved) {
        btl_ib_list_remove(&conn->ready);
        conn->sched.starved = false;
    }
}

void btl_ib_conn_ready(btl_ib_conn_t *conn)
{
    if (btl_ib_conn_depth_apart(conn) < BTL_IB_DEPTH_APART) {
        btl_ib_conn_fed(conn);
    }
    if (btl_ib_list_empty(&conn->ready) && btl_ib_conn_alive(conn)) {
        btl_ib_list_push_tail(&conn->engine->ready, &conn->ready);
    }
}

void btl_ib_conn_active(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    conn->idle.active_at = engine->clock.now;
    if (conn->idle.shrunk) {
        conn->idle.shrunk = false;
        engine->sched.lively++;
        btl_ib_hotel_check_in(&engine->hotel, &conn->idle.timer.guest,
                              engine->clock.now + engine->config.idle_after);
    }
}

bool btl_ib_conn_rests(btl_ib_conn_t *conn, bool drained)
{
    btl_ib_engine_t *engine = conn->engine;
    const uint64_t now = engine->clock.now;
    const uint64_t after = engine->config.idle_after;
    const bool quiet = now >= conn->idle.active_at + after;

    if (!quiet || !drained) {
        btl_ib_hotel_check_in(&engine->hotel, &conn->idle.timer.guest,
                              (quiet ? now : conn->idle.active_at) + after);
        return false;
    }
    conn->idle.shrunk = true;
    engine->sched.lively--;
    return true;
}

void btl_ib_conn_unschedule(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_list_remove(&conn->ready);
    conn->sched.starved = false;
    btl_ib_hotel_check_out(&engine->hotel, &conn->recovery.timer.guest);
    btl_ib_hotel_check_out(&engine->hotel, &conn->idle.timer.guest);
    btl_ib_hotel_check_out(&engine->hotel, &conn->pacer.timer.guest);
    engine->sched.lively -= !conn->idle.shrunk;
    conn->idle.shrunk = true;
    conn->idle.active_at = engine->clock.now;
}
