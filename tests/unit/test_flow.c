/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Flows of one connection, verb by verb: which one is next and when, and how the usual one is found
 * to lead there again. The transport has three flows, a spare one, and three of paths. */

#include <stdarg.h>
#include <stdio.h>

#include "btl_ib_flow.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "several_paths.h"

enum {
    SPARE = FLOWS,
    ALL = FLOWS + 1 + FURTHER,
    SECOND_OF_TRIAL = 1000000, /* us */
    RETRY = 8000000,           /* us */
    MS = 1000,
};

static btl_ib_flow_t *flow;

/* What was logged: how many lines, and the last. */
static uint32_t lines;
static char line[512];

__attribute__((format(printf, 3, 4))) static void note_line(void *context, int level,
                                                            const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    lines++;
}

static int set_up_flow(void **state)
{
    (void) set_up(state);
    flow = &conn->flow;
    *flow = (btl_ib_flow_t){0};
    engine->clock.now += 10 * MS;
    engine->config.log.print = note_line;
    lines = 0;
    return 0;
}

/* So many probes were not answered; the first was sent `ago` us ago. */
static void probing(uint32_t unanswered, uint64_t ago)
{
    conn->loss.unanswered_probes = unanswered;
    conn->loss.asked_at = engine->clock.now - ago;
    btl_ib_flow_probing(conn);
    conn->loss.unanswered_probes = 0;
}

static void no_spare(void)
{
    attr->spare_flow = false;
    attr->paths = 0;
}

/* ---- taking another flow ---- */

TEST_WITH(next_after_two_probes, set_up_flow, tear_down)
{
    probing(0, 0);
    probing(1, 100);
    assert_int_equal(flow->now, 0);
    assert_false(flow->doubted);
    probing(2, 100);
    assert_int_equal(flow->now, 1);
    assert_true(flow->doubted);
    assert_true(flow->on_trial);
    assert_int_equal(flow->left, 0);
    assert_int_equal(flow->since, engine->clock.now);
    assert_int_equal(flow->usual_at, engine->clock.now + SECOND_OF_TRIAL);
    assert_int_equal(flow->doubt, 100);
    probing(3, 100);
    assert_int_equal(flow->now, 1);
    engine->clock.now += 50;
    probing(4, 150);
    assert_int_equal(flow->now, 2);
    assert_int_equal(flow->doubt, 150); /* what was sent by flow 0 is still in doubt */
    assert_int_equal(engine->count.flows_tried, 2);
}

/* What a flow that is left was found out of is forgotten with it. */
TEST_WITH(taken_anew, set_up_flow, tear_down)
{
    flow->left = 2;
    flow->answered = flow->to_check = flow->checking = true;
    probing(2, 100);
    assert_int_equal(flow->left, 0);
    assert_false(flow->answered);
    assert_false(flow->to_check);
    assert_false(flow->checking);
}

/* Where there is one flow nothing else is tried. */
TEST_WITH(next_of_one, set_up_flow, tear_down)
{
    no_spare();
    for (uint8_t flows = 0; flows < 2; flows++) {
        attr->flows = flows;
        flow->doubted = false;
        probing(2, 100);
        assert_true(flow->doubted);
        assert_int_equal(flow->now, 0);
        assert_int_equal(btl_ib_flow_in_turn(conn, 5), 0);
    }
    assert_int_equal(engine->count.flows_tried, 0);
    attr->spare_flow = true;
    attr->flows = 1;
    probing(2, 100);
    assert_int_equal(flow->now, 1);
    probing(2, 100);
    assert_int_equal(flow->now, 0);
}

/* All in turn, again and again. Flows whose port is their own alone get another one when they are
 * left. */
