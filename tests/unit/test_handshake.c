/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* First contacts: who is let in, when, and what those are told that have to wait. */

#include <string.h>

#include "btl_ib_ack_send.h"
#include "btl_ib_handshake.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

static bench_t *bench;
static btl_ib_transport_ops_t telling; /* the bench's, which tell where datagrams come from */
static btl_ib_engine_ops_t asked;      /* the bench's, but for what a test sets */

static uint32_t source(const btl_ib_transport_t *transport, const btl_ib_event_t *event,
                       uint8_t address[BTL_IB_ADDR_BYTES])
{
    const bench_datagram_t *datagram = event->buffer;

    memcpy(address, &datagram->source, sizeof(datagram->source));
    return sizeof(datagram->source);
}

/* Has the transport of host `i` tell sources. */
static void tell_sources(uint32_t i)
{
    bench_rail_t *rail = &bench->hosts[i].rails[0];

    telling = *rail->base.ops;
    telling.source = source;
    rail->base.ops = &telling;
}

/* Hosts 0, 1 and 2, which do not know each other. */
static int set_up(void **state)
{
    bench = new_bench();
    for (uint32_t i = 0; i < 3; i++) {
        bench_start(bench, i);
    }
    tell_sources(1);
    return 0;
}

/* Each datagram that came was counted by what became of it. */
static int tear_down(void **state)
{
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        if (bench->hosts[i].engine != NULL) {
            bench_check_counters(&bench->hosts[i]);
        }
    }
    end(bench);
    return 0;
}

/* All that is on the wire arrives, but nobody looks at it. */
static void deliver_all(void)
{
    bench->now += BENCH_DELAY;
    while (bench->wire.count > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
}

/* The thread of host 1 takes in what arrived. */
static void turn_of_thread(void)
{
    btl_ib_engine_async_progress(bench->hosts[1].engine, bench->now, 64);
}

static btl_ib_type_t type_of(const bench_datagram_t *datagram)
{
    return (btl_ib_type_t) (datagram->data[0] & 0xf);
}

/* Of what lies on the wire: how many responses there are to host `to`. */
static uint32_t responses(uint32_t to)
{
    uint32_t count = 0;

    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        count += d->to == bench_address(to, 0) && type_of(d) == BTL_IB_TYPE_PATH_RESPONSE;
    }
    return count;
}

static bool is_delivered(uint32_t message)
{
    return bench->messages[message].delivered == 1;
}

/* ---- the thread ---- */

/* The thread cannot ask who it is: a first contact is kept, once, and its sender is told that it
 * got here. The application's next turn delivers it. */
TEST_WITH(kept_by_the_thread, set_up, tear_down)
{
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    const uint32_t first = bench_send(bench, 0, 1, 1000, 1);

    bench_turn(bench, 0);
    bench_datagram_t *copy = bench_copy(bench->wire.first);
    deliver_all();
    turn_of_thread();
    assert_int_equal(responses(0), 1);
    assert_true(bench->wire.first->size <= copy->size);
    assert_int_equal(count->sent_responses, 1);
    assert_int_equal(count->received_unidentified, 1);
    assert_null(bench_conn(bench, 1, 0));
    bench_push(&bench->wire, bench_copy(copy));
    const uint32_t second = bench_send(bench, 0, 1, 1000, 1);
    bench_turn(bench, 0);
    const bench_datagram_t *response = bench->wire.first;
    bench_push(&bench->wire, bench_pop(&bench->wire)); /* it is late */
    assert_int_equal(type_of(response), BTL_IB_TYPE_PATH_RESPONSE);
    deliver_all();
    turn_of_thread();
    assert_int_equal(count->dropped_lookup, 1); /* the copy */
    assert_int_equal(count->received_unidentified, 2);
    bench_turn(bench, 0);
    assert_int_equal(bench_counters(bench, 0)->received_responses, 1);
    assert_true(bench_conn(bench, 0, 1)->validation.answered);
    assert_true(bench_conn(bench, 0, 1)->validation.valid);
    assert_false(is_delivered(first));
    bench_turn(bench, 1);
    assert_true(is_delivered(first));
    assert_true(is_delivered(second));
    assert_int_equal(bench->hosts[1].lookups, 1); /* that answered for both */
    free(copy);
    bench_run(bench, SECOND);
    assert_int_equal(bench_counters(bench, 1)->dropped_source, 0);
    bench_check_counters(&bench->hosts[1]);
    each_delivered_once(bench);
}

