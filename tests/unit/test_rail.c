/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of connections when a device fails, a port is down or an address changes. */

#include <errno.h>

#include "btl_ib_loss.h"
#include "btl_ib_rail.h"
#include "btl_ib_route.h"
#include "btl_ib_state.h"
#include "pairs.h"

static btl_ib_rail_t *first, *second;
static btl_ib_conn_t *lone; /* has no other rail */

static int set_up_three(void **state)
{
    (void) set_up(state);
    bench->now += 100 * SECOND;
    bench_turn(bench, 0);
    lone = make(2, 0, 0);
    lone->validation.valid = true;
    first = engine->rails[0];
    second = engine->rails[1];
    return 0;
}

static bool happens(btl_ib_event_type_t type, btl_ib_addr_t from, int error)
{
    const btl_ib_event_t event = {
        .type = type, .from = from, .error = error, .origin = BTL_IB_ORIGIN_LOCAL};

    return btl_ib_rail_event(first, &event);
}

static void goes_by(const btl_ib_rail_t *of_first, const btl_ib_rail_t *of_lone)
{
    assert_ptr_equal(pair[0][0]->route.via, of_first);
    assert_ptr_equal(pair[0][1]->route.via, of_first);
    assert_ptr_equal(pair[1][0]->route.via, second);
    assert_ptr_equal(pair[1][1]->route.via, second);
    assert_true(of_lone == NULL || of_lone == lone->route.via); /* NULL: it is no more */
}

/* Connections of a port that is down go on by others, or wait; when it is up those that left ask by
 * it, and what waited may be lost. */
TEST_WITH(down_and_up, set_up_three, tear_down)
{
    assert_false(happens(BTL_IB_EVENT_DOWN, 0, ENETDOWN));
    goes_by(second, first);
    assert_true(first->health.down && !first->health.failed);
    assert_int_equal(first->health.error, ENETDOWN);
    assert_int_equal(first->health.moved, 2);
    assert_int_equal(first->health.not_moved, 1);
    assert_int_equal(first->health.down_since, engine->clock.awake);
    assert_true(engine->work.waits);
    first->health.down_since = 7;
    assert_false(happens(BTL_IB_EVENT_DOWN, 0, ENETDOWN)); /* that is known */
    assert_int_equal(first->health.down_since, 7);
    bench_clear(&bench->wire);
    lone->loss.disconnected = false;
    lone->identity.bound = true;
    assert_false(happens(BTL_IB_EVENT_UP, 0, 0));
    assert_false(first->health.down);
    assert_int_equal(first->health.moved, 0);
    goes_by(second, first);
    assert_true(lone->loss.disconnected);
    assert_int_equal(sent_by(0, 0), 1);
    lone->identity.bound = false;
    lone->loss.disconnected = false;
    assert_false(happens(BTL_IB_EVENT_UP, 0, 0)); /* it was not down */
    assert_false(lone->loss.disconnected);
}

/* A connection that is dead, and not ended yet, is left alone by a port that is up again and by an
 * address that changed. */
TEST_WITH(dead_ones, set_up_three, tear_down)
{
    assert_false(happens(BTL_IB_EVENT_DOWN, 0, ENETDOWN));
    lone->identity.bound = true;
    lone->state = BTL_IB_CONN_DEAD;
    lone->loss.disconnected = false;
    assert_false(happens(BTL_IB_EVENT_UP, 0, 0));
    assert_false(lone->loss.disconnected);
    lone->state = BTL_IB_CONN_OPEN;
    lone->identity.bound = false;
}

/* One whose rail cannot be used goes by the one that is up again. */
TEST_WITH(up_while_another_is_down, set_up_three, tear_down)
{
    assert_false(happens(BTL_IB_EVENT_DOWN, 0, ENETDOWN));
    second->health.down = true;
    assert_false(happens(BTL_IB_EVENT_UP, 0, 0));
    assert_ptr_equal(pair[0][0]->route.via, first);
    assert_ptr_equal(pair[1][1]->route.via, first);
    second->health.down = false;
}

/* A port that is down for long, or lacks more than its link, counts as failed: who has no other
 * dies. */