TEST_WITH(all_in_turn, set_up_flow, tear_down)
{
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(flow->rounds, round);
        assert_int_equal(btl_ib_flow_any_untried(conn), round < 2);
        renewals = 0;
        for (uint32_t i = 0; i < ALL; i++) {
            assert_int_equal(flow->now, i);
            assert_int_equal(flow->on_trial, i != 0);
            assert_int_equal(renewals, i <= SPARE ? 0 : i - SPARE);
            probing(2, 0);
            if (i >= SPARE) {
                assert_int_equal(renewed, i);
                assert_int_equal(renewed_at, engine->clock.now);
            }
        }
        assert_int_equal(renewals, ALL - SPARE);
    }
    assert_int_equal(engine->count.flows_tried, 3 * ALL);
    flow->rounds = 254;
    for (uint32_t i = 0; i < 3 * ALL; i++) {
        probing(2, 0);
    }
    assert_int_equal(flow->rounds, 255);
    btl_ib_flow_answered(flow);
    assert_true(btl_ib_flow_any_untried(conn));
}

TEST_WITH(all_in_turn_without_spare, set_up_flow, tear_down)
{
    no_spare();
    assert_false(btl_ib_flow_any_untried(conn)); /* so few that probes need not come sooner */
    for (uint32_t i = 0; i < FLOWS; i++) {
        assert_int_equal(flow->now, i);
        probing(2, 0);
    }
    assert_int_equal(flow->now, 0);
    assert_int_equal(flow->rounds, 1);
    assert_int_equal(renewals, 0);
}

/* One that was answered once is tried first, and its port kept: its answer may be late. */
TEST_WITH(one_that_worked, set_up_flow, tear_down)
{
    flow->worked = SPARE;
    probing(2, 100);
    assert_int_equal(flow->now, SPARE);
    probing(2, 100);
    assert_int_equal(flow->now, SPARE + 1);
    assert_int_equal(flow->worked, 0);
    assert_int_equal(renewals, 0);
    flow->worked = 1;
    probing(2, 100);
    assert_int_equal(flow->now, SPARE + 2);
    assert_int_equal(flow->worked, 1);
    assert_int_equal(renewals, 1);
}

/* What was lost of checks of the usual flow went by the latency lane's ports. */
TEST_WITH(without_the_latency_lane, set_up_flow, tear_down)
{
    flow->now = 1;
    flow->lost = 3;
    probing(2, 0);
    assert_int_equal(flow->now, SPARE);
    flow->now = 1;
    flow->lost = 2;
    probing(2, 0);
    assert_int_equal(flow->now, 2);
    flow->now = 0;
    flow->lost = 3;
    probing(2, 0);
    assert_int_equal(flow->now, 1);
    no_spare();
    probing(2, 0);
    assert_int_equal(flow->now, 2);
}

TEST_WITH(of_questions, set_up_flow, tear_down)
{
    flow->now = 2;
    for (uint32_t turn = 0; turn < 2 * ALL; turn++) {
        assert_int_equal(btl_ib_flow_in_turn(conn, turn), (2 + turn) % ALL);
    }
    const uint8_t now = btl_ib_flow_lend(flow, 5); /* for one datagram */
    assert_int_equal(flow->now, 5);
    assert_true(flow->lent);
    btl_ib_flow_give_back(flow, now);
    assert_int_equal(flow->now, 2);
    assert_false(flow->lent);
}

/* `sent` us ago something was sent that was answered `heard` us ago. */
static uint8_t next_of(uint64_t sent, uint64_t heard)
{
    conn->loss.sample_at = engine->clock.now - heard;
    conn->loss.sample_echo = (uint32_t) (engine->clock.now - sent);
    return btl_ib_flow_for_next(conn);
}

/* Another connection that takes the route begins by the flow behind, unless this one was answered
 * by the present one, over the present route. */
TEST_WITH(for_the_next, set_up_flow, tear_down)
{
    flow->now = 2;
    for (uint32_t of_route = 0; of_route < 2; of_route++) {
        conn->route.moved_at = of_route ? engine->clock.now - 500 : 0;
        flow->since = of_route ? 0 : engine->clock.now - 500;
        assert_int_equal(next_of(500, 400), 2);
        assert_int_equal(next_of(501, 400), 3);
        assert_int_equal(next_of(400, 500), 2);
        assert_int_equal(next_of(400, 501), 3);
    }
    flow->now = ALL - 1;
    assert_int_equal(next_of(501, 501), 0);
    flow->now = 0;
    btl_ib_flow_begin_by(conn, 0);
    assert_int_equal(engine->count.flows_tried, 0);
    btl_ib_flow_begin_by(conn, 3);
    assert_int_equal(flow->now, 3);
    assert_true(flow->on_trial);
    assert_int_equal(engine->count.flows_tried, 1);
    btl_ib_flow_begin_route(flow);
    assert_int_equal(flow->now, 0);
    assert_false(flow->on_trial);
}