/* What came in one turn with a first contact came before its sender's address was known: it counts
 * as from there, if the transport tells sources or not. */
TEST_WITH(two_at_once, set_up, tear_down)
{
    for (uint32_t to = 1; to < 3; to++) {
        const uint32_t first = bench_send(bench, 0, to, 1000, 1);
        const uint32_t second = bench_send(bench, 0, to, 1000, 1);
        bench_turn(bench, 0);
        assert_int_equal(bench->wire.count, 2);
        deliver_all();
        bench_turn(bench, to);
        assert_true(is_delivered(first));
        assert_true(is_delivered(second));
        assert_int_equal(bench_counters(bench, to)->dropped_source, 0);
        bench_run(bench, 5000);
    }
}

/* A peer that closes before it was looked up has its message delivered nevertheless. */
TEST_WITH(closes_before_it_is_known, set_up, tear_down)
{
    const uint32_t message = bench_send(bench, 0, 1, 1000, 1);

    bench_turn(bench, 0);
    deliver_all();
    turn_of_thread();
    btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
    bench_turn(bench, 0);
    deliver_all();
    turn_of_thread();
    assert_int_equal(bench_counters(bench, 1)->dropped_unknown, 0);
    bench_turn(bench, 1);
    assert_true(is_delivered(message));
    bench_run(bench, SECOND);
    assert_false(bench_conn(bench, 1, 0)->identity.bound);
}

/* A CLOSE of somebody of whom nothing is kept closes nothing. */
TEST_WITH(closes_nothing, set_up, tear_down)
{
    bench_send(bench, 0, 1, 1000, 1);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
    bench_turn(bench, 0);
    assert_int_equal(type_of(bench->wire.first), BTL_IB_TYPE_CLOSE);
    deliver_all();
    bench_turn(bench, 1);
    assert_int_equal(bench_counters(bench, 1)->dropped_unknown, 1);
    assert_int_equal(bench->hosts[1].lookups, 0);
}

/* ---- limits ---- */

/* More than so many lookups a second are not made: who comes then is told to wait, and is let in
 * later. */
TEST_WITH(lookups_in_a_second, set_up, tear_down)
{
    bench->hosts[1].engine->config.lookups_max = 1;
    bench_turn(bench, 1);
    const uint32_t first = bench_send(bench, 0, 1, 100, 1);
    const uint32_t second = bench_send(bench, 2, 1, 100, 1);
    bench_turn(bench, 0);
    bench_turn(bench, 2);
    deliver_all();
    bench_turn(bench, 1);
    assert_int_equal(bench->hosts[1].lookups, 1);
    assert_true(is_delivered(first));
    assert_false(is_delivered(second));
    assert_int_equal(responses(2), 1);
    assert_int_equal(responses(0), 0);
    assert_int_equal(bench_counters(bench, 1)->dropped_lookup, 1);
    assert_true(bench_settle(bench, 3 * SECOND));
    assert_true(is_delivered(second));
    each_delivered_once(bench);
}

/* Once nobody new is let in they are not even told to wait. */
TEST_WITH(closed, set_up, tear_down)
{
    btl_ib_engine_refuse_new(bench->hosts[1].engine, bench->now);
    bench_send(bench, 0, 1, 100, 1);
    bench_turn(bench, 0);
    deliver_all();
    bench_turn(bench, 1);
    bench_turn(bench, 1);
    assert_int_equal(bench->wire.count, 0);
    assert_null(bench_conn(bench, 1, 0));
}

/* One that asks again, in the place of its last connection, needs no room among those that nobody
 * adopted. */
