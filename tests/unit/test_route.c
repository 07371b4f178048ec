/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Routes of connections, verb by verb: four connections of host 0 with host 1, one for each pair of
 * rails. */

#include <string.h>

#include "btl_ib_conn.h"
#include "btl_ib_failover.h"
#include "btl_ib_loss.h"
#include "btl_ib_route.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"
#include "btl_ib_validation.h"
#include "pairs.h"

/* How often the rail names the address of host 1's rail. */
static uint32_t refs(uint32_t rail, uint32_t remote)
{
    return bench->hosts[0].rails[rail].refs[bench_address(1, remote)];
}

/* Each connection is once in the chains by its own address, and by where it goes. */
static int chains_are_whole(void **state)
{
    const btl_ib_routes_t *routes = &engine->routes;
    uint32_t own = 0, to = 0, used = 0;

    for (uint32_t i = 0; i < routes->size; i++) {
        for (const btl_ib_conn_t *c = routes->own[i]; c != NULL && own < 1000; own++) {
            c = c->chains.next_own;
        }
        for (const btl_ib_conn_t *c = routes->to[i]; c != NULL && to < 1000; to++) {
            c = c->chains.next_to;
        }
        used += routes->own[i] != NULL;
    }
    assert_int_equal(own, routes->count);
    assert_int_equal(to, routes->count);
    assert_true(used >= 2); /* of four addresses, so they are not all in one */
    return tear_down(state);
}

/* A datagram may come from any address of the peer that a connection of ours joins with the rail by
 * which it came, and from no other. */
TEST_WITH(sources, set_up, chains_are_whole)
{
    const btl_ib_addr_t foreign = make(2, 0, 0)->route.address;
    const btl_ib_conn_t *conn = pair[0][0];

    for (uint32_t i = 0; i < BENCH_RAILS; i++) {
        assert_true(btl_ib_route_is_source(conn, engine->rails[i], BTL_IB_ADDR_UNKNOWN));
        for (uint32_t k = 0; k < BENCH_RAILS; k++) {
            assert_true(btl_ib_route_is_source(conn, engine->rails[i], pair[i][k]->route.address));
        }
        assert_false(btl_ib_route_is_source(conn, engine->rails[i], foreign));
    }
}

/* Of a peer that has one connection only its two rails count, and those of its present route. */
TEST_WITH(sources_of_one, set_up, chains_are_whole)
{
    btl_ib_conn_t *alone = make(2, 0, 0);
    const btl_ib_rail_t *first = engine->rails[0], *second = engine->rails[1];
    const btl_ib_addr_t at = alone->route.address, foreign = pair[0][0]->route.address;

    assert_true(btl_ib_route_is_source(alone, first, at));
    assert_true(btl_ib_route_is_source(alone, first, BTL_IB_ADDR_UNKNOWN));
    assert_false(btl_ib_route_is_source(alone, first, foreign));
    assert_false(btl_ib_route_is_source(alone, second, at));
    assert_false(btl_ib_route_is_source(alone, second, BTL_IB_ADDR_UNKNOWN));
    btl_ib_conn_t *other = make(2, 1, 1);
    const btl_ib_addr_t beside = other->route.address;
    assert_true(btl_ib_route_take(alone, other));
    other->state = BTL_IB_CONN_DEAD; /* then it is the route alone that says it */
    assert_true(btl_ib_route_is_source(alone, second, beside));
    assert_true(btl_ib_route_is_source(alone, second, BTL_IB_ADDR_UNKNOWN));
    assert_false(btl_ib_route_is_source(alone, second, foreign));
    assert_true(btl_ib_route_is_source(alone, first, at));
    alone->state = BTL_IB_CONN_DEAD; /* nor has the table to say the first */
    assert_true(btl_ib_route_is_source(alone, first, at));
    assert_true(btl_ib_route_is_source(alone, first, BTL_IB_ADDR_UNKNOWN));
    assert_false(btl_ib_route_is_source(alone, first, foreign));
    alone->state = other->state = BTL_IB_CONN_OPEN;
}

/* Lookups by rail and address find all that have them, in the order in which they came, and no
 * other. */
