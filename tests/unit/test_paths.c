/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Paths of one connection, verb by verb: what there is, what leaves by them, and what each one's
 * congestion control is told. */

#include "btl_ib_paths.h"
#include "btl_ib_state.h"
#include "several_paths.h"

/* ---- adding and removing ---- */

/* The usual path goes on with what the connection knew; of a new one nothing is known. */
TEST_WITH(added, set_up, tear_down)
{
    const size_t before = bench->hosts[0].bytes;

    conn->cc.window = 7;
    assert_true(btl_ib_paths_add(conn));
    const btl_ib_paths_t *paths = capped->paths;
    assert_int_equal(bench->hosts[0].bytes - before,
                     sizeof(*paths) + (1 + FURTHER) * sizeof(paths->path[0]));
    assert_int_equal(paths->count, 2);
    assert_int_equal(paths->now, 0);
    assert_int_equal(paths->sampled, UINT32_MAX);
    assert_int_equal(paths->compared_at, engine->clock.now);
    assert_int_equal(paths->path[0].cc.window, 7);
    assert_ptr_equal(paths->path[0].cc.ops, &noting);
    assert_int_equal(paths->path[0].shortest, UINT32_MAX);
    assert_int_equal(paths->path[0].rack.at, engine->clock.now);
    assert_int_equal(conn->cc.window, 7 + FRESH);
    assert_ptr_not_equal(conn->cc.ops, &noting);
    add_paths(FURTHER - 1);
    assert_int_equal(paths->count, 1 + FURTHER);
    for (uint32_t i = 1; i <= FURTHER; i++) {
        assert_int_equal(paths->path[i].flow, FLOWS + i);
        assert_int_equal(paths->path[i].cc.window, FRESH);
        assert_int_equal(paths->path[i].cc.max, conn->cc.max);
        assert_int_equal(paths->path[i].shortest, UINT32_MAX);
        assert_int_equal(paths->path[i].rack.at, engine->clock.now);
        assert_true(btl_ib_list_empty(&paths->path[i].sent));
    }
    assert_int_equal(conn->cc.window, 7 + FURTHER * FRESH);
}

TEST_WITH(not_added_without_memory, set_up, tear_down)
{
    conn->cc.window = 7;
    bench->hosts[0].fail_in = 1;
    assert_false(btl_ib_paths_add(conn));
    assert_null(capped->paths);
    assert_ptr_equal(conn->cc.ops, &noting);
    assert_int_equal(conn->cc.window, 7);
}

/* Of a flow with another port nothing is known, but for what became of its ports. */
TEST_WITH(begun_anew, set_up, tear_down)
{
    add_paths(2);
    btl_ib_path_t *path = path_of(1);
    path->cc.window = 99;
    path->rtt = conn->loss.rtt;
    path->rack = (btl_ib_rack_t){.order = 9, .xmit_ts = 9, .at = 9};
    path->shortest = 9;
    path->missed = 2;
    path->deaths = 2;
    engine->clock.now += 5;
    btl_ib_path_begin(conn, 1);
    assert_int_equal(path->cc.window, FRESH);
    assert_int_equal(path->rtt.srtt8, 0);
    assert_int_equal(path->rack.order, 0);
    assert_int_equal(path->rack.at, engine->clock.now);
    assert_int_equal(path->shortest, UINT32_MAX);
    assert_int_equal(path->missed, 0);
    assert_int_equal(path->deaths, 2);
}

/* With the last one but the usual one the connection has its own congestion control again. */
TEST_WITH(removed, set_up, tear_down)
{
    add_paths(2);
    path_of(0)->cc.window = 11;
    capped->paths->leaving = true;
    btl_ib_paths_remove_last(conn);
    assert_int_equal(capped->paths->count, 2);
    assert_false(capped->paths->leaving);
    assert_int_equal(conn->cc.window, 11 + FRESH);
    btl_ib_paths_remove_last(conn);
    assert_null(capped->paths);
    assert_ptr_equal(conn->cc.ops, &noting);
    assert_int_equal(conn->cc.window, 11);
}

/* What was found out of caps ends with the route, but not when a path is tried next. */
static void must_be_forgotten(void)
{
    assert_null(capped->paths);
    assert_int_equal(capped->lost, 0);
    assert_int_equal(capped->periods, 0);
    assert_int_equal(capped->queued_at, 0);
    assert_false(capped->watched);
    assert_int_equal(capped->next_at, 77);
    assert_int_equal(capped->failed, 3);
}

