/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* When a connection goes on over the rails of another one with the same process, and when it stays.
 */

#include <errno.h>
#include <string.h>

#include "btl_ib_failover.h"
#include "btl_ib_loss.h"
#include "btl_ib_route.h"
#include "btl_ib_state.h"
#include "pairs.h"

enum { STAMP = 1000, PROBES = 10 /* unanswered, until others are asked */ };

static btl_ib_conn_t *home; /* goes by its own, rail 0 of both */
static btl_ib_conn_t *away; /* its other rails, 1 of both */

static int set_up_two(void **state)
{
    (void) set_up(state);
    home = pair[0][0];
    away = pair[1][1];
    home->ack.echo_valid = true;
    home->ack.echo = STAMP;
    home->ack.echo_at = engine->clock.now;
    return 0;
}

/* ---- following the peer ---- */

/* Returns whether the connection goes by the other rails after a datagram came by them. */
static bool follows(uint32_t stamp)
{
    btl_ib_failover_follow(home, engine->rails[1], away->route.address, stamp);
    const bool moved = home->route.via == engine->rails[1];
    if (moved) {
        assert_int_equal(home->route.to, away->route.address);
        assert_true(btl_ib_route_take(home, home));
        home->route.moved_at = 0;
    }
    bench_clear(&bench->wire);
    return moved;
}

TEST_WITH(follows_the_peer, set_up_two, tear_down)
{
    assert_true(follows(STAMP + 1));
    assert_false(follows(STAMP)); /* it was sent before something that came by the present one */
    home->ack.echo_at = engine->clock.now - BTL_IB_STAMP_AGE;
    assert_false(follows(STAMP));
    home->ack.echo_at--; /* stamps that old are not compared */
    assert_true(follows(STAMP));
    home->ack.echo_valid = false;
    assert_true(follows(STAMP));
    engine->rails[1]->health.down = true;
    assert_false(follows(STAMP));
    engine->rails[1]->health.down = false;
    away->validation.refused_at = engine->clock.now; /* what we send there is refused */
    assert_false(follows(STAMP));
    away->validation.refused_at = 0;
    away->state = BTL_IB_CONN_DEAD;
    assert_false(follows(STAMP));
    away->state = BTL_IB_CONN_OPEN;
}

/* Two that moved at the same time agree: that of the lower name decides for a while. */
TEST_WITH(one_of_two_decides, set_up_two, tear_down)
{
    home->route.moved_at = engine->clock.now;
    assert_false(follows(STAMP + 1));
    engine->clock.now += SECOND - 1;
    assert_false(follows(STAMP + 1));
    engine->rails[0]->health.down = true; /* its own choice is none any more */
    btl_ib_failover_follow(home, engine->rails[1], away->route.address, STAMP + 1);
    assert_ptr_equal(home->route.via, engine->rails[1]);
    engine->rails[0]->health.down = false;
    assert_true(btl_ib_route_take(home, home));
    engine->clock.now += SECOND;
    assert_true(follows(STAMP + 1));
    home->route.moved_at = engine->clock.now;
    engine->config.name += 1000; /* then it is for the other to decide */
    assert_true(follows(STAMP + 1));
    engine->config.name -= 1000;
}

/* Rails that were left for being slow are not taken because the peer asks by them, unless the
 * others do not answer. */
TEST_WITH(keeps_off_slow_rails, set_up_two, tear_down)
{
    assert_true(btl_ib_route_take(home, away));
    home->route.moved_at = 0;
    home->goodput.slow_until = engine->clock.now + SECOND;
    btl_ib_failover_follow(home, engine->rails[0], home->route.address, STAMP + 1);
    assert_ptr_equal(home->route.via, engine->rails[1]);
    btl_ib_failover_probe_own(home);
    assert_int_equal(sent_by(0, 0), 0);
    home->loss.probes = 9;
    btl_ib_failover_probe_own(home);
    assert_int_equal(sent_by(0, 0), 0);
    home->loss.probes = 10;
    btl_ib_failover_probe_own(home);
    assert_int_equal(sent_by(0, 0), 1);
    assert_ptr_equal(home->route.via, engine->rails[1]); /* it only asked */
    assert_int_equal(home->validation.question_at, engine->clock.now);
    btl_ib_failover_follow(home, engine->rails[0], home->route.address, STAMP + 1);
    assert_ptr_equal(home->route.via, engine->rails[0]);
    btl_ib_failover_probe_own(home); /* by which it goes */
    assert_int_equal(bench->wire.count, 0);
}