TEST_WITH(down_for_too_long, set_up_three, tear_down)
{
    const uint64_t *deaths = &bench->hosts[0].deaths[BTL_IB_DEATH_DEVICE];

    assert_false(happens(BTL_IB_EVENT_DOWN, 0, ENETDOWN));
    engine->clock.awake += engine->config.down_limit - 1;
    assert_false(btl_ib_rail_check_down(first));
    assert_false(first->health.failed);
    engine->clock.awake++;
    const uint64_t limit = engine->config.down_limit;
    engine->config.down_limit = 0; /* there is no limit */
    assert_false(btl_ib_rail_check_down(first));
    assert_false(first->health.failed);
    engine->config.down_limit = limit;
    assert_false(btl_ib_rail_check_down(first));
    assert_true(first->health.failed && first->health.down && first->health.reported);
    assert_int_equal(first->health.moved, 2);
    assert_int_equal(first->health.not_moved, 1);
    assert_int_equal(*deaths, 1);
    assert_false(btl_ib_rail_check_down(second)); /* that one is not */
    assert_false(second->health.failed);
    assert_false(happens(BTL_IB_EVENT_DOWN, 0, ENETDOWN)); /* it may not come back */
    assert_true(first->health.failed);
}

TEST_WITH(down_for_more_than_its_link, set_up_three, tear_down)
{
    engine->work.waits = false;
    assert_false(happens(BTL_IB_EVENT_DOWN, 0, ENODEV));
    assert_true(engine->work.waits);
    assert_true(first->health.failed && first->health.down);
    assert_int_equal(first->health.error, ENODEV);
    goes_by(second, NULL);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_DEVICE], 1);
}

/* The thread cannot report what failed: that is left to the application. */
TEST_WITH(failed_in_the_thread, set_up_three, tear_down)
{
    const uint64_t *deaths = &bench->hosts[0].deaths[BTL_IB_DEATH_DEVICE];

    engine->turn.async = true;
    assert_true(happens(BTL_IB_EVENT_FAILED, 0, EIO));
    assert_true(first->health.failed && !first->health.reported && !first->health.down);
    goes_by(second, first);
    assert_int_equal(*deaths, 0);
    assert_true(happens(BTL_IB_EVENT_FAILED, 0, EIO)); /* still to be reported */
    assert_int_equal(first->health.moved, 2);
    engine->turn.async = false;
    btl_ib_rail_report_failure(first);
    assert_int_equal(*deaths, 1);
    assert_false(happens(BTL_IB_EVENT_FAILED, 0, EIO));
    assert_int_equal(*deaths, 1);
}

/* ---- what is said of an address ---- */

/* The end of a connection of the transport concerns those that go to that address, or all of the
 * rail. */
TEST_WITH(broken, set_up_three, tear_down)
{
    btl_ib_conn_t *const conns[] = {pair[0][0], pair[0][1], pair[1][0], lone};

    for (int all = 0; all < 2; all++) {
        for (int i = 0; i < 4; i++) {
            conns[i]->identity.bound = true;
            conns[i]->loss.disconnected = false;
        }
        assert_false(
            happens(BTL_IB_EVENT_BROKEN, all ? BTL_IB_ADDR_UNKNOWN : pair[0][0]->route.address, 0));
        for (int i = 0; i < 4; i++) {
            assert_int_equal(conns[i]->loss.disconnected, i == 0 || (all && i != 2));
            conns[i]->identity.bound = false;
            conns[i]->loss.disconnected = false;
        }
    }
}

TEST_WITH(unreachable, set_up_three, tear_down)
{
    pair[0][1]->state = BTL_IB_CONN_DEAD; /* of the dead nothing is said */
    assert_false(happens(BTL_IB_EVENT_UNREACHABLE, BTL_IB_ADDR_UNKNOWN, EHOSTUNREACH));
    assert_int_equal(pair[0][0]->validation.net_error, EHOSTUNREACH);
    assert_int_equal(pair[0][0]->validation.net_error_at, btl_ib_clock_awake(&engine->clock));
    assert_int_equal(lone->validation.net_error, EHOSTUNREACH);
    assert_int_equal(pair[0][1]->validation.net_error, 0);
    assert_int_equal(pair[1][0]->validation.net_error, 0);
    pair[0][1]->state = BTL_IB_CONN_OPEN;
}

/* A refusal is not believed from nowhere, nor right after the own address changed; connections that
 * left that route for one note it. */