/* ---- questions of the peer ---- */

/* A question comes `after` us later; it echoes what was sent when the last one came, or before. */
static btl_ib_view_t question(uint64_t after, bool heard)
{
    engine->clock.now += after;
    return (btl_ib_view_t){
        .type = BTL_IB_TYPE_ACK,
        .flags = BTL_IB_FLAG_ACK_NOW | BTL_IB_FLAG_ECHO,
        .echo = (uint32_t) (flow->question_at - !heard),
    };
}

static void ask(uint64_t after, bool heard)
{
    const btl_ib_view_t view = question(after, heard);

    btl_ib_flow_asked(conn, &view);
}

/* A question that comes again, a round trip later, though it was answered: the answer was lost. */
TEST_WITH(asked_again, set_up_flow, tear_down)
{
    ask(5000, false);
    assert_int_equal(flow->now, 0);
    flow->rounds = 1;
    ask(SRTT + 199, false); /* it left before the answer can have come */
    assert_int_equal(flow->now, 0);
    ask(1, false);
    assert_int_equal(flow->now, 1);
    assert_int_equal(flow->doubt, SRTT + 200);
    assert_int_equal(flow->rounds, 1);
    ask(5000, true);
    assert_int_equal(flow->now, 1);
    assert_int_equal(flow->rounds, 0);
    btl_ib_view_t none = question(5000, true);
    none.flags &= (uint8_t) ~BTL_IB_FLAG_ECHO;
    btl_ib_flow_asked(conn, &none);
    assert_int_equal(flow->now, 2);
    flow->now = 0;
    conn->loss.rtt = (btl_ib_rtt_t){0}; /* how far it is is not known */
    ask(199, false);
    assert_int_equal(flow->now, 0);
    ask(1, false);
    assert_int_equal(flow->now, 1);
}

/* The first question says nothing of answers, whatever it echoes: all flows stay tried, so that
 * addresses from which the peer's spare flow seems to come are still challenged. */
TEST_WITH(asked_first, set_up_flow, tear_down)
{
    btl_ib_view_t view = question(5000, true);

    view.echo = (uint32_t) engine->clock.now - 1;
    conn->loss.sample_echo = view.echo; /* as the last datagram did */
    flow->rounds = 1;
    btl_ib_flow_asked(conn, &view);
    assert_int_equal(flow->now, 0);
    assert_int_equal(flow->rounds, 1);
    assert_true(btl_ib_flow_unanswered(conn, &view));
    flow->question_at = 0;
    btl_ib_flow_came_by_spare(conn, &view);
    assert_int_equal(flow->now, 0);
    assert_int_equal(flow->rounds, 1);
    assert_int_equal(flow->question_at, engine->clock.now);
    ask(SRTT + 200, true);
    assert_int_equal(flow->rounds, 0);
}

/* A question by the peer's spare flow takes the own spare one at once. */
static uint8_t come_by_spare(btl_ib_type_t type, uint8_t flags, bool heard)
{
    btl_ib_view_t view = question(5000, heard);

    view.type = (uint8_t) type;
    view.flags = flags | BTL_IB_FLAG_ECHO;
    btl_ib_flow_came_by_spare(conn, &view);
    return flow->now;
}