/* A peer that made a connection for a rail that cannot be used here is reached by the one by which
 * that came. */
TEST_WITH(made_for_a_rail_that_is_down, set_up_two, tear_down)
{
    btl_ib_failover_made(home, engine->rails[1], away->route.address);
    assert_ptr_equal(home->route.via, engine->rails[0]);
    engine->rails[0]->health.down = true;
    btl_ib_failover_made(home, engine->rails[0], home->route.address);
    assert_ptr_equal(home->route.via, engine->rails[0]);
    btl_ib_failover_made(home, engine->rails[1], home->route.address + 5000);
    assert_ptr_equal(home->route.via, engine->rails[0]);
    btl_ib_failover_made(home, engine->rails[1], away->route.address);
    assert_ptr_equal(home->route.via, engine->rails[1]);
    engine->rails[0]->health.down = false;
}

/* ---- silence ---- */

/* So many probes were not answered in so many us. Returns whether it goes on elsewhere. */
static bool silent(uint32_t probes, uint64_t us)
{
    home->loss.probes = home->loss.unanswered_probes = probes;
    home->loss.silent_since = engine->clock.awake - us;
    return btl_ib_failover_on_silence(home);
}

/* Others are asked by the tenth probe that nothing answered, and each fifth after it; or after a
 * quarter of a second, if there were four. */
TEST_WITH(others_are_asked, set_up_two, tear_down)
{
    bench->now += SECOND;
    bench_turn(bench, 0);
    for (uint32_t probes = 1; probes <= 25; probes++) {
        assert_false(silent(probes, 1000));
        assert_int_equal(sent_by(1, 1), probes >= PROBES && probes % 5 == 0);
    }
    assert_false(silent(3, 250000));
    assert_int_equal(sent_by(1, 1), 0);
    assert_false(silent(4, 250000 - 1));
    assert_int_equal(sent_by(1, 1), 0);
    assert_false(silent(4, 250000));
    assert_int_equal(sent_by(1, 1), 1);
}

static uint32_t asked_for;

static void note_alternatives(void *context, btl_ib_conn_t *conn)
{
    asked_for++;
}

/* Other pairs of rails are asked for once, after two probes and a quarter of a second. */
TEST_WITH(others_are_asked_for, set_up_two, tear_down)
{
    const btl_ib_engine_ops_t *const before = engine->ops;
    btl_ib_engine_ops_t ops = *before;

    bench->now += SECOND;
    bench_turn(bench, 0);
    ops.alternatives = note_alternatives;
    engine->ops = &ops;
    asked_for = 0;
    assert_false(silent(1, 250000));
    assert_false(silent(2, 250000 - 1));
    home->draining = true;
    assert_false(silent(2, 250000));
    home->draining = false;
    engine->turn.async = true;
    assert_false(silent(2, 250000));
    engine->turn.async = false;
    assert_int_equal(asked_for, 0);
    assert_false(silent(2, 250000));
    assert_int_equal(asked_for, 1);
    assert_false(silent(3, 250000));
    assert_int_equal(asked_for, 1);
    engine->ops = before;
}

/* The connection goes by one that heard the peer since, which is told so. */
TEST_WITH(goes_by_one_that_heard, set_up_two, tear_down)
{
    bench->now += SECOND;
    bench_turn(bench, 0);
    home->identity.contacted = true;
    away->loss.heard_at = engine->clock.awake - 1000;
    assert_false(silent(PROBES, 2000)); /* asked only now */
    assert_false(silent(PROBES + 1, 1000));
    away->validation.refused_at = engine->clock.now;
    assert_false(silent(PROBES + 1, 1001));
    away->validation.refused_at = 0;
    bench_clear(&bench->wire);
    assert_true(silent(PROBES + 1, 1001));
    assert_ptr_equal(home->route.via, engine->rails[1]);
    assert_int_equal(home->route.to, away->route.address);
    assert_true(sent_by(1, 1) > 0);
    assert_true(btl_ib_route_take(home, home));
    away->loss.heard_at = engine->clock.awake - 100;
    assert_false(silent(4, 250000 + 100)); /* it may have begun to compute since */
    assert_true(silent(4, 250000 + 101));
}

