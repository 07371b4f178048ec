/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Loss of one connection, verb by verb: what arrived, what counts as lost and when, and when a
 * probe is due. */

#include <stdlib.h>
#include <string.h>

#include "btl_ib_loss.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum {
    SRTT = 1000,  /* us, as all of these */
    VAR4 = 600,   /* four deviations of it */
    DELAY = 150,  /* of the peer's ACKs */
    REO_MIN = 20, /* the reordering window while no reordering was seen */
    MANY = 66,    /* probes: a timeout shifted by as many has no bits left */
};

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static btl_ib_loss_t *loss;

/* What congestion control was told. */
static btl_ib_cc_ops_t ops;
static btl_ib_cc_ack_t told;
static uint32_t lost, undone;

static btl_ib_cc_round_t note_acked(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    told = *ack;
    return BTL_IB_CC_ROUND_NONE;
}

static void note_lost(btl_ib_cc_t *cc, uint64_t sent_at, uint64_t now)
{
    lost++;
}

static void note_undo(btl_ib_cc_t *cc)
{
    undone++;
}

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    loss = &conn->loss;
    loss->rtt = (btl_ib_rtt_t){.srtt8 = 8 * SRTT, .rttvar4 = VAR4, .min = SRTT};
    loss->pauses = (btl_ib_pauses_t){0};
    conn->identity.peer_ack_delay = DELAY;
    ops = btl_ib_cc_swift;
    ops.acked = note_acked;
    ops.lost = note_lost;
    ops.undo = note_undo;
    conn->cc.ops = &ops;
    lost = undone = 0;
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* Leaves `count` messages in flight, each of which left alone, 10 us after the one before. */
static void leave(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bench->now += 10;
        bench_turn(bench, 0);
        bench_send(bench, 0, 1, 100, 1);
    }
    assert_int_equal(conn->sentmap.in_flight, count);
    bench_clear(&bench->wire);
}

static btl_ib_segment_t *in_flight(uint32_t number)
{
    btl_ib_list_t *list = &conn->sentmap.sent[BTL_IB_SENT_OTHERS];
    btl_ib_list_t *item = btl_ib_list_first(list);

    while (number-- > 0) {
        item = btl_ib_list_next(list, item);
    }
    assert_non_null(item);
    return BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
}

/* ---- when a probe is due ---- */

static uint64_t timeout_after(uint32_t probes)
{
    loss->probes = probes;
    return btl_ib_loss_probe_timeout(conn);
}

TEST_WITH(lossy_timeouts, set_up, tear_down)
{
    const uint32_t most = engine->config.rto_max;

    leave(1);
    assert_int_equal(timeout_after(0), SRTT + VAR4 + DELAY);
    loss->rtt.rttvar4 = 2000; /* two round trips are sooner */
    assert_int_equal(timeout_after(0), 2 * SRTT + DELAY);
    assert_int_equal(timeout_after(1), SRTT + 2000 + DELAY);
    loss->rtt.rttvar4 = VAR4;
    for (uint32_t i = 1; i < 7; i++) {
        assert_int_equal(timeout_after(i), (SRTT + VAR4 + DELAY) << (i - 1));
    }
    assert_int_equal(timeout_after(8), most);
    assert_int_equal(timeout_after(MANY), most);
    loss->rtt = (btl_ib_rtt_t){.srtt8 = 8 * 10, .rttvar4 = 50, .min = 10};
    assert_int_equal(timeout_after(0), 200); /* nothing is sooner */
    assert_int_equal(timeout_after(1), engine->config.rto_min);
    loss->rtt.srtt8 = 8 * 2 * most;
    assert_int_equal(timeout_after(0), most);
    assert_int_equal(timeout_after(1), most);
}

/* A peer that pauses now and then is given that time, but not by the first probe. */
TEST_WITH(timeouts_of_one_that_pauses, set_up, tear_down)
{
    leave(1);
    btl_ib_pauses_note(&loss->pauses, 5000, engine->clock.now);
    assert_int_equal(timeout_after(0), SRTT + VAR4 + DELAY);
    assert_int_equal(timeout_after(1), 5000);
    assert_int_equal(timeout_after(2), 2 * 5000);
}

