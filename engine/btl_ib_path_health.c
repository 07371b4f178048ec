/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_path_health.h"

#include "btl_ib_flow.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"

enum {
    PERIOD = 20000, /* us, or so many round trips: losses are judged after it */
    PERIOD_RTTS = 8,
    PERIOD_MOST = 200000, /* us, on a short path: hosts that are busy */
    LOSSES = 32,          /* one segment of so many is lost where a flow is capped, at least */
    SEGMENTS = 256,       /* acknowledged in a period, which lasts up to four times as long for
                             that: less is not worth a path */
    QUEUE = 500,          /* us of queue, or so many round trips, that a policer may seem to have */
    QUEUE_RTTS = 4,
    PERIODS = 2,           /* in a row, until a path is tried */
    MEASURED = 3,          /* periods of a trial: one to begin with, and two that count */
    PAUSE = 1000000,       /* us after a trial that failed, */
    DOUBLINGS_MAX = 6,     /* and how often that is doubled */
    LOOK_EACH = 1000,      /* us */
    LATE = 4000,           /* us, at least, until what is in flight is missed */
    MISSED_MOST = 3,       /* times in a row, until a path is dead */
    COMPARE_EACH = 500000, /* us */
    SLOW = 4,              /* so many times more does the best carry, or less does it delay */
    FASTER = 2,            /* so many times less does one delay that is worth being kept for that */
    SLOW_WAIT = 500000,    /* us of a queue, until another path is tried for that */
    SLOW_PAUSE = 4000000,  /* us without the usual one that is slow, the first time: others take
                              PAUSE, as a flow gets no other port within 1 s */
    WEAR = 64,             /* one of so many of the best rate wears off each time */
};

/* ---- is it capped? ---- */

static uint64_t period_of(const btl_ib_conn_t *conn)
{
    const uint64_t shortest = (uint64_t) PERIOD_RTTS * conn->loss.rtt.min;
    const uint64_t smoothed = (uint64_t) PERIOD_RTTS * btl_ib_rtt_smoothed(&conn->loss.rtt, 0);

    return btl_ib_max_u64(btl_ib_max_u64(shortest, PERIOD),
                          smoothed < PERIOD_MOST ? smoothed : PERIOD_MOST);
}

/* True if losses of the period may be those of a queue. */
static bool has_queue(const btl_ib_conn_t *conn)
{
    return conn->capped.delay > (uint64_t) QUEUE_RTTS * conn->loss.rtt.min + QUEUE;
}

/* True if all that was sent in the period met a queue in the network. */
static bool met_queue(const btl_ib_conn_t *conn)
{
    return conn->capped.shortest != UINT32_MAX
           && conn->capped.shortest > (uint64_t) QUEUE_RTTS * conn->loss.rtt.min + QUEUE;
}

/* True if the shortest of a path's round trips, which a standing queue makes longer, is beyond so
 * many times that of another one in the same time: two flows in one queue meet the same delay. */
static bool is_beyond(uint32_t shortest, uint32_t other, uint32_t times)
{
    return shortest != UINT32_MAX && other != UINT32_MAX
           && shortest > (uint64_t) times * other + QUEUE;
}

/* Tries one more path, if the transport has one. It stays if all together carry `needed` segments
 * in a second; 0: if it delays far less than the others. */
static void try_path(btl_ib_conn_t *conn, uint64_t needed, btl_ib_trace_cause_t cause)
{
    btl_ib_transport_t *transport = conn->route.via->transport;
    const uint32_t count = conn->capped.paths == NULL ? 1 : conn->capped.paths->count;
    const bool may = conn->capped.paths == NULL
                     || (!conn->capped.paths->leaving && conn->capped.paths->trial_at == 0);

    if (!may || count > transport->attr.paths) {
        return;
    }
    /* The port that failed may lead to a slow link; not if all that is short goes by it. */
    if (conn->capped.failed > 0 && conn->flow.now != transport->attr.flows + count) {
        transport->ops->flow_renew(transport, transport->attr.flows + count,
                                   conn->engine->clock.now);
    }
    if (!btl_ib_paths_add(conn)) {
        return;
    }
    conn->capped.paths->needed = needed;
    conn->capped.paths->trial_at = conn->engine->clock.now;
    conn->capped.paths->trial_acked = UINT64_MAX;
    conn->engine->count.paths_tried++;
    btl_ib_trace(conn, BTL_IB_TRACE_path_tried, cause, NULL, count);
    btl_ib_conn_ready(conn);
}