TEST_WITH(lookups, set_up, chains_are_whole)
{
    btl_ib_conn_t *first = pair[0][0], *moved = pair[1][1];
    const btl_ib_addr_t to = first->route.address;
    const btl_ib_rail_t *rail = engine->rails[0];

    assert_ptr_equal(btl_ib_route_of(rail, to, NULL), first);
    assert_null(btl_ib_route_of(rail, to, first));
    assert_ptr_equal(btl_ib_route_to(rail, to, NULL), first);
    assert_null(btl_ib_route_to(rail, to, first));
    assert_true(btl_ib_route_take(moved, first));
    assert_ptr_equal(btl_ib_route_of(rail, to, NULL), first);
    assert_null(btl_ib_route_of(rail, to, first));
    assert_ptr_equal(btl_ib_route_to(rail, to, NULL), first);
    assert_ptr_equal(btl_ib_route_to(rail, to, first), moved);
    assert_null(btl_ib_route_to(rail, to, moved));
    assert_null(btl_ib_route_to(engine->rails[1], moved->route.address, NULL));
    assert_ptr_equal(btl_ib_route_of(engine->rails[1], moved->route.address, NULL), moved);
    assert_ptr_equal(btl_ib_route_carrier(moved), first);
    assert_ptr_equal(btl_ib_route_carrier(first), first);
    btl_ib_conn_destroy(first, bench->now);
    bench_run(bench, 10000);
    assert_ptr_equal(btl_ib_route_to(rail, to, NULL), moved);
    assert_null(btl_ib_route_of(rail, to, NULL));
    assert_null(btl_ib_route_carrier(moved));
}

/* Where no connection was made yet there is none. */
TEST_WITH(lookups_of_none, set_up, chains_are_whole)
{
    const btl_ib_rail_t *rail = bench->hosts[3].engine->rails[0];

    assert_null(btl_ib_route_of(rail, 0, NULL));
    assert_null(btl_ib_route_to(rail, 0, NULL));
}

static btl_ib_addr_t wanted; /* the address at whose host a datagram began */

static bool is_from_host(const btl_ib_transport_t *transport, const btl_ib_event_t *event,
                         btl_ib_addr_t address)
{
    return address == wanted;
}

/* The address of the peer at whose host a datagram began, if it was heard by it before, and no
 * router has it. */
TEST_WITH(at_which_host, set_up, chains_are_whole)
{
    const btl_ib_event_t event = {.buffer = &wanted}, of_none = {.buffer = NULL};
    const btl_ib_transport_ops_t *const before[] = {engine->rails[0]->transport->ops,
                                                    engine->rails[1]->transport->ops};
    btl_ib_transport_ops_t ops = *before[0];

    wanted = pair[0][0]->route.address;
    assert_true(btl_ib_route_at_host(pair[0][0], engine->rails[0], &event) == BTL_IB_ADDR_UNKNOWN);
    ops.from_host = is_from_host;
    engine->rails[0]->transport->ops = engine->rails[1]->transport->ops = &ops;
    for (uint32_t i = 0; i < BENCH_RAILS; i++) {
        for (uint32_t k = 0; k < BENCH_RAILS; k++) {
            wanted = pair[i][k]->route.address;
            assert_int_equal(btl_ib_route_at_host(pair[0][0], engine->rails[i], &event), wanted);
            assert_true(btl_ib_route_at_host(pair[0][0], engine->rails[i], &of_none)
                        == BTL_IB_ADDR_UNKNOWN);
            pair[i][k]->validation.valid = false;
            assert_true(btl_ib_route_at_host(pair[0][0], engine->rails[i], &event)
                        == BTL_IB_ADDR_UNKNOWN);
            pair[i][k]->validation.valid = true;
        }
    }
    engine->rails[0]->transport->ops = before[0];
    engine->rails[1]->transport->ops = before[1];
}

