/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Health of paths: when one more is tried and kept, and what becomes of dead and slow ones. The
 * test says what was acknowledged, lost and measured, and when. */

#include "btl_ib_path_health.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "several_paths.h"

enum {
    PERIOD = 20000,         /* us, on a short path */
    BULK = 256,             /* segments acknowledged in a period, at least, where there is bulk */
    QUEUE = 4 * SRTT + 500, /* us: a longer round trip is that of a queue */
    MS = 1000,
    LOOK_LATER = 1000, /* us: paths are looked at as often */
};

static void look(void)
{
    btl_ib_path_health_look(conn, false);
}

/* Traces were told this last, as the only or next thing. */
static void must_be_traced(uint32_t count, btl_ib_trace_kind_t kind, btl_ib_trace_cause_t cause,
                           uint32_t path)
{
    assert_int_equal(traced.count, count);
    assert_int_equal(traced.kind, kind);
    assert_int_equal(traced.cause, cause);
    assert_int_equal(traced.path, path);
}

/* So many segments are acknowledged. */
static void acknowledge(uint32_t count)
{
    conn->tx[1].sentmap.sent += count;
}

/* A period begins. */
static void begin(void)
{
    engine->clock.now += 10 * MS;
    capped->since = engine->clock.now;
    capped->acked = btl_ib_sentmap_segments_acked(conn);
    capped->shortest = UINT32_MAX;
}

/* `time` passes, with this acknowledged and lost; the losses' shortest round trip was `delay`. */
static void pass(uint64_t time, uint32_t acked, uint32_t lost, uint32_t delay)
{
    engine->clock.now += time;
    acknowledge(acked);
    capped->lost += lost;
    capped->delay = delay;
    look();
}

/* `time` passes, in which the window held bulk back; the shortest round trip was `delay`. */
static void pass_limited(uint64_t time, uint32_t acked, uint32_t delay)
{
    engine->clock.now += time;
    acknowledge(acked);
    conn->loss.sample = delay;
    conn->loss.sample_hosts = 0;
    btl_ib_path_health_look(conn, true);
    conn->loss.sample = 0;
}

static int set_up_begun(void **state)
{
    (void) set_up(state);
    begin();
    return 0;
}

static bool judged(void)
{
    return capped->since == engine->clock.now;
}

/* ---- is it capped? ---- */

/* A period lasts for 20 ms, or eight round trips, and up to four times as long where little is
 * acknowledged. */
static void must_last(uint64_t period)
{
    begin();
    pass(period - 1, BULK, 0, 0);
    assert_false(judged());
    pass(1, 0, 0, 0);
    assert_true(judged());
    pass(4 * period - 1, BULK - 1, 0, 0);
    assert_false(judged());
    pass(1, 0, 0, 0);
    assert_true(judged());
    assert_int_equal(capped->acked, btl_ib_sentmap_segments_acked(conn));
}

TEST_WITH(periods, set_up_begun, tear_down)
{
    must_last(PERIOD);
    conn->loss.rtt.min = 4 * MS;
    must_last(8 * 4 * MS);
    conn->loss.rtt.srtt8 = 8 * 10 * MS; /* hosts are busy */
    must_last(8 * 10 * MS);
    conn->loss.rtt.srtt8 = 8 * 30 * MS;
    must_last(200 * MS);
    conn->loss.rtt.min = 30 * MS;
    must_last(8 * 30 * MS);
}

/* What shows nothing of caps is not watched any more. */
TEST_WITH(watched, set_up_begun, tear_down)
{
    pass(PERIOD, BULK, 0, 0);
    assert_false(capped->watched);
    pass(PERIOD, BULK, 1, QUEUE);
    assert_true(capped->watched);
    assert_int_equal(capped->lost, 0);
    pass(PERIOD, BULK, 0, 0);
    assert_false(capped->watched);
    pass_limited(PERIOD, BULK, 1);
    assert_true(capped->watched);
    assert_false(capped->limited);
    assert_int_equal(capped->shortest, UINT32_MAX);
    pass(PERIOD, BULK, 0, 0);
    assert_false(capped->watched);
    look(); /* acknowledgements within a period */
    assert_true(capped->watched);
    add_paths(1);
    pass(PERIOD, BULK, 0, 0);
    assert_true(capped->watched);
    attr->paths = 0;
    capped->watched = false;
    look();
    assert_false(capped->watched);
    attr->paths = FURTHER;
}

/* Two periods in which a 32nd was lost at round trips too short for a queue: a path is tried, and
 * has to bring half of what one more cap would. */