/* True if there is no path but the usual one, or what replaces it. */
static bool has_one_flow(const btl_ib_conn_t *conn)
{
    const btl_ib_paths_t *paths = conn->capped.paths;

    return paths == NULL || paths->count == 1
           || (paths->count == 2 && !btl_ib_paths_usual_has_flow(conn));
}

/* True if bulk always met a queue, for long, and another path may be tried. */
static bool is_trial_due(const btl_ib_conn_t *conn)
{
    const btl_ib_capped_t *capped = &conn->capped;

    return capped->queued_at != 0 && conn->engine->clock.now >= capped->queued_at + SLOW_WAIT
           && conn->engine->clock.now >= capped->next_at;
}

/* Tries a path where a period shows, as those before did, that the network limits bulk: by losses
 * without a queue, or by a queue that the only path always has. `rate`: segments in a second. */
static void try_if_limited(btl_ib_conn_t *conn, uint64_t rate)
{
    btl_ib_capped_t *capped = &conn->capped;
    const uint32_t count = capped->paths == NULL ? 1 : capped->paths->count;

    if (capped->periods == PERIODS && conn->engine->clock.now >= capped->next_at) {
        capped->periods = 0;
        try_path(conn, rate + rate / (2 * count), BTL_IB_CAUSE_capped);
    } else if (has_one_flow(conn) && is_trial_due(conn)) {
        try_path(conn, 0, BTL_IB_CAUSE_slow);
    }
}

/* Judges the period that ends, if one does. */
static void judge_period(btl_ib_conn_t *conn)
{
    btl_ib_capped_t *capped = &conn->capped;
    const uint64_t now = conn->engine->clock.now;
    const uint64_t time = now - capped->since;
    const uint64_t period = period_of(conn);
    const uint32_t acked = btl_ib_sentmap_segments_acked(conn) - capped->acked;

    if (time < period || (acked < SEGMENTS && time < 4 * period)) {
        return;
    }
    const bool is_bulk = time < 5 * period && acked >= SEGMENTS;
    const bool is_capped = is_bulk && (uint64_t) capped->lost * LOSSES >= acked && !has_queue(conn);
    const bool is_queued = is_bulk && capped->limited && met_queue(conn);
    capped->periods = is_capped ? (uint8_t) btl_ib_min_u32(capped->periods + 1u, PERIODS) : 0;
    capped->queued_at = !is_queued ? 0 : capped->queued_at == 0 ? now : capped->queued_at;
    capped->since = now;
    capped->acked += acked;
    capped->watched = capped->paths != NULL || capped->lost > 0 || capped->limited;
    capped->lost = 0;
    capped->limited = false;
    capped->shortest = UINT32_MAX;
    try_if_limited(conn, acked * UINT64_C(1000000) / time);
}

/* Notes that the round trips of all paths are measured from now on. */
static void begin_shortest(btl_ib_paths_t *paths)
{
    for (uint32_t i = 0; i < paths->count; i++) {
        paths->path[i].shortest = UINT32_MAX;
    }
}

/* Returns the most segments of bulk that one of the first `count` paths carried since paths were
 * compared; of those that bulk does without nothing is known. */
static uint32_t most_of_first(const btl_ib_conn_t *conn, uint32_t count)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (btl_ib_path_is_used(conn, i)) {
            most = btl_ib_max_u32(most, conn->capped.paths->path[i].acked);
        }
    }
    return most;
}

/* Returns the shortest round trip of the first `count` paths; UINT32_MAX: none is known. Leaves
 * out those of them that carried little, and so have no queue, however slow they are. */