TEST_WITH(too_many_passive, set_up, tear_down)
{
    bench->hosts[1].engine->config.passive_max = 1;
    const uint32_t first = bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    const uint32_t second = bench_send(bench, 2, 1, 100, 1);
    bench_run(bench, SECOND);
    assert_true(is_delivered(first));
    assert_false(is_delivered(second));
    bench_stop(bench, 0);
    bench_start(bench, 0);
    const uint32_t again = bench_send(bench, 0, 1, 100, 1);
    bench_run(bench, SECOND);
    assert_true(is_delivered(again));
    assert_non_null(bench_connect(bench, 1, 0)); /* which adopts it */
    assert_true(bench_settle(bench, 3 * SECOND));
    assert_true(is_delivered(second));
}

/* There is no memory for another connection. */
TEST_WITH(no_memory, set_up, tear_down)
{
    const uint32_t message = bench_send(bench, 0, 1, 100, 1);

    bench_turn(bench, 0);
    bench_turn(bench, 1);
    deliver_all();
    bench->hosts[1].fail_in = 2; /* the first keeps the datagram */
    bench_turn(bench, 1);
    assert_null(bench_conn(bench, 1, 0));
    assert_int_equal(bench_counters(bench, 1)->dropped_lookup, 1);
    assert_true(bench_settle(bench, SECOND));
    assert_true(is_delivered(message));
}

/* ---- who is it? ---- */

static enum answer { NOBODY, ANOTHER, OTHER_RAIL, OTHER_SECRET, RIGHT } answer;

static bool look_up(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                    btl_ib_peer_info_t *info)
{
    *info = bench_info(bench, 0, 0);
    info->name += answer == ANOTHER;
    info->rail += answer == OTHER_RAIL;
    info->secret.k[0] += answer == OTHER_SECRET;
    return answer != NOBODY;
}

/* Only that process is let in which the runtime knows by that name and rail, and that has its
 * secret. */
TEST_WITH(answers_of_the_runtime, set_up, tear_down)
{
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    btl_ib_engine_t *engine = bench->hosts[1].engine;
    const btl_ib_engine_ops_t *const before = engine->ops;

    bench_send(bench, 0, 1, 100, 1);
    bench_turn(bench, 0);
    asked = *before;
    asked.lookup = look_up;
    engine->ops = &asked;
    for (answer = NOBODY; answer <= RIGHT; answer++) {
        bench_push(&bench->wire, bench_copy(bench->wire.first));
        bench_deliver(bench, bench_pop(&bench->wire));
        bench_turn(bench, 1);
        assert_int_equal(count->dropped_unknown, answer < OTHER_SECRET ? answer + 1 : 3);
        assert_int_equal(count->dropped_token, answer >= OTHER_SECRET);
        assert_int_equal(bench_conn(bench, 1, 0) != NULL, answer == RIGHT);
    }
    engine->ops = before;
    assert_true(bench_settle(bench, SECOND));
}

static bool look_up_and_make(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                             btl_ib_peer_info_t *info)
{
    answer = RIGHT;
    assert_non_null(bench_connect(bench, 1, 0)); /* another thread did that */
    return look_up(context, name, rail, remote_rail, info);
}

/* Who is made a peer while the runtime is asked is not made twice: the datagram comes again. */
TEST_WITH(made_meanwhile, set_up, tear_down)
{
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    btl_ib_engine_t *engine = bench->hosts[1].engine;
    const btl_ib_engine_ops_t *const before = engine->ops;
    const uint32_t message = bench_send(bench, 0, 1, 100, 1);

    bench_turn(bench, 0);
    asked = *before;
    asked.recall = look_up_and_make;
    engine->ops = &asked;
    deliver_all();
    bench_turn(bench, 1);
    engine->ops = before;
    assert_int_equal(count->dropped_stale, 1);
    assert_int_equal(count->connections_passive, 0);
    assert_false(is_delivered(message));
    assert_true(bench_settle(bench, SECOND));
    assert_true(is_delivered(message));
    assert_int_equal(count->connections_passive, 0);
}

/* Throws host 0's first contact at host 1 with a byte of its CONNECT block changed by `by`. */
static void throw_changed(const bench_datagram_t *contact, size_t at, uint8_t by)
{
    bench_datagram_t *changed = bench_copy(contact);

    changed->data[sizeof(btl_ib_wire_header_t) + at] += by;
    bench_push(&bench->wire, changed);
    deliver_all();
    bench_turn(bench, 1);
}

