/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_paths.h"

#include "btl_ib_packet.h"
#include "btl_ib_state.h"

/* ---- the sum of all ---- */

static uint32_t others_in_flight(const btl_ib_paths_t *paths)
{
    uint32_t sum = 0;

    for (uint32_t i = 1; i < paths->count; i++) {
        sum += paths->path[i].in_flight;
    }
    return sum;
}

static uint32_t path_in_flight(const btl_ib_conn_t *conn, uint32_t i)
{
    const btl_ib_paths_t *paths = conn->capped.paths;

    return i > 0 ? paths->path[i].in_flight : conn->sentmap.in_flight - others_in_flight(paths);
}

bool btl_ib_paths_usual_has_flow(const btl_ib_conn_t *conn)
{
    for (uint32_t i = 1; i < conn->capped.paths->count; i++) {
        if (conn->capped.paths->path[i].flow == conn->flow.now) {
            return false;
        }
    }
    return true;
}

bool btl_ib_path_is_used(const btl_ib_conn_t *conn, uint32_t i)
{
    const btl_ib_paths_t *paths = conn->capped.paths;

    return !(paths->leaving && i == paths->count - 1)
           && conn->engine->clock.now >= paths->path[i].off_until
           && (i > 0 || btl_ib_paths_usual_has_flow(conn));
}

uint32_t btl_ib_path_timeout(const btl_ib_conn_t *conn, uint32_t i)
{
    const uint32_t all = btl_ib_rtt_timeout(&conn->loss.rtt, conn->engine->config.rto_initial);

    return conn->capped.paths == NULL
               ? all
               : btl_ib_max_u32(all, btl_ib_rtt_timeout(&conn->capped.paths->path[i].rtt, 0));
}

/* Sums up windows and paces: choosing a path by its room keeps each to its own window. */
void btl_ib_paths_sum(btl_ib_conn_t *conn)
{
    btl_ib_paths_t *paths = conn->capped.paths;
    uint64_t window = 0, rate = 0;
    uint32_t burst = 0;
    bool paced = true;

    for (uint32_t i = 0; i < paths->count; i++) {
        btl_ib_cc_t *cc = &paths->path[i].cc;
        btl_ib_cc_set_gso(cc, conn->cc.gso_segments);
        if (i > 0 && !btl_ib_path_is_used(conn, i)) {
            window += paths->path[i].in_flight; /* takes no room of others */
            continue;
        }
        window += cc->window;
        burst += cc->burst;
        paced = paced && cc->pace != 0;
        rate += cc->pace != 0 ? UINT64_C(1000000000) / cc->pace : 0;
    }
    btl_ib_cc_set_sum(&conn->cc, btl_ib_clip_u32(window, conn->cc.max), btl_ib_max_u32(burst, 1),
                      paced ? (uint32_t) (UINT64_C(1000000000) / btl_ib_max_u64(rate, 1)) : 0);
}

static btl_ib_conn_t *conn_of(btl_ib_cc_t *cc)
{
    return BTL_IB_CONTAINER(cc, btl_ib_conn_t, cc);
}

/* True if its window was what held the sender back. `count` segments of it were just
 * acknowledged. */
static bool path_is_limited(const btl_ib_conn_t *conn, uint32_t i, uint32_t count)
{
    const btl_ib_cc_t *cc = &conn->capped.paths->path[i].cc;
    const uint32_t before = path_in_flight(conn, i) + count;

    return before + cc->gso_segments > cc->window && before + before / 3 >= cc->window;
}

/* Tells one path's congestion control what of an acknowledgement is its own. The round trip is that
 * of the path by which the echoed stamp went. */
static btl_ib_cc_round_t path_acked(btl_ib_conn_t *conn, uint32_t i, uint32_t count,
                                    const btl_ib_cc_ack_t *ack)
{
    btl_ib_path_t *path = &conn->capped.paths->path[i];
    btl_ib_cc_ack_t own = *ack;

    own.count = count;
    own.limited = path_is_limited(conn, i, count);
    own.sent_at = i > 0 ? path->rack.xmit_ts : ack->sent_at;
    if (i != conn->capped.paths->sampled) {
        own.rtt = own.delay = own.awake = 0;
    }
    path->limited = path->limited || own.limited;
    conn->capped.limited = conn->capped.limited || own.limited;
    return path->cc.ops->acked(&path->cc, &own);
}