static uint32_t shortest_of_first(const btl_ib_conn_t *conn, uint32_t count)
{
    const uint32_t little = most_of_first(conn, count) / SLOW;
    uint32_t shortest = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++) {
        const btl_ib_path_t *path = &conn->capped.paths->path[i];
        if (btl_ib_path_is_used(conn, i) && path->acked >= little) {
            shortest = btl_ib_min_u32(shortest, path->shortest);
        }
    }
    return shortest;
}

/* True if the last path, which was measured, is of use: what is short goes by it, as the usual flow
 * was left; or the rate of all rose; or it delays far less than the others. A peer of 0.3.0 drops
 * what comes by it. */
static bool trial_succeeded(const btl_ib_conn_t *conn, uint64_t rate, uint32_t others)
{
    const btl_ib_paths_t *paths = conn->capped.paths;
    const btl_ib_path_t *last = &paths->path[paths->count - 1];

    if (last->acked == 0) {
        return false;
    }
    return last->flow == conn->flow.now
           || (paths->needed != 0 ? rate >= paths->needed
                                  : is_beyond(others, last->shortest, FASTER));
}

/* Has the next trial wait, for longer each time. */
static void trial_failed(btl_ib_conn_t *conn)
{
    btl_ib_capped_t *capped = &conn->capped;

    capped->next_at = conn->engine->clock.now + ((uint64_t) PAUSE << capped->failed);
    capped->failed = (uint8_t) btl_ib_min_u32(capped->failed + 1u, DOUBLINGS_MAX);
}

/* Judges the last path, once it was measured. */
static void judge_trial(btl_ib_conn_t *conn)
{
    btl_ib_paths_t *paths = conn->capped.paths;
    btl_ib_capped_t *capped = &conn->capped;
    const uint64_t now = conn->engine->clock.now;
    const uint64_t time = now - paths->trial_at;
    const uint64_t period = period_of(conn);

    if (paths->trial_acked == UINT64_MAX && time >= period) { /* it has begun */
        paths->trial_at = now;
        paths->trial_acked = paths->acked;
        begin_shortest(paths);
        return;
    }
    if (paths->trial_acked == UINT64_MAX || time < (MEASURED - 1) * period) {
        return;
    }
    const btl_ib_path_t *last = &paths->path[paths->count - 1];
    const uint64_t rate = (paths->acked - paths->trial_acked) * UINT64_C(1000000) / time;
    const uint32_t others = shortest_of_first(conn, paths->count - 1);
    paths->trial_at = 0;
    capped->periods = 0;
    if (trial_succeeded(conn, rate, others)) {
        capped->failed = 0;
        conn->engine->count.paths_kept++;
        btl_ib_trace(conn, BTL_IB_TRACE_path_kept, BTL_IB_CAUSE_none, NULL, paths->count - 1);
        BTL_IB_LOG(conn->engine, 10,
                   "peer %u.%u: path %u is used, too: %llu segments/s, at least %llu were needed; "
                   "shortest round trip %u us, the others' %u",
                   BTL_IB_NAME_ARGS(conn->identity.name), paths->count, (unsigned long long) rate,
                   (unsigned long long) paths->needed, last->shortest, others);
        return;
    }
    trial_failed(conn);
    paths->leaving = true;
    btl_ib_trace(conn, BTL_IB_TRACE_path_left, BTL_IB_CAUSE_no_gain, NULL, paths->count - 1);
}

/* ---- dead and slow ones ---- */

static btl_ib_segment_t *path_oldest(const btl_ib_conn_t *conn, uint32_t i)
{
    return BTL_IB_LIST_FIRST(
        btl_ib_segment_t,
        i > 0 ? &conn->capped.paths->path[i].sent : &conn->sentmap.sent[BTL_IB_SENT_BULK], link);
}

/* True if what is in flight by a path is not acknowledged in time, though what was sent later is
 * answered. */
static bool path_misses(const btl_ib_conn_t *conn, uint32_t i)
{
    const btl_ib_clock_t *clock = &conn->engine->clock;
    const btl_ib_segment_t *oldest = path_oldest(conn, i);
    const uint32_t late =
        btl_ib_max_u32(LATE, 2 * btl_ib_path_timeout(conn, i) + conn->identity.peer_ack_delay);

    if (oldest == NULL) {
        return false;
    }
    const uint64_t since = btl_ib_max_u64(oldest->last_sent, conn->capped.paths->path[i].rack.at);
    return clock->now >= since + late && conn->loss.sample_at >= clock->now - late / 2
           && btl_ib_clock_stamped_at(clock, conn->loss.sample_echo) >= clock->now - late / 2;
}