TEST_WITH(ended_without_any, set_up, tear_down)
{
    *capped = (btl_ib_capped_t){
        .next_at = 77, .lost = 5, .periods = 1, .failed = 3, .queued_at = 4, .watched = true};
    btl_ib_paths_end(conn);
    must_be_forgotten();
    assert_ptr_equal(conn->cc.ops, &noting);
}

/* All in flight is the usual path's again, in the order in which it left. */
static void end_with(const uint8_t *paths, uint32_t count)
{
    btl_ib_segment_t *segments[16];
    const size_t before = bench->hosts[0].bytes;
    uint32_t all;

    leave_bulk(count);
    all = length(&conn->sentmap.sent[BTL_IB_SENT_BULK]);
    const uint32_t in_flight = conn->sentmap.in_flight;
    assert_true(all <= 16);
    for (uint32_t i = 0; i < all; i++) {
        segments[i] = usual_bulk(i);
    }
    const size_t with_segments = bench->hosts[0].bytes;
    assert_true(with_segments >= before);
    add_paths(2);
    *capped = (btl_ib_capped_t){.paths = capped->paths,
                                .next_at = 77,
                                .lost = 5,
                                .periods = 1,
                                .failed = 3,
                                .queued_at = 4,
                                .watched = true};
    path_of(0)->cc.window = 11;
    for (uint32_t i = 0; i < all; i++) {
        move_to(paths[i % count], segments[i]);
    }
    btl_ib_paths_end(conn);
    must_be_forgotten();
    assert_int_equal(bench->hosts[0].bytes, with_segments);
    assert_int_equal(conn->cc.window, 11);
    assert_int_equal(conn->sentmap.in_flight, in_flight);
    assert_int_equal(length(&conn->sentmap.sent[BTL_IB_SENT_BULK]), all);
    for (uint32_t i = 0; i < all; i++) {
        assert_ptr_equal(usual_bulk(i), segments[i]);
        assert_int_equal(segments[i]->path, 0);
    }
}

TEST_WITH(ended_in_turn, set_up, tear_down)
{
    end_with((const uint8_t[]){1, 0, 2, 1, 2, 0, 1, 2}, 8);
}

TEST_WITH(ended_in_groups, set_up, tear_down)
{
    end_with((const uint8_t[]){2, 2, 0, 0, 1, 1, 1, 2}, 8);
}

TEST_WITH(ended_all_by_others, set_up, tear_down)
{
    end_with((const uint8_t[]){2, 1, 1, 2, 2, 1, 2, 1}, 8);
}

/* An idle connection keeps paths only while something is in flight by one. */
TEST_WITH(idle, set_up, tear_down)
{
    btl_ib_paths_idle(conn);
    assert_null(capped->paths);
    leave_bulk(4);
    add_paths(2);
    move_to(2, usual_bulk(1));
    btl_ib_paths_idle(conn);
    assert_non_null(capped->paths);
    btl_ib_paths_end_flight(conn, segment_of(&path_of(2)->sent, 0));
    btl_ib_paths_idle(conn);
    assert_null(capped->paths);
}

/* ---- the sum of all ---- */

TEST_WITH(used, set_up, tear_down)
{
    add_paths(2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(btl_ib_path_is_used(conn, i));
        path_of(i)->off_until = engine->clock.now + 1;
        assert_false(btl_ib_path_is_used(conn, i));
        path_of(i)->off_until = engine->clock.now;
        assert_true(btl_ib_path_is_used(conn, i));
    }
    capped->paths->leaving = true;
    assert_true(btl_ib_path_is_used(conn, 0));
    assert_true(btl_ib_path_is_used(conn, 1));
    assert_false(btl_ib_path_is_used(conn, 2));
    capped->paths->leaving = false;
    conn->flow.now = FLOWS; /* another flow of its own */
    assert_true(btl_ib_path_is_used(conn, 0));
    for (uint32_t i = 1; i < 3; i++) {
        conn->flow.now = path_of(i)->flow; /* it has none */
        assert_false(btl_ib_path_is_used(conn, 0));
        assert_true(btl_ib_path_is_used(conn, 1));
        assert_true(btl_ib_path_is_used(conn, 2));
    }
}