/* Rails that there are not; another rail than the one by which it came, of somebody who has no
 * connection; and the end of incarnations that never began. */
TEST_WITH(what_cannot_be, set_up, tear_down)
{
    const btl_ib_counters_t *count = bench_counters(bench, 1);

    bench_send(bench, 0, 1, 100, 1);
    bench_turn(bench, 0);
    bench_datagram_t *contact = bench_pop(&bench->wire);
    throw_changed(contact, offsetof(btl_ib_wire_connect_t, to_rail), 1);
    throw_changed(contact, offsetof(btl_ib_wire_connect_t, from_rail), BTL_IB_RAILS_MAX);
    assert_int_equal(count->dropped_unknown, 2);
    assert_int_equal(bench->hosts[1].lookups, 0);
    const uint8_t newest = (uint8_t) bench->hosts[1].engine->incarnations.newest;
    throw_changed(contact, offsetof(btl_ib_wire_connect_t, floor), (uint8_t) (newest + 2));
    assert_int_equal(count->dropped_stale, 1);
    assert_null(bench_conn(bench, 1, 0));
    throw_changed(contact, offsetof(btl_ib_wire_connect_t, floor), (uint8_t) (newest + 1));
    assert_int_equal(count->dropped_stale, 1);
    assert_non_null(bench_conn(bench, 1, 0));
    free(contact);
    assert_true(bench_settle(bench, SECOND));
}

/* The same once it is known. */
TEST_WITH(what_cannot_be_of_a_peer, set_up, tear_down)
{
    const btl_ib_counters_t *count = bench_counters(bench, 1);

    bench->taping = true;
    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench->taping = false;
    bench_datagram_t *contact = bench_copy(bench->tape.first);
    const uint32_t epoch = bench_peer(bench, 1, 0).epoch;
    const uint64_t stale = bench_counters(bench, 1)->dropped_stale;
    throw_changed(contact, offsetof(btl_ib_wire_connect_t, floor), (uint8_t) (epoch + 5));
    assert_int_equal(count->dropped_stale, stale + 1);
    assert_int_equal(bench_peer(bench, 1, 0).epoch, epoch);
    free(contact);
    still_works(bench);
}

/* ---- incarnations ---- */

/* Of a connection that ended at host 1: its peer's first contact, which comes late. */
static bench_datagram_t *ended(void)
{
    bench->taping = true;
    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench->taping = false;
    bench_run(bench, 5000);
    btl_ib_conn_destroy(bench_conn(bench, 1, 0), bench->now);
    bench_run(bench, 10000);
    assert_null(bench_conn(bench, 1, 0));
    return bench_copy(bench->tape.first);
}

/* If there is a new one by then the sender is told, whose CONNECT says what ended. */
TEST_WITH(of_an_incarnation_that_ended, set_up, tear_down)
{
    bench_datagram_t *late = ended();
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    const uint64_t stale = count->dropped_stale;

    assert_non_null(bench_connect(bench, 1, 0));
    bench_push(&bench->wire, late);
    bench_deliver(bench, bench_pop(&bench->wire));
    bench_turn(bench, 1);
    assert_int_equal(count->dropped_stale, stale + 1);
    assert_int_equal(bench->wire.count, 1);
    assert_true(bench->wire.first->data[1] & BTL_IB_FLAG_CONNECT);
    assert_false(bench_conn(bench, 1, 0)->identity.bound);
    still_works(bench);
}

/* If there is none nothing begins, and the thread does not say that it got here: only our silence
 * tells its sender that it ended. */
TEST_WITH(of_one_that_ended_for_good, set_up, tear_down)
{
    bench_datagram_t *late = ended();
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    const uint64_t stale = count->dropped_stale;

    bench_push(&bench->wire, late);
    bench_deliver(bench, bench_pop(&bench->wire));
    turn_of_thread();
    assert_int_equal(count->sent_responses, 0);
    assert_int_equal(bench->wire.count, 0);
    bench_turn(bench, 1);
    assert_int_equal(count->dropped_stale, stale + 1);
    assert_null(bench_conn(bench, 1, 0));
}