/* So they do when there are more connections than the tables began with. */
TEST_WITH(lookups_of_many, set_up, chains_are_whole)
{
    btl_ib_conn_t *many[64];
    btl_ib_peer_info_t info = bench_info(bench, 2, 0);

    for (uint32_t i = 0; i < 64; i++) {
        info.name++;
        assert_int_equal(btl_ib_conn_create(engine, i % 2, &info, NULL, &many[i]), 0);
        assert_true(engine->routes.size >= engine->routes.count);
    }
    assert_int_equal(engine->routes.count, 4 + 64);
    assert_int_equal(engine->routes.size, 128);
    assert_int_equal(btl_ib_routes_bytes(4 + 64), 2 * 128 * sizeof(void *));
    for (uint32_t rail = 0; rail < 2; rail++) {
        const btl_ib_conn_t *of = NULL, *to = NULL;
        const btl_ib_addr_t address = many[rail]->route.address;
        for (uint32_t i = rail; i < 64; i += 2) {
            of = btl_ib_route_of(engine->rails[rail], address, of);
            to = btl_ib_route_to(engine->rails[rail], address, to);
            assert_ptr_equal(of, many[i]);
            assert_ptr_equal(to, many[i]);
        }
        assert_null(btl_ib_route_of(engine->rails[rail], address, of));
        assert_null(btl_ib_route_to(engine->rails[rail], address, to));
    }
    for (uint32_t i = 0; i < 64; i++) {
        btl_ib_conn_destroy(many[i], bench->now);
    }
    bench_run(bench, 10000);
    assert_int_equal(engine->routes.count, 4);
}

/* Each connection with the process in turn, by our rail, then by the peer's; not over a rail that
 * cannot be used, and none that is not open. */
TEST_WITH(others_with_the_process, set_up, chains_are_whole)
{
    const btl_ib_conn_t *conn = pair[1][0];
    btl_ib_conn_t *other = NULL;

    (void) make(2, 0, 0);
    for (uint32_t i = 0; i < 4; i++) {
        other = btl_ib_route_next(conn, other);
        assert_ptr_equal(other, pair[i / 2][i % 2]);
    }
    assert_null(btl_ib_route_next(conn, other));
    pair[0][1]->state = BTL_IB_CONN_DEAD;
    assert_ptr_equal(btl_ib_route_next(conn, pair[0][0]), pair[1][0]);
    pair[0][1]->state = BTL_IB_CONN_OPEN;
    engine->rails[0]->health.down = true;
    assert_ptr_equal(btl_ib_route_next(conn, NULL), pair[1][0]);
    assert_null(btl_ib_route_by_rail(engine->rails[0], conn->identity.name, BTL_IB_ADDR_UNKNOWN));
    engine->rails[0]->health.down = false;
    assert_ptr_equal(
        btl_ib_route_by_rail(engine->rails[0], conn->identity.name, pair[0][1]->route.address),
        pair[0][1]);
    assert_ptr_equal(
        btl_ib_route_by_rail(engine->rails[0], conn->identity.name, BTL_IB_ADDR_UNKNOWN),
        pair[0][0]);
    assert_null(
        btl_ib_route_by_rail(engine->rails[0], conn->identity.name + 77, BTL_IB_ADDR_UNKNOWN));
}

/* A connection that takes the rails of another names its address, and gives it back. */
TEST_WITH(taken_and_left, set_up, chains_are_whole)
{
    btl_ib_conn_t *conn = pair[0][0];

    assert_int_equal(refs(1, 1), 1);
    engine->rails[1]->use.stands_by = true;
    bench->now += 7;
    bench_turn(bench, 0);
    assert_true(btl_ib_route_take(conn, pair[1][1]));
    assert_false(engine->rails[1]->use.stands_by);
    assert_int_equal(refs(1, 1), 2);
    assert_false(btl_ib_route_is_own(conn));
    assert_ptr_equal(conn->route.via, engine->rails[1]);
    assert_int_equal(conn->route.to, pair[1][1]->route.address);
    assert_ptr_equal(conn->route.queues, pair[1][1]->peer_queues);
    assert_int_equal(conn->route.moved_at, engine->clock.now);
    assert_true(btl_ib_route_take(conn, pair[1][0]));
    assert_int_equal(refs(1, 1), 1);
    assert_int_equal(refs(1, 0), 2);
    engine->rails[0]->health.down = true;
    assert_false(btl_ib_route_has_own(conn));
    assert_false(btl_ib_route_take(conn, conn)); /* its own cannot be used */
    assert_ptr_equal(conn->route.via, engine->rails[1]);
    engine->rails[0]->health.down = false;
    assert_true(btl_ib_route_has_own(conn));
    assert_true(btl_ib_route_take(conn, conn));
    assert_true(btl_ib_route_is_own(conn));
    assert_int_equal(refs(1, 0), 1);
    assert_int_equal(refs(0, 0), 1);
    assert_ptr_equal(conn->route.queues, conn->peer_queues);
}