TEST_WITH(capped_by_losses, set_up_begun, tear_down)
{
    pass(PERIOD, BULK, BULK / 32, QUEUE);
    assert_int_equal(engine->count.paths_tried, 0);
    pass(PERIOD, BULK, BULK / 32, QUEUE);
    assert_int_equal(engine->count.paths_tried, 1);
    const btl_ib_paths_t *paths = capped->paths;
    assert_int_equal(paths->count, 2);
    assert_int_equal(paths->needed, 12800 + 12800 / 2); /* 256 in 20 ms */
    assert_int_equal(paths->trial_at, engine->clock.now);
    assert_int_equal(paths->trial_acked, UINT64_MAX);
    assert_int_equal(capped->periods, 0);
    assert_false(btl_ib_list_empty(&conn->ready));
    assert_int_equal(renewals, 0);
    must_be_traced(1, BTL_IB_TRACE_path_tried, BTL_IB_CAUSE_capped, 1);
    pass(PERIOD, BULK, BULK, QUEUE); /* one trial at a time */
    pass(PERIOD, BULK, BULK, QUEUE);
    assert_int_equal(engine->count.paths_tried, 1);
}

/* Of several paths, which carry so much together, one more cap is less. */
TEST_WITH(capped_by_losses_of_two, set_up_begun, tear_down)
{
    add_paths(1);
    pass(PERIOD, 2 * BULK, BULK, QUEUE);
    pass(PERIOD, 2 * BULK, BULK, QUEUE);
    assert_int_equal(capped->paths->count, 3);
    assert_int_equal(capped->paths->needed, 25600 + 25600 / 4);
}

static uint64_t tried_after(uint32_t lost, uint32_t delay, uint32_t lost_then, uint32_t delay_then)
{
    const uint64_t before = engine->count.paths_tried;

    begin();
    pass(PERIOD, BULK, lost, delay);
    pass(PERIOD, BULK, lost_then, delay_then);
    const uint64_t tried = engine->count.paths_tried - before;
    btl_ib_paths_end(conn);
    return tried;
}

TEST_WITH(not_capped, set_up_begun, tear_down)
{
    assert_int_equal(tried_after(8, QUEUE, 8, QUEUE), 1);
    assert_int_equal(tried_after(8, QUEUE, 7, QUEUE), 0); /* too few */
    assert_int_equal(tried_after(7, QUEUE, 8, QUEUE), 0);
    assert_int_equal(tried_after(8, QUEUE + 1, 8, QUEUE), 0); /* a queue */
    assert_int_equal(tried_after(8, QUEUE, 8, QUEUE + 1), 0);
    assert_int_equal(tried_after(8, QUEUE, 8, UINT32_MAX), 0);
    begin();
    pass(4 * PERIOD, BULK - 1, 200, QUEUE); /* less than bulk */
    pass(4 * PERIOD, BULK - 1, 200, QUEUE);
    assert_int_equal(capped->periods, 0);
    pass(5 * PERIOD, BULK, 200, QUEUE); /* it was interrupted */
    assert_int_equal(capped->periods, 0);
    pass(5 * PERIOD - 1, BULK, 200, QUEUE);
    assert_int_equal(capped->periods, 1);
}

/* After a trial that failed the next comes later. */
TEST_WITH(not_before, set_up_begun, tear_down)
{
    capped->next_at = engine->clock.now + 3 * PERIOD;
    pass(PERIOD, BULK, 8, QUEUE);
    pass(PERIOD, BULK, 8, QUEUE);
    assert_int_equal(engine->count.paths_tried, 0);
    pass(PERIOD, BULK, 8, QUEUE);
    assert_int_equal(engine->count.paths_tried, 1);
}

/* Bulk of the only path that meets a queue for half a second: another one is tried, and has to
 * delay less. */
TEST_WITH(queued, set_up_begun, tear_down)
{
    pass_limited(PERIOD, BULK, QUEUE + 1);
    const uint64_t since = engine->clock.now;
    assert_int_equal(capped->queued_at, since);
    while (engine->clock.now + PERIOD < since + 500 * MS) {
        pass_limited(PERIOD, BULK, QUEUE + 1);
        assert_int_equal(capped->queued_at, since);
    }
    assert_int_equal(engine->count.paths_tried, 0);
    pass_limited(since + 500 * MS - engine->clock.now, BULK, QUEUE + 1);
    assert_int_equal(engine->count.paths_tried, 1);
    assert_int_equal(capped->paths->needed, 0);
    must_be_traced(1, BTL_IB_TRACE_path_tried, BTL_IB_CAUSE_slow, 1);
}

static void meet_queue(uint64_t time)
{
    for (uint64_t at = 0; at < time; at += PERIOD) {
        pass_limited(PERIOD, BULK, QUEUE + 1);
    }
}

/* One period without a queue, or in which the window held nothing back, begins anew; so does one
 * in which nothing is known. */