/* A process that has restarted takes the place of the one of its name, whoever hears it. */
TEST_WITH(restarted, set_up, tear_down)
{
    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_stop(bench, 0);
    bench_start(bench, 0);
    const uint64_t lookups = bench->hosts[1].lookups;
    const uint32_t message = bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    assert_true(is_delivered(message));
    assert_int_equal(bench->hosts[1].deaths[BTL_IB_DEATH_RESTARTED], 1);
    assert_int_equal(bench->hosts[1].lookups, lookups + 1);
    assert_int_equal(bench_counters(bench, 1)->connections_passive, 2);
}

static bool loses_all(bench_t *all, const bench_datagram_t *datagram)
{
    return true;
}

/* A peer that closed, and came back without our being told: what was on its way to it is over, and
 * ours is a new incarnation, too, as it had data of the one before. */
TEST_WITH(reopened, set_up, tear_down)
{
    bench_send(bench, 0, 1, 100, 1);
    bench_send(bench, 1, 0, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    const uint32_t epoch = bench_peer(bench, 1, 0).epoch;
    bench->loses = loses_all;
    const uint32_t lost = bench_send(bench, 1, 0, 100, 1);
    bench_turn(bench, 1);
    btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
    bench_run(bench, 10000);
    assert_int_equal(bench_totals(&bench->hosts[1]).unacked, 1);
    bench->loses = NULL;
    const uint32_t message = bench_send(bench, 0, 1, 100, 1);
    bench_turn(bench, 0);
    deliver_all();
    bench_turn(bench, 1);
    assert_true(is_delivered(message));
    assert_int_equal(bench_peer(bench, 1, 0).epoch, epoch + 1);
    bench_run(bench, SECOND);
    assert_int_equal(bench_totals(&bench->hosts[1]).unacked, 0);
    assert_false(is_delivered(lost));
    const uint32_t back = bench_send(bench, 1, 0, 100, 1);
    bench_run(bench, SECOND);
    assert_true(is_delivered(back));
}

/* One that asks whether we are there, and does not know us, is answered. */
TEST_WITH(asks_who_we_are, set_up, tear_down)
{
    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    btl_ib_conn_t *conn = bench_conn(bench, 0, 1);
    btl_ib_identity_unbind(&conn->identity); /* it missed all that we sent */
    bench_clear(&bench->wire);
    const uint64_t stale = bench_counters(bench, 1)->dropped_stale;
    btl_ib_loss_blocked(&conn->loss, 1, bench->now);
    conn->pmtud.checking = true;
    btl_ib_loss_set_timer(conn);
    bench->now += SECOND;
    bench_turn(bench, 0);
    assert_int_equal(type_of(bench->wire.first), BTL_IB_TYPE_ACK);
    assert_true(bench->wire.first->data[1] & BTL_IB_FLAG_CONNECT);
    deliver_all();
    bench_turn(bench, 1);
    assert_int_equal(bench_counters(bench, 1)->dropped_stale, stale + 1);
    assert_true(bench->wire.count > 0);
    assert_int_equal(type_of(bench->wire.first), BTL_IB_TYPE_ACK);
    conn->pmtud.checking = false;
    bench_run(bench, SECOND);
    assert_true(conn->identity.bound);
}

/* ---- responses ---- */

/* Host 0's connection with host 1, which has answered its first contact with this. */
static bench_datagram_t *response_of(btl_ib_conn_t **conn)
{
    bench_send(bench, 0, 1, 1000, 1);
    bench_turn(bench, 0);
    deliver_all();
    turn_of_thread();
    assert_int_equal(responses(0), 1);
    *conn = bench_conn(bench, 0, 1);
    return bench_pop(&bench->wire);
}

/* Throws it at host 0, from there. Returns whether it was believed. */
static bool believed(const bench_datagram_t *response, uint32_t from, uint32_t size,
                     const uint64_t *dropped)
{
    uint8_t bytes[64] = {0};
    const btl_ib_counters_t *count = bench_counters(bench, 0);
    const uint64_t before = count->received_responses;
    const uint64_t dropped_before = *dropped;

    memcpy(bytes, response->data, response->size);
    bench_throw(bench, 0, from, bytes, size);
    const bool taken = count->received_responses > before;
    assert_int_equal(*dropped - dropped_before, !taken);
    return taken;
}

/* What is no response of the peer, to this incarnation, is not taken for one. */
TEST_WITH(false_responses, set_up, tear_down)
{
    btl_ib_counters_t *count = (btl_ib_counters_t *) (uintptr_t) bench_counters(bench, 0);
    btl_ib_conn_t *conn;
    bench_datagram_t *response = response_of(&conn);
    const uint32_t from = bench_address(1, 0), size = response->size;

    response->data[offsetof(btl_ib_wire_header_t, token)] ^= 1;
    assert_false(believed(response, from, size, &count->dropped_token));
    response->data[offsetof(btl_ib_wire_header_t, token)] ^= 1;
    response->data[offsetof(btl_ib_wire_header_t, connection)] ^= 0x10;
    assert_false(believed(response, from, size, &count->dropped_unknown));
    response->data[offsetof(btl_ib_wire_header_t, connection)] ^= 0x10;
    conn->identity.version++;
    assert_false(believed(response, from, size, &count->dropped_version));
    conn->identity.version--;
    assert_false(believed(response, bench_address(2, 0), size, &count->dropped_source));
    conn->state = BTL_IB_CONN_DEAD;
    assert_false(believed(response, from, size, &count->dropped_unknown));
    conn->state = BTL_IB_CONN_OPEN;
    conn->identity.peer_knows = true;
    assert_false(believed(response, from, size, &count->dropped_stale));
    conn->identity.peer_knows = false;
    assert_false(conn->validation.answered);
    assert_false(conn->validation.valid);
    assert_true(believed(response, from, size, &count->dropped_unknown));
    assert_true(conn->validation.answered);
    assert_true(conn->validation.valid);
    assert_true(conn->loss.path_response);
    free(response);
    assert_true(bench_settle(bench, SECOND));
}

/* ---- tokens ---- */

/* A datagram that names nobody, or has not the token of whom it names, is counted by that. */
TEST_WITH(no_token, set_up, tear_down)
{
    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    const uint64_t token = count->dropped_token, unknown = count->dropped_unknown;

    forgery.header.token ^= 1;
    bench_throw(bench, 1, bench_address(0, 0), &forgery, forgery.size);
    assert_int_equal(count->dropped_token, token + 1);
    assert_int_equal(count->dropped_unknown, unknown);
    forgery.header.connection ^= BTL_IB_LE32(0x10);
    bench_throw(bench, 1, bench_address(0, 0), &forgery, forgery.size);
    assert_int_equal(count->dropped_token, token + 1);
    assert_int_equal(count->dropped_unknown, unknown + 1);
}

/* ---- other rails ---- */

static int set_up_rails(void **state)
{
    bench = new_bench();
    bench->rails = BENCH_RAILS;
    for (uint32_t i = 0; i < 3; i++) {
        bench_start(bench, i);
    }
    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    return 0;
}

/* A datagram of host 0 gets to host 1 by its second rail, over which it has no connection. */
static void come_by_another(void)
{
    const bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);
    bench_datagram_t *datagram = malloc(sizeof(*datagram) + forgery.size);

    assert_non_null(datagram);
    datagram->source = bench_address(0, 1);
    datagram->to = bench_address(1, 1);
    datagram->size = forgery.size;
    memcpy(datagram->data, &forgery, forgery.size);
    bench_deliver(bench, datagram);
    bench_turn(bench, 1);
}