TEST_WITH(asked_by_spare, set_up_flow, tear_down)
{
    const uint8_t now = BTL_IB_FLAG_ACK_NOW, again = BTL_IB_FLAG_RETRANSMISSION;

    assert_int_equal(come_by_spare(BTL_IB_TYPE_ACK, now, false), 0); /* the first one */
    assert_int_equal(come_by_spare(BTL_IB_TYPE_ACK, 0, false), 0);
    assert_int_equal(come_by_spare(BTL_IB_TYPE_DATA, now, false), 0);
    assert_int_equal(come_by_spare(BTL_IB_TYPE_DATA, again, false), 0);
    assert_int_equal(come_by_spare(BTL_IB_TYPE_ACK, now, true), 0);
    assert_int_equal(come_by_spare(BTL_IB_TYPE_ACK, now, false), SPARE);
    assert_int_equal(come_by_spare(BTL_IB_TYPE_DATA, now | again, false), SPARE + 1);
    flow->now = 1;
    assert_int_equal(come_by_spare(BTL_IB_TYPE_DATA, now | again, false), SPARE);
    flow->now = 0;
    no_spare();
    assert_int_equal(come_by_spare(BTL_IB_TYPE_ACK, now, false), 1);
}

/* Whether a datagram answers nothing, after all flows were tried. */
TEST_WITH(unanswered, set_up_flow, tear_down)
{
    btl_ib_protection_ops_t keyed = *engine->protection.ops;
    const btl_ib_protection_ops_t *before = engine->protection.ops;
    btl_ib_view_t view = {.flags = BTL_IB_FLAG_ECHO, .echo = 1001};

    conn->loss.sample_echo = 1000;
    assert_false(btl_ib_flow_unanswered(conn, &view));
    flow->rounds = 1;
    assert_false(btl_ib_flow_unanswered(conn, &view));
    view.echo = 1000;
    assert_true(btl_ib_flow_unanswered(conn, &view));
    view.echo = 1001;
    view.flags = 0;
    assert_true(btl_ib_flow_unanswered(conn, &view));
    view.flags = BTL_IB_FLAG_ECHO;
    keyed.keyed = true;
    engine->protection.ops = &keyed;
    assert_true(btl_ib_flow_unanswered(conn, &view)); /* nobody knows yet */
    engine->protection.ops = before;
}

/* ---- one lane of two ---- */

/* Bulk in flight by a lane of its own. */
static int set_up_lanes(void **state)
{
    (void) set_up_flow(state);
    attr->bulk_lane = true;
    leave_bulk(2);
    conn->transmit.bulk_lane = true;
    return 0;
}

TEST_WITH(left_for_a_path, set_up_lanes, tear_down)
{
    flow->doubt = 5;
    btl_ib_flow_leave_for(conn, SPARE + 1);
    assert_int_equal(flow->now, SPARE + 1);
    assert_int_equal(flow->left, 0);
    assert_int_equal(flow->doubt, 0);
    assert_true(flow->on_trial);
    assert_int_equal(engine->count.flows_tried, 1);
}

static uint8_t lose_copy(btl_ib_type_t type, uint32_t copies)
{
    const btl_ib_segment_t segment = {.type = (uint8_t) type, .copies = copies};

    flow->left = 2;
    btl_ib_flow_lost(conn, &segment);
    return flow->now;
}

/* Four copies of something short are lost: its lane is left for that of bulk. */
TEST_WITH(latency_lane_lost, set_up_lanes, tear_down)
{
    assert_int_equal(lose_copy(BTL_IB_TYPE_DATA, 3), 0);
    assert_int_equal(lose_copy(BTL_IB_TYPE_CHUNK, 4), 0);
    conn->transmit.bulk_lane = false;
    assert_int_equal(lose_copy(BTL_IB_TYPE_DATA, 4), 0);
    conn->transmit.bulk_lane = true;
    attr->flows = 2;
    assert_int_equal(lose_copy(BTL_IB_TYPE_DATA, 4), 0);
    attr->flows = FLOWS;
    assert_int_equal(engine->count.flows_tried, 0);
    assert_int_equal(lose_copy(BTL_IB_TYPE_DATA, 4), BTL_IB_FLOW_BULK);
    assert_int_equal(flow->left, 0);
    assert_int_equal(engine->count.flows_tried, 1);
    flow->now = 2; /* once one is left there are none */
    assert_int_equal(lose_copy(BTL_IB_TYPE_DATA, 4), 2);
}

/* Bulk was sent, or acknowledged last, `ago` us ago; what was sent `sent` us ago was answered
 * `heard` us ago. */