TEST_WITH(not_queued, set_up_begun, tear_down)
{
    meet_queue(100 * MS);
    pass_limited(PERIOD, BULK, QUEUE);
    assert_int_equal(capped->queued_at, 0);
    meet_queue(100 * MS);
    engine->clock.now += PERIOD / 2;
    conn->loss.sample = QUEUE + 501; /* the network's part was short, once */
    conn->loss.sample_hosts = 501;
    btl_ib_path_health_look(conn, true);
    pass_limited(PERIOD / 2, BULK, 2 * QUEUE);
    assert_int_equal(capped->queued_at, 0);
    meet_queue(100 * MS);
    conn->loss.sample = QUEUE + 1;
    pass(PERIOD, BULK, 0, 0);
    assert_int_equal(capped->queued_at, 0);
    meet_queue(100 * MS);
    pass_limited(PERIOD, BULK, 0);
    assert_int_equal(capped->queued_at, 0);
    meet_queue(100 * MS);
    pass_limited(4 * PERIOD, BULK - 1, QUEUE + 1);
    assert_int_equal(capped->queued_at, 0);
    meet_queue(100 * MS); /* that it was limited once in the period is enough */
    engine->clock.now += 1;
    conn->loss.sample = QUEUE + 1;
    btl_ib_path_health_look(conn, true);
    conn->loss.sample = 0; /* nothing more is measured */
    pass(PERIOD, BULK, 0, 0);
    assert_int_not_equal(capped->queued_at, 0);
}

/* Several paths meet a queue: their bulk, whose acknowledgements say so. */
static void meet_queue_by_several(uint64_t time)
{
    for (uint64_t at = 0; at < time; at += PERIOD) {
        capped->paths->compared_at = engine->clock.now;
        capped->shortest = QUEUE + 1;
        pass_limited(PERIOD, BULK, QUEUE); /* a sample is perhaps that of what is short */
    }
}

/* Others have one queue with it, or none: no further one is tried, unless they get slow. */
TEST_WITH(queued_with_others, set_up_begun, tear_down)
{
    add_paths(1);
    meet_queue_by_several(1000 * MS);
    assert_int_not_equal(capped->queued_at, 0);
    assert_int_equal(engine->count.paths_tried, 0);
    conn->flow.now = path_of(1)->flow; /* by which all goes */
    meet_queue_by_several(PERIOD);
    assert_int_equal(engine->count.paths_tried, 1);
    assert_int_equal(capped->paths->count, 3);
    capped->paths->trial_at = 0;
    meet_queue_by_several(1000 * MS);
    assert_int_equal(engine->count.paths_tried, 1);
    conn->flow.now = 0;
}

/* ---- a trial ---- */

static void be_capped(void)
{
    begin();
    pass(PERIOD, BULK, 8, QUEUE);
    pass(PERIOD, BULK, 8, QUEUE);
}

TEST_WITH(no_more_paths, set_up_begun, tear_down)
{
    add_paths(FURTHER - 1);
    capped->paths->leaving = true; /* the last one has to go first */
    path_of(2)->in_flight = 1;
    be_capped();
    assert_int_equal(engine->count.paths_tried, 0);
    path_of(2)->in_flight = 0;
    capped->paths->leaving = false;
    be_capped();
    assert_int_equal(engine->count.paths_tried, 1);
    assert_int_equal(capped->paths->count, 1 + FURTHER);
    capped->paths->trial_at = 0;
    be_capped();
    assert_int_equal(engine->count.paths_tried, 1);
    assert_int_equal(capped->paths->count, 1 + FURTHER);
}

TEST_WITH(no_memory_for_paths, set_up_begun, tear_down)
{
    bench->hosts[0].fail_in = 1;
    be_capped();
    assert_null(capped->paths);
    assert_int_equal(engine->count.paths_tried, 0);
    be_capped();
    assert_int_equal(engine->count.paths_tried, 1);
}

/* Where the last trial failed the next one takes another port, unless all leaves by this one. */
TEST_WITH(another_port_after_a_failure, set_up_begun, tear_down)
{
    capped->failed = 1;
    be_capped();
    assert_int_equal(renewals, 1);
    assert_int_equal(renewed, FLOWS + 1);
    assert_int_equal(renewed_at, engine->clock.now);
    assert_int_equal(path_of(1)->flow, renewed);
    capped->paths->trial_at = 0;
    conn->flow.now = FLOWS + 2;
    be_capped();
    assert_int_equal(capped->paths->count, 3);
    assert_int_equal(renewals, 1);
    conn->flow.now = 0;
}

/* Path 1 is on trial. */
static int set_up_trial(void **state)
{
    (void) set_up_begun(state);
    be_capped();
    assert_int_equal(engine->count.paths_tried, 1);
    return 0;
}

/* The first period of a trial does not count. */
static void warm(void)
{
    pass(PERIOD - 1, BULK, 0, 0);
    assert_int_equal(capped->paths->trial_acked, UINT64_MAX);
    path_of(0)->shortest = path_of(1)->shortest = 5;
    engine->clock.now += LOOK_LATER;
    look();
    assert_int_equal(capped->paths->trial_at, engine->clock.now);
    assert_int_equal(capped->paths->trial_acked, capped->paths->acked);
    assert_int_equal(path_of(0)->shortest, UINT32_MAX);
    assert_int_equal(path_of(1)->shortest, UINT32_MAX);
}

/* Two periods, in which all acknowledged so many segments, and path 1 some of them. */
static void measure(uint32_t all, uint32_t by_it)
{
    const uint64_t began = capped->paths->trial_at;

    capped->paths->acked += all;
    path_of(1)->acked = by_it;
    engine->clock.now += 2 * PERIOD - 1;
    look();
    assert_int_equal(capped->paths->trial_at, began);
    capped->paths->looked_at = 0;
    engine->clock.now++;
    capped->periods = 1;
    look();
}