/* A path's answers may take as long as any of the connection's, or as its own. */
TEST_WITH(timeouts, set_up, tear_down)
{
    assert_int_equal(btl_ib_path_timeout(conn, 0), SRTT + VAR4);
    add_paths(1);
    assert_int_equal(btl_ib_path_timeout(conn, 0), SRTT + VAR4);
    assert_int_equal(btl_ib_path_timeout(conn, 1), SRTT + VAR4);
    path_of(1)->rtt = (btl_ib_rtt_t){.srtt8 = 8 * 5000, .rttvar4 = 400};
    assert_int_equal(btl_ib_path_timeout(conn, 0), SRTT + VAR4);
    assert_int_equal(btl_ib_path_timeout(conn, 1), 5400);
    path_of(0)->rtt = (btl_ib_rtt_t){.srtt8 = 8 * 10, .rttvar4 = 400};
    assert_int_equal(btl_ib_path_timeout(conn, 0), SRTT + VAR4);
    conn->loss.rtt = (btl_ib_rtt_t){0};
    assert_int_equal(btl_ib_path_timeout(conn, 1),
                     engine->config.rto_initial > 5400 ? engine->config.rto_initial : 5400);
}

static void set_path(uint32_t i, uint32_t window, uint32_t burst, uint32_t pace)
{
    btl_ib_cc_set_sum(&path_of(i)->cc, window, burst, pace);
}

/* Windows, bursts and rates of all. */
TEST_WITH(summed_up, set_up, tear_down)
{
    add_paths(2);
    set_path(0, 10, 1, 1000);
    set_path(1, 20, 2, 500);
    set_path(2, 30, 3, 250);
    conn->cc.gso_segments = 4;
    btl_ib_paths_sum(conn);
    assert_int_equal(conn->cc.window, 60);
    assert_int_equal(conn->cc.burst, 6);
    assert_int_equal(conn->cc.pace, 1000 / 7);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(path_of(i)->cc.gso_segments, 4);
    }
    conn->cc.max = 59;
    btl_ib_paths_sum(conn);
    assert_int_equal(conn->cc.window, 59);
    for (uint32_t i = 0; i < 3; i++) { /* nothing holds one back that is not paced */
        const uint32_t pace = path_of(i)->cc.pace;
        path_of(i)->cc.pace = 0;
        btl_ib_paths_sum(conn);
        assert_int_equal(conn->cc.pace, 0);
        path_of(i)->cc.pace = pace;
    }
    for (uint32_t i = 0; i < 3; i++) {
        set_path(i, 1, 0, 0);
    }
    btl_ib_paths_sum(conn);
    assert_int_equal(conn->cc.burst, 1);
}

/* Where each path has less than a segment in a second all of them have one. */
TEST_WITH(summed_up_when_slow, set_up, tear_down)
{
    add_paths(1);
    set_path(0, 1, 1, 2000000000);
    set_path(1, 1, 1, 1000000001);
    btl_ib_paths_sum(conn);
    assert_int_equal(conn->cc.pace, 1000000000);
    path_of(1)->cc.pace = 1000000000;
    btl_ib_paths_sum(conn);
    assert_int_equal(conn->cc.pace, 1000000000);
    path_of(1)->cc.pace = 500000000;
    btl_ib_paths_sum(conn);
    assert_int_equal(conn->cc.pace, 500000000);
}

/* A path that is not used allows what is in flight by it. The usual one also carries what is no
 * bulk. */
TEST_WITH(summed_up_without_one, set_up, tear_down)
{
    add_paths(2);
    set_path(0, 10, 1, 1000);
    set_path(1, 20, 2, 500);
    set_path(2, 30, 3, 0);
    path_of(2)->off_until = engine->clock.now + 1;
    path_of(2)->in_flight = 5;
    btl_ib_paths_sum(conn);
    assert_int_equal(conn->cc.window, 10 + 20 + 5);
    assert_int_equal(conn->cc.burst, 3);
    assert_int_equal(conn->cc.pace, 1000 / 3);
    path_of(2)->in_flight = 0;
    path_of(2)->off_until = 0;
    path_of(0)->off_until = engine->clock.now + 1;
    btl_ib_paths_sum(conn);
    assert_int_equal(conn->cc.window, 10 + 20 + 30);
}

static const btl_ib_cc_ack_t some_ack = {
    .now = 9000, .sent_at = 500, .count = 7, .rtt = 100, .delay = 90, .awake = 80};