/* A rail that stands by is used once a connection is made for it, not by others. */
TEST_WITH(used_again, set_up, chains_are_whole)
{
    btl_ib_engine_rail_stands_by(engine, 0);
    btl_ib_engine_rail_stands_by(engine, 1);
    assert_true(engine->work.waits);
    (void) make(2, 1, 0);
    assert_true(engine->rails[0]->use.stands_by);
    assert_false(engine->rails[1]->use.stands_by);
}

/* A router's address takes the place of the one that was published, and may give it back. */
TEST_WITH(rewritten, set_up, chains_are_whole)
{
    btl_ib_conn_t *conn = pair[0][0];
    const btl_ib_addr_t inside = conn->route.address;
    const uint32_t published = bench_address(1, 0), outside = bench_address(3, 0);
    const uint32_t beyond = BENCH_HOSTS * BENCH_RAILS;

    assert_false(btl_ib_route_return(conn)); /* there is none */
    assert_false(btl_ib_route_rewritten(conn, (const uint8_t *) &beyond, sizeof(beyond)));
    assert_int_equal(conn->route.address, inside);
    assert_true(btl_ib_route_rewritten(conn, (const uint8_t *) &outside, sizeof(outside)));
    assert_int_not_equal(conn->route.address, inside);
    assert_int_equal(conn->route.to, conn->route.address);
    assert_true(btl_ib_route_is_own(conn));
    assert_memory_equal(conn->route.published, &outside, sizeof(outside));
    assert_true(btl_ib_route_is_source(conn, engine->rails[0], inside));
    assert_true(btl_ib_route_is_source(conn, engine->rails[0], conn->route.address));
    assert_int_equal(refs(0, 0), 1);
    assert_true(btl_ib_route_return(conn));
    assert_memory_equal(conn->route.published, &published, sizeof(published));
    assert_int_equal(conn->route.address, inside);
    assert_int_equal(conn->route.to, inside);
    assert_true(btl_ib_route_take(conn, pair[1][1]));
    assert_true(btl_ib_route_return(conn)); /* what goes by another stays there */
    assert_ptr_equal(conn->route.via, engine->rails[1]);
    assert_true(btl_ib_route_rewritten(conn, (const uint8_t *) &outside, sizeof(outside)));
    assert_ptr_equal(conn->route.via, engine->rails[1]);
}

/* An address that its rail did not take is tried again, while the device works. */
TEST_WITH(retried, set_up, chains_are_whole)
{
    btl_ib_conn_t *conn = make(2, 0, 0);
    const btl_ib_addr_t address = conn->route.address;
    bench_rail_t *rail = &bench->hosts[0].rails[0];

    btl_ib_route_fini(conn);
    engine->routes.count++;
    assert_int_equal(conn->route.address, BTL_IB_ADDR_UNKNOWN);
    assert_int_equal(rail->refs[bench_address(2, 0)], 0);
    assert_false(btl_ib_route_has_own(conn));
    assert_false(btl_ib_route_leads(conn));
    engine->rails[0]->health.failed = true;
    btl_ib_route_retry(conn);
    assert_int_equal(conn->route.address, BTL_IB_ADDR_UNKNOWN);
    engine->rails[0]->health.failed = false;
    btl_ib_route_retry(conn);
    assert_int_equal(conn->route.address, address);
    assert_int_equal(conn->route.to, address);
    assert_true(btl_ib_route_is_own(conn));
    btl_ib_route_retry(conn);
    assert_int_equal(rail->refs[bench_address(2, 0)], 1);
}

/* ---- which one is chosen ---- */

/* Nothing of these connections waits any more, as what they asked is no part of this. */
static btl_ib_conn_t *chosen(btl_ib_conn_t *conn)
{
    assert_true(btl_ib_failover(conn));
    bench_clear(&bench->wire);
    btl_ib_conn_t *carries = btl_ib_route_carrier(conn);
    assert_non_null(carries);
    assert_true(btl_ib_route_take(conn, conn));
    return carries;
}

