/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_goodput.h"

#include "btl_ib_state.h"
#include "btl_ib_failover.h"
#include "btl_ib_list.h"
#include "btl_ib_route.h"
#include "btl_ib_sched.h"
#include "btl_ib_validation.h"

enum {
    SAMPLED_MOST = 64,        /* connections in a call */
    PERIOD = 128,             /* samples in which something waited: 0.26 s at least */
    PERIOD_MOST = 8 * PERIOD, /* the same, if nothing could be compared */
    WAITED_MOST = 33,         /* samples in a row, one more than may count */
    TIMES_SLOW = 3,           /* so many times faster would the other carry the bytes of both */
    BYTES_LEAST = 32 * 1024,  /* that the other must have carried */
    LEFT_FOR = 10,            /* s that a slow one is left for, the first time, */
    DOUBLED_MOST = 4,         /* and how often that is doubled */
};

/* True if what a connection carries over its own two rails can be measured, and compared. The queue
 * of a reliable transport is not ours. */
static bool is_measured(const btl_ib_conn_t *conn)
{
    return btl_ib_conn_alive(conn) && btl_ib_route_is_own(conn) && !conn->goodput.rerouted
           && !conn->rail->transport->attr.reliable
           && conn->identity.name != conn->engine->config.name;
}

/* True if something was sent at `since` or before, and is not acknowledged yet. */
static bool is_under_way(const btl_ib_conn_t *conn, uint64_t since)
{
    bool found = false;

    for (int i = 0; !found && i < btl_ib_sent_lists(conn); i++) {
        const btl_ib_segment_t *oldest =
            BTL_IB_LIST_FIRST(const btl_ib_segment_t, btl_ib_sent_list(conn, i), link);
        found = oldest != NULL && oldest->last_sent <= since;
    }
    return found;
}

/* Returns for how many of the last samples something waited for the network. That is known when
 * ACKs come: a peer that computes sends none, and then acknowledges all that arrived. What waits to
 * be sent may wait for such a peer, for its memory or for its credits, so that counts once at
 * most. */
static uint32_t held_up(btl_ib_conn_t *conn)
{
    btl_ib_goodput_t *goodput = &conn->goodput;
    const bool pending = btl_ib_pending_any(conn);
    const uint32_t before = goodput->acked;
    const bool waited = goodput->waited > 0;

    const uint64_t since = goodput->sampled_at;

    goodput->sampled_at = conn->engine->clock.now;
    goodput->acked = btl_ib_sentmap_segments_acked(conn);
    if (conn->sentmap.in_flight == 0 && !pending) {
        goodput->waited = 0;
        return 0;
    }
    if (goodput->waited < WAITED_MOST) {
        goodput->waited++;
    }
    if (!waited || goodput->acked == before || conn->sentmap.deferred_count > 0) {
        return 0;
    }
    const uint32_t count = goodput->waited - 1u;
    goodput->waited = 1;
    if (is_under_way(conn, since)) {
        return count;
    }
    return pending && conn->coalesce.held == 0 && conn->loss.blocked_since == 0;
}

static uint64_t bytes_waiting(const btl_ib_conn_t *conn)
{
    return conn->count.sent_bytes - conn->goodput.bytes;
}

/* True if the other would have carried the bytes of both in a fraction of the time in which this
 * one was busy: then a message that waits for both waits for this one. Two that are as fast as they
 * claim, and share the load by that, are busy equally long. */
static bool is_far_better(const btl_ib_conn_t *other, const btl_ib_conn_t *conn)
{
    const uint64_t bytes = bytes_waiting(conn);
    const uint64_t carried = bytes_waiting(other);

    return carried >= BYTES_LEAST && carried >= bytes / 2
           && (other->goodput.busy + 1) * (bytes + carried) * TIMES_SLOW
                  <= conn->goodput.busy * carried;
}

