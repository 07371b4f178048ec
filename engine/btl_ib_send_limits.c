/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_send_limits.h"

#include "btl_ib_incast.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_pacing.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"
#include "btl_ib_validation.h"

enum {
    COMMAND_SHARE = 8,    /* that part of the window is added for it */
    EXCESS_DEPTH = 48,    /* segments: most of the buffers beyond depth_total; ACKs need the rest */
    SEGMENT_MOST = 65536, /* bytes */
};

/* Returns the window. The command channel may exceed it, even if long messages fill it: it is
 * little, and somebody waits for it. */
static uint32_t window_of(const btl_ib_conn_t *conn, uint32_t channel)
{
    const uint32_t window = conn->cc.window;

    return channel == 0 && conn->peer_queues->count > 1 ? window + window / COMMAND_SHARE : window;
}

/* Returns the segments of data channels in flight, which the share of many to one counts. */
static inline uint32_t data_in_flight(const btl_ib_conn_t *conn)
{
    return conn->sentmap.in_flight - conn->tx[0].sentmap.in_flight;
}

/* Returns the segments of all connections that the limits count. */
static inline uint32_t counted_segments(const btl_ib_engine_t *engine)
{
    return engine->budget.unacked - engine->budget.apart;
}

bool btl_ib_send_limits_full(const btl_ib_engine_t *engine)
{
    return counted_segments(engine) >= engine->config.depth_total
           || engine->budget.bytes_unacked >= engine->config.depth_bytes;
}

/* True if all segments of the connection that are not acknowledged got RNR. What is still to be
 * sent may be what the peer needs to accept them, so it does not wait for room that only their
 * acknowledgement would free. */
static bool may_exceed_depth(const btl_ib_conn_t *conn)
{
    return conn->sentmap.deferred_count > 0 && conn->sentmap.in_flight == 0
           && counted_segments(conn->engine) < conn->engine->config.depth_total + EXCESS_DEPTH;
}

static inline uint32_t rest(uint32_t most, uint32_t used)
{
    return most > used ? most - used : 0;
}

/* Returns how many segments the peer's buffers for a channel allow. */
static inline uint32_t room_there(const btl_ib_conn_t *conn, uint32_t channel)
{
    const btl_ib_tx_channel_t *tx = &conn->tx[channel];
    const btl_ib_queue_t *queue = &conn->peer_queues->q[channel];

    if (queue->type == BTL_IB_QUEUE_PER_PEER) {
        return btl_ib_seq_before(tx->sentmap.window.next, tx->limit)
                   ? tx->limit - tx->sentmap.window.next
                   : 0;
    }
    return rest(queue->max_pending, tx->sentmap.in_flight);
}

/* Returns how many segments the windows allow. A SKIP may stay in the ring for long and does not
 * count; there is one at most. */
static inline uint32_t room_in_windows(const btl_ib_conn_t *conn, uint32_t channel)
{
    const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    const uint32_t room =
        btl_ib_min_u32(rest(conn->engine->config.window_max + (conn->sentmap.skips > 0),
                            window->next - window->first),
                       rest(window_of(conn, channel), conn->sentmap.in_flight));

    return channel == 0 ? room
                        : btl_ib_min_u32(room, rest(conn->incast.segments, data_in_flight(conn)));
}

uint32_t btl_ib_send_limits_way(const btl_ib_conn_t *conn, uint32_t channel)
{
    const uint32_t there = room_there(conn, channel);

    return there == 0 ? 0 : btl_ib_min_u32(there, room_in_windows(conn, channel));
}

/* Returns how many segments the limits on all connections allow. Their sizes are not known yet:
 * each counts as the largest possible one, and the last may exceed the limit. Connections that wait
 * for these limits go before any other, in their order. */
static inline uint32_t room_in_depth(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;
    const btl_ib_engine_config_t *config = &engine->config;
    const bool waits = !engine->turn.sending && !btl_ib_list_empty(&engine->starved);

    if (waits || btl_ib_send_limits_full(engine)) {
        const uint32_t apart = BTL_IB_DEPTH_APART - btl_ib_conn_depth_apart(conn);
        return apart > 0 ? apart : may_exceed_depth(conn);
    }
    const uint64_t bytes = config->depth_bytes - engine->budget.bytes_unacked;
    const uint64_t room = (bytes - 1) / SEGMENT_MOST + 1;
    return btl_ib_clip_u32(room, config->depth_total - counted_segments(engine));
}

/* True if nothing stops one more segment of a channel. False may be too strict. */
static inline bool is_clear(const btl_ib_conn_t *conn, uint32_t channel)
{
    const btl_ib_engine_t *engine = conn->engine;
    const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;

    return conn->validation.valid && room_there(conn, channel) > 0
           && window->next - window->first < engine->config.window_max
           && conn->sentmap.in_flight < conn->cc.window
           && (channel == 0 || data_in_flight(conn) < conn->incast.segments) && conn->cc.pace == 0
           && btl_ib_list_empty(&engine->starved) && !btl_ib_send_limits_full(engine);
}