static void lose_list(btl_ib_conn_t *conn, btl_ib_list_t *sent)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(sent)) != NULL) {
        btl_ib_sentmap_to_lost(conn, BTL_IB_CONTAINER(item, btl_ib_segment_t, link));
    }
}

/* Gives the flow of a path another port. */
static void path_renew(btl_ib_conn_t *conn, uint32_t i, btl_ib_trace_cause_t cause)
{
    btl_ib_transport_t *transport = conn->route.via->transport;

    transport->ops->flow_renew(transport, conn->capped.paths->path[i].flow,
                               conn->engine->clock.now);
    btl_ib_path_begin(conn, i);
    conn->engine->count.paths_renewed++;
    btl_ib_trace(conn, BTL_IB_TRACE_path_renewed, cause, NULL, i);
}

/* Finds the best path beside the usual one; 0: none is used. */
static uint32_t best_other(const btl_ib_conn_t *conn)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < conn->capped.paths->count; i++) {
        if (btl_ib_path_is_used(conn, i) && conn->capped.paths->path[i].missed == 0
            && (best == 0
                || conn->capped.paths->path[i].cc.window
                       > conn->capped.paths->path[best].cc.window)) {
            best = i;
        }
    }
    return best;
}

/* Sends what is in flight by a path again, by any; no congestion control is told, as that is no
 * sign of a queue. */
static void path_missed(btl_ib_conn_t *conn, uint32_t i)
{
    btl_ib_path_t *path = &conn->capped.paths->path[i];
    const uint64_t now = conn->engine->clock.now;

    lose_list(conn, i > 0 ? &path->sent : &conn->sentmap.sent[BTL_IB_SENT_BULK]);
    if (i == 0) {
        lose_list(conn, &conn->sentmap.sent[BTL_IB_SENT_OTHERS]);
    }
    btl_ib_rack_begin(&path->rack, now);
    btl_ib_conn_ready(conn);
    if (++path->missed < MISSED_MOST) {
        return;
    }
    if (i == 0) {
        const uint32_t best = best_other(conn);
        path->missed = 0;
        if (best > 0) {
            btl_ib_flow_leave_for(conn, conn->capped.paths->path[best].flow);
            btl_ib_trace(conn, BTL_IB_TRACE_path_left, BTL_IB_CAUSE_missed, NULL, 0);
        }
        return;
    }
    path_renew(conn, i, BTL_IB_CAUSE_missed);
    if (path->deaths > 0) {
        path->off_until = now + ((uint64_t) PAUSE << path->deaths);
    }
    path->deaths = (uint8_t) btl_ib_min_u32(path->deaths + 1u, DOUBLINGS_MAX);
}

/* Has bulk do without a path that carries far less than the best for a while, and the path take
 * another port: the usual one has none, and one by which all that is short goes keeps its own. */
static void path_slow(btl_ib_conn_t *conn, uint32_t i)
{
    btl_ib_path_t *path = &conn->capped.paths->path[i];
    const bool stays = i == 0 || path->flow == conn->flow.now;
    const uint64_t pause = (uint64_t) (stays ? SLOW_PAUSE : PAUSE) << path->slow;

    if (stays) {
        btl_ib_trace(conn, BTL_IB_TRACE_path_left, BTL_IB_CAUSE_slow, NULL, i);
    } else {
        path_renew(conn, i, BTL_IB_CAUSE_slow);
    }
    path->off_until = conn->engine->clock.now + pause;
    path->slow = (uint8_t) btl_ib_min_u32(path->slow + 1u, DOUBLINGS_MAX);
}

/* True if bulk might use a path, by one port, since paths were compared. */
static bool was_used(const btl_ib_conn_t *conn, uint32_t i)
{
    const btl_ib_paths_t *paths = conn->capped.paths;

    return btl_ib_path_is_used(conn, i) && paths->path[i].off_until <= paths->compared_at;
}