static btl_ib_conn_t *by_another(void)
{
    return btl_ib_conn_find(bench->hosts[1].engine, 1, bench->hosts[0].config.name, 0);
}

/* A datagram with the peer's token that comes by a rail over which there is no connection with it
 * has one made, so that the next one is taken. */
TEST_WITH(comes_by_another_rail, set_up_rails, tear_down)
{
    btl_ib_engine_t *engine = bench->hosts[1].engine;
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    const btl_ib_engine_ops_t *const before = engine->ops;

    engine->rails[1]->health.down = true;
    come_by_another();
    assert_null(by_another());
    engine->rails[1]->health.down = false;
    asked = *before;
    asked.lookup = look_up;
    engine->ops = &asked;
    answer = OTHER_SECRET; /* it has restarted */
    come_by_another();
    assert_null(by_another());
    answer = NOBODY;
    come_by_another();
    assert_null(by_another());
    engine->ops = before;
    assert_int_equal(count->dropped_source, 3);
    come_by_another();
    assert_int_equal(count->dropped_source, 4);
    assert_non_null(by_another());
    assert_ptr_equal(by_another()->rail, engine->rails[1]);
    const uint64_t lookups = bench->hosts[1].lookups;
    come_by_another();
    assert_int_equal(bench->hosts[1].lookups, lookups); /* it is there */
}