static btl_ib_cc_round_t take_ack(uint32_t count, uint32_t sampled)
{
    btl_ib_cc_ack_t ack = some_ack;

    ack.count = count;
    capped->paths->sampled = sampled;
    return conn->cc.ops->acked(&conn->cc, &ack);
}

/* Each congestion control is told of its own segments; of the round trip the one whose it is. */
TEST_WITH(acknowledged_by_each, set_up, tear_down)
{
    add_paths(3);
    for (uint32_t sampled = 0; sampled < 3; sampled++) {
        memset(told, 0, sizeof(told));
        told[0].round = BTL_IB_CC_ROUND_HOST;
        told[1].round = BTL_IB_CC_ROUND_QUEUED;
        path_of(1)->newly = 3;
        path_of(2)->newly = 2;
        path_of(1)->rack.xmit_ts = 111;
        path_of(2)->rack.xmit_ts = 222;
        path_of(0)->missed = 2;
        path_of(0)->rack = (btl_ib_rack_t){.order = 5, .at = 5};
        assert_int_equal(take_ack(7, sampled), told[sampled].round);
        assert_int_equal(capped->paths->sampled, UINT32_MAX);
        assert_int_equal(capped->paths->acked, 7 * (sampled + 1));
        for (uint32_t i = 0; i < 3; i++) {
            static const uint32_t counts[] = {2, 3, 2}, sent_at[] = {500, 111, 222};
            assert_int_equal(told[i].acks, 1);
            assert_int_equal(told[i].ack.count, counts[i]);
            assert_int_equal(told[i].ack.sent_at, sent_at[i]);
            assert_int_equal(told[i].ack.now, 9000);
            assert_int_equal(told[i].ack.rtt, i == sampled ? 100 : 0);
            assert_int_equal(told[i].ack.delay, i == sampled ? 90 : 0);
            assert_int_equal(told[i].ack.awake, i == sampled ? 80 : 0);
            assert_int_equal(path_of(i)->newly, 0);
        }
        assert_int_equal(told[3].acks, 0);
        assert_int_equal(path_of(0)->missed, 0);
        assert_int_equal(path_of(0)->rack.order, 0);
        assert_int_equal(path_of(0)->rack.at, 9000);
        assert_int_equal(conn->cc.window, 4 * FRESH + 3 * (sampled + 1));
    }
}

/* Whose round trip it was is not known, or nothing of the usual path is acknowledged. */
TEST_WITH(acknowledged_of_others, set_up, tear_down)
{
    add_paths(2);
    told[0].round = told[1].round = told[2].round = BTL_IB_CC_ROUND_QUEUED;
    path_of(0)->missed = 2;
    path_of(1)->newly = 3;
    path_of(2)->newly = 4;
    assert_int_equal(take_ack(7, UINT32_MAX), BTL_IB_CC_ROUND_NONE);
    assert_int_equal(told[0].acks, 0);
    assert_int_equal(path_of(0)->missed, 2);
    assert_int_equal(told[1].ack.rtt, 0);
    assert_int_equal(told[2].ack.count, 4);
    path_of(1)->newly = 3;
    assert_int_equal(take_ack(1, 0), BTL_IB_CC_ROUND_NONE); /* no more than all */
    assert_int_equal(told[1].ack.count, 1);
    assert_int_equal(told[0].acks, 0);
    assert_int_equal(take_ack(1, 0), BTL_IB_CC_ROUND_QUEUED);
    assert_int_equal(told[0].acks, 1);
    assert_int_equal(told[1].acks, 2);
}

/* A window held its path back if no further burst fits into it, and it is nearly full. */
static bool is_limited(uint32_t i, uint32_t in_flight, uint32_t window, uint32_t burst)
{
    const uint32_t before = conn->sentmap.in_flight;

    path_of(1)->in_flight = i == 1 ? in_flight : 1000;
    path_of(2)->in_flight = 500;
    conn->sentmap.in_flight = i == 0 ? 1500 + in_flight : 5000;
    path_of(i)->cc.window = window;
    path_of(i)->cc.gso_segments = burst;
    path_of(1)->newly = i == 1 ? 2 : 0;
    (void) take_ack(2, 0);
    conn->sentmap.in_flight = before;
    path_of(1)->in_flight = path_of(2)->in_flight = 0;
    return told[i].ack.limited;
}

