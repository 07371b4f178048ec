/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_sched.h"

#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_state.h"

/* ---- connections that are ready, starved or idle ---- */

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
        btl_ib_work_note(&conn->engine->work);
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
        btl_ib_work_note(&conn->engine->work);
    }
}

void btl_ib_idle_end(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    conn->idle.shrunk = false;
    engine->sched.active++;
    btl_ib_hotel_checkin(&engine->hotel, &conn->idle.timer.guest,
                         engine->clock.now + engine->config.idle_after);
}

bool btl_ib_conn_rest(btl_ib_conn_t *conn, bool drained)
{
    btl_ib_engine_t *engine = conn->engine;
    const uint64_t now = engine->clock.now;
    const uint64_t after = engine->config.idle_after;
    const bool quiet = now >= conn->idle.active_at + after;

    if (!quiet || !drained) {
        btl_ib_hotel_checkin(&engine->hotel, &conn->idle.timer.guest,
                             (quiet ? now : conn->idle.active_at) + after);
        return false;
    }
    conn->idle.shrunk = true;
    engine->sched.active--;
    btl_ib_paths_idle(conn);
    return true;
}

void btl_ib_conn_unschedule(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_list_remove(&conn->ready);
    conn->sched.starved = false;
    btl_ib_hotel_checkout(&engine->hotel, &conn->loss.timer.guest);
    btl_ib_hotel_checkout(&engine->hotel, &conn->idle.timer.guest);
    btl_ib_hotel_checkout(&engine->hotel, &conn->pacer.timer.guest);
    engine->sched.active -= !conn->idle.shrunk;
    conn->idle.shrunk = true;
    conn->idle.active_at = engine->clock.now;
}

/* ---- what waits in a connection ---- */

/* Returns the channel of what fills more than one datagram: always the same, whatever the path
 * carries now, because its pieces must stay in order. */
static uint32_t home_channel(const btl_ib_conn_t *conn)
{
    return btl_ib_queues_channel(conn->peer_queues, conn->pmtud.home);
}

void btl_ib_pending_add(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t head)
{
    uint64_t rest = out->size - out->offset; /* any 64-bit number: adding to it might wrap */
    uint32_t size = btl_ib_clip_u32(rest, conn->pmtud.datagram_max);

    size += head + btl_ib_packet_overhead(conn);
    uint32_t channel = size < conn->pmtud.datagram_max
                           ? btl_ib_queues_channel(conn->peer_queues, size)
                           : home_channel(conn);
    btl_ib_list_push_tail(&conn->tx[channel].submit.pending, &out->link);
}

void btl_ib_pending_shrunk(btl_ib_conn_t *conn)
{
    const uint32_t home = home_channel(conn);

    for (uint32_t channel = 0; channel < home; channel++) {
        btl_ib_list_t *pending = &conn->tx[channel].submit.pending;
        btl_ib_list_t *item = btl_ib_list_first(pending);
        while (item != NULL) {
            btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
            item = btl_ib_list_next(pending, item);
            /* a message that was to leave as a whole, and is too long for that now */
            if (out->kind == BTL_IB_OUT_MESSAGE && out->size > btl_ib_conn_segment_max(conn)) {
                btl_ib_list_remove(&out->link);
                btl_ib_list_push_tail(&conn->tx[home].submit.pending, &out->link);
            }
        }
    }
}

bool btl_ib_pending_any(const btl_ib_conn_t *conn)
{
    for (uint32_t channel = 0; channel < conn->peer_queues->count; channel++) {
        if (!btl_ib_list_empty(&conn->tx[channel].submit.pending)) {
            return true;
        }
    }
    return false;
}

bool btl_ib_pending_work(const btl_ib_conn_t *conn)
{
    return btl_ib_pending_any(conn) || !btl_ib_list_empty(&conn->sentmap.lost)
           || !btl_ib_list_empty(&conn->ops.waiting);
}

bool btl_ib_pending_mtu_search(const btl_ib_conn_t *conn)
{
    return conn->engine->clock.now >= conn->pmtud.search_at;
}

void btl_ib_pending_wake(btl_ib_conn_t *conn)
{
    if (btl_ib_pending_work(conn) || !btl_ib_list_empty(&conn->offload.waiting)
        || btl_ib_pending_mtu_search(conn)) {
        btl_ib_conn_ready(conn);
    }
}