static void must_be_kept(void)
{
    assert_int_equal(engine->count.paths_kept, 1);
    assert_int_equal(capped->paths->count, 2);
    assert_false(capped->paths->leaving);
    assert_int_equal(capped->paths->trial_at, 0);
    assert_int_equal(capped->failed, 0);
    assert_int_equal(capped->periods, 0);
    must_be_traced(2, BTL_IB_TRACE_path_kept, BTL_IB_CAUSE_none, 1);
}

TEST_WITH(kept_for_its_rate, set_up_trial, tear_down)
{
    warm();
    capped->failed = 3;
    measure(768, 1); /* 19200 a second */
    must_be_kept();
}

static void must_have_failed(uint32_t times)
{
    must_be_traced(2 * times, BTL_IB_TRACE_path_left, BTL_IB_CAUSE_no_gain, 1);
    assert_int_equal(engine->count.paths_kept, 0);
    assert_null(capped->paths); /* it was removed at once, as nothing is in flight by it */
    assert_int_equal(capped->failed, times < 6 ? times : 6);
    assert_int_equal(capped->next_at, engine->clock.now + (UINT64_C(1000) * MS << (times - 1)));
}

TEST_WITH(not_kept_for_too_little, set_up_trial, tear_down)
{
    warm();
    measure(767, 1);
    must_have_failed(1);
}

/* The rate rose, but not by this one. */
TEST_WITH(not_kept_for_what_others_carry, set_up_trial, tear_down)
{
    warm();
    measure(10000, 0);
    must_have_failed(1);
}

/* Failures are farther and farther apart. */
TEST_WITH(failed_often, set_up_trial, tear_down)
{
    for (uint32_t times = 1; times <= 6; times++) {
        warm();
        measure(1, 1);
        must_have_failed(times);
        engine->clock.now = capped->next_at;
        be_capped();
    }
    warm();
    measure(1, 1);
    assert_int_equal(capped->failed, 6);
    assert_int_equal(capped->next_at, engine->clock.now + 64 * 1000 * MS);
}

static void try_for_delay(uint32_t usual, uint32_t other)
{
    capped->paths->needed = 0;
    warm();
    path_of(0)->shortest = usual;
    path_of(1)->shortest = other;
    measure(1, 1);
}

/* Everything goes by it. */
TEST_WITH(kept_instead_of_the_usual_one, set_up_trial, tear_down)
{
    warm();
    conn->flow.now = path_of(1)->flow;
    measure(1, 1);
    must_be_kept();
    conn->flow.now = 0;
}

TEST_WITH(not_kept_if_nothing_arrives, set_up_trial, tear_down)
{
    warm();
    conn->flow.now = path_of(1)->flow;
    measure(1, 0);
    must_have_failed(1);
    conn->flow.now = 0;
}

/* It delays less than half of the best of the others; those that carry little, or that bulk does
 * without, do not count. */