/* Returns what was found out about a round trip of the path that the acknowledgement's sample is
 * of. */
static btl_ib_cc_round_t several_acked(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    btl_ib_cc_round_t was = BTL_IB_CC_ROUND_NONE;
    btl_ib_conn_t *conn = conn_of(cc);
    btl_ib_paths_t *paths = conn->capped.paths;
    uint32_t rest = ack->count;

    for (uint32_t i = 1; i < paths->count; i++) {
        const uint32_t count = btl_ib_min_u32(paths->path[i].newly, rest);
        paths->path[i].newly = 0;
        rest -= count;
        if (count > 0) {
            const btl_ib_cc_round_t of_path = path_acked(conn, i, count, ack);
            was = i == paths->sampled ? of_path : was;
        }
    }
    if (rest > 0) {
        btl_ib_rack_begin(&paths->path[0].rack, ack->now);
        paths->path[0].missed = 0;
        const btl_ib_cc_round_t of_path = path_acked(conn, 0, rest, ack);
        was = paths->sampled == 0 ? of_path : was;
    }
    paths->sampled = UINT32_MAX;
    paths->acked += ack->count;
    btl_ib_paths_sum(conn);
    return was;
}

/* Does nothing: the losses of paths are told to their own (btl_ib_paths_lost()). */
static void several_lost(btl_ib_cc_t *cc, uint64_t sent_at, uint64_t now)
{
    (void) cc;
    (void) sent_at;
    (void) now;
}

static bool several_marked(btl_ib_cc_t *cc, const btl_ib_cc_marks_t *marks)
{
    btl_ib_conn_t *conn = conn_of(cc);
    bool reduced = false;

    for (uint32_t i = 0; i < conn->capped.paths->count; i++) {
        btl_ib_cc_t *own = &conn->capped.paths->path[i].cc;
        reduced = own->ops->marked(own, marks) || reduced;
    }
    btl_ib_paths_sum(conn);
    return reduced;
}

/* Does nothing: which path's loss was none is not known any more, as the copy went by another. */
static void several_undo(btl_ib_cc_t *cc)
{
    (void) cc;
}

static void several_restart(btl_ib_cc_t *cc)
{
    btl_ib_conn_t *conn = conn_of(cc);

    for (uint32_t i = 0; i < conn->capped.paths->count; i++) {
        btl_ib_cc_t *own = &conn->capped.paths->path[i].cc;
        own->ops->restart(own);
    }
    btl_ib_paths_sum(conn);
}

static const btl_ib_cc_ops_t cc_of_several = {
    .name = "several paths",
    .acked = several_acked,
    .lost = several_lost,
    .marked = several_marked,
    .undo = several_undo,
    .restart = several_restart,
};

/* ---- adding and removing ---- */

void btl_ib_path_begin(btl_ib_conn_t *conn, uint32_t i)
{
    btl_ib_path_t *path = &conn->capped.paths->path[i];

    btl_ib_cc_init(&path->cc, conn->route.via->cc, conn->cc.max, conn->cc.gso_segments);
    btl_ib_rack_begin(&path->rack, conn->engine->clock.now);
    btl_ib_rtt_reset(&path->rtt);
    path->shortest = UINT32_MAX;
    path->acked = 0;
    path->limited = false;
    path->missed = 0;
    path->off_until = conn->engine->clock.now;
}

/* Makes the memory for paths. Returns false if there is none. */
static bool paths_begin(btl_ib_conn_t *conn)
{
    const uint32_t most = conn->route.via->transport->attr.paths + 1u;
    btl_ib_paths_t *paths =
        btl_ib_zalloc(&conn->engine->mem, sizeof(*paths) + most * sizeof(paths->path[0]));

    if (paths == NULL) {
        return false;
    }
    paths->count = 1;
    paths->sampled = UINT32_MAX;
    paths->compared_at = conn->engine->clock.now;
    btl_ib_cc_move(&paths->path[0].cc, &conn->cc);
    btl_ib_rtt_reset(&paths->path[0].rtt);
    paths->path[0].shortest = UINT32_MAX;
    btl_ib_rack_begin(&paths->path[0].rack, conn->engine->clock.now);
    conn->capped.paths = paths;
    btl_ib_cc_begin_sum(&conn->cc, &cc_of_several);
    return true;
}