TEST_WITH(timeouts_of_what_waits, set_up, tear_down)
{
    const uint32_t most = engine->config.rto_max;

    conn->ops.answers = 1; /* the peer repeats them itself */
    assert_true(btl_ib_loss_only_answers(conn));
    assert_int_equal(timeout_after(0), most);
    assert_int_equal(timeout_after(3), most);
    loss->blocked_since = 1;
    assert_false(btl_ib_loss_only_answers(conn));
    assert_int_equal(timeout_after(0), SRTT + VAR4 + DELAY);
    conn->ops.answers = 0;
    assert_false(btl_ib_loss_only_answers(conn));
    loss->blocked_since = 0; /* nothing waits, or SKIPs alone */
    assert_false(btl_ib_loss_only_answers(conn));
    assert_int_equal(timeout_after(0), engine->config.idle_after);
    assert_int_equal(timeout_after(2), 4 * engine->config.idle_after);
    loss->half_probed = true;
    assert_int_equal(timeout_after(2), 200);
}

/* A peer that has answered that it cannot accept us now is asked seldom, until it knows us. */
TEST_WITH(timeouts_after_a_response, set_up, tear_down)
{
    const uint64_t least = engine->config.rto_max;

    leave(1);
    loss->path_response = true;
    assert_int_equal(timeout_after(0), SRTT + VAR4 + DELAY);
    conn->identity.peer_knows = false;
    assert_int_equal(timeout_after(0), least);
    assert_int_equal(timeout_after(3), 8 * least);
    assert_int_equal(timeout_after(4), 16 * least);
    assert_int_equal(timeout_after(5), 16 * least);
    loss->path_response = false;
    assert_int_equal(timeout_after(0), SRTT + VAR4 + DELAY);
    conn->identity.peer_knows = true;
}

TEST_WITH(reliable_timeouts, set_up, tear_down)
{
    const uint64_t least = engine->config.rto_max;

    leave(1);
    conn->rail->transport->attr.reliable = true;
    assert_int_equal(timeout_after(0), least);
    assert_int_equal(timeout_after(1), 2 * least);
    assert_int_equal(timeout_after(4), 16 * least);
    assert_int_equal(timeout_after(MANY), 16 * least);
    loss->rtt.srtt8 = 8 * 300000;
    assert_int_equal(timeout_after(0), 300000 + VAR4 + DELAY);
    assert_int_equal(timeout_after(4), 16 * least);
    conn->identity.bound = false; /* it may have had no room for us: it does not say so */
    assert_int_equal(timeout_after(0), least);
    assert_int_equal(timeout_after(3), least);
    conn->identity.bound = true;
    loss->disconnected = true; /* then as on any other */
    loss->rtt.srtt8 = 8 * SRTT;
    assert_int_equal(timeout_after(0), SRTT + VAR4 + DELAY);
    loss->disconnected = false;
    conn->rail->transport->attr.reliable = false;
}