TEST_WITH(refused, set_up_three, tear_down)
{
    btl_ib_conn_t *left = pair[0][0];
    const btl_ib_addr_t at = left->route.address;

    left->validation.valid = false; /* else it stays for a while */
    assert_false(happens(BTL_IB_EVENT_REFUSED, BTL_IB_ADDR_UNKNOWN, ECONNREFUSED));
    assert_ptr_equal(left->route.via, first);
    first->moves.changed_at = engine->clock.awake - 2 * SECOND + 1;
    assert_false(happens(BTL_IB_EVENT_REFUSED, at, ECONNREFUSED));
    assert_ptr_equal(left->route.via, first);
    first->moves.changed_at--;
    assert_false(happens(BTL_IB_EVENT_REFUSED, at, ECONNREFUSED));
    assert_ptr_equal(left->route.via, second);
    assert_ptr_equal(pair[0][1]->route.via, first); /* goes to another address */
    assert_int_equal(left->validation.refused_at, engine->clock.now);
    engine->clock.now += 5;
    assert_false(happens(BTL_IB_EVENT_REFUSED, at, ECONNREFUSED));
    assert_int_equal(left->validation.refused_at, engine->clock.now);
    left->validation.refused_at = 0; /* it works again */
    assert_false(happens(BTL_IB_EVENT_REFUSED, at, ECONNREFUSED));
    assert_int_equal(left->validation.refused_at, 0);
}

/* What the network says of datagrams that nobody sent changes nothing. */
TEST_WITH(forged, set_up_three, tear_down)
{
    static const btl_ib_event_type_t types[] = {BTL_IB_EVENT_REFUSED, BTL_IB_EVENT_UNREACHABLE,
                                                BTL_IB_EVENT_PATH_MTU};

    pair[0][0]->validation.valid = false;
    for (int i = 0; i < 3; i++) {
        btl_ib_event_t event = {.type = types[i],
                                .from = pair[0][0]->route.address,
                                .error = ECONNREFUSED,
                                .size = 600,
                                .origin = BTL_IB_ORIGIN_NETWORK,
                                .quoted_size = BTL_IB_QUOTED_MAX};
        const uint32_t before = pair[0][0]->pmtud.datagram_max;
        assert_false(btl_ib_rail_event(first, &event));
        assert_int_equal(engine->count.rejected_icmp, i + 1);
        assert_ptr_equal(pair[0][0]->route.via, first);
        assert_int_equal(pair[0][0]->validation.net_error, 0);
        assert_int_equal(pair[0][0]->pmtud.datagram_max, before);
    }
}

/* ---- another address ---- */

static bool moves;
static uint32_t looks;

static bool rebind(btl_ib_transport_t *transport)
{
    looks++;
    return moves;
}

/* Looks after so many us. Returns whether the transport was asked. */
static bool looked(uint64_t us)
{
    const uint32_t before = looks;

    bench_clear(&bench->wire);
    engine->clock.now += us;
    btl_ib_rail_look(first);
    return looks > before;
}

/* The transport is asked four times a second, while nothing comes. */
TEST_WITH(looks_for_another_address, set_up_three, tear_down)
{
    const btl_ib_transport_ops_t *const before = first->transport->ops;
    btl_ib_transport_ops_t ops = *before;

    assert_false(looked(SECOND)); /* it cannot tell */
    ops.rebind = rebind;
    first->transport->ops = &ops;
    moves = false;
    first->count.received_datagrams++;
    first->moves.look_at = engine->clock.now;
    assert_false(looked(0)); /* something came */
    assert_int_equal(first->moves.look_at, engine->clock.now + 250000);
    assert_false(looked(249999));
    assert_true(looked(1));
    assert_int_equal(engine->count.rebound, 0);
    first->health.down = true;
    assert_false(looked(SECOND));
    first->health.down = false;
    first->transport->ops = before;
}

/* At a new address nothing is known of the ways from there: those that know us are asked, now and
 * then, until they have answered. */