TEST_WITH(limited, set_up, tear_down)
{
    add_paths(2);
    for (uint32_t i = 0; i < 2; i++) {
        capped->limited = path_of(i)->limited = false;
        assert_false(is_limited(i, 72, 100, 64));
        assert_false(capped->limited || path_of(i)->limited);
        assert_true(is_limited(i, 73, 100, 64)); /* 75 before, and a third of that */
        assert_false(is_limited(i, 72, 100, 64));
        assert_true(capped->limited && path_of(i)->limited); /* once is enough */
        assert_true(is_limited(i, 89, 100, 10));
        assert_false(is_limited(i, 88, 100, 10));
        assert_true(is_limited(i, 98, 100, 1));
        assert_false(is_limited(i, 97, 100, 1));
    }
}

/* Marks, and a rest, are told to all; losses and what is taken back are not: each path hears of its
 * own. */
TEST_WITH(told_to_all, set_up, tear_down)
{
    const btl_ib_cc_marks_t marks = {.count = 9, .ce = 4};

    add_paths(2);
    assert_false(conn->cc.ops->marked(&conn->cc, &marks));
    assert_int_equal(conn->cc.window, 3 * FRESH + 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(told[i].marks, 4);
        told[i].reduces = true;
        assert_true(conn->cc.ops->marked(&conn->cc, &marks));
        assert_int_equal(told[i].marks, 8);
        told[0].marks = told[1].marks = told[2].marks = 4;
        told[i].reduces = false;
    }
    const uint32_t window = conn->cc.window;
    conn->cc.ops->restart(&conn->cc);
    assert_int_equal(conn->cc.window, window + 3);
    conn->cc.ops->lost(&conn->cc, 1, 2);
    conn->cc.ops->undo(&conn->cc);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(told[i].restarts, 1);
        assert_int_equal(told[i].losses, 0);
    }
}

/* ---- what leaves, and what became of it ---- */

TEST_WITH(losses, set_up, tear_down)
{
    leave_bulk(4);
    add_paths(2);
    btl_ib_segment_t *first = usual_bulk(0), *second = usual_bulk(1);
    move_to(2, second);
    conn->loss.sample = 0;
    engine->clock.now += 10;
    btl_ib_paths_lost(conn, second);
    assert_int_equal(told[2].losses, 1);
    assert_int_equal(told[2].sent_at, second->last_sent);
    assert_int_equal(told[2].now, engine->clock.now);
    assert_int_equal(told[0].losses, 0);
    assert_int_equal(capped->lost, 1);
    assert_int_equal(capped->delay, UINT32_MAX); /* no round trip tells of a queue */
    assert_true(capped->watched);
    conn->loss.sample = 900;
    conn->loss.sample_hosts = 100;
    btl_ib_paths_lost(conn, first);
    assert_int_equal(told[0].losses, 1);
    assert_int_equal(capped->lost, 2);
    assert_int_equal(capped->delay, 800);
    conn->loss.sample = 950;
    btl_ib_paths_lost(conn, first);
    assert_int_equal(capped->delay, 800);
    conn->loss.sample = 700;
    btl_ib_paths_lost(conn, first);
    assert_int_equal(capped->delay, 600);
    capped->lost = 0; /* another period */
    conn->loss.sample = 5000;
    btl_ib_paths_lost(conn, first);
    assert_int_equal(capped->delay, 4900);
}

/* A connection of one path has its own congestion control told; one that can have no others is not
 * watched. */
TEST_WITH(losses_of_the_usual, set_up, tear_down)
{
    leave_bulk(1);
    btl_ib_paths_lost(conn, usual_bulk(0));
    assert_int_equal(capped->lost, 1);
    assert_true(capped->watched);
    *capped = (btl_ib_capped_t){0};
    attr->paths = 0;
    btl_ib_paths_lost(conn, usual_bulk(0));
    assert_int_equal(capped->lost, 0);
    assert_false(capped->watched);
    attr->paths = 1;
    btl_ib_paths_lost(conn, usual_bulk(0));
    assert_int_equal(capped->lost, 1);
    attr->paths = FURTHER;
}

/* Has so many segments in flight by each path; the usual one has none. */
static void fill(uint32_t first, uint32_t second)
{
    path_of(1)->in_flight = first;
    path_of(2)->in_flight = second;
    conn->sentmap.in_flight = first + second;
}