TEST_WITH(what_waits, set_up, tear_down)
{
    static const struct {
        uint32_t unacked, skips, answers, probes;
        bool blocked, disconnected, waits;
    } cases[] = {
        {0, 0, 0, 0, false, false, false},  {1, 0, 0, 0, false, false, true},
        {0, 0, 1, 0, false, false, true},   {0, 0, 0, 0, true, false, true},
        {1, 1, 0, 4, false, false, true}, /* SKIPs are sent again with the next traffic */
        {1, 1, 0, 5, false, false, false},  {2, 1, 0, 5, false, false, true},
        {1, 1, 1, 5, false, false, true},   {1, 1, 0, 5, true, false, true},
        {0, 0, 0, 11, false, true, true},   {0, 0, 0, 12, false, true, false},
        {0, 0, 0, 11, false, false, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        conn->sentmap.unacked = cases[i].unacked;
        conn->sentmap.skips = cases[i].skips;
        conn->ops.answers = cases[i].answers;
        loss->blocked_since = cases[i].blocked;
        loss->disconnected = cases[i].disconnected;
        loss->probes = cases[i].probes;
        assert_int_equal(btl_ib_loss_waits(conn), cases[i].waits);
    }
    conn->sentmap.unacked = conn->sentmap.skips = 0;
    conn->ops.answers = 0;
    loss->blocked_since = 0;
    loss->disconnected = false;
}

/* Since when something waits, of all that does; a SKIP does not. */
TEST_WITH(waits_since, set_up, tear_down)
{
    assert_true(btl_ib_loss_waiting_since(conn) == UINT64_MAX);
    leave(3);
    in_flight(0)->first_sent = 700;
    in_flight(1)->first_sent = 600;
    in_flight(2)->first_sent = 800;
    assert_int_equal(btl_ib_loss_waiting_since(conn), 600);
    in_flight(1)->type = BTL_IB_TYPE_SKIP;
    assert_int_equal(btl_ib_loss_waiting_since(conn), 700);
    in_flight(1)->type = BTL_IB_TYPE_DATA;
    btl_ib_sentmap_to_lost(conn, in_flight(1));
    assert_int_equal(btl_ib_loss_waiting_since(conn), 600);
    loss->blocked_since = 500;
    assert_int_equal(btl_ib_loss_waiting_since(conn), 500);
    conn->ops.answers = 1;
    conn->ops.answer_since = 400;
    loss->heard_at = 450; /* one that is heard lives */
    assert_int_equal(btl_ib_loss_waiting_since(conn), 450);
    conn->ops.answer_since = 460;
    assert_int_equal(btl_ib_loss_waiting_since(conn), 460);
    conn->ops.answers = 0;
}

/* The timer is set for a loss that may be found, or for the next probe, whichever is first, and
 * never put off. */
TEST_WITH(timer, set_up, tear_down)
{
    btl_ib_hotel_guest_t *guest = &loss->timer.guest;

    btl_ib_hotel_checkout(&engine->hotel, guest);
    btl_ib_loss_set_timer(conn);
    assert_false(btl_ib_hotel_guest_is_in(guest)); /* nothing waits */
    leave(2);
    btl_ib_hotel_checkout(&engine->hotel, guest);
    loss->probe_base = engine->clock.now;
    btl_ib_loss_set_timer(conn);
    const uint64_t probe = loss->probe_base + SRTT + VAR4 + DELAY;
    assert_int_equal(guest->due, probe);
    loss->probe_base += 100; /* an earlier time stays */
    btl_ib_loss_set_timer(conn);
    assert_int_equal(guest->due, probe);
    loss->probe_base -= 200;
    btl_ib_loss_set_timer(conn);
    assert_int_equal(guest->due, probe - 100);
    loss->rack[BTL_IB_RACK_ALL] = (btl_ib_rack_t){.order = in_flight(1)->order,
                                                  .xmit_ts = in_flight(0)->last_sent + 5,
                                                  .at = engine->clock.now};
    loss->acked_by_header = false;
    btl_ib_loss_set_timer(conn);
    assert_int_equal(guest->due, engine->clock.now + REO_MIN - 5);
    assert_int_equal(loss->least, 200);
}

/* ---- what is lost ---- */

/* `ahead` us before the newest that arrived now the oldest was sent. Returns in how many us it is
 * lost. */
static uint64_t lost_in(uint32_t ahead)
{
    loss->rack[BTL_IB_RACK_ALL] = (btl_ib_rack_t){
        .order = conn->sentmap.order,
        .xmit_ts = in_flight(0)->last_sent + ahead,
        .at = engine->clock.now,
    };
    return btl_ib_loss_check_at(conn) - engine->clock.now;
}

TEST_WITH(overtaken, set_up, tear_down)
{
    leave(3);
    loss->acked_by_header = false;
    assert_int_equal(lost_in(0), REO_MIN);
    assert_int_equal(lost_in(REO_MIN - 1), 1);
    assert_int_equal(lost_in(REO_MIN), 0);
    assert_int_equal(lost_in(100), 0);
    loss->reo_wnd_mult = 2;
    assert_int_equal(lost_in(0), SRTT / 2);
    loss->reo_wnd_mult = 64; /* a round trip is the most, */
    assert_int_equal(lost_in(100), SRTT - 100);
    loss->rtt.srtt8 = 8 * 100; /* or half a millisecond */
    assert_int_equal(lost_in(0), 500);
    loss->rack[BTL_IB_RACK_ALL].order = in_flight(0)->order; /* nothing overtook it */
    assert_true(btl_ib_loss_check_at(conn) == UINT64_MAX);
}

/* On a reliable transport nothing overtakes in a channel, and other channels say nothing. */
TEST_WITH(overtaken_on_a_reliable_one, set_up, tear_down)
{
    leave(2);
    conn->rail->transport->attr.reliable = true;
    loss->acked_by_header = false;
    conn->tx[in_flight(0)->channel].loss.arrived = 0;
    loss->reo_wnd_mult = 64;
    lost_in(0);
    assert_true(btl_ib_loss_check_at(conn) == UINT64_MAX);
    conn->tx[in_flight(0)->channel].loss.arrived = in_flight(1)->order;
    assert_int_equal(lost_in(0), 0);
    conn->rail->transport->attr.reliable = false;
}

/* After what a header acknowledged the peer has time to acknowledge the rest: what is older than
 * the mark is lost then, and a new mark is set. */
TEST_WITH(marked, set_up, tear_down)
{
    const uint64_t rest = REO_MIN + DELAY + VAR4;
    btl_ib_rack_t *rack = &loss->rack[BTL_IB_RACK_ALL];

    leave(3);
    loss->acked_by_header = true;
    *rack = (btl_ib_rack_t){.order = in_flight(2)->order, .mark_order = in_flight(1)->order};
    rack->mark_at = engine->clock.now;
    assert_int_equal(btl_ib_loss_check_at(conn), engine->clock.now + rest);
    engine->clock.now += rest - 1;
    btl_ib_loss_detect(conn);
    assert_int_equal(engine->count.losses, 0);
    assert_int_equal(rack->mark_order, in_flight(1)->order);
    engine->clock.now++;
    btl_ib_loss_detect(conn); /* the first; the second is not older than the mark */
    assert_int_equal(engine->count.losses, 1);
    assert_int_equal(lost, 1);
    assert_int_equal(rack->mark_order, in_flight(1)->order);
    assert_int_equal(rack->mark_at, engine->clock.now);
    engine->clock.now += rest;
    btl_ib_loss_detect(conn);
    assert_int_equal(engine->count.losses, 2);
    engine->clock.now += rest;
    btl_ib_loss_detect(conn); /* nothing was sent after the third */
    assert_int_equal(engine->count.losses, 2);
}

/* What got RNR arrived: it is sent again, and was not lost. */
TEST_WITH(rnr_is_no_loss, set_up, tear_down)
{
    leave(3);
    loss->acked_by_header = false;
    btl_ib_segment_t *first = in_flight(0), *second = in_flight(1);
    first->rnr_copy = first->copies;
    (void) lost_in(100);
    btl_ib_loss_detect(conn);
    assert_true(first->lost && second->lost);
    assert_int_equal(first->cc_lost_copy, 0);
    assert_int_equal(second->cc_lost_copy, second->copies);
    assert_int_equal(lost, 1);
    assert_int_equal(engine->count.losses, 1);
    assert_int_equal(conn->count.losses, 1);
    assert_int_equal(loss->reo_wnd_persist, 1);
    assert_false(btl_ib_list_empty(&conn->ready)); /* they are sent again */
}

/* A loss that no answer to a question showed may be of the size, but does not show it. */
TEST_WITH(losses_of_a_size, set_up, tear_down)
{
    uint32_t losses = 0, shown = 0;

    loss->acked_by_header = false;
    for (uint32_t i = 0; i < 3; i++) {
        bench->now += 10;
        bench_turn(bench, 0);
        bench_send(bench, 0, 1, 1300, 1);
    }
    bench_clear(&bench->wire);
    (void) lost_in(100);
    btl_ib_loss_detect(conn);
    assert_int_equal(engine->count.losses, 2);
    for (int i = 0; i < BTL_IB_SIZE_LOSSES; i++) {
        losses += conn->pmtud.streaks[i].losses;
        shown += conn->pmtud.streaks[i].shown;
    }
    assert_int_equal(losses, 1); /* the second was sent before that was known */
    assert_int_equal(shown, 0);
}

/* What arrived by each path is marked, as headers do not tell of all. */
TEST_WITH(marks_of_paths, set_up, tear_down)
{
    btl_ib_paths_t *paths = calloc(1, sizeof(*paths) + 3 * sizeof(paths->path[0]));

    assert_non_null(paths);
    paths->count = 3;
    for (uint32_t i = 0; i < 3; i++) {
        btl_ib_list_init(&paths->path[i].sent);
        paths->path[i].rack.order = 10 + i;
    }
    conn->capped.paths = paths;
    loss->acked_by_header = false;
    btl_ib_loss_detect(conn);
    assert_int_equal(paths->path[2].rack.mark_order, 0);
    loss->acked_by_header = true;
    btl_ib_loss_detect(conn);
    assert_int_equal(paths->path[0].rack.mark_order, 0); /* which is the connection's */
    assert_int_equal(paths->path[1].rack.mark_order, 11);
    assert_int_equal(paths->path[2].rack.mark_order, 12);
    assert_int_equal(paths->path[2].rack.mark_at, engine->clock.now);
    conn->capped.paths = NULL;
    free(paths);
}

/* After 16 losses in a row no reordering is expected any more. */
TEST_WITH(reordering_is_forgotten, set_up, tear_down)
{
    leave(4);
    loss->acked_by_header = false;
    loss->reo_wnd_mult = 8;
    loss->reo_wnd_persist = 13;
    (void) lost_in(5000);
    for (uint32_t i = 1; i <= 2; i++) {
        loss->rack[BTL_IB_RACK_ALL].order = in_flight(1)->order;
        btl_ib_loss_detect(conn);
        assert_int_equal(loss->reo_wnd_persist, 13 + i);
        assert_int_equal(loss->reo_wnd_mult, 8);
    }
    loss->rack[BTL_IB_RACK_ALL].order = conn->sentmap.order;
    btl_ib_loss_detect(conn);
    assert_int_equal(loss->reo_wnd_persist, 0);
    assert_int_equal(loss->reo_wnd_mult, 0);
}

/* All that is in flight is lost with the transport's connection, and a probe asks. */
TEST_WITH(disconnected, set_up, tear_down)
{
    leave(2);
    loss->probes = 3;
    btl_ib_hotel_checkout(&engine->hotel, &loss->timer.guest);
    btl_ib_loss_disconnected(conn);
    assert_int_equal(conn->sentmap.in_flight, 0);
    assert_int_equal(engine->count.losses, 2);
    assert_int_equal(conn->count.losses, 2);
    assert_false(btl_ib_list_empty(&conn->ready));
    assert_int_equal(loss->probes, 0);
    assert_true(loss->disconnected);
    assert_true(btl_ib_hotel_guest_is_in(&loss->timer.guest));
    assert_int_equal(loss->timer.guest.due, loss->probe_base + SRTT + VAR4 + DELAY);
}

/* ---- what arrived ---- */

/* A copy of a short message that was last sent at `sent_at`, and is acknowledged. */
static btl_ib_segment_t copy_of(uint32_t copies, uint64_t sent_at, uint32_t cc_lost_copy)
{
    return (btl_ib_segment_t){
        .type = BTL_IB_TYPE_DATA,
        .copies = copies,
        .last_sent = sent_at,
        .cc_lost_copy = cc_lost_copy,
        .order = loss->rack[BTL_IB_RACK_ALL].order + 1,
    };
}

/* Returns whether its arrival counts, and in `undone` what congestion control takes back. */
static bool arrives(const btl_ib_segment_t *segment, bool echo_valid, uint64_t echo)
{
    undone = 0;
    loss->reorder_at = 0;
    loss->reo_wnd_mult = 0;
    btl_ib_loss_update_rack(conn, segment, echo_valid, (uint32_t) echo);
    return loss->rack[BTL_IB_RACK_ALL].order == segment->order;
}

/* protocol: R66 */
TEST_WITH(which_copy_arrived, set_up, tear_down)
{
    const uint64_t now = engine->clock.now;
    btl_ib_segment_t once = copy_of(1, now, 0);

    assert_true(arrives(&once, true, now - 5000));
    btl_ib_segment_t soon = copy_of(2, now - SRTT + 1, 1); /* it had no time to get there */
    assert_false(arrives(&soon, false, 0));
    assert_int_equal(undone, 1);
    btl_ib_segment_t late = copy_of(2, now - SRTT, 1);
    assert_false(arrives(&late, true, now - SRTT - 1)); /* of an earlier copy */
    assert_int_equal(undone, 1);
    assert_true(arrives(&late, true, now - SRTT));
    assert_int_equal(undone, 0);
    late = copy_of(2, now - SRTT, 1);
    assert_true(arrives(&late, false, now - SRTT - 1));
    btl_ib_segment_t again = copy_of(3, now, 1); /* a later copy was not sent for that loss */
    assert_false(arrives(&again, false, 0));
    assert_int_equal(undone, 0);
    btl_ib_segment_t not_lost = copy_of(2, now, 0);
    assert_false(arrives(&not_lost, false, 0));
    assert_int_equal(undone, 0);
    btl_ib_segment_t first = copy_of(1, now, 0); /* nobody lost it */
    first.probe = false;
    assert_true(arrives(&first, false, 0));
    assert_int_equal(undone, 0);
    btl_ib_segment_t probe = copy_of(2, now, 1);
    probe.probe = true;
    assert_false(arrives(&probe, false, 0));
    assert_int_equal(undone, 0);
}

/* One that was found lost, and arrives before it is sent again, was late. */
TEST_WITH(found_lost_and_late, set_up, tear_down)
{
    const uint64_t now = engine->clock.now;
    btl_ib_segment_t late = copy_of(1, now - 5000, 1);

    late.lost = true;
    assert_true(arrives(&late, true, now - 5000));
    assert_int_equal(undone, 1);
    assert_int_equal(loss->reo_wnd_mult, 1);
    btl_ib_segment_t other = copy_of(2, now - 5000, 1); /* lost for another reason since */
    other.lost = true;
    other.probe = true;
    assert_true(arrives(&other, true, now - 5000));
    assert_int_equal(undone, 0);
    assert_int_equal(loss->reo_wnd_mult, 0);
}

/* Bulk counts among its like, too; by a lane that others may overtake a probe says nothing, but the
 * copy before it. */
TEST_WITH(bulk_arrived, set_up, tear_down)
{
    btl_ib_rack_t *all = &loss->rack[BTL_IB_RACK_ALL], *bulk = &loss->rack[BTL_IB_RACK_BULK];
    const uint64_t now = engine->clock.now;
    btl_ib_segment_t segment = copy_of(1, now - 70, 0);
    uint64_t *newest = &conn->tx[0].loss.arrived;

    assert_true(arrives(&segment, true, now));
    assert_int_equal(all->xmit_ts, now - 70);
    assert_int_equal(*newest, segment.order);
    assert_int_not_equal(bulk->order, segment.order);
    segment = copy_of(1, now - 60, 0);
    segment.type = BTL_IB_TYPE_CHUNK;
    assert_true(arrives(&segment, true, now));
    assert_int_equal(bulk->order, segment.order);
    assert_int_equal(bulk->xmit_ts, now - 60);
    assert_int_equal(bulk->at, now);
    conn->rail->transport->attr.bulk_lane = true;
    segment = copy_of(1, now - 50, 0);
    segment.type = BTL_IB_TYPE_CHUNK;
    segment.probe = true;
    segment.unprobed_order = segment.order++;
    segment.unprobed_stamp = (uint32_t) (now - 90);
    assert_false(arrives(&segment, true, now));
    assert_int_equal(all->order, segment.unprobed_order);
    assert_int_equal(bulk->order, segment.unprobed_order);
    assert_int_equal(all->xmit_ts, now - 90);
    assert_int_equal(bulk->xmit_ts, now - 90);
    segment.probe = false;
    assert_true(arrives(&segment, true, now));
    segment = copy_of(1, now - 40, 0); /* a short one is overtaken by nothing */
    segment.probe = true;
    assert_true(arrives(&segment, true, now));
    conn->rail->transport->attr.bulk_lane = false;
}

/* Returns how many retransmissions count as spurious when the peer has counted so many duplicates,
 * `at` us after the beginning. */
static uint64_t counted(uint16_t duplicates, uint64_t at)
{
    const uint64_t before = engine->count.retransmits_spurious;
    const uint64_t now = engine->clock.now;
    const uint64_t of_conn = conn->count.retransmits_spurious;

    engine->clock.now += at;
    btl_ib_loss_duplicates(conn, 0, duplicates);
    engine->clock.now = now;
    assert_int_equal(conn->count.retransmits_spurious - of_conn,
                     engine->count.retransmits_spurious - before);
    return engine->count.retransmits_spurious - before;
}

TEST_WITH(duplicates, set_up, tear_down)
{
    engine->count.retransmits += 20;
    conn->count.retransmits += 20;
    loss->reorder_at = engine->clock.now;
    loss->reo_wnd_persist = 7;
    assert_int_equal(counted(3, SRTT - 1), 3);
    assert_int_equal(loss->reo_wnd_mult, 0); /* all of one round trip may have one reason */
    assert_int_equal(loss->reo_wnd_persist, 0);
    assert_int_equal(counted(4, SRTT), 1);
    assert_int_equal(loss->reo_wnd_mult, 1);
    assert_int_equal(loss->reorder_at, engine->clock.now + SRTT);
    assert_int_equal(counted(4, 2 * SRTT), 0);
    assert_int_equal(counted(3, 2 * SRTT), 0); /* an ACK that was overtaken */
    assert_int_equal(conn->tx[0].loss.duplicates, 4);
    assert_int_equal(counted(5, 2 * SRTT), 1);
    assert_int_equal(loss->reo_wnd_mult, 2);
    loss->reo_wnd_mult = 32;
    assert_int_equal(counted(6, 9 * SRTT), 1);
    assert_int_equal(counted(7, 10 * SRTT), 1);
    assert_int_equal(loss->reo_wnd_mult, 64);
    conn->tx[0].loss.duplicates = UINT16_MAX; /* it wraps */
    assert_int_equal(counted(1, 0), 2);
    conn->tx[0].loss.duplicates = 0;
    assert_int_equal(counted(INT16_MAX + 1, 0), 0);
    assert_int_equal(counted(INT16_MAX, 0), 20 - 9); /* no more than were sent again */
    conn->tx[0].loss.duplicates = 0;
}

/* Before a round trip is known none need have passed. */
TEST_WITH(duplicates_before_a_round_trip, set_up, tear_down)
{
    engine->count.retransmits += 9;
    conn->count.retransmits += 9;
    loss->rtt = (btl_ib_rtt_t){0};
    loss->reorder_at = engine->clock.now;
    assert_int_equal(counted(1, 0), 1);
    assert_int_equal(loss->reo_wnd_mult, 1);
}

/* Probes that were not needed say nothing of reordering. */
TEST_WITH(duplicates_of_probes, set_up, tear_down)
{
    engine->count.retransmits += 9;
    conn->count.retransmits += 9;
    loss->probed = 3;
    loss->reorder_at = 0;
    assert_int_equal(counted(2, 0), 2);
    assert_int_equal(loss->probed, 1);
    assert_int_equal(loss->reo_wnd_mult, 0);
    assert_int_equal(counted(3, 0), 1);
    assert_int_equal(loss->probed, 0);
    assert_int_equal(loss->reo_wnd_mult, 0);
    loss->probed = 1;
    assert_int_equal(counted(5, 0), 2);
    assert_int_equal(loss->probed, 0);
    assert_int_equal(loss->reo_wnd_mult, 1);
}

/* ---- round trips ---- */

/* Takes in a datagram that echoes what was stamped `ago` us ago, and was held for `hold` us.
 * Returns the sample. */
static uint32_t sample(uint32_t flags, uint64_t ago, uint32_t hold)
{
    loss->sample = loss->sample_hosts = loss->sample_pauses = 99;
    btl_ib_loss_datagram_received(conn, flags, (uint32_t) engine->clock.now,
                                  (uint32_t) (engine->clock.now - ago), hold, 30);
    if (loss->sample == 0) {
        assert_int_equal(loss->sample_hosts, 0);
        assert_int_equal(loss->sample_pauses, 0);
    }
    return loss->sample;
}

TEST_WITH(samples, set_up, tear_down)
{
    bench->now += 100 * SECOND;
    bench_turn(bench, 0);
    engine->turn.poll_gap = 20;
    engine->turn.pause = 0;
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 900, 300), 600);
    assert_int_equal(loss->sample_hosts, 20 + 30);
    assert_int_equal(loss->sample_pauses, 0);
    assert_int_equal(loss->sample_at, engine->clock.now);
    assert_int_equal(loss->rtt.min, 600);
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 900, 300), 0); /* the same again, */
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 901, 300), 0); /* and an older one */
    assert_int_equal(sample(0, 800, 300), 0);
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 800, BTL_IB_HOLD_UNKNOWN), 0);
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 800, 801), 0); /* held for longer than it took */
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 800, 800), 1); /* at once */
    assert_int_equal(loss->sample_hosts, 0);                 /* no host waited */
    engine->turn.pause = 40;
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 700, 500), 200);
    assert_int_equal(loss->sample_pauses, 40);
    engine->turn.pause = 500;
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 600, 500), 100);
    assert_int_equal(loss->sample_pauses, 100);
    engine->turn.pause = 0;
    loss->sample_at = engine->clock.now - BTL_IB_STAMP_AGE;
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 600, 500), 0);
    loss->sample_at--; /* stamps that old are not compared */
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 600, 500), 100);
    loss->rtt.srtt8 = 0; /* no stamp is as old */
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, (uint64_t) INT32_MAX + 1, 0), 0);
}