TEST_WITH(found_another_address, set_up_three, tear_down)
{
    const btl_ib_transport_ops_t *const before = first->transport->ops;
    btl_ib_transport_ops_t ops = *before;

    ops.rebind = rebind;
    first->transport->ops = &ops;
    assert_true(btl_ib_route_take(pair[0][1], pair[1][1]));
    pair[0][0]->identity.contacted = pair[0][1]->identity.contacted = true;
    pair[0][0]->validation.refused_at = pair[0][0]->validation.question_at = 5;
    pair[0][0]->loss.probes = 4;
    btl_ib_conn_t *dead = make(3, 0, 0);
    dead->validation.valid = true;
    dead->state = BTL_IB_CONN_DEAD;
    moves = true;
    first->moves.look_at = 0;
    assert_true(looked(0));
    moves = false;
    assert_int_equal(engine->count.rebound, 1);
    assert_int_equal(first->moves.look_at, engine->clock.now + 250000);
    assert_int_equal(first->moves.changed_at, engine->clock.awake);
    assert_false(pair[0][0]->validation.valid || pair[0][1]->validation.valid
                 || lone->validation.valid);
    assert_true(pair[1][0]->validation.valid);
    assert_true(dead->validation.valid); /* what was known of it is still told */
    dead->state = BTL_IB_CONN_OPEN;
    assert_int_equal(pair[0][0]->validation.refused_at, 0);
    assert_int_equal(pair[0][0]->loss.probes, 0);
    assert_int_equal(first->moves.asks, 15);
    assert_int_equal(first->moves.ask_at, engine->clock.now + 50000);
    uint32_t each[2] = {0};
    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        assert_int_equal(d->source, bench_address(0, 0));
        assert_int_equal(d->to / BENCH_RAILS, 1); /* the lone one never said anything */
        each[d->to % BENCH_RAILS]++;
    }
    assert_int_equal(each[0], 1);
    assert_int_equal(each[1], 1);
    uint64_t pause = 50000;
    for (uint32_t asks = 14; asks > 0; asks--) {
        (void) looked(pause - 1);
        assert_int_equal(bench->wire.count, 0);
        (void) looked(1);
        assert_int_equal(bench->wire.count, 2);
        assert_int_equal(first->moves.asks, asks);
        pause = 2 * pause < 16 * SECOND ? 2 * pause : 16 * SECOND;
    }
    pair[0][0]->validation.valid = true;
    (void) looked(pause);
    assert_int_equal(bench->wire.count, 1);
    first->moves.asks = 9;
    pair[0][1]->validation.valid = true;
    (void) looked(pause);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(first->moves.asks, 0);
    first->transport->ops = before;
}

static const btl_ib_conn_t *reported;
static uint32_t reports;

static void note_unanswered(void *context, btl_ib_conn_t *conn)
{
    reported = conn;
    reports++;
}

/* Whether that is told of a connection which does not answer at the new address. */
static bool is_told(void)
{
    const uint32_t before = reports;

    btl_ib_rail_look(first);
    return reports > before;
}

/* A peer that does not answer there, and is waited for, is told of once, after a while. */
TEST_WITH(unanswered_there, set_up_three, tear_down)
{
    const btl_ib_transport_ops_t *const before = first->transport->ops;
    const btl_ib_engine_ops_t *const ops_before = engine->ops;
    btl_ib_transport_ops_t transport_ops = *before;
    btl_ib_engine_ops_t ops = *ops_before;
    btl_ib_conn_t *conn = pair[0][0];

    transport_ops.rebind = rebind;
    moves = false;
    first->transport->ops = &transport_ops;
    engine->ops = &ops;
    conn->validation.valid = false;
    conn->identity.contacted = true;
    conn->loss.blocked_since = 1;
    first->moves.changed_at = engine->clock.awake - engine->config.unanswered_after;
    assert_false(is_told()); /* nobody asked for it */
    ops.moved_unanswered = note_unanswered;
    first->moves.changed_at++;
    assert_false(is_told());
    first->moves.changed_at--;
    engine->turn.async = true;
    assert_false(is_told());
    engine->turn.async = false;
    conn->loss.blocked_since = 0; /* nothing waits for it */
    assert_false(is_told());
    conn->loss.blocked_since = 1;
    conn->validation.valid = true;
    assert_false(is_told());
    conn->validation.valid = false;
    assert_true(btl_ib_route_take(conn, pair[1][1]));
    assert_false(is_told()); /* it goes another way */
    assert_true(btl_ib_route_take(conn, conn));
    assert_true(is_told());
    assert_ptr_equal(reported, conn);
    assert_false(is_told());
    conn->loss.blocked_since = 0;
    engine->ops = ops_before;
    first->transport->ops = before;
}

UNIT_MAIN(NULL, NULL)