TEST_WITH(kept_beside_idle_ones, set_up_begun, tear_down)
{
    static const struct {
        uint32_t acked[2], shortest[2];
        bool off, kept;
    } cases[] = {
        {{400, 100}, {9999, 2500}, false, false}, {{400, 99}, {9999, 2500}, false, true},
        {{400, 400}, {2500, 9999}, false, false}, {{99, 400}, {2500, 9999}, false, true},
        {{400, 400}, {2500, 9999}, true, true},   {{400, 400}, {2500, 2501}, true, true},
        {{400, 400}, {2500, 2500}, true, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        add_paths(1);
        be_capped();
        assert_int_equal(capped->paths->count, 3);
        capped->paths->needed = 0;
        capped->paths->trial_acked = capped->paths->acked;
        for (uint32_t k = 0; k < 2; k++) {
            path_of(k)->acked = cases[i].acked[k];
            path_of(k)->shortest = cases[i].shortest[k];
        }
        path_of(0)->off_until = cases[i].off ? UINT64_MAX : 0;
        path_of(2)->acked = 1000;
        path_of(2)->shortest = 1000;
        const uint64_t kept = engine->count.paths_kept;
        engine->clock.now += 2 * PERIOD;
        capped->since = engine->clock.now;
        look();
        assert_int_equal(engine->count.paths_kept - kept, cases[i].kept);
        btl_ib_paths_end(conn);
        capped->next_at = 0;
        capped->failed = 0;
    }
}

TEST_WITH(kept_for_its_delay, set_up_trial, tear_down)
{
    try_for_delay(2 * 1000 + 501, 1000);
    must_be_kept();
}

TEST_WITH(not_kept_for_its_delay, set_up_trial, tear_down)
{
    try_for_delay(2 * 1000 + 500, 1000);
    must_have_failed(1);
}

TEST_WITH(not_kept_for_unknown_delays, set_up_trial, tear_down)
{
    try_for_delay(UINT32_MAX, 1000);
    must_have_failed(1);
    engine->clock.now = capped->next_at;
    be_capped();
    try_for_delay(1000, UINT32_MAX);
    must_have_failed(2);
}

/* A path that failed stays until nothing is in flight by it. */
TEST_WITH(leaves_when_empty, set_up_trial, tear_down)
{
    warm();
    path_of(1)->in_flight = 1;
    measure(1, 1);
    assert_true(capped->paths->leaving);
    assert_int_equal(capped->paths->count, 2);
    engine->clock.now += LOOK_LATER;
    look();
    assert_non_null(capped->paths);
    path_of(1)->in_flight = 0;
    engine->clock.now += LOOK_LATER;
    look();
    assert_null(capped->paths);
}

/* ---- dead ones ---- */

/* Two of bulk in flight by each path of three. All later ones are answered. */
static int set_up_three(void **state)
{
    (void) set_up(state);
    leave_bulk(6);
    add_paths(2);
    move_to(1, usual_bulk(0));
    move_to(2, usual_bulk(0));
    move_to(1, usual_bulk(0));
    move_to(2, usual_bulk(0));
    begin();
    return 0;
}

/* `time` us after its answer came by a path the connection looks at it; what was sent `answered` us
 * ago was answered `heard` us ago. */
static void look_after(uint32_t i, uint64_t time, uint32_t answered, uint32_t heard)
{
    engine->clock.now += LOOK_LATER + time;
    for (uint32_t k = 0; k < capped->paths->count; k++) {
        path_of(k)->rack.at = engine->clock.now - (k == i ? time : 0);
    }
    capped->since = engine->clock.now;
    conn->loss.sample_at = engine->clock.now - heard;
    conn->loss.sample_echo = (uint32_t) (engine->clock.now - answered);
    look();
}

static bool misses(uint32_t i, uint64_t time, uint32_t answered, uint32_t heard)
{
    look_after(i, time, answered, heard);
    const bool missed = path_of(i)->missed > 0 || length(&conn->sentmap.lost) > 0;
    path_of(i)->missed = 0;
    return missed;
}

/* What is in flight by a path is missed after two timeouts, at least 4 ms, if what was sent in the
 * second half of that time is answered. */
TEST_WITH(missed_in_time, set_up_three, tear_down)
{
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(misses(i, 3999, 0, 0));
        assert_false(misses(i, 4000, 2001, 0));
        assert_false(misses(i, 4000, 0, 2001));
    }
    conn->identity.peer_ack_delay = 2 * DELAY;
    path_of(1)->rtt = (btl_ib_rtt_t){.srtt8 = 8 * 5000, .rttvar4 = 400};
    assert_false(misses(1, 2 * 5400 + 2 * DELAY - 1, 0, 0));
    assert_true(misses(1, 2 * 5400 + 2 * DELAY, 5550, 5550));
    assert_int_equal(length(&conn->sentmap.lost), 2); /* all of it */
}

TEST_WITH(missed_on_time, set_up_three, tear_down)
{
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t before = length(&conn->sentmap.lost);
        assert_false(path_of(i)->missed > 0);
        look_after(i, 4000, 2000, 2000);
        assert_int_equal(path_of(i)->missed, 1);
        assert_true(length(&conn->sentmap.lost) >= before + 2);
        assert_int_equal(path_of(i)->in_flight, 0);
        assert_int_equal(path_of(i)->rack.at, engine->clock.now);
        assert_int_equal(told[i].losses, 0); /* no sign of a queue */
        assert_false(btl_ib_list_empty(&conn->ready));
    }
    assert_true(btl_ib_list_empty(&conn->sentmap.sent[BTL_IB_SENT_BULK]));
    look_after(1, 10000, 0, 0); /* nothing is in flight */
    assert_int_equal(path_of(1)->missed, 1);
}

/* What was sent a moment ago is not missed, however long ago anything arrived. */
TEST_WITH(sent_lately, set_up_three, tear_down)
{
    segment_of(&path_of(1)->sent, 0)->last_sent = engine->clock.now + LOOK_LATER + 4000;
    look_after(1, 7999, 0, 0);
    assert_int_equal(path_of(1)->missed, 0);
}

/* With the usual path goes what is no bulk; with another one that stays. */
TEST_WITH(others_of_the_usual, set_up_three, tear_down)
{
    const btl_ib_list_t *others = &conn->sentmap.sent[BTL_IB_SENT_OTHERS];

    bench_send(bench, 0, 1, 20, 1);
    bench_clear(&bench->wire);
    const uint32_t count = length(others);
    assert_true(count > 0);
    look_after(1, 4000, 0, 0);
    assert_int_equal(length(others), count);
    look_after(0, 4000, 0, 0);
    assert_int_equal(length(others), 0);
}

/* Nothing is looked at more often than once a millisecond. */
TEST_WITH(looked_at_now_and_then, set_up_three, tear_down)
{
    look_after(2, 100, 0, 0);
    path_of(1)->rack.at = engine->clock.now - 10000;
    engine->clock.now += 999;
    look();
    assert_int_equal(path_of(1)->missed, 0);
    engine->clock.now++;
    look();
    assert_int_equal(path_of(1)->missed, 1);
    path_of(2)->off_until = engine->clock.now + 10; /* windows are summed up anew each time */
    engine->clock.now += 1000;
    look();
    assert_int_equal(conn->cc.window, 3 * FRESH);
}