/* One answer that is very late says that the peer's process was away. */
TEST_WITH(late_samples, set_up, tear_down)
{
    bench->now += 100 * SECOND;
    bench_turn(bench, 0);
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 100000, 0), 100000);
    assert_int_equal(loss->rtt.srtt8 / 8, (7 * SRTT + 2 * (SRTT + VAR4)) / 8);
    loss->rtt = (btl_ib_rtt_t){0};
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 90000, 0), 90000);
    assert_int_equal(loss->rtt.srtt8 / 8, engine->config.rto_initial);
    loss->rtt = (btl_ib_rtt_t){0}; /* the first of a path may be of any stamp */
    assert_int_equal(sample(BTL_IB_FLAG_ECHO, 95000, 0), 95000);
}

/* Only what echoes a stamp that is no older than the first unanswered probe answers it. */
TEST_WITH(answered_probes, set_up, tear_down)
{
    loss->unanswered_probes = 2;
    loss->asked_at = engine->clock.now - 500;
    loss->disconnected = true;
    loss->refused_since = 5;
    loss->heard_at = 0;
    (void) sample(BTL_IB_FLAG_ECHO, 501, 0);
    assert_int_equal(loss->unanswered_probes, 2);
    assert_false(loss->disconnected);
    assert_int_equal(loss->refused_since, 0);
    assert_int_equal(loss->heard_at, engine->clock.awake);
    assert_int_equal(loss->no_tag_at, 0);
    (void) sample(0, 0, 0);
    assert_int_equal(loss->unanswered_probes, 2);
    (void) sample(BTL_IB_FLAG_ECHO | BTL_IB_FLAG_NO_TAG, 500, 0);
    assert_int_equal(loss->unanswered_probes, 0);
    assert_int_equal(loss->no_tag_at, engine->clock.awake);
}