/* A first contact from another rail of a process than the one by which it is known is that of
 * another connection, with what was published of that rail. */
TEST_WITH(comes_from_another_rail, set_up_rails, tear_down)
{
    const btl_ib_peer_info_t info = bench_info(bench, 1, 0);
    btl_ib_conn_t *made;

    assert_int_equal(btl_ib_conn_create(bench->hosts[0].engine, 1, &info, NULL, &made), 0);
    btl_ib_ack_send(made, BTL_IB_FLAG_ACK_NOW);
    assert_int_equal(bench->wire.count, 1);
    assert_int_equal(bench->wire.first->source, bench_address(0, 1));
    deliver_all();
    bench_turn(bench, 1);
    const btl_ib_conn_t *found =
        btl_ib_conn_find(bench->hosts[1].engine, 0, bench->hosts[0].config.name, 1);
    assert_non_null(found);
    assert_true(found->identity.bound);
    btl_ib_conn_t *of_stranger;
    assert_int_equal(btl_ib_conn_create(bench->hosts[2].engine, 1, &info, NULL, &of_stranger), 0);
    btl_ib_ack_send(of_stranger, BTL_IB_FLAG_ACK_NOW);
    deliver_all();
    bench_turn(bench, 1);
    found = btl_ib_conn_find(bench->hosts[1].engine, 0, bench->hosts[2].config.name, 1);
    assert_non_null(found);
    assert_true(found->identity.bound);
    bench_run(bench, 5000);
    assert_true(made->identity.bound);
    assert_true(made->validation.valid);
    /* any of its addresses is a source of each of its connections */
    const uint64_t dropped = bench_counters(bench, 1)->dropped_source;
    const bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);
    bench_throw(bench, 1, bench_address(0, 1), &forgery, forgery.size);
    assert_int_equal(bench_counters(bench, 1)->dropped_source, dropped);
    bench_throw(bench, 1, bench_address(2, 0), &forgery, forgery.size);
    assert_int_equal(bench_counters(bench, 1)->dropped_source, dropped + 1);
    bench_send(bench, 2, 1, 100, 1);
    bench_flow(bench);
    bench_throw(bench, 1, bench_address(2, 0), &forgery, forgery.size); /* known, but not as its */
    assert_int_equal(bench_counters(bench, 1)->dropped_source, dropped + 2);
}

/* ---- what is known of a process already ---- */

static bool recall(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                   btl_ib_peer_info_t *info)
{
    *info = bench_info(bench, 0, remote_rail);
    info->secret.k[0] += answer == OTHER_SECRET;
    return answer != NOBODY;
}

/* Host 0 begins another connection with host 1, from its rail 1. Returns how often the runtime is
 * asked who it is. */
static uint64_t begin_from_another(void)
{
    const uint64_t lookups = bench->hosts[1].lookups;
    const btl_ib_peer_info_t info = bench_info(bench, 1, 0);
    btl_ib_conn_t *made;

    assert_int_equal(btl_ib_conn_create(bench->hosts[0].engine, 1, &info, NULL, &made), 0);
    btl_ib_ack_send(made, BTL_IB_FLAG_ACK_NOW);
    deliver_all();
    bench_turn(bench, 1);
    const btl_ib_conn_t *found =
        btl_ib_conn_find(bench->hosts[1].engine, 0, bench->hosts[0].config.name, 1);
    assert_non_null(found);
    assert_true(found->identity.bound);
    bench_run(bench, 5000);
    assert_true(made->identity.bound);
    return bench->hosts[1].lookups - lookups;
}