bool btl_ib_paths_add(btl_ib_conn_t *conn)
{
    if (conn->capped.paths == NULL && !paths_begin(conn)) {
        return false;
    }
    btl_ib_paths_t *paths = conn->capped.paths;
    const uint32_t i = paths->count;

    paths->path[i] = (btl_ib_path_t){
        .flow = (uint8_t) (conn->route.via->transport->attr.flows + i),
    };
    btl_ib_list_init(&paths->path[i].sent);
    btl_ib_path_begin(conn, i);
    paths->count++;
    btl_ib_paths_sum(conn);
    return true;
}

void btl_ib_paths_remove_last(btl_ib_conn_t *conn)
{
    conn->capped.paths->leaving = false;
    if (--conn->capped.paths->count == 1) {
        btl_ib_paths_end(conn);
    } else {
        btl_ib_paths_sum(conn);
    }
}

/* Has the usual path have all that is in flight by others, in the order of sending. */
static void paths_merge(btl_ib_conn_t *conn)
{
    btl_ib_paths_t *paths = conn->capped.paths;
    btl_ib_list_t *bulk = &conn->sentmap.sent[BTL_IB_SENT_BULK];

    for (uint32_t i = 1; i < paths->count; i++) {
        btl_ib_list_t *item;
        btl_ib_list_t *before = btl_ib_list_first(bulk);
        while ((item = btl_ib_list_first(&paths->path[i].sent)) != NULL) {
            btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
            while (before != NULL
                   && BTL_IB_CONTAINER(before, btl_ib_segment_t, link)->order < segment->order) {
                before = btl_ib_list_next(bulk, before);
            }
            btl_ib_list_remove(item);
            btl_ib_list_insert_before(before != NULL ? before : bulk, item);
            segment->path = 0;
        }
    }
}

void btl_ib_paths_end(btl_ib_conn_t *conn)
{
    btl_ib_paths_t *paths = conn->capped.paths;

    conn->capped = (btl_ib_capped_t){
        .paths = paths,
        .next_at = conn->capped.next_at,
        .failed = conn->capped.failed,
    };
    if (paths == NULL) {
        return;
    }
    paths_merge(conn);
    btl_ib_cc_move(&conn->cc, &paths->path[0].cc);
    conn->capped.paths = NULL;
    btl_ib_free(&conn->engine->mem, paths);
}

void btl_ib_paths_idle(btl_ib_conn_t *conn)
{
    if (conn->capped.paths != NULL && others_in_flight(conn->capped.paths) == 0) {
        btl_ib_paths_end(conn);
    }
}

/* ---- what leaves, and what became of it ---- */

void btl_ib_paths_usual_moves(btl_ib_conn_t *conn)
{
    if (conn->capped.paths != NULL && !btl_ib_paths_usual_has_flow(conn)) {
        btl_ib_path_t *usual = &conn->capped.paths->path[0];
        usual->off_until = btl_ib_max_u64(usual->off_until, conn->engine->clock.now);
    }
}

void btl_ib_paths_usual_found(btl_ib_conn_t *conn)
{
    conn->capped.next_at = 0;
    conn->capped.failed = conn->capped.failed > 0; /* the port that was tried is known, still */
    if (conn->capped.paths != NULL) {
        conn->capped.paths->path[0].off_until = conn->engine->clock.now;
        conn->capped.paths->path[0].slow = 0;
    }
}

void btl_ib_paths_lost(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    btl_ib_capped_t *capped = &conn->capped;

    if (conn->capped.paths != NULL) {
        btl_ib_cc_t *cc = &conn->capped.paths->path[segment->path].cc;
        cc->ops->lost(cc, segment->last_sent, conn->engine->clock.now);
    }
    if (conn->route.via->transport->attr.paths == 0) {
        return;
    }
    if (capped->lost++ == 0) {
        capped->delay = UINT32_MAX;
    }
    if (conn->loss.sample != 0) {
        capped->delay = btl_ib_min_u32(capped->delay, conn->loss.sample - conn->loss.sample_hosts);
    }
    capped->watched = true;
}