static bool misses(uint64_t ago, uint64_t sent, uint64_t heard)
{
    engine->clock.now += 1000 * MS;
    usual_bulk(0)->last_sent = 0;
    conn->loss.rack[BTL_IB_RACK_BULK].at = engine->clock.now - ago;
    conn->loss.sample_at = engine->clock.now - heard;
    conn->loss.sample_echo = (uint32_t) (engine->clock.now - sent);
    return btl_ib_flow_misses_bulk(conn);
}

/* Bulk that is not acknowledged for 4 ms, though what was sent in the second half of that is
 * answered, is asked for: the second and third question come 4 ms later each; before the third all
 * takes the latency lane. Then the gaps double. */
TEST_WITH(bulk_missed, set_up_lanes, tear_down)
{
    assert_false(misses(3999, 0, 0));
    assert_false(misses(4000, 2001, 0));
    assert_false(misses(4000, 0, 2001));
    assert_true(misses(4000, 2000, 2000));
    assert_false(misses(7999, 0, 0));
    assert_true(misses(8000, 2000, 2000));
    assert_false(misses(11999, 0, 0));
    assert_int_equal(flow->now, 0);
    assert_true(misses(12000, 2000, 2000));
    assert_int_equal(flow->now, BTL_IB_FLOW_LATENCY);
    assert_int_equal(flow->left, BTL_IB_FLOW_BULK);
    for (uint32_t asked = 3; asked < 12; asked++) {
        const uint64_t late = UINT64_C(4000) << asked;
        assert_int_equal(flow->bulk_asked, asked);
        engine->clock.now += late;
        assert_false(misses(late - 1, 0, 0));
        assert_true(misses(late, 2000, 2000));
    }
    engine->clock.now += 100000 * MS;
    assert_false(misses(100000 * MS, 0, 0)); /* no more than twelve */
    assert_false(misses(3999, 0, 0));
    assert_int_equal(flow->bulk_asked, 0);
    assert_true(misses(4000, 0, 0));
}

/* Of a peer farther away two timeouts, and its ACK delay, pass first. */
TEST_WITH(bulk_missed_of_afar, set_up_lanes, tear_down)
{
    conn->loss.rtt.srtt8 = 8 * 5000;
    assert_false(misses(2 * (5000 + VAR4) + DELAY - 1, 0, 0));
    assert_true(misses(2 * (5000 + VAR4) + DELAY, 5675, 5675));
    add_paths(1);
    path_of(0)->rtt = (btl_ib_rtt_t){.srtt8 = 8 * 9000, .rttvar4 = 400}; /* of the usual one */
    assert_false(misses(2 * (2 * (9000 + 400) + DELAY) - 1, 0, 0));
    assert_true(misses(2 * (2 * (9000 + 400) + DELAY), 0, 0));
}

/* It counts from the time of sending, of a copy that is no question. */
TEST_WITH(bulk_sent_lately, set_up_lanes, tear_down)
{
    engine->clock.now += 1000 * MS;
    conn->loss.sample_at = engine->clock.now;
    conn->loss.sample_echo = (uint32_t) engine->clock.now;
    usual_bulk(0)->last_sent = engine->clock.now - 3999;
    assert_false(btl_ib_flow_misses_bulk(conn));
    usual_bulk(0)->probe = true;
    usual_bulk(0)->unprobed_stamp = (uint32_t) engine->clock.now - 4000;
    assert_true(btl_ib_flow_misses_bulk(conn));
    usual_bulk(0)->probe = false;
}

TEST_WITH(bulk_not_missed, set_up_lanes, tear_down)
{
    attr->bulk_lane = false; /* then it is not apart */
    assert_false(misses(4000, 0, 0));
    attr->bulk_lane = true;
    conn->transmit.bulk_lane = false; /* it does not go by its lane now: asked, but nothing left */
    assert_true(misses(4000, 0, 0));
    assert_true(misses(8000, 0, 0));
    assert_true(misses(12000, 0, 0));
    assert_int_equal(flow->now, 0);
    assert_int_equal(flow->bulk_asked, 3);
    (void) btl_ib_sentmap_lose_all(conn);
    assert_false(btl_ib_flow_misses_bulk(conn));
    assert_int_equal(flow->bulk_asked, 0);
}