/* The path that has most room in its window is next, unless that is short of a burst. */
TEST_WITH(chosen, set_up, tear_down)
{
    add_paths(2);
    set_path(0, 10, 1, 0);
    set_path(1, 20, 1, 0);
    set_path(2, 15, 1, 0);
    fill(0, 0);
    assert_int_equal(btl_ib_paths_choose(conn), 20);
    assert_int_equal(capped->paths->now, 1);
    fill(8, 0);
    assert_int_equal(btl_ib_paths_choose(conn), 15);
    assert_int_equal(capped->paths->now, 2);
    fill(20, 16); /* a window may have become smaller */
    assert_int_equal(btl_ib_paths_choose(conn), 10);
    assert_int_equal(capped->paths->now, 0);
    fill(10, 5); /* the first of equals */
    assert_int_equal(btl_ib_paths_choose(conn), 10);
    assert_int_equal(capped->paths->now, 0);
    path_of(0)->cc.window = 0;
    assert_int_equal(btl_ib_paths_choose(conn), 10);
    assert_int_equal(capped->paths->now, 1);
    fill(20, 15);
    assert_int_equal(btl_ib_paths_choose(conn), 0);
    assert_int_equal(capped->paths->now, 0);
    fill(19, 15);
    assert_int_equal(btl_ib_paths_choose(conn), 1);
    assert_int_equal(capped->paths->now, 1);
    fill(0, 0);
}

TEST_WITH(chosen_for_bursts, set_up, tear_down)
{
    add_paths(2);
    conn->cc.gso_segments = 10;
    set_path(0, 0, 1, 0);
    set_path(1, 40, 1, 0);
    set_path(2, 3, 1, 0);
    fill(31, 0);
    assert_int_equal(btl_ib_paths_choose(conn), 3);
    assert_int_equal(capped->paths->now, 2);
    fill(30, 0);
    assert_int_equal(btl_ib_paths_choose(conn), 10);
    assert_int_equal(capped->paths->now, 1);
    conn->cc.gso_segments = 60; /* of a small window a third of what is in flight is enough */
    assert_int_equal(btl_ib_paths_choose(conn), 10);
    fill(31, 0);
    assert_int_equal(btl_ib_paths_choose(conn), 3);
    fill(0, 0);
}

TEST_WITH(chosen_of_the_used, set_up, tear_down)
{
    add_paths(2);
    fill(0, 0);
    set_path(1, FRESH + 1, 1, 0);
    path_of(1)->off_until = engine->clock.now + 1;
    assert_int_equal(btl_ib_paths_choose(conn), FRESH);
    assert_int_equal(capped->paths->now, 0);
    path_of(0)->off_until = engine->clock.now + 1;
    assert_int_equal(btl_ib_paths_choose(conn), FRESH);
    assert_int_equal(capped->paths->now, 2);
    path_of(2)->off_until = engine->clock.now + 1; /* then no window of a path counts */
    assert_int_equal(btl_ib_paths_choose(conn), UINT32_MAX);
    assert_int_equal(capped->paths->now, 0);
}

TEST_WITH(flows, set_up, tear_down)
{
    btl_ib_paths_choose_usual(conn); /* nothing to choose from */
    add_paths(2);
    conn->flow.now = 1;
    assert_int_equal(btl_ib_paths_flow(conn), 1);
    for (uint32_t i = 1; i < 3; i++) {
        capped->paths->now = i;
        assert_int_equal(btl_ib_paths_flow(conn), FLOWS + i);
    }
    btl_ib_paths_choose_usual(conn);
    assert_int_equal(btl_ib_paths_flow(conn), 1);
}