/* Has something be in flight by a path again: a copy of what was lost. */
static void use_again(uint32_t i)
{
    btl_ib_segment_t *segment = segment_of(&conn->sentmap.lost, 0);

    btl_ib_sentmap_retransmitted(conn, segment, false);
    segment->last_sent = 0;
    if (i > 0) {
        move_to(i, segment);
    }
}

static void miss_thrice(uint32_t i)
{
    for (uint32_t k = 0; k < 3; k++) {
        use_again(i);
        assert_int_equal(path_of(i)->missed, k);
        look_after(i, 4000, 0, 0);
    }
}

/* After three times a path gets another port; if that is dead, too, it is not used for a while. */
TEST_WITH(dead, set_up_three, tear_down)
{
    look_after(1, 4000, 0, 0);
    path_of(1)->missed = 0;
    for (uint32_t times = 0; times < 8; times++) {
        path_of(1)->cc.window = 99;
        path_of(1)->acked = 7;
        miss_thrice(1);
        must_be_traced(times + 1, BTL_IB_TRACE_path_renewed, BTL_IB_CAUSE_missed, 1);
        assert_int_equal(renewals, times + 1);
        assert_int_equal(renewed, FLOWS + 1);
        assert_int_equal(renewed_at, engine->clock.now);
        assert_int_equal(engine->count.paths_renewed, times + 1);
        assert_int_equal(path_of(1)->cc.window, FRESH);
        assert_int_equal(path_of(1)->acked, 0); /* that was by the port before */
        assert_int_equal(path_of(1)->missed, 0);
        const uint32_t doublings = times < 6 ? times : 6;
        const uint64_t pause = times == 0 ? 0 : UINT64_C(1000) * MS << doublings;
        assert_int_equal(path_of(1)->off_until, engine->clock.now + pause);
        assert_int_equal(path_of(1)->deaths, times < 6 ? times + 1 : 6);
    }
    assert_int_equal(conn->flow.now, 0);
}

/* Where the usual path is dead all leaves by the flow of the best other one. */
static void leave_usual(uint32_t flow)
{
    leave_bulk(3);
    path_of(0)->missed = 2;
    look_after(0, 4000, 0, 0);
    assert_int_equal(conn->flow.now, flow);
    assert_int_equal(traced.count, flow != 0);
    assert_int_equal(path_of(0)->missed, 0);
    assert_int_equal(renewals, 0);
}

TEST_WITH(usual_one_dead, set_up_three, tear_down)
{
    path_of(1)->cc.window = 10;
    path_of(2)->cc.window = 11;
    leave_usual(FLOWS + 2);
    must_be_traced(1, BTL_IB_TRACE_path_left, BTL_IB_CAUSE_missed, 0);
    use_again(0); /* checks find out when it leads there again */
    look_after(0, 4000, 0, 0);
    assert_int_equal(path_of(0)->missed, 0);
}

TEST_WITH(usual_one_dead_first_of_equals, set_up_three, tear_down)
{
    leave_usual(FLOWS + 1);
}

TEST_WITH(usual_one_dead_others_in_doubt, set_up_three, tear_down)
{
    path_of(1)->cc.window = 100;
    path_of(1)->missed = 1;
    leave_usual(FLOWS + 2);
}

TEST_WITH(usual_one_dead_others_off, set_up_three, tear_down)
{
    path_of(2)->cc.window = 100;
    path_of(2)->off_until = engine->clock.now + 1000 * MS;
    leave_usual(FLOWS + 1);
}

TEST_WITH(all_dead, set_up_three, tear_down)
{
    path_of(1)->off_until = path_of(2)->off_until = engine->clock.now + 1000 * MS;
    leave_usual(0);
}

/* ---- slow ones ---- */

/* Half a second passes, in which so many segments were acknowledged by each path. */
static void compare(uint32_t usual, uint32_t first, uint32_t second)
{
    const uint64_t since = capped->paths->compared_at;

    path_of(0)->acked = usual;
    path_of(1)->acked = first;
    path_of(2)->acked = second;
    for (uint32_t i = 0; i < 3; i++) {
        path_of(i)->limited = true;
    }
    engine->clock.now = since + 500 * MS - 1;
    capped->since = engine->clock.now;
    look();
    assert_int_equal(capped->paths->compared_at, since);
    capped->paths->looked_at = 0;
    engine->clock.now++;
    look();
    assert_int_equal(capped->paths->compared_at, engine->clock.now);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(path_of(i)->acked, 0);
        assert_int_equal(path_of(i)->shortest, UINT32_MAX);
        assert_false(path_of(i)->limited);
    }
}

static int set_up_idle_three(void **state)
{
    (void) set_up(state);
    add_paths(2);
    begin();
    return 0;
}