/* Returns the best of them, or NULL. *compared: another had enough to carry to be compared. */
static btl_ib_conn_t *find_better(const btl_ib_conn_t *conn, bool *compared)
{
    btl_ib_conn_t *best = NULL;

    *compared = false;
    for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (other == conn || !is_measured(other) || !other->validation.valid
            || btl_ib_validation_refuses(other)) {
            continue;
        }
        *compared |=
            bytes_waiting(other) >= bytes_waiting(conn) / 2 && bytes_waiting(other) >= BYTES_LEAST;
        if (is_far_better(other, conn)
            && (best == NULL
                || bytes_waiting(other) * (best->goodput.busy + 1)
                       > bytes_waiting(best) * (other->goodput.busy + 1))) {
            best = other;
        }
    }
    return best;
}

/* Begins a period for all connections with that process. */
static void begin_period(btl_ib_conn_t *conn)
{
    for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        other->goodput.bytes = other->count.sent_bytes;
        other->goodput.busy = 0;
    }
}

static void leave_route(btl_ib_conn_t *conn, const btl_ib_conn_t *better)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_goodput_t *goodput = &conn->goodput;
    const btl_ib_slow_rail_t found = {
        .bytes = bytes_waiting(conn),
        .time = (uint64_t) goodput->busy * BTL_IB_GOODPUT_EACH,
        .better_bytes = bytes_waiting(better),
        .better_time = (uint64_t) (better->goodput.busy + 1) * BTL_IB_GOODPUT_EACH,
        .left_for = (uint64_t) LEFT_FOR * 1000 * 1000 << goodput->times_left,
    };

    begin_period(conn);
    if (!btl_ib_failover_to(conn, better)) {
        return;
    }
    if (goodput->times_left < DOUBLED_MOST) {
        goodput->times_left++;
    }
    goodput->slow_until = engine->clock.now + found.left_for;
    engine->count.slow_rails++;
    BTL_IB_LOG(engine, 1,
               "peer %u.%u: %s carried %llu bytes in %llu ms, %s %llu in less than %llu ms: it is "
               "left for %llu s",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->rail->transport->name,
               (unsigned long long) found.bytes, (unsigned long long) found.time / 1000,
               better->rail->transport->name, (unsigned long long) found.better_bytes,
               (unsigned long long) found.better_time / 1000,
               (unsigned long long) found.left_for / 1000000);
    if (engine->ops->slow_rail != NULL) {
        engine->ops->slow_rail(engine->ops_context, conn, better, &found);
    }
}

static void judge(btl_ib_conn_t *conn)
{
    bool compared;
    btl_ib_conn_t *better = find_better(conn, &compared);

    if (better == NULL && !compared && conn->goodput.busy < PERIOD_MOST) {
        return;
    }
    if (better == NULL) {
        conn->goodput.times_left = compared ? 0 : conn->goodput.times_left;
        begin_period(conn);
    } else {
        leave_route(conn, better);
    }
}

static void sample(btl_ib_conn_t *conn)
{
    const bool rerouted = !btl_ib_route_is_own(conn);

    /* Its bytes, or a part of them, went over others' rails. */
    if (conn->goodput.rerouted != rerouted) {
        conn->goodput.rerouted = rerouted;
        begin_period(conn);
    }
    const uint32_t count = held_up(conn);
    if (count > 0 && is_measured(conn)) {
        conn->goodput.busy = (uint16_t) (conn->goodput.busy + count);
        if (conn->goodput.busy >= PERIOD) {
            judge(conn);
        }
    }
}

void btl_ib_goodput_sample(btl_ib_engine_t *engine)
{
    const uint32_t count = btl_ib_min_u32(engine->table.size, SAMPLED_MOST);

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = engine->goodput.next & (engine->table.size - 1);
        btl_ib_conn_t *conn = btl_ib_table_at(&engine->table, slot);
        engine->goodput.next = slot + 1;
        if (conn != NULL && btl_ib_conn_alive(conn)) {
            sample(conn);
        }
    }
}