/* A run of segments moves to the path that was chosen; what is no bulk stays with the usual one. */
TEST_WITH(left, set_up, tear_down)
{
    leave_bulk(6);
    add_paths(2);
    const uint32_t all = length(&conn->sentmap.sent[BTL_IB_SENT_BULK]);
    btl_ib_segment_t *moved[] = {usual_bulk(1), usual_bulk(2), usual_bulk(3)};
    btl_ib_segment_t *stays = usual_bulk(4);

    capped->paths->now = 2;
    btl_ib_paths_left(conn, moved[0], 3);
    assert_int_equal(path_of(2)->in_flight, 3);
    assert_int_equal(length(&path_of(2)->sent), 3);
    assert_int_equal(length(&conn->sentmap.sent[BTL_IB_SENT_BULK]), all - 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ptr_equal(segment_of(&path_of(2)->sent, i), moved[i]);
        assert_int_equal(moved[i]->path, 2);
    }
    bench_send(bench, 0, 1, 20, 1);
    bench_clear(&bench->wire);
    btl_ib_paths_left(conn, segment_of(&conn->sentmap.sent[BTL_IB_SENT_OTHERS], 0), 1);
    assert_int_equal(path_of(2)->in_flight, 3);
    capped->paths->now = 1; /* behind what left before */
    btl_ib_paths_left(conn, usual_bulk(0), 1);
    assert_int_equal(path_of(1)->in_flight, 1);
    capped->paths->now = 0;
    btl_ib_paths_left(conn, stays, 1);
    assert_int_equal(stays->path, 0);
    assert_int_equal(length(&conn->sentmap.sent[BTL_IB_SENT_BULK]), all - 4);
    btl_ib_paths_end_flight(conn, moved[1]);
    assert_int_equal(moved[1]->path, 0);
    assert_int_equal(path_of(2)->in_flight, 2);
    assert_int_equal(path_of(1)->in_flight, 1);
    btl_ib_list_remove(&moved[1]->link);
    btl_ib_list_push_tail(&conn->sentmap.sent[BTL_IB_SENT_BULK], &moved[1]->link);
}

/* Copies of these segments of bulk, which are not in flight. */
static btl_ib_segment_t acked_of(uint32_t path, uint32_t age)
{
    return (btl_ib_segment_t){.path = (uint8_t) path,
                              .copies = 1,
                              .type = BTL_IB_TYPE_CHUNK,
                              .last_sent = engine->clock.now - age};
}

/* Its segments are not in flight by the path, and their age is a round trip of it: if they were
 * sent once. */
TEST_WITH(acknowledged, set_up, tear_down)
{
    add_paths(2);
    path_of(1)->in_flight = 10;
    btl_ib_segment_t segment = acked_of(1, 300);
    btl_ib_paths_acked(conn, &segment, 3);
    assert_int_equal(path_of(1)->in_flight, 7);
    assert_int_equal(path_of(1)->newly, 3);
    assert_int_equal(path_of(1)->shortest, 300);
    assert_int_equal(path_of(1)->rtt.srtt8, 8 * 300);
    segment = acked_of(1, 500);
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(path_of(1)->newly, 4);
    assert_int_equal(path_of(1)->shortest, 300);
    assert_int_equal(path_of(1)->rtt.srtt8, 8 * 300 + 200);
    segment.copies = 2;
    segment.last_sent = engine->clock.now - 100;
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(path_of(1)->newly, 5);
    assert_int_equal(path_of(1)->shortest, 300);
    segment.lost = true; /* nobody knows by which one it came */
    segment.copies = 1;
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(path_of(1)->in_flight, 5);
    assert_int_equal(path_of(1)->newly, 5);
    assert_int_equal(path_of(1)->shortest, 300);
    segment = acked_of(0, 200);
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(path_of(0)->newly, 0);
    assert_int_equal(path_of(0)->in_flight, 0);
    assert_int_equal(path_of(0)->shortest, 200);
    assert_int_equal(path_of(0)->acked, 1);
    assert_int_equal(path_of(1)->acked, 5);
    path_of(1)->in_flight = 0;
}

/* What is short says nothing of how much a path carries, nor of its queue. */
TEST_WITH(acknowledged_short, set_up, tear_down)
{
    add_paths(1);
    capped->shortest = 400;
    btl_ib_segment_t segment = acked_of(0, 300);
    segment.type = BTL_IB_TYPE_DATA;
    btl_ib_paths_acked(conn, &segment, 3);
    assert_int_equal(path_of(0)->acked, 0);
    assert_int_equal(path_of(0)->shortest, UINT32_MAX);
    assert_int_equal(path_of(0)->rtt.srtt8, 8 * 300);
    assert_int_equal(capped->shortest, 400);
    segment = acked_of(0, 401);
    btl_ib_paths_acked(conn, &segment, 3);
    assert_int_equal(path_of(0)->acked, 3);
    assert_int_equal(capped->shortest, 400);
    segment = acked_of(0, 399);
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(capped->shortest, 399);
    conn->loss.sample_hosts = 300; /* the time that hosts took is no queue, where it is known */
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(capped->shortest, 399);
    conn->loss.sample = 1;
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(capped->shortest, 99);
    conn->loss.sample_hosts = 400;
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(capped->shortest, 0);
    assert_int_equal(path_of(0)->shortest, 399);
}