TEST_WITH(slow_by_its_rate, set_up_idle_three, tear_down)
{
    compare(0, BULK - 1, BULK - 1); /* too little to judge by */
    compare(BULK, BULK / 4, BULK / 4);
    compare(BULK / 4, BULK, BULK / 4);
    assert_int_equal(renewals, 0);
    assert_int_equal(path_of(0)->off_until, 0);
    compare(BULK / 4, BULK, BULK / 4 - 1);
    assert_int_equal(renewals, 1);
    assert_int_equal(renewed, FLOWS + 2);
    assert_int_equal(engine->count.paths_renewed, 1);
    must_be_traced(1, BTL_IB_TRACE_path_renewed, BTL_IB_CAUSE_slow, 2);
    assert_int_equal(path_of(2)->off_until, engine->clock.now + 1000 * MS);
}

/* One that little was offered to is not slow. */
TEST_WITH(not_slow_if_little_is_sent, set_up_idle_three, tear_down)
{
    path_of(0)->acked = BULK;
    path_of(1)->limited = true;
    engine->clock.now = capped->paths->compared_at + 500 * MS;
    capped->since = engine->clock.now;
    look();
    assert_int_equal(renewals, 1);
    assert_int_equal(renewed, FLOWS + 1);
}

/* It is judged again when bulk has used its new port for half a second. If that is slow, too, bulk
 * does without it for longer. */
TEST_WITH(slow_again, set_up_idle_three, tear_down)
{
    for (uint32_t times = 0; times < 8; times++) {
        const uint32_t doublings = times < 6 ? times : 6;
        compare(BULK, BULK, 0);
        assert_int_equal(renewals, times + 1);
        assert_int_equal(path_of(2)->off_until,
                         engine->clock.now + (UINT64_C(1000) * MS << doublings));
        compare(BULK, BULK, 0);
        engine->clock.now = path_of(2)->off_until;
        capped->paths->compared_at = engine->clock.now - 1;
        compare(BULK, BULK, 0);
        assert_int_equal(renewals, times + 1);
        assert_int_equal(path_of(2)->slow, times < 6 ? times + 1 : 6);
        capped->paths->compared_at = path_of(2)->off_until;
    }
    compare(BULK, BULK, BULK / 4);
    assert_int_equal(path_of(2)->slow, 0);
}

/* A path by which all that is short goes keeps its port, and bulk does without it. */
TEST_WITH(slow_by_whose_flow_short_ones_go, set_up_idle_three, tear_down)
{
    conn->flow.now = FLOWS + 2;
    compare(0, BULK, 0); /* the usual one has no flow of its own */
    assert_int_equal(renewals, 0);
    assert_int_equal(path_of(0)->off_until, 0);
    assert_int_equal(path_of(2)->off_until, engine->clock.now + 4000 * MS);
    must_be_traced(1, BTL_IB_TRACE_path_left, BTL_IB_CAUSE_slow, 2);
    conn->flow.now = FLOWS + 3;
    compare(BULK, 0, BULK);
    assert_int_equal(renewals, 1);
    conn->flow.now = 0;
}

/* What leaves by a path of which bulk makes no use is no measure. */
TEST_WITH(slow_beside_an_unused_one, set_up_idle_three, tear_down)
{
    path_of(0)->off_until = UINT64_MAX;
    compare(4 * BULK + 4, BULK, BULK);
    assert_int_equal(renewals, 0);
    path_of(0)->off_until = 0;
    compare(4 * BULK + 4, BULK, BULK);
    assert_int_equal(renewals, 2);
}

/* The best that all carried together between two times is remembered for a while. */
TEST_WITH(best_rate, set_up_idle_three, tear_down)
{
    compare(BULK, 2 * BULK, 3 * BULK);
    assert_int_equal(capped->paths->best_rate, 2 * 6 * BULK);
    compare(BULK, BULK, BULK);
    assert_int_equal(capped->paths->best_rate, 2 * 6 * BULK * 63 / 64);
    compare(5 * BULK, BULK, BULK);
    assert_int_equal(capped->paths->best_rate, 2 * 7 * BULK);
    compare(7 * BULK / 4 - 1, 0, 0);
    assert_int_equal(capped->paths->best_rate, 2 * 7 * BULK); /* it is looked for again */
}

/* Paths met a queue for long, and carried that much less than before. */
static void get_slow(uint32_t fewer)
{
    capped->paths->best_rate = 4 * 2 * 3 * BULK;
    capped->queued_at = engine->clock.now;
    compare(BULK, BULK - fewer, BULK);
}

/* One more is tried where all carry less than a quarter of what they did... */
TEST_WITH(all_became_slow, set_up_idle_three, tear_down)
{
    get_slow(0);
    assert_int_equal(engine->count.paths_tried, 0);
    capped->next_at = engine->clock.now + 501 * MS;
    get_slow(1);
    capped->next_at = 0;
    get_slow(1);
    assert_int_equal(engine->count.paths_tried, 1);
    assert_int_equal(capped->paths->count, 4);
    assert_int_equal(capped->paths->needed, 0);
    assert_int_equal(renewals, 0);
    capped->paths->trial_at = 0;
    capped->queued_at = engine->clock.now + 1; /* it is not for long */
    capped->paths->best_rate = 4 * 2 * 3 * BULK;
    compare(BULK, 1, BULK);
    assert_int_equal(renewals, 1); /* path 1 is slow */
}