btl_ib_verdict_t btl_ib_send_limits_check(const btl_ib_conn_t *conn, uint32_t channel)
{
    btl_ib_verdict_t verdict = BTL_IB_GO;

    if (!is_clear(conn, channel)) {
        (void) btl_ib_send_limits_room(conn, channel, &verdict);
    }
    return verdict;
}

uint32_t btl_ib_send_limits_room(const btl_ib_conn_t *conn, uint32_t channel,
                                 btl_ib_verdict_t *verdict)
{
    if (!conn->validation.valid && btl_ib_validation_waits(conn)) {
        *verdict = BTL_IB_NO_ANSWER;
        return 0;
    }
    const uint32_t there = room_there(conn, channel);
    const uint32_t windows = room_in_windows(conn, channel);

    if (there == 0 || windows == 0) {
        const bool credits =
            there == 0 && conn->peer_queues->q[channel].type == BTL_IB_QUEUE_PER_PEER;
        *verdict = credits ? BTL_IB_NO_CREDIT : BTL_IB_NO_WINDOW;
        return 0;
    }
    const uint32_t paced = btl_ib_pacer_room(&conn->pacer, &conn->cc, conn->engine->clock.now,
                                             btl_ib_is_behind(conn->engine));
    if (paced == 0) {
        *verdict = BTL_IB_TOO_SOON;
        return 0;
    }
    const uint32_t depth = room_in_depth(conn);
    *verdict = depth > 0 ? BTL_IB_GO : BTL_IB_NO_DEPTH;
    return btl_ib_min_u32(btl_ib_min_u32(depth, paced), btl_ib_min_u32(there, windows));
}

/* True if `count` segments may be sent again. New segments of the command channel go before what
 * repeats those of data channels, and may keep the window full for long: then that has a share of
 * its own. */
bool btl_ib_send_limits_may_retransmit(const btl_ib_conn_t *conn, uint32_t channel, uint32_t count)
{
    const uint32_t in_flight = conn->sentmap.in_flight + count;

    if (channel == 0) {
        return in_flight < window_of(conn, channel);
    }
    const uint32_t data = data_in_flight(conn) + count;
    return data < btl_ib_max_u32(conn->incast.segments, 1)
           && (in_flight < conn->cc.window
               || data < btl_ib_max_u32(conn->cc.window / COMMAND_SHARE, 1));
}

static bool is_window(btl_ib_verdict_t verdict)
{
    return verdict == BTL_IB_NO_WINDOW || verdict == BTL_IB_NO_SHARE;
}

/* True if nothing is in flight whose acknowledgement would free the connection: there is no credit;
 * or a SKIP that is not acknowledged fills the window, and must not rest then; or all waits for
 * validation. */
static bool is_stuck(const btl_ib_conn_t *conn, btl_ib_verdict_t verdict)
{
    return conn->sentmap.in_flight == 0
           && (verdict == BTL_IB_NO_CREDIT || verdict == BTL_IB_NO_ANSWER
               || (is_window(verdict)
                   && (conn->incast.segments == 0 || btl_ib_conn_only_skips(conn))));
}

void btl_ib_send_limits_wait(btl_ib_conn_t *conn, btl_ib_verdict_t verdict, bool full)
{
    btl_ib_engine_t *engine = conn->engine;

    engine->count.blocked_credit += verdict == BTL_IB_NO_CREDIT;
    engine->count.blocked_window += verdict == BTL_IB_NO_WINDOW || verdict == BTL_IB_NO_DEPTH;
    engine->count.blocked_share += verdict == BTL_IB_NO_SHARE;
    engine->count.blocked_pace += verdict == BTL_IB_TOO_SOON;
    if (is_window(verdict)) { /* what is in flight, as there is something, goes on */
        btl_ib_incast_expire(conn);
    }
    if (full) {
        btl_ib_conn_ready(conn);
    } else if (verdict == BTL_IB_NO_DEPTH) {
        btl_ib_conn_starve(conn);
    } else if (verdict == BTL_IB_TOO_SOON) {
        /* The timer is set for a whole burst, not for each segment. */
        btl_ib_pacer_wait(&conn->pacer, &engine->hotel);
    } else if (is_stuck(conn, verdict) && conn->loss.blocked_since == 0) {
        /* 0: ask at once */
        btl_ib_loss_blocked(&conn->loss, btl_ib_clock_awake(&engine->clock),
                            verdict == BTL_IB_NO_ANSWER ? 0 : engine->clock.now);
    }
}