/* A flow that is on trial is told of each echo. */
TEST_WITH(flows_on_trial, set_up, tear_down)
{
    conn->flow.now = 1;
    conn->flow.worked = 0;
    (void) sample(BTL_IB_FLAG_ECHO, 10, 0);
    assert_int_equal(conn->flow.worked, 0); /* it is not */
    conn->flow.on_trial = true;
    (void) sample(0, 9, 0);
    assert_int_equal(conn->flow.worked, 0);
    (void) sample(BTL_IB_FLAG_ECHO, 8, 0);
    assert_int_equal(conn->flow.worked, 1);
    conn->flow.on_trial = false;
    conn->flow.now = conn->flow.worked = 0;
}

/* What congestion control is told of an acknowledgement. */
TEST_WITH(acknowledged, set_up, tear_down)
{
    engine->retries.shares = 0;
    loss->no_tag_at = 5;
    loss->sample = 900;
    loss->sample_hosts = 300;
    loss->sample_pauses = 200;
    loss->rack[BTL_IB_RACK_ALL].xmit_ts = 77;
    loss->rack[BTL_IB_RACK_BULK].xmit_ts = 66;
    conn->cc.pace = 1000;
    conn->cc.burst = 3;
    conn->pacer.at = 1000 * (engine->clock.now + 50);
    btl_ib_loss_acked(conn, 7, true);
    assert_int_equal(told.now, engine->clock.now);
    assert_int_equal(told.sent_at, 77);
    assert_int_equal(told.count, 7);
    assert_int_equal(told.rtt, 900);
    assert_int_equal(told.delay, 600);
    assert_int_equal(told.awake, 700);
    assert_true(told.limited);
    assert_false(told.paused);
    assert_int_equal(engine->retries.shares, 7);
    assert_int_equal(loss->no_tag_at, 0);
    assert_int_equal(conn->pacer.at, 1000 * (engine->clock.now + 3));
    engine->turn.behind_until = 1;
    btl_ib_loss_acked(conn, 1000, false);
    assert_false(told.limited);
    assert_true(told.paused);
    assert_int_equal(engine->retries.shares, BTL_IB_RETRIES_SAVED * BTL_IB_RETRY_SHARE);
    engine->turn.behind_until = 0;
    told.count = 0;
    conn->cc.ops = &btl_ib_cc_none; /* which learns nothing */
    btl_ib_loss_acked(conn, 7, true);
    assert_int_equal(told.count, 0);
    conn->cc.ops = &btl_ib_cc_swift;
}