/* Tries another path as all became slow, or another port of the one that carries least, if there is
 * no further path. */
static void try_another(btl_ib_conn_t *conn)
{
    const btl_ib_paths_t *paths = conn->capped.paths;
    uint32_t least = 0;

    if (paths->count <= conn->route.via->transport->attr.paths) {
        try_path(conn, 0, BTL_IB_CAUSE_slow);
        return;
    }
    for (uint32_t i = 1; i < paths->count; i++) {
        if (was_used(conn, i) && paths->path[i].flow != conn->flow.now
            && (least == 0 || paths->path[i].acked < paths->path[least].acked)) {
            least = i;
        }
    }
    if (least > 0) {
        path_renew(conn, least, BTL_IB_CAUSE_slow);
        trial_failed(conn);
    }
}

/* True if a path carried far less than the best, though its window was full, or delayed far
 * more. */
static bool is_slow(const btl_ib_path_t *path, uint32_t most, uint32_t shortest)
{
    return (path->limited && path->acked < most / SLOW)
           || is_beyond(path->shortest, shortest, SLOW);
}

/* Looks for paths that carry far less than the best, or delay far more, and whether all of them
 * carry far less than they did. */
static void paths_compare(btl_ib_conn_t *conn)
{
    btl_ib_paths_t *paths = conn->capped.paths;
    const uint64_t now = conn->engine->clock.now;
    const uint32_t most = most_of_first(conn, paths->count);
    const uint32_t shortest = shortest_of_first(conn, paths->count);
    uint64_t acked = 0;

    for (uint32_t i = 0; i < paths->count; i++) {
        btl_ib_path_t *path = &paths->path[i];
        acked += path->acked;
        path->deaths = path->acked > 0 ? 0 : path->deaths;
        if (most < SEGMENTS || !was_used(conn, i)) {
            continue;
        }
        if (is_slow(path, most, shortest)) {
            path_slow(conn, i);
        } else {
            path->slow = 0;
        }
    }
    const uint64_t rate = acked * UINT64_C(1000000) / (now - paths->compared_at);
    if (rate >= paths->best_rate / SLOW) {
        paths->best_rate = btl_ib_max_u64(paths->best_rate - paths->best_rate / WEAR, rate);
    } else if (is_trial_due(conn)) {
        try_another(conn);
    }
    for (uint32_t i = 0; i < paths->count; i++) {
        paths->path[i].acked = 0;
        paths->path[i].limited = false;
    }
    begin_shortest(paths);
    paths->compared_at = now;
}

/* Notes what an acknowledgement shows of a queue. Of several paths btl_ib_paths_acked() does. */
static void note_queue(btl_ib_conn_t *conn, bool limited)
{
    btl_ib_capped_t *capped = &conn->capped;

    capped->watched = true;
    capped->limited = capped->limited || limited;
    if (conn->loss.sample != 0 && capped->paths == NULL) {
        capped->shortest =
            btl_ib_min_u32(capped->shortest, conn->loss.sample - conn->loss.sample_hosts);
    }
}

void btl_ib_path_health_look(btl_ib_conn_t *conn, bool limited)
{
    const uint64_t now = conn->engine->clock.now;

    if (conn->route.via->transport->attr.paths == 0) {
        return;
    }
    note_queue(conn, limited);
    judge_period(conn);
    btl_ib_paths_t *paths = conn->capped.paths;
    if (paths == NULL || now - paths->looked_at < LOOK_EACH) {
        return;
    }
    paths->looked_at = now;
    for (uint32_t i = 0; i < paths->count; i++) {
        if ((i > 0 || btl_ib_paths_usual_has_flow(conn)) && path_misses(conn, i)) {
            path_missed(conn, i);
        }
    }
    if (paths->trial_at != 0) {
        judge_trial(conn);
    } else if (now - paths->compared_at >= COMPARE_EACH) {
        paths_compare(conn);
    }
    if (paths->leaving && paths->path[paths->count - 1].in_flight == 0) {
        btl_ib_paths_remove_last(conn);
    } else {
        btl_ib_paths_sum(conn);
    }
}
