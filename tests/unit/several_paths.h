/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A connection of host 0 with host 1 over a transport that has flows for paths, and a congestion
 * control that notes what it is told. Included by one source of a test, after btl_ib_state.h. */

#ifndef SEVERAL_PATHS_H
#define SEVERAL_PATHS_H

#include <string.h>

#include "hostile.h"

enum {
    FLOWS = 3,   /* of the transport, without the spare one and those of paths */
    FURTHER = 3, /* paths, beside the usual one */
    SRTT = 1000, /* us, as these */
    VAR4 = 600,  /* four deviations of it */
    DELAY = 150, /* of the peer's ACKs */
    FRESH = 32,  /* segments: a window of which nothing is known */
};

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static btl_ib_capped_t *capped;
static btl_ib_transport_attr_t *attr; /* of host 0's rail */

/* What the congestion control of a path was told, and what it says. */
typedef struct told {
    btl_ib_cc_ack_t ack;
    uint32_t acks, losses, marks, restarts;
    uint64_t sent_at, now; /* of the last loss */
    btl_ib_cc_round_t round;
    bool reduces;
} told_t;

static told_t told[1 + FURTHER];

/* Flows that got another port. */
static uint32_t renewals, renewed __attribute__((unused));
static uint64_t renewed_at __attribute__((unused));

/* The last thing that traces were told of the connection's paths. */
static struct {
    uint32_t count; /* of all that were told */
    uint32_t path;
    uint8_t kind;
    uint8_t cause;
} traced;

static void note_event(bench_host_t *host, const btl_ib_trace_event_t *event)
{
    if (event->kind == BTL_IB_TRACE_path_tried || event->kind == BTL_IB_TRACE_path_kept
        || event->kind == BTL_IB_TRACE_path_left || event->kind == BTL_IB_TRACE_path_renewed) {
        traced.count++;
        traced.path = event->count;
        traced.kind = event->kind;
        traced.cause = event->cause;
    }
}

static told_t *told_of(const btl_ib_cc_t *cc)
{
    for (uint32_t i = 0; i < capped->paths->count; i++) {
        if (cc == &capped->paths->path[i].cc) {
            return &told[i];
        }
    }
    fail();
    return NULL;
}

static void note_init(btl_ib_cc_t *cc)
{
    cc->window = FRESH;
    cc->burst = 1;
}

/* Each thing that is told makes the window one segment larger. */
static btl_ib_cc_round_t note_acked(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    told_of(cc)->ack = *ack;
    told_of(cc)->acks++;
    cc->window++;
    return told_of(cc)->round;
}

static void note_lost(btl_ib_cc_t *cc, uint64_t sent_at, uint64_t now)
{
    told_of(cc)->losses++;
    told_of(cc)->sent_at = sent_at;
    told_of(cc)->now = now;
}

static bool note_marked(btl_ib_cc_t *cc, const btl_ib_cc_marks_t *marks)
{
    told_of(cc)->marks += marks->ce;
    cc->window++;
    return told_of(cc)->reduces;
}

static void note_undo(btl_ib_cc_t *cc)
{
    fail();
}

static void note_restart(btl_ib_cc_t *cc)
{
    told_of(cc)->restarts++;
    cc->window++;
}

static const btl_ib_cc_ops_t noting = {
    .name = "noting",
    .init = note_init,
    .acked = note_acked,
    .lost = note_lost,
    .marked = note_marked,
    .undo = note_undo,
    .restart = note_restart,
};

static void note_renewed(btl_ib_transport_t *transport, uint32_t flow, uint64_t now)
{
    renewals++;
    renewed = flow;
    renewed_at = now;
}

static inline int set_up(void **state)
{
    static btl_ib_transport_ops_t transport_ops;

    bench = new_bench();
    bench->on_event = note_event;
    bench->hosts[0].config.trace = true;
    bench->hosts[0].attr.flows = FLOWS;
    bench->hosts[0].attr.spare_flow = true;
    bench->hosts[0].attr.paths = FURTHER;
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    capped = &conn->capped;
    attr = &conn->route.via->transport->attr;
    transport_ops = *conn->route.via->transport->ops;
    transport_ops.flow_renew = note_renewed;
    conn->route.via->transport->ops = &transport_ops;
    conn->route.via->cc = &noting;
    btl_ib_cc_init(&conn->cc, &noting, 1000, 1);
    conn->loss.rtt = (btl_ib_rtt_t){.srtt8 = 8 * SRTT, .rttvar4 = VAR4, .min = SRTT};
    conn->loss.sample = 0;
    conn->identity.peer_ack_delay = DELAY;
    memset(told, 0, sizeof(told));
    renewals = 0;
    traced.count = 0;
    return 0;
}

static inline int tear_down(void **state)
{
    end(bench);
    return 0;
}

static inline void add_paths(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(btl_ib_paths_add(conn));
    }
}

static inline btl_ib_path_t *path_of(uint32_t i)
{
    return &capped->paths->path[i];
}

static inline btl_ib_segment_t *segment_of(btl_ib_list_t *list, uint32_t number)
{
    btl_ib_list_t *item = btl_ib_list_first(list);

    while (number-- > 0) {
        item = btl_ib_list_next(list, item);
    }
    assert_non_null(item);
    return BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
}

static inline uint32_t length(const btl_ib_list_t *list)
{
    uint32_t count = 0;

    for (const btl_ib_list_t *item = list->next; item != list; item = item->next) {
        count++;
    }
    return count;
}

/* Segments of bulk that left by the usual flow, in their order. */
static inline btl_ib_segment_t *usual_bulk(uint32_t number)
{
    return segment_of(&conn->sentmap.sent[BTL_IB_SENT_BULK], number);
}

/* Leaves bulk in flight by the usual flow: at least `count` segments. */
static inline void leave_bulk(uint32_t count)
{
    const btl_ib_list_t *bulk = &conn->sentmap.sent[BTL_IB_SENT_BULK];

    bench_turn(bench, 0);
    for (uint32_t i = 0; i < count && length(bulk) < count; i++) {
        bench_send(bench, 0, 1, 9000, 1);
    }
    assert_true(length(bulk) >= count);
    bench_clear(&bench->wire);
}

/* Has a segment of bulk that left by the usual flow leave by a path instead. */
static inline void move_to(uint32_t path, btl_ib_segment_t *segment)
{
    capped->paths->now = path;
    btl_ib_paths_left(conn, segment, 1);
    capped->paths->now = 0;
}

#endif