uint32_t btl_ib_paths_choose(btl_ib_conn_t *conn)
{
    btl_ib_paths_t *paths = conn->capped.paths;
    const uint32_t burst = conn->cc.gso_segments;
    uint32_t best = 0, most = 0;
    bool any = false;

    for (uint32_t i = 0; i < paths->count; i++) {
        if (!btl_ib_path_is_used(conn, i)) {
            continue;
        }
        const uint32_t used = path_in_flight(conn, i);
        const uint32_t window = paths->path[i].cc.window;
        const uint32_t room = window > used ? window - used : 0;
        any = true;
        /* A short burst costs nearly as much as a full one: btl_ib_batch.c. */
        if (room > most && room >= btl_ib_min_u32(burst, used / 3)) {
            best = i;
            most = room;
        }
    }
    paths->now = best;
    return any ? most : UINT32_MAX;
}

void btl_ib_paths_choose_usual(btl_ib_conn_t *conn)
{
    if (conn->capped.paths != NULL) {
        conn->capped.paths->now = 0;
    }
}

uint8_t btl_ib_paths_flow(const btl_ib_conn_t *conn)
{
    const uint32_t now = conn->capped.paths->now;

    return now > 0 ? conn->capped.paths->path[now].flow : conn->flow.now;
}

void btl_ib_paths_left(btl_ib_conn_t *conn, btl_ib_segment_t *first, uint32_t count)
{
    btl_ib_paths_t *paths = conn->capped.paths;
    btl_ib_path_t *path = &paths->path[paths->now];
    btl_ib_list_t *item = &first->link;

    if (paths->now == 0 || !btl_ib_segment_is_bulk(first)) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        item = item->next;
        segment->path = (uint8_t) paths->now;
        btl_ib_list_remove(&segment->link);
        btl_ib_list_push_tail(&path->sent, &segment->link);
    }
    path->in_flight += count;
}

void btl_ib_paths_end_flight(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    conn->capped.paths->path[segment->path].in_flight--;
    segment->path = 0;
}

void btl_ib_paths_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *last, uint32_t count)
{
    btl_ib_path_t *path = &conn->capped.paths->path[last->path];

    if (last->lost) { /* by which path it arrived is not known any more */
        return;
    }
    if (last->path != 0) {
        path->in_flight -= count;
        path->newly += count;
    }
    const bool is_bulk = btl_ib_segment_is_bulk(last);
    path->acked += is_bulk ? count : 0;
    /* Only the newest datagram that came by any path is echoed; a slow one's hardly ever. */
    if (last->copies == 1) {
        const uint32_t age =
            btl_ib_clip_u32(conn->engine->clock.now - last->last_sent, BTL_IB_RTT_SAMPLE_MAX);
        btl_ib_rtt_sample(&path->rtt, age, BTL_IB_RTT_SAMPLE_MAX);
        if (is_bulk) {
            const uint32_t hosts = conn->loss.sample != 0 ? conn->loss.sample_hosts : 0;
            path->shortest = btl_ib_min_u32(path->shortest, age);
            conn->capped.shortest =
                btl_ib_min_u32(conn->capped.shortest, age - btl_ib_min_u32(age, hosts));
        }
    }
    if (conn->loss.sample != 0 && (uint32_t) last->last_sent == conn->loss.sample_echo) {
        conn->capped.paths->sampled = last->path;
    }
}

void btl_ib_paths_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    btl_ib_path_t *path = &conn->capped.paths->path[segment->path];
    const uint64_t now = conn->engine->clock.now;

    btl_ib_rack_note(&path->rack, segment->order, segment->last_sent, now);
    path->missed = 0;
    if (path->flow == conn->flow.now) { /* short messages go the same way */
        btl_ib_rack_note(&conn->loss.rack[BTL_IB_RACK_ALL], segment->order, segment->last_sent,
                         now);
    }
}