/* ...or, if there is no other, a new port of the one that carries least. */
TEST_WITH(all_became_slow_and_no_more, set_up_begun, tear_down)
{
    add_paths(FURTHER);
    begin();
    capped->paths->compared_at = engine->clock.now;
    capped->failed = 2;
    get_slow(1);
    assert_int_equal(renewals, 1);
    assert_int_equal(renewed, FLOWS + 3); /* by which nothing was carried */
    assert_int_equal(engine->count.paths_tried, 0);
    assert_int_equal(capped->failed, 3);
    assert_int_equal(capped->next_at, engine->clock.now + 4000 * MS);
    capped->next_at = 0;
    conn->flow.now = FLOWS + 3; /* all that is short goes by that */
    get_slow(1);
    assert_int_equal(renewals, 2);
    assert_int_equal(renewed, FLOWS + 1);
    conn->flow.now = 0;
}

/* What is short takes little time by an idle link, however slow it is: that makes no other one
 * slow. */
TEST_WITH(not_slow_beside_an_idle_one, set_up_idle_three, tear_down)
{
    path_of(0)->shortest = 10;
    path_of(1)->shortest = path_of(2)->shortest = 4000;
    compare(BULK / 4 - 1, BULK, BULK);
    assert_int_equal(renewals, 0);
    path_of(0)->off_until = 0;
    path_of(0)->shortest = 10;
    path_of(1)->shortest = path_of(2)->shortest = 4000;
    compare(BULK / 4, BULK, BULK);
    assert_int_equal(renewals, 2);
}

/* One that delays four times as much as the best. */
TEST_WITH(slow_by_its_delay, set_up_idle_three, tear_down)
{
    path_of(0)->shortest = 1000;
    path_of(1)->shortest = 4 * 1000 + 500;
    compare(BULK, BULK, BULK);
    path_of(1)->shortest = 4 * 1000 + 501; /* of the usual one nothing is known */
    compare(BULK, BULK, BULK);
    assert_int_equal(renewals, 0);
    path_of(0)->shortest = 4 * 1000 + 501;
    path_of(1)->shortest = 4 * 1000 + 501;
    path_of(2)->shortest = 1000;
    compare(BULK, BULK, BULK);
    assert_int_equal(renewals, 1);
    assert_int_equal(renewed, FLOWS + 1);
    assert_int_equal(path_of(0)->off_until, engine->clock.now + 4000 * MS);
    assert_false(btl_ib_path_is_used(conn, 0));
}

/* The best may be any of them; one that is off is not judged by what it does not carry. */
TEST_WITH(slow_beside_the_best, set_up_idle_three, tear_down)
{
    path_of(0)->shortest = 1000;
    path_of(1)->shortest = 4 * 1000 + 501;
    compare(BULK, BULK, BULK);
    assert_int_equal(renewals, 1);
    assert_int_equal(renewed, FLOWS + 1);
    path_of(2)->off_until = engine->clock.now + 1000 * MS;
    compare(BULK, BULK, 0);
    assert_int_equal(renewals, 1);
    path_of(2)->off_until = 0;
    compare(BULK, BULK, 0);
    assert_int_equal(renewals, 2);
    assert_int_equal(renewed, FLOWS + 2);
    assert_false(btl_ib_path_is_used(conn, 2));
}

/* The usual one, which has no other port, is off for longer each time. */
TEST_WITH(usual_one_slow, set_up_idle_three, tear_down)
{
    for (uint32_t times = 0; times < 8; times++) {
        const uint32_t doublings = times < 6 ? times : 6;
        compare(0, BULK, BULK);
        assert_int_equal(path_of(0)->off_until,
                         engine->clock.now + (UINT64_C(4000) * MS << doublings));
        must_be_traced(times + 1, BTL_IB_TRACE_path_left, BTL_IB_CAUSE_slow, 0);
        engine->clock.now = capped->paths->compared_at = path_of(0)->off_until;
    }
    assert_int_equal(renewals, 0);
}

/* A path by which something arrives is not dead: its next death is the first again. */
TEST_WITH(alive_again, set_up_idle_three, tear_down)
{
    path_of(1)->deaths = path_of(2)->deaths = 3;
    compare(0, 1, 0);
    assert_int_equal(path_of(1)->deaths, 0);
    assert_int_equal(path_of(2)->deaths, 3);
}

/* While a path is on trial nothing is compared. */
TEST_WITH(not_compared_in_a_trial, set_up_trial, tear_down)
{
    const uint64_t since = capped->paths->compared_at = engine->clock.now - 499 * MS;

    pass(2 * MS, 0, 0, 0);
    assert_int_equal(capped->paths->compared_at, since);
}

UNIT_MAIN(NULL, NULL)