/* ---- checks of the flow that was left ---- */

static btl_ib_segment_t check; /* that is out */

/* Flow 1 was taken `ago` us ago, with what was sent `doubt` us before that in doubt. */
static void take_other(uint32_t ago, uint32_t doubt)
{
    flow->lost = 0;
    flow->now = 0;
    probing(2, doubt);
    engine->clock.now += ago;
}

/* What was sent `ago` us ago is answered. */
static void hear(uint32_t ago)
{
    btl_ib_flow_heard(conn, (uint32_t) (engine->clock.now - ago));
}

/* The first answer to what was sent by the new flow has the usual one checked. */
TEST_WITH(answered_by_another, set_up_flow, tear_down)
{
    take_other(500, 300);
    flow->rounds = 1;
    hear(801); /* it was sent before anything was in doubt */
    assert_int_equal(flow->now, 1);
    assert_int_equal(flow->rounds, 1);
    assert_false(flow->answered);
    assert_false(flow->to_check);
    hear(500);
    assert_int_equal(flow->now, 1);
    assert_int_equal(flow->worked, 1);
    assert_int_equal(flow->rounds, 0);
    assert_true(flow->answered);
    assert_true(flow->to_check);
    assert_false(flow->unreported);
    assert_int_equal(flow->usual_at, engine->clock.now + RETRY);
    assert_false(btl_ib_list_empty(&conn->ready));
    const uint64_t at = flow->usual_at;
    engine->clock.now++;
    hear(0);
    assert_int_equal(flow->usual_at, at);
}

/* What went by the usual flow is answered late: it leads there. */
TEST_WITH(answered_late, set_up_flow, tear_down)
{
    take_other(500, 300);
    hear(800);
    assert_int_equal(flow->now, 0);
    take_other(500, 300);
    hear(501);
    assert_int_equal(flow->now, 0);
    assert_false(flow->on_trial);
}

/* A check is out, in flight by the flow that was left. */
static btl_ib_segment_t *check_out(void)
{
    btl_ib_segment_t *segment;

    if (btl_ib_list_empty(&conn->sentmap.sent[BTL_IB_SENT_OTHERS])) {
        bench_send(bench, 0, 1, 20, 1);
        bench_clear(&bench->wire);
    }
    segment = segment_of(&conn->sentmap.sent[BTL_IB_SENT_OTHERS], 0);
    segment->last_sent = engine->clock.now;
    flow->to_check = true;
    flow->check_channel = 7; /* of the last one */
    btl_ib_flow_check_left(conn, segment);
    assert_true(flow->checking);
    assert_false(flow->to_check);
    return segment;
}

TEST_WITH(which_is_the_check, set_up_flow, tear_down)
{
    take_other(500, 300);
    check = *check_out();
    assert_true(btl_ib_flow_is_check(conn, &check));
    check.seq++;
    assert_false(btl_ib_flow_is_check(conn, &check));
    check.seq--;
    check.channel++;
    assert_false(btl_ib_flow_is_check(conn, &check));
    btl_ib_flow_arrived(conn, &check);
    assert_int_equal(flow->now, 1);
    btl_ib_flow_retransmitting(conn, &check);
    assert_true(flow->checking);
    check.channel--;
    flow->checking = false;
    assert_false(btl_ib_flow_is_check(conn, &check));
    flow->checking = true;
    flow->lost = 2;
    btl_ib_flow_arrived(conn, &check);
    assert_int_equal(flow->now, 0);
    assert_int_equal(flow->lost, 0);
}

/* Where the usual flow was left, and leads there again, a path is tried beside it at once. */
TEST_WITH(trials_beside_the_usual_flow, set_up_flow, tear_down)
{
    for (uint32_t lost = 2; lost <= 3; lost++) {
        take_other(500, 300);
        check = *check_out();
        conn->capped.next_at = 7;
        flow->lost = (uint8_t) lost;
        btl_ib_flow_arrived(conn, &check);
        assert_int_equal(conn->capped.next_at, lost < 3 ? 7 : 0);
    }
}