/* The usual path, which went by the flow of another one, is used from now on. */
TEST_WITH(usual_moves, set_up, tear_down)
{
    btl_ib_paths_usual_moves(conn);
    add_paths(1);
    path_of(0)->off_until = path_of(1)->off_until = 7;
    btl_ib_paths_usual_moves(conn);
    assert_int_equal(path_of(0)->off_until, 7); /* it had a flow of its own */
    conn->flow.now = path_of(1)->flow;
    btl_ib_paths_usual_moves(conn);
    assert_int_equal(path_of(0)->off_until, engine->clock.now);
    assert_int_equal(path_of(1)->off_until, 7);
    path_of(0)->off_until = engine->clock.now + 9;
    btl_ib_paths_usual_moves(conn);
    assert_int_equal(path_of(0)->off_until, engine->clock.now + 9);
    conn->flow.now = 0;
}

/* The usual flow leads there again, which was left: nothing is known against its path. */
TEST_WITH(usual_found, set_up, tear_down)
{
    capped->next_at = 7;
    capped->failed = 5;
    btl_ib_paths_usual_found(conn);
    assert_int_equal(capped->next_at, 0);
    assert_int_equal(capped->failed, 1); /* the port is no new one */
    add_paths(1);
    path_of(0)->off_until = path_of(1)->off_until = engine->clock.now + 9;
    path_of(0)->slow = path_of(1)->slow = 3;
    btl_ib_paths_usual_found(conn);
    assert_int_equal(path_of(0)->off_until, engine->clock.now);
    assert_int_equal(path_of(0)->slow, 0);
    assert_int_equal(path_of(1)->off_until, engine->clock.now + 9);
    assert_int_equal(path_of(1)->slow, 3);
    capped->failed = 0;
    btl_ib_paths_usual_found(conn);
    assert_int_equal(capped->failed, 0);
}

/* The round trip of an acknowledgement is that of the path by which the echoed stamp went. */
TEST_WITH(sampled, set_up, tear_down)
{
    add_paths(2);
    const btl_ib_segment_t segment = acked_of(0, 300);
    conn->loss.sample = 0;
    conn->loss.sample_echo = (uint32_t) segment.last_sent;
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(capped->paths->sampled, UINT32_MAX);
    conn->loss.sample = 1;
    conn->loss.sample_echo++;
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(capped->paths->sampled, UINT32_MAX);
    conn->loss.sample_echo--;
    btl_ib_paths_acked(conn, &segment, 1);
    assert_int_equal(capped->paths->sampled, 0);
    path_of(2)->in_flight = 1;
    const btl_ib_segment_t other = acked_of(2, 300);
    btl_ib_paths_acked(conn, &other, 1);
    assert_int_equal(capped->paths->sampled, 2);
    conn->loss.sample = 0;
}

/* What arrives by a path is the newest by it; short messages go the same way if they left the usual
 * flow for it. */
TEST_WITH(arrived, set_up, tear_down)
{
    const btl_ib_rack_t *all = &conn->loss.rack[BTL_IB_RACK_ALL];
    const uint64_t before = all->order;

    add_paths(2);
    btl_ib_segment_t segment = acked_of(1, 300);
    segment.order = before + 10;
    path_of(1)->missed = 2;
    path_of(2)->missed = 2;
    btl_ib_paths_arrived(conn, &segment);
    assert_int_equal(path_of(1)->rack.order, before + 10);
    assert_int_equal(path_of(1)->rack.xmit_ts, segment.last_sent);
    assert_int_equal(path_of(1)->rack.at, engine->clock.now);
    assert_int_equal(path_of(1)->missed, 0);
    assert_int_equal(path_of(2)->missed, 2);
    assert_int_equal(path_of(2)->rack.order, 0);
    assert_int_equal(all->order, before);
    conn->flow.now = FLOWS + 1;
    segment.order++;
    btl_ib_paths_arrived(conn, &segment);
    assert_int_equal(all->order, before + 11);
    assert_int_equal(all->xmit_ts, segment.last_sent);
    conn->flow.now = 0;
}

UNIT_MAIN(NULL, NULL)
