/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_sched.h"

#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_engine_internal.h"

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

/* The channel of what fills more than one datagram: always the same, whatever the path carries now,
 * because its pieces must stay in order. */
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

/* Is it a message that was to leave as a whole, and is too long for that now? */
static bool outgrows(const btl_ib_conn_t *conn, const btl_ib_out_t *out)
{
    return out->kind == BTL_IB_OUT_MESSAGE && out->size > btl_ib_conn_segment_max(conn);
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
            if (outgrows(conn, out)) {
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

/* ---- pacing ---- */

uint32_t btl_ib_pacer_room(const btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now,
                           bool behind)
{
    if (cc->pace == 0 || (behind && cc->burst > 1)) {
        return UINT32_MAX;
    }
    now *= 1000;
    const uint64_t ahead = pacer->at > now ? (pacer->at - now - 1) / cc->pace + 1 : 0;
    return ahead < cc->burst ? cc->burst - (uint32_t) ahead : 0;
}

/* ---- latency mode: bulk waits for short messages ---- */

enum {
    TURN_BYTES = 1024, /* bytes of payload that a turn for short messages receives at most */
    TURN_GAP = 1000,   /* us between two such turns, if they follow each other */
    /* short messages of one-sided operations that are not counted in advance */
    EXCUSED_MAX = 64,
    TURNS_MIN = 8,       /* turns until latency mode begins, the first not counted */
    BURSTS_WITHIN = 100, /* us since the last turn but one: bursts are short */
    LANE_WITHIN = 1000,  /* us since the last turn but one: bulk has its own lane */
};

/* Does the transport have a lane for bulk, have enough turns with short messages followed each
 * other, and were the last two within `time` us? A few short messages do not count: they announce
 * bulk, or say that it is complete. */
static bool short_turns_within(const btl_ib_conn_t *conn, uint64_t time)
{
    const btl_ib_engine_t *engine = conn->engine;

    return conn->route.via->transport->attr.bulk_lane && engine->latency.streak >= TURNS_MIN
           && engine->clock.now - engine->latency.before < time;
}

bool btl_ib_latency_wants_lane(const btl_ib_conn_t *conn)
{
    return short_turns_within(conn, LANE_WITHIN);
}

bool btl_ib_latency_wants_short_bursts(const btl_ib_conn_t *conn)
{
    return short_turns_within(conn, BURSTS_WITHIN);
}

/* Of `messages` short ones, those that count. About one for each one-sided operation only announces
 * the operation, or says that it is complete; such messages are excused. */
static uint64_t counted_for(btl_ib_engine_t *engine, uint64_t messages)
{
    const btl_ib_counters_t *count = &engine->count;
    const uint64_t ops = count->served_gets + count->started_gets + count->started_puts;
    const uint64_t excused = engine->latency.excused + ops - engine->latency.ops;
    const uint64_t now = messages < excused ? messages : excused;

    engine->latency.ops = ops;
    engine->latency.excused = excused - now < EXCUSED_MAX ? excused - now : EXCUSED_MAX;
    return messages - now;
}

/* If this turn received only short messages, bulk waits for the next turn: the application has the
 * messages first, because a burst of bulk takes as long as a short message's whole way. Bulk does
 * not wait two turns in succession. btl_ib_batch.c says what waits. */
void btl_ib_latency_turn(btl_ib_engine_t *engine, uint64_t messages, uint64_t bytes)
{
    messages = engine->count.received_messages - messages;
    const bool is_short = messages > 0 && engine->count.received_bytes - bytes <= TURN_BYTES;

    engine->latency.hold_bulk = is_short && !engine->latency.hold_bulk;
    if (is_short) {
        const bool counts = counted_for(engine, messages) > 0;
        engine->latency.streak =
            engine->clock.now - engine->latency.at > TURN_GAP ? 0 : engine->latency.streak + counts;
        engine->latency.before = engine->latency.at;
        engine->latency.at = engine->clock.now;
    }
}

bool btl_ib_latency_holds_bulk(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    return engine->turn.sending && engine->latency.hold_bulk
           && short_turns_within(conn, LANE_WITHIN);
}