/* What brings no progress for long is asked about, too, though it is answered; but not what waits
 * for its receiver. */
TEST_WITH(stuck, set_up_two, tear_down)
{
    bench->now += SECOND;
    bench_turn(bench, 0);
    home->loss.unanswered_probes = 0;
    home->loss.silent_since = engine->clock.awake;
    home->loss.probes = 39;
    assert_false(btl_ib_failover_on_silence(home));
    assert_int_equal(sent_by(1, 1), 0);
    home->loss.probes = 40;
    home->sentmap.deferred_count = 1;
    assert_false(btl_ib_failover_on_silence(home));
    assert_int_equal(sent_by(1, 1), 0);
    home->sentmap.deferred_count = 0;
    assert_false(btl_ib_failover_on_silence(home));
    assert_int_equal(sent_by(1, 1), 1);
}

/* Rails that were never validated are left sooner, if they do not lead there. */
TEST_WITH(never_validated, set_up_two, tear_down)
{
    bench->now += SECOND;
    bench_turn(bench, 0);
    home->validation.valid = false;
    away->loss.heard_at = engine->clock.awake;
    assert_false(silent(1, 1000));
    assert_int_equal(sent_by(1, 1), 0);
    assert_false(silent(2, 1000));
    assert_int_equal(sent_by(1, 1), 1);
    home->validation.questions = 2;
    assert_false(silent(3, 1000));
    assert_int_equal(sent_by(1, 1), 1);
    home->validation.questions = 3;
    assert_false(silent(2, 1000));
    assert_true(silent(3, 1000));
    assert_ptr_equal(home->route.via, engine->rails[1]);
}

/* A route that cannot be used is left at once; to its own process there is no other. */
TEST_WITH(unusable, set_up_two, tear_down)
{
    engine->rails[0]->health.down = true;
    const uint64_t name = engine->config.name;
    engine->config.name = home->identity.name;
    assert_false(silent(0, 0));
    engine->config.name = name;
    assert_true(silent(0, 0));
    assert_ptr_equal(home->route.via, engine->rails[1]);
    engine->rails[0]->health.down = false;
}

/* Each rail is tried, the next one first. */
TEST_WITH(a_third_rail, set_up_two, tear_down)
{
    static bench_rail_t third;
    btl_ib_queue_table_t queues;
    btl_ib_queues_error_t error;

    third = bench->hosts[0].rails[1];
    memset(third.refs, 0, sizeof(third.refs));
    assert_int_equal(btl_ib_queues_parse(bench->hosts[0].queues, &queues, &error), 0);
    assert_int_equal(btl_ib_engine_add_rail(engine, &third.base, &queues), 2);
    btl_ib_conn_t *by_third = make(1, 2, 0);
    by_third->validation.valid = true;
    engine->rails[1]->health.down = true;
    assert_true(btl_ib_failover(home));
    assert_ptr_equal(home->route.via, engine->rails[2]);
    assert_true(btl_ib_failover(home)); /* from there on */
    assert_ptr_equal(home->route.via, engine->rails[0]);
    engine->rails[1]->health.down = false;
}

static btl_ib_addr_t refuses; /* address of a peer that the transport does not take */
static const btl_ib_transport_ops_t *taking;

static int add_some(btl_ib_transport_t *transport, const void *bytes, size_t len,
                    btl_ib_addr_t *address)
{
    uint32_t which;

    memcpy(&which, bytes, sizeof(which));
    return which == refuses ? -ENOMEM : taking->addr_add(transport, bytes, len, address);
}

/* Where a rail does not take the address of the best route the next one is taken; without any a
 * connection stays as it is, and tries again. */