/* The first that is no SKIP begins a series of probes anew, and so does an answer to the only
 * operations that wait. */
TEST_WITH(series_begin_anew, set_up, tear_down)
{
    btl_ib_segment_t data = copy_of(0, 0, 0), skip = {.type = BTL_IB_TYPE_SKIP};

    loss->probes = 3;
    loss->unanswered_probes = 3;
    btl_ib_loss_sending(conn, &skip);
    assert_int_equal(loss->probes, 3);
    conn->sentmap.unacked = 1;
    btl_ib_loss_sending(conn, &data);
    assert_int_equal(loss->probes, 3);
    conn->sentmap.skips = 1;
    btl_ib_loss_sending(conn, &data);
    assert_int_equal(loss->probes, 0);
    assert_int_equal(loss->unanswered_probes, 0);
    conn->sentmap.skips = 0;
    loss->probes = 3;
    loss->probe_base = 5;
    conn->ops.answer_since = 0;
    btl_ib_loss_answered(conn);
    assert_int_equal(conn->ops.answer_since, engine->clock.awake);
    assert_int_equal(loss->probes, 3);
    assert_int_equal(loss->probe_base, 5);
    conn->sentmap.unacked = 0;
    btl_ib_loss_answered(conn);
    assert_int_equal(loss->probes, 0);
    assert_int_equal(loss->probe_base, engine->clock.now);
}

UNIT_MAIN(NULL, NULL)