/* Bulk uses the usual path from then on only when it has its own flow again. */
TEST_WITH(usual_path_by_its_flow_again, set_up_flow, tear_down)
{
    assert_true(btl_ib_paths_add(conn));
    btl_ib_paths_t *paths = conn->capped.paths;
    btl_ib_flow_leave_for(conn, paths->path[1].flow);
    assert_int_equal(paths->path[0].off_until, 0);
    engine->clock.now += MS;
    check = *check_out();
    btl_ib_flow_arrived(conn, &check);
    assert_int_equal(flow->now, 0);
    assert_int_equal(paths->path[0].off_until, engine->clock.now);
    btl_ib_paths_end(conn);
}

/* A check is lost if something that was sent a timeout later is answered. */
TEST_WITH(check_lost, set_up_flow, tear_down)
{
    const uint32_t timeout = SRTT + VAR4 + DELAY;

    take_other(500, 300);
    hear(0);
    (void) check_out();
    engine->clock.now += timeout - 1;
    hear(0);
    assert_true(flow->checking);
    assert_int_equal(flow->lost, 0);
    assert_false(flow->to_check);
    engine->clock.now += 1;
    hear(0);
    assert_false(flow->checking);
    assert_int_equal(flow->lost, 1);
    assert_true(flow->to_check); /* the next one */
    assert_true(flow->on_trial);
}

/* One that is acknowledged is not lost, whatever is answered. */
TEST_WITH(check_over, set_up_flow, tear_down)
{
    take_other(500, 300);
    check = *check_out();
    flow->check_seq += 1000;
    engine->clock.now += 1000 * MS;
    hear(0);
    assert_true(flow->checking);
    assert_int_equal(flow->lost, 0);
}

static void lose_check(bool rnr)
{
    btl_ib_segment_t *segment = check_out();

    segment->rnr_copy = rnr ? segment->copies : 0;
    btl_ib_flow_retransmitting(conn, segment);
    segment->rnr_copy = 0;
}

/* Three checks in a row are lost: the usual flow is left, and checked again 8 s later, then 16 s,
 * up to two minutes. */
TEST_WITH(usual_one_left, set_up_flow, tear_down)
{
    take_other(500, 300);
    hear(0);
    for (uint32_t lost = 1; lost < 3; lost++) {
        lose_check(false);
        assert_int_equal(flow->lost, lost);
        assert_true(flow->on_trial);
        assert_int_equal(engine->count.flows_left, 0);
    }
    engine->turn.async = true; /* told when that thread has gone */
    lose_check(false);
    assert_false(flow->on_trial);
    assert_int_equal(engine->count.flows_left, 1);
    assert_int_equal(flow->usual_at, engine->clock.now + RETRY);
    assert_true(flow->unreported);
    btl_ib_flow_expire(conn);
    assert_int_equal(lines, 0);
    engine->turn.async = false;
    btl_ib_flow_expire(conn);
    assert_int_equal(lines, 1);
    assert_false(flow->unreported);
    assert_false(flow->spare_told);
    for (uint32_t lost = 4; lost < 10; lost++) {
        const uint32_t doublings = lost < 7 ? lost - 3 : 4;
        flow->on_trial = true;
        lose_check(false);
        assert_int_equal(flow->lost, lost);
        assert_false(flow->on_trial);
        assert_int_equal(flow->usual_at, engine->clock.now + ((uint64_t) RETRY << doublings));
    }
    assert_int_equal(engine->count.flows_left, 1);
    assert_int_equal(lines, 1);
    flow->lost = 255;
    lose_check(false);
    assert_int_equal(flow->lost, 255);
    lose_check(true); /* the peer had no room for it, but got it */
    assert_int_equal(flow->now, 0);
    assert_int_equal(flow->lost, 0);
}