/* The next rail comes first, but only among those that are as good; one that others use is better
 * than one that was left, a validated one better than one that is not, and one that is refused is
 * the last. */
TEST_WITH(the_best_is_chosen, set_up, chains_are_whole)
{
    btl_ib_conn_t *conn = pair[0][0];

    assert_ptr_equal(chosen(conn), pair[1][0]);
    pair[1][0]->validation.valid = false;
    assert_ptr_equal(chosen(conn), pair[1][1]);
    assert_true(btl_ib_route_take(pair[1][1], pair[1][0])); /* nobody uses it */
    assert_ptr_equal(chosen(conn), pair[0][1]);
    pair[0][1]->goodput.slow_until = engine->clock.now + 1;
    assert_ptr_equal(chosen(conn), pair[1][1]);
    pair[1][1]->validation.refused_at = engine->clock.now;
    assert_ptr_equal(chosen(conn), pair[1][0]);
    pair[0][1]->validation.refused_at = pair[1][0]->validation.refused_at = engine->clock.now;
    assert_ptr_equal(chosen(conn), pair[1][0]);
    pair[1][0]->state = pair[1][1]->state = pair[0][1]->state = BTL_IB_CONN_DEAD;
    assert_false(btl_ib_failover(conn)); /* but its own */
    pair[1][0]->state = pair[1][1]->state = pair[0][1]->state = BTL_IB_CONN_OPEN;
}

/* What is known of the old route is forgotten, and all that was in flight is sent again. */
TEST_WITH(what_a_move_forgets, set_up, chains_are_whole)
{
    btl_ib_conn_t *conn = pair[0][0];

    bench->now += 1000;
    bench_send(bench, 0, 1, 100, 1);
    assert_int_equal(conn->sentmap.in_flight, 1);
    conn->loss.rtt.srtt8 = 8000;
    conn->loss.probes = conn->loss.unanswered_probes = 3;
    conn->loss.reo_wnd_mult = 4;
    conn->validation.route_refused = 5;
    conn->validation.questions = 6;
    conn->validation.unsent_since = 7;
    const uint64_t before = engine->count.failovers;
    assert_true(btl_ib_failover_to(conn, pair[1][1]));
    assert_int_equal(engine->count.failovers, before + 1);
    assert_int_equal(conn->sentmap.in_flight, 0);
    assert_false(btl_ib_list_empty(&conn->ready));
    assert_int_equal(conn->loss.rtt.srtt8, 0);
    assert_int_equal(conn->loss.probes, 0);
    assert_int_equal(conn->loss.reo_wnd_mult, 0);
    assert_int_equal(conn->validation.route_refused, 0);
    assert_int_equal(conn->validation.questions, 0);
    assert_int_equal(conn->validation.unsent_since, 0);
    assert_int_equal(conn->loss.probe_base, engine->clock.now);
    assert_true(btl_ib_hotel_guest_is_in(&conn->loss.timer.guest));
}

/* A message is not accepted where the peer has not answered yet, but by another route; it is asked,
 * once for a while. */
TEST_WITH(declined_until_answered, set_up, chains_are_whole)
{
    btl_ib_conn_t *conn = pair[0][0];
    const uint64_t first = engine->clock.now + SECOND;

    conn->validation.valid = false;
    conn->validation.question_at = 0;
    engine->clock.now = first;
    bench_clear(&bench->wire);
    for (int i = 0; i < 3; i++) {
        assert_null(btl_ib_sendi_begin(conn, 1, 20));
        assert_int_equal(bench->wire.count, 1);
    }
    engine->clock.now = first + BTL_IB_ASK_PAUSE;
    assert_null(btl_ib_sendi_begin(conn, 1, 20));
    assert_int_equal(bench->wire.count, 2);
    const uint8_t *data = bench->wire.first->data;
    assert_int_equal(data[0] & 0xf, BTL_IB_TYPE_ACK);
    assert_true(data[offsetof(btl_ib_wire_header_t, flags)] & BTL_IB_FLAG_ACK_NOW);
    conn->validation.valid = true;
    assert_non_null(btl_ib_sendi_begin(conn, 1, 20));
    btl_ib_sendi_abort(conn);
    engine->clock.now = bench->now;
}

UNIT_MAIN(NULL, NULL)