TEST_WITH(addresses_that_are_not_taken, set_up_two, tear_down)
{
    btl_ib_transport_ops_t failing = *engine->rails[1]->transport->ops;
    btl_ib_conn_t *other = pair[1][0];
    const uint64_t moves = engine->count.failovers;

    taking = engine->rails[1]->transport->ops;
    failing.addr_add = add_some;
    engine->rails[1]->transport->ops = &failing;
    engine->rails[0]->health.down = true;
    other->validation.valid = false; /* so the other one is better */
    refuses = bench_address(1, 1);
    assert_true(btl_ib_failover(home));
    assert_ptr_equal(home->route.via, engine->rails[1]);
    assert_int_equal(home->route.to, other->route.address);
    assert_int_equal(engine->count.failovers, moves + 1);
    engine->rails[0]->health.down = false;
    assert_true(btl_ib_failover_to(home, home));
    engine->rails[0]->health.down = true;
    btl_ib_conn_destroy(other, bench->now);
    assert_false(btl_ib_failover(home));
    assert_ptr_equal(home->route.via, engine->rails[0]);
    assert_int_equal(engine->count.failovers, moves + 2);
    assert_false(silent(0, 0));
    engine->rails[1]->transport->ops = taking;
    assert_true(silent(0, 0));
    assert_ptr_equal(home->route.via, engine->rails[1]);
    assert_int_equal(home->route.to, away->route.address);
    engine->rails[0]->health.down = false;
}

/* ---- refusals ---- */

/* A host says that nobody is there, so many us after the first time. */
static bool refused(uint64_t us)
{
    engine->clock.now = SECOND * 100 + us;
    return btl_ib_failover_on_refusal(home);
}

/* A validated route is left once nothing got there for a tenth of a second. */
TEST_WITH(refusals_of_a_valid_route, set_up_two, tear_down)
{
    assert_true(refused(0));
    assert_ptr_equal(home->route.via, engine->rails[0]);
    assert_int_equal(home->validation.net_error, ECONNREFUSED);
    assert_true(refused(BTL_IB_REFUSED_LONG - 1));
    assert_ptr_equal(home->route.via, engine->rails[0]);
    assert_true(refused(BTL_IB_REFUSED_LONG));
    assert_ptr_equal(home->route.via, engine->rails[1]);
    assert_int_equal(home->validation.refused_at, engine->clock.now);
    assert_int_equal(home->loss.refused_since, 0);
}

/* One that was never validated is left at once. */
TEST_WITH(refusals_of_another, set_up_two, tear_down)
{
    home->validation.valid = false;
    assert_true(refused(0));
    assert_ptr_equal(home->route.via, engine->rails[1]);
}

/* Where there is no other the peer is dead, if it is of our job, or we wait for it. */
TEST_WITH(refusals_of_the_last, set_up_two, tear_down)
{
    btl_ib_conn_t *last = make(2, 0, 0);

    last->validation.valid = true;
    home = last;
    const uint64_t *deaths = &bench->hosts[0].deaths[BTL_IB_DEATH_REFUSED];
    assert_true(refused(0));
    assert_true(refused(BTL_IB_REFUSED_LONG - 1));
    engine->turn.async = true; /* the thread tells nobody */
    assert_true(refused(BTL_IB_REFUSED_LONG));
    engine->turn.async = false;
    engine->config.name += UINT64_C(1) << 32; /* another job's may leave as it likes */
    assert_true(refused(BTL_IB_REFUSED_LONG));
    engine->config.name -= UINT64_C(1) << 32;
    assert_int_equal(*deaths, 0);
    assert_false(refused(BTL_IB_REFUSED_LONG));
    assert_int_equal(*deaths, 1);
}

/* One that drains has nothing to wait for any more. */
TEST_WITH(refusals_while_it_drains, set_up_two, tear_down)
{
    bench_send(bench, 0, 1, 100, 1);
    assert_int_equal(home->sentmap.unacked, 1);
    home->draining = true;
    assert_true(refused(0));
    assert_int_equal(home->sentmap.unacked, 0);
    assert_ptr_equal(home->route.via, engine->rails[0]);
    home->draining = false;
}

/* A router may refuse for a peer that it forgot. */
TEST_WITH(refusals_of_a_router, set_up_two, tear_down)
{
    const uint32_t outside = bench_address(3, 0);

    assert_true(btl_ib_route_rewritten(home, (const uint8_t *) &outside, sizeof(outside)));
    assert_true(refused(0));
    assert_true(refused(BTL_IB_REFUSED_LONG));
    assert_ptr_equal(home->route.via, engine->rails[0]);
    assert_int_equal(home->validation.refused_at, 0);
}

UNIT_MAIN(NULL, NULL)