/* Another rail of a process that is known is let in without asking the runtime, which may take
 * long; but it is asked if nothing is known, or the token does not fit. */
static void recall_another(enum answer known, uint64_t asks)
{
    btl_ib_engine_t *engine = bench->hosts[1].engine;
    const btl_ib_engine_ops_t *const before = engine->ops;

    asked = *before;
    asked.recall = recall;
    engine->ops = &asked;
    answer = known;
    assert_int_equal(begin_from_another(), asks);
    engine->ops = before;
}

TEST_WITH(recalled, set_up_rails, tear_down)
{
    recall_another(RIGHT, 0);
}

TEST_WITH(nothing_to_recall, set_up_rails, tear_down)
{
    recall_another(NOBODY, 1);
}

TEST_WITH(recalled_with_another_secret, set_up_rails, tear_down)
{
    recall_another(OTHER_SECRET, 1);
}

/* ---- keys ---- */

static int set_up_keys(void **state)
{
    bench = new_bench();
    if (!bench_protection(bench, BTL_IB_PROTECTION_INTEGRITY)) {
        return 0;
    }
    for (uint32_t i = 0; i < 3; i++) {
        bench_start(bench, i);
    }
    return 0;
}

/* Only what the sender's key opens begins anything: a connection, or one that follows. */
TEST_WITH(keys, set_up_keys, tear_down)
{
    if (bench->aead == NULL) {
        skip();
    }
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    bench_send(bench, 0, 1, 1000, 1);
    bench_turn(bench, 0);
    bench_datagram_t *contact = bench_pop(&bench->wire);
    bench_datagram_t *wrong = bench_copy(contact);
    wrong->data[wrong->size - 1] ^= 1;
    bench_deliver(bench, wrong);
    bench_turn(bench, 1);
    assert_null(bench_conn(bench, 1, 0));
    bench_deliver(bench, bench_copy(contact));
    bench_turn(bench, 1);
    assert_non_null(bench_conn(bench, 1, 0));
    bench_run(bench, SECOND);
    btl_ib_conn_destroy(bench_conn(bench, 1, 0), bench->now);
    bench_run(bench, 10000);
    assert_non_null(bench_connect(bench, 1, 0));
    const uint64_t stale = count->dropped_stale;
    wrong = bench_copy(contact); /* of an incarnation that ended */
    wrong->data[wrong->size - 1] ^= 1;
    bench_deliver(bench, wrong);
    bench_turn(bench, 1);
    assert_int_equal(count->dropped_stale, stale);
    assert_int_equal(bench->wire.count, 0);
    bench_deliver(bench, contact);
    bench_turn(bench, 1);
    assert_int_equal(count->dropped_stale, stale + 1);
    assert_int_equal(bench->wire.count, 1);
    bench_send(bench, 0, 1, 1000, 1); /* of a new one, to one that waits for it */
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    bench_run(bench, SECOND);
    assert_true(bench_conn(bench, 1, 0)->identity.bound);
    assert_int_equal(bench->hosts[1].deaths[BTL_IB_DEATH_RESTARTED], 0);
    still_works(bench);
}

static bool derives_nothing(btl_ib_aead_t *aead, const void *secret, size_t secret_size,
                            const void *info, size_t info_size, void *out, size_t size)
{
    return false;
}

/* Where a key cannot be made (the library has no memory) nothing begins, and nobody is dropped: the
 * first contact comes again. */
TEST_WITH(no_memory_for_keys, set_up_keys, tear_down)
{
    if (bench->aead == NULL) {
        skip();
    }
    const uint32_t message = bench_send(bench, 0, 1, 100, 1);
    bench_turn(bench, 0);
    deliver_all();
    const btl_ib_aead_ops_t *const before = bench->aead->ops;
    btl_ib_aead_ops_t failing = *before;
    failing.derive = derives_nothing;
    bench->aead->ops = &failing;
    bench_turn(bench, 1);
    bench->aead->ops = before;
    assert_null(bench_conn(bench, 1, 0));
    assert_int_equal(bench_counters(bench, 1)->rnr_memory, 1);
    assert_true(bench_settle(bench, SECOND));
    assert_true(is_delivered(message));
}

UNIT_MAIN(NULL, NULL)