/* Where the usual flow was left, and now the spare one alone is answered, that is told, once. */
TEST_WITH(spare_one_told, set_up_flow, tear_down)
{
    flow->lost = 3;
    flow->now = 1;
    flow->since = engine->clock.now;
    hear(0);
    assert_false(flow->unreported);
    probing(2, 0);
    assert_int_equal(flow->now, SPARE);
    flow->lost = 2;
    hear(0);
    assert_false(flow->unreported);
    flow->lost = 3;
    flow->answered = false;
    hear(0);
    assert_true(flow->unreported);
    btl_ib_flow_expire(conn);
    assert_int_equal(lines, 1);
    assert_true(flow->spare_told);
    btl_ib_flow_expire(conn);
    assert_int_equal(lines, 1);
    flow->answered = false;
    hear(0);
    assert_false(flow->unreported);
    flow->unreported = true; /* left once more, by whatever flow: it stays told */
    flow->now = 1;
    btl_ib_flow_expire(conn);
    assert_int_equal(lines, 2);
    assert_true(flow->spare_told);
}

/* Checks go on only while nobody knows. */
TEST_WITH(no_check_beside_another, set_up_flow, tear_down)
{
    take_other(500, 300);
    (void) check_out();
    engine->clock.now += 10;
    hear(0);
    assert_false(flow->to_check); /* one is out */
    flow->checking = flow->on_trial = false;
    hear(0);
    assert_false(flow->to_check);
}

/* A flow that was never answered is left for the usual one after a second; one that was has this
 * checked, again and again. */
TEST_WITH(expired, set_up_flow, tear_down)
{
    flow->usual_at = 0;
    flow->answered = true;
    btl_ib_flow_expire(conn); /* the usual one: there is nothing to expire */
    assert_false(flow->on_trial);
    take_other(0, 300);
    engine->clock.now += SECOND_OF_TRIAL - 1;
    btl_ib_flow_expire(conn);
    assert_int_equal(flow->now, 1);
    engine->clock.now++;
    flow->lent = true;
    btl_ib_flow_expire(conn);
    assert_int_equal(flow->now, 1);
    flow->lent = false;
    btl_ib_flow_expire(conn);
    assert_int_equal(flow->now, 0);
    assert_false(flow->on_trial);
    take_other(500, 300);
    hear(0);
    flow->on_trial = false; /* it was left */
    engine->clock.now += RETRY - 1;
    btl_ib_flow_expire(conn);
    assert_false(flow->on_trial);
    engine->clock.now++;
    btl_ib_flow_expire(conn);
    assert_true(flow->on_trial);
    assert_int_equal(flow->usual_at, engine->clock.now + RETRY);
    assert_int_equal(flow->now, 1);
    assert_int_equal(lines, 0);
}

static bool name_flow(const btl_ib_transport_t *transport, btl_ib_addr_t addr, uint32_t number,
                      char *out, size_t len)
{
    (void) snprintf(out, len, "port %u", number);
    return addr == conn->route.to;
}

/* Ports are named where the transport knows them. */
TEST_WITH(named, set_up_flow, tear_down)
{
    btl_ib_transport_ops_t ops = *conn->route.via->transport->ops;
    const btl_ib_transport_ops_t *const before = conn->route.via->transport->ops;
    const btl_ib_addr_t to = conn->route.to;
    char text[32];

    flow->now = 4;
    flow->left = 2;
    flow->usual_at = engine->clock.now + 1;
    assert_false(btl_ib_conn_flow_text(conn, true, text, sizeof(text)));
    flow->unreported = true;
    btl_ib_flow_expire(conn);
    assert_non_null(strstr(line, "from the usual ports;"));
    assert_non_null(strstr(line, "from other ports is"));
    ops.flow_text = name_flow;
    conn->route.via->transport->ops = &ops;
    assert_true(btl_ib_conn_flow_text(conn, true, text, sizeof(text)));
    assert_string_equal(text, "port 2");
    assert_true(btl_ib_conn_flow_text(conn, false, text, sizeof(text)));
    assert_string_equal(text, "port 4");
    flow->unreported = true;
    btl_ib_flow_expire(conn);
    conn->route.to = BTL_IB_ADDR_UNKNOWN;
    assert_false(btl_ib_conn_flow_text(conn, true, text, sizeof(text)));
    conn->route.to = to;
    conn->route.via->transport->ops = before;
    assert_int_equal(lines, 2);
    assert_non_null(strstr(line, "from port 2;"));
    assert_non_null(strstr(line, "from port 4 is"));
}

UNIT_MAIN(NULL, NULL)
