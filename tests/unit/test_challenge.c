/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Processes behind routers that rewrite sources, and somebody who would like to be taken for such a
 * router: who captures, replays and relays, but has no process' secret. */

#include <stdlib.h>
#include <string.h>

#include "btl_ib_challenge.h"
#include "btl_ib_protection.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum {
    MALLORY = 2 * BENCH_RAILS, /* address of a host that has no process */
    QUIET = BTL_IB_CHALLENGE_QUIET + 50000,
    CHALLENGE = BTL_IB_FLAG_PATH | BTL_IB_FLAG_ACK_NOW,
};

/* Hosts 0 and 1, and a transport that tells how routers have addresses. */
static bench_t *begin(uint32_t routed)
{
    bench_t *bench = new_bench();

    bench->rewrites = true;
    bench->routed = routed;
    return bench;
}

/* ---- routers ---- */

/* What is sent to published addresses gets nowhere: only what the router has leads there. */
static bool drops_published(bench_t *bench, const bench_datagram_t *datagram)
{
    return datagram->to == bench_address(0, 0) && (bench->routed & 1) != 0;
}

/* In mid-job: after a short silence, as no datagram comes from where the peer was. It comes
 * back to an address that has answered before. */
TEST(a_router_comes_and_goes)
{
    bench_t *bench = begin(0);

    acquaint(bench);
    bench->loses = drops_published;
    for (uint32_t i = 0; i < 4; i++) {
        bench->routed = i % 2 == 0;
        bench_run(bench, QUIET);
        talk(bench, 2);
        assert_int_equal(bench_counters(bench, 1)->rewritten, 1);
    }
    end_delivered(bench);
}

/* 0.3.0, which drops what it does not know, is met neither better nor worse than before. */
TEST(a_peer_that_never_answers)
{
    bench_t *bench = begin(0);

    acquaint(bench);
    bench_run(bench, QUIET);
    bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);
    bench_throw(bench, 1, MALLORY, &forgery, forgery.size);
    assert_int_equal(bench->wire.first->to, MALLORY);
    assert_int_equal(bench->wire.first->data[1], CHALLENGE);
    still_works(bench);
    assert_int_equal(bench_counters(bench, 1)->rewritten, 0);
    end(bench);
}

/* The router is gone, and the peer is heard from where it was. That is believed if what goes to the
 * router is not answered. */
TEST(back_inside)
{
    bench_t *bench = begin(0);

    acquaint(bench);
    btl_ib_conn_t *conn = bench_conn(bench, 1, 0);
    const btl_ib_addr_t before = conn->route.address;
    conn->flow.doubted = true;
    btl_ib_challenge_inside(conn); /* there was no router */
    assert_int_equal(conn->route.address, before);
    assert_false(conn->loss.disconnected);
    const uint32_t outside = bench_address(0, 1);
    assert_true(btl_ib_route_rewritten(conn, (const uint8_t *) &outside, sizeof(outside)));
    conn->flow.doubted = false;
    btl_ib_challenge_inside(conn);
    assert_int_not_equal(conn->route.address, before);
    conn->flow.doubted = true;
    btl_ib_challenge_inside(conn);
    assert_int_equal(conn->route.address, before);
    assert_false(conn->flow.doubted);
    assert_true(conn->loss.disconnected); /* what is in flight goes again */
    end_working(bench);
}

/* ---- somebody else ---- */

/* A datagram of host 0 that somebody captured is thrown at host 1 from address `from`. Returns the
 * challenge to that, which is not delivered. */
static bench_datagram_t *provoke(bench_t *bench, uint32_t from)
{
    const bench_forgery_t captured = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);
    const uint64_t dropped = bench_counters(bench, 1)->dropped_source;

    assert_int_equal(bench->wire.count, 0);
    bench_throw(bench, 1, from, &captured, captured.size);
    assert_int_equal(bench_counters(bench, 1)->dropped_source, dropped + 1);
    assert_int_equal(bench->wire.count, 1);
    bench_datagram_t *challenge = bench_pop(&bench->wire);
    assert_int_equal(challenge->to, from);
    assert_int_equal(challenge->data[1], CHALLENGE);
    assert_true(challenge->size <= captured.size);
    return challenge;
}

/* Hosts 0 and 1 that know each other, and have been quiet for so long that challenges are sent. */
static bench_t *quiet(void)
{
    bench_t *bench = begin(0);

    acquaint(bench);
    bench_run(bench, QUIET);
    return bench;
}

/* The same for an answer: it is dropped for that cause, nothing is sent and nobody moves. */
static void answer_without_effect(bench_t *bench, uint32_t from, const void *data, uint32_t size,
                                  const char *cause)
{
    bench_watch_t watch;

    bench_watch(&bench->hosts[1], true, &watch);
    bench_throw(bench, 1, from, data, size);
    bench_unchanged(&watch, cause, 1);
    assert_int_equal(bench->wire.count, 0);
}

/* The answer that host 0 makes when a challenge gets there, whoever brings it. */
static bench_datagram_t *answer_of(bench_t *bench, const bench_datagram_t *challenge)
{
    bench_throw(bench, 0, MALLORY, challenge->data, challenge->size);
    assert_int_equal(bench->wire.count, 1);
    bench_datagram_t *answer = bench_pop(&bench->wire);
    const btl_ib_wire_path_t *path = (const btl_ib_wire_path_t *) (const void *) answer->data;
    assert_int_equal(path->flags, BTL_IB_FLAG_PATH);
    assert_int_equal(path->from, 0); /* nobody answers it */
    return answer;
}

/* Without secrets: what was captured, the challenge itself, and each bit of the right answer
 * wrong. */
TEST(wrong_answers)
{
    bench_t *bench = quiet();
    bench_datagram_t *challenge = provoke(bench, MALLORY);
    bench_datagram_t *answer = answer_of(bench, challenge);

    answer_without_effect(bench, MALLORY, challenge->data, challenge->size, "dropped_token");
    challenge->data[1] = BTL_IB_FLAG_PATH;
    memcpy(challenge->data + 4, challenge->data + 28, 4); /* named as the answer names it */
    answer_without_effect(bench, MALLORY, challenge->data, challenge->size, "dropped_token");
    for (uint32_t bit = 8 * 8; bit < 24 * 8; bit++) { /* of the token, and of the challenge */
        answer->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
        answer_without_effect(bench, MALLORY, answer->data, answer->size, "dropped_token");
        answer->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
    }
    free(challenge);
    free(answer);
    still_works(bench);
    assert_int_equal(bench_counters(bench, 1)->rewritten, 0);
    end(bench);
}

/* The right answer does not come from where the challenge went, or too late. */
TEST(answers_from_elsewhere)
{
    bench_t *bench = quiet();
    bench_datagram_t *challenge = provoke(bench, MALLORY);
    bench_datagram_t *answer = answer_of(bench, challenge);

    /* to where host 1 is, not to where the challenge came from */
    assert_int_equal(answer->to, bench_address(1, 0));
    answer_without_effect(bench, MALLORY + 1, answer->data, answer->size, "dropped_source");
    answer_without_effect(bench, BENCH_UNKNOWN, answer->data, answer->size, "dropped_source");
    answer_without_effect(bench, bench_address(0, 0), answer->data, answer->size, "dropped_stale");
    bench->now += 2 * BTL_IB_CHALLENGE_VALID;
    bench_turn(bench, 1); /* which was not away when it comes */
    answer_without_effect(bench, MALLORY, answer->data, answer->size, "dropped_source");
    free(challenge);
    free(answer);
    still_works(bench);
    assert_int_equal(bench_counters(bench, 1)->rewritten, 0);
    end(bench);
}

/* A relay is a router. But while the peer is heard from where it should be there is no challenge,
 * and an answer is not believed. */
TEST(a_relay_beside_a_peer_that_is_heard)
{
    bench_t *bench = quiet();
    bench_datagram_t *challenge = provoke(bench, MALLORY);
    bench_datagram_t *answer = answer_of(bench, challenge);
    const bench_forgery_t captured = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);

    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 3000);
    answer_without_effect(bench, MALLORY, answer->data, answer->size, "dropped_stale");
    bench_throw(bench, 1, MALLORY, &captured, captured.size);
    assert_int_equal(bench->wire.count, 0);
    free(challenge);
    free(answer);
    still_works(bench);
    assert_int_equal(bench_counters(bench, 1)->rewritten, 0);
    end(bench);
}

/* A captured datagram comes from everywhere, thousands of times: no memory, few challenges, none
 * larger than what it is for. */
TEST(a_flood_of_sources)
{
    enum { TIMES = 5000, APART = 100 };
    bench_t *bench = quiet();
    const bench_forgery_t captured = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);
    const size_t bytes = bench->hosts[1].bytes;
    const uint64_t sent = bench->hosts[1].bytes_sent;

    for (uint32_t i = 0; i < TIMES; i++) {
        bench_throw(bench, 1, MALLORY + i % 4, &captured, captured.size);
        bench_clear(&bench->wire);
        bench->now += APART;
    }
    assert_in_range(bench_counters(bench, 1)->sent_challenges,
                    TIMES * APART / BTL_IB_CHALLENGE_PAUSE - 1,
                    TIMES * APART / BTL_IB_CHALLENGE_PAUSE + 1);
    assert_true(bench->hosts[1].bytes_sent - sent
                <= bench_counters(bench, 1)->sent_challenges * captured.size);
    assert_int_equal(bench->hosts[1].bytes, bytes);
    still_works(bench);
    assert_int_equal(bench_counters(bench, 1)->rewritten, 0);
    end(bench);
}

/* The datagram that host 0 made is thrown at host 1 from elsewhere once more. Returns how many
 * challenges that makes. */
static uint32_t provoke_again(bench_t *bench)
{
    const bench_forgery_t captured = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);
    const uint64_t before = bench_counters(bench, 1)->sent_challenges;

    bench_throw(bench, 1, MALLORY, &captured, captured.size);
    const uint32_t sent = bench->wire.count;
    bench_clear(&bench->wire);
    assert_int_equal(bench_counters(bench, 1)->sent_challenges - before, sent);
    return sent;
}

static uint32_t free_segments(const btl_ib_rail_t *rail)
{
    const btl_ib_list_t *list = &rail->pool.kind[0].free;
    uint32_t count = 0;

    for (const btl_ib_list_t *item = btl_ib_list_first(list); item != NULL;
         item = btl_ib_list_next(list, item)) {
        count++;
    }
    return count;
}

/* If the transport cannot tell how a router has the address there is no challenge; nor without
 * memory for it. */
TEST(no_challenge)
{
    bench_t *bench = quiet();
    btl_ib_rail_t *rail = bench->hosts[1].engine->rails[0];
    const btl_ib_transport_ops_t *const before = rail->transport->ops;
    btl_ib_transport_ops_t ops = *before;

    ops.rewritten = NULL;
    rail->transport->ops = &ops;
    assert_int_equal(provoke_again(bench), 0);
    rail->transport->ops = before;
    btl_ib_list_t free_ones;
    const uint32_t limit = rail->pool.limit;
    rail->pool.limit = 0;
    btl_ib_list_init(&free_ones);
    while (!btl_ib_list_empty(&rail->pool.kind[0].free)) {
        btl_ib_list_push_tail(&free_ones, btl_ib_list_pop(&rail->pool.kind[0].free));
    }
    assert_int_equal(provoke_again(bench), 0);
    rail->pool.limit = limit;
    while (!btl_ib_list_empty(&free_ones)) {
        btl_ib_list_push_tail(&rail->pool.kind[0].free, btl_ib_list_pop(&free_ones));
    }
    bench->now += BTL_IB_CHALLENGE_PAUSE + 1;
    assert_int_equal(provoke_again(bench), 1);
    const uint32_t segments = free_segments(rail);
    bench->now += BTL_IB_CHALLENGE_PAUSE + 1;
    assert_int_equal(provoke_again(bench), 1);
    assert_int_equal(free_segments(rail), segments); /* none is kept */
    end(bench);
}

/* A device that copies as many bytes as a challenge has says nothing of it later: its memory is
 * free again at once. */
TEST(a_challenge_inline)
{
    bench_t *bench = begin(0);

    bench->hosts[1].attr.inline_size = sizeof(btl_ib_wire_header_t);
    acquaint(bench);
    bench_run(bench, QUIET);
    const uint32_t segments = free_segments(bench->hosts[1].engine->rails[0]);
    assert_int_equal(provoke_again(bench), 1);
    assert_int_equal(free_segments(bench->hosts[1].engine->rails[0]), segments);
    end_working(bench);
}

/* A challenge names the connection of the peer's, which may have any number but 0: then it is not
 * known. */
TEST(the_connection_of_the_peer)
{
    bench_t *bench = quiet();
    uint32_t *const peer_id = &bench_conn(bench, 1, 0)->identity.peer_id;
    const uint32_t known = *peer_id;

    *peer_id = 0;
    assert_int_equal(provoke_again(bench), 0);
    *peer_id = 1;
    assert_int_equal(provoke_again(bench), 1);
    *peer_id = known;
    end_working(bench);
}

/* Stamps have 32 bits, and begin anew after 71 minutes: a challenge leaves then, too, and another
 * one not soon after it. */
TEST(where_stamps_begin_anew)
{
    bench_t *bench = begin(0);

    bench->now = (UINT64_C(1) << 32) - SECOND;
    acquaint(bench);
    bench_run(bench, (UINT64_C(1) << 32) - bench->now);
    assert_int_equal((uint32_t) bench->now, 0);
    assert_int_equal(provoke_again(bench), 1);
    bench->now += BTL_IB_CHALLENGE_PAUSE - 1;
    assert_int_equal(provoke_again(bench), 0);
    bench->now += 2;
    assert_int_equal(provoke_again(bench), 1);
    end_working(bench);
}

/* The same where a key is needed to parse it: one that is longer is none. */
TEST(not_answered_with_keys)
{
    bench_t *bench = begin(0);

    if (!bench_protection(bench, BTL_IB_PROTECTION_INTEGRITY)) {
        end(bench);
        skip();
    }
    acquaint(bench);
    bench_run(bench, QUIET);
    bench_clear(&bench->wire);
    const btl_ib_counters_t *count = bench_counters(bench, 0);
    uint8_t challenge[128] = {0};
    bench_send(bench, 0, 1, 100, 1);
    bench_turn(bench, 0);
    bench_datagram_t *captured = bench_pop(&bench->wire);
    bench_throw(bench, 1, MALLORY, captured->data, captured->size);
    free(captured);
    assert_int_equal(bench->wire.count, 1);
    bench_datagram_t *sent = bench_pop(&bench->wire);
    assert_int_equal(sent->data[1], CHALLENGE);
    memcpy(challenge, sent->data, sent->size);
    const uint64_t unknown = count->dropped_unknown;
    bench_throw(bench, 0, MALLORY, challenge, sent->size + 8);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(count->dropped_unknown, unknown + 1);
    bench_throw(bench, 0, MALLORY, challenge, sent->size);
    assert_int_equal(bench->wire.count, 1);
    assert_int_equal(count->received_challenges, 1);
    free(sent);
    end(bench);
}

/* While the peer is heard from where it should be there is no challenge. */
TEST(heard_lately)
{
    bench_t *bench = begin(0);

    acquaint(bench);
    assert_int_equal(provoke_again(bench), 0);
    assert_int_equal(bench_conn(bench, 1, 0)->validation.challenged_at, 0);
    bench->now += QUIET;
    bench_turn(bench, 1);
    btl_ib_conn_t *conn = bench_conn(bench, 1, 0);
    conn->loss.heard_at = conn->engine->clock.awake - BTL_IB_CHALLENGE_QUIET + 1;
    assert_int_equal(provoke_again(bench), 0);
    conn->loss.heard_at--;
    assert_int_equal(provoke_again(bench), 1);
    end_working(bench);
}

/* A challenge is answered by each flow that the peer will use. */
TEST(answered_by_each_flow)
{
    bench_t *bench = begin(0);

    bench->hosts[0].attr.flows = 3;
    acquaint(bench);
    bench->now += QUIET;
    bench_turn(bench, 1);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    bench_datagram_t *challenge = provoke(bench, MALLORY);
    for (uint32_t dead = 0; dead < 16; dead++) {
        bench->hosts[0].rails[0].dead_flows = dead;
        bench_throw(bench, 0, MALLORY, challenge->data, challenge->size);
        assert_int_equal(bench->wire.count, !(dead & 1) + !(dead & 2) + !(dead & 4));
        bench_clear(&bench->wire);
    }
    free(challenge);
    end(bench);
}

/* The process with the smaller name lets the other one ask first. */
TEST(who_asks_first)
{
    bench_t *bench = quiet();
    const bench_forgery_t captured = bench_forge(bench, 0, 1, BTL_IB_TYPE_ACK);

    for (int i = 0; i < 2; i++) {
        bench_throw(bench, 0, MALLORY, &captured, captured.size);
        assert_int_equal(bench->wire.count, i);
        bench_clear(&bench->wire);
        bench->now += BTL_IB_CHALLENGE_PAUSE - 1;
        bench_throw(bench, 0, MALLORY, &captured, captured.size);
        assert_int_equal(bench->wire.count, 0);
        bench->now += 2; /* its stamp is about that */
    }
    end_working(bench);
}

/* An answer is good for as long as is said, also if another period has begun by then: the first one
 * since clocks began, or a later one. */
TEST(a_late_answer)
{
    for (uint64_t began = 1; began <= SECOND; began += SECOND - 1) {
        bench_t *bench = begin(0);
        bench->now = began;
        acquaint(bench);
        bench_run(bench, QUIET);
        bench->now += BTL_IB_CHALLENGE_VALID - bench->now % BTL_IB_CHALLENGE_VALID - 1;
        bench_turn(bench, 1);
        bench_datagram_t *challenge = provoke(bench, MALLORY);
        bench->now += BTL_IB_CHALLENGE_VALID;
        bench_turn(bench, 1);
        bench_datagram_t *answer = answer_of(bench, challenge);
        assert_int_equal(btl_ib_conn_diagnosis(bench_conn(bench, 1, 0)).foreign, 1);
        bench_conn(bench, 1, 0)->flow.doubted = true;
        bench_throw(bench, 1, MALLORY, answer->data, answer->size);
        assert_int_equal(bench_counters(bench, 1)->rewritten, 1);
        assert_int_equal(btl_ib_conn_diagnosis(bench_conn(bench, 1, 0)).foreign, 0);
        assert_false(bench_conn(bench, 1, 0)->flow.doubted); /* of that address nothing is known */
        free(challenge);
        free(answer);
        end(bench);
    }
}

static void count_validated(bench_host_t *host, const btl_ib_trace_event_t *event)
{
    host->bench->scratch[0] += event->kind == BTL_IB_TRACE_validated;
}

static uint32_t waiting_of_type(const bench_t *bench, btl_ib_type_t type, uint32_t to)
{
    uint32_t found = 0;

    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        found += (d->data[0] & 0xf) == type && d->to == to;
    }
    return found;
}

/* An answer shows that the peer is there: that counts as an answer of now, and as a path that was
 * validated if it was not. What is in flight goes there again at once, and the peer is told what
 * has come from it. */
TEST(what_an_answer_brings)
{
    enum { IN_FLIGHT = 1, NOT_VALIDATED = 2 };

    for (int has = 0; has < 4; has++) {
        bench_t *bench = begin(0);
        bench->hosts[1].config.trace = true;
        bench->on_event = count_validated;
        acquaint(bench);
        bench_run(bench, QUIET);
        bench_datagram_t *challenge = provoke(bench, MALLORY);
        bench_datagram_t *answer = answer_of(bench, challenge);
        btl_ib_conn_t *conn = bench_conn(bench, 1, 0);
        if (has & IN_FLIGHT) {
            bench_send(bench, 1, 0, 100, 1);
            bench_turn(bench, 1);
            bench_clear(&bench->wire);
        }
        conn->validation.valid = !(has & NOT_VALIDATED);
        bench->scratch[0] = 0;
        assert_true(btl_ib_conn_answered_ago(conn) >= QUIET - 50000);
        bench_throw(bench, 1, MALLORY, answer->data, answer->size);
        assert_int_equal(btl_ib_conn_answered_ago(conn), 0);
        assert_int_equal(bench->scratch[0], (has & NOT_VALIDATED) != 0);
        assert_true(conn->validation.valid);
        assert_true(waiting_of_type(bench, BTL_IB_TYPE_ACK, MALLORY) >= 1);
        assert_int_equal(waiting_of_type(bench, BTL_IB_TYPE_DATA, MALLORY), (has & IN_FLIGHT) != 0);
        assert_int_equal(bench_counters(bench, 1)->received_responses, 1);
        bench_check_counters(&bench->hosts[1]);
        free(challenge);
        free(answer);
        end(bench);
    }
}

/* Without memory for the address that a router has nothing changes; the next answer is taken. */
TEST(no_memory_for_the_address)
{
    bench_t *bench = quiet();
    bench_datagram_t *challenge = provoke(bench, MALLORY);
    bench_datagram_t *answer = answer_of(bench, challenge);
    btl_ib_conn_t *conn = bench_conn(bench, 1, 0);
    const btl_ib_addr_t before = conn->route.to;
    const size_t bytes = bench->hosts[1].bytes;

    conn->validation.foreign = 1;
    conn->validation.answered_at = 7;
    bench->hosts[1].fail_in = 1;
    bench_throw(bench, 1, MALLORY, answer->data, answer->size);
    assert_int_equal(bench->hosts[1].fail_in, 0);
    assert_int_equal(conn->route.to, before);
    assert_int_equal(bench->hosts[1].bytes, bytes);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(conn->validation.foreign, 1);
    assert_int_equal(conn->validation.answered_at, 7);
    assert_int_equal(bench_counters(bench, 1)->rewritten, 0);
    bench_throw(bench, 1, MALLORY, answer->data, answer->size);
    assert_int_equal(bench_counters(bench, 1)->rewritten, 1);
    assert_int_not_equal(conn->route.to, before);
    free(challenge);
    free(answer);
    end(bench);
}

/* A challenge is answered if all of it came, for a connection that there is, by a rail that
 * works. */
TEST(not_answered)
{
    bench_t *bench = quiet();
    bench_datagram_t *challenge = provoke(bench, MALLORY);
    const btl_ib_counters_t *count = bench_counters(bench, 0);
    btl_ib_rail_t *rail = bench->hosts[0].engine->rails[0];
    uint8_t longer[64] = {0};

    memcpy(longer, challenge->data, challenge->size);
    bench_throw(bench, 0, MALLORY, longer, challenge->size + 8);
    assert_int_equal(bench->wire.count, 0);
    longer[4] ^= 1; /* the connection */
    const uint64_t unknown = count->dropped_unknown;
    bench_throw(bench, 0, MALLORY, longer, challenge->size);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(count->received_challenges, 0);
    assert_int_equal(count->dropped_unknown, unknown + 1);
    bench_conn(bench, 0, 1)->identity.version++;
    bench_throw(bench, 0, MALLORY, challenge->data, challenge->size);
    bench_conn(bench, 0, 1)->identity.version--;
    assert_int_equal(count->dropped_version, 1);
    assert_int_equal(count->received_challenges, 0);
    rail->health.down = true;
    bench_throw(bench, 0, MALLORY, challenge->data, challenge->size);
    rail->health.down = false;
    assert_int_equal(count->received_challenges, 1);
    assert_int_equal(bench->wire.count, 0);
    free(answer_of(bench, challenge));
    assert_int_equal(count->received_challenges, 2);
    free(challenge);
    end_working(bench);
}

/* Free segments of host `i` hold something else. */
static void dirty_segments(bench_t *bench, uint32_t i)
{
    const btl_ib_list_t *list = &bench->hosts[i].engine->rails[0]->pool.kind[0].free;

    for (const btl_ib_list_t *item = btl_ib_list_first(list); item != NULL;
         item = btl_ib_list_next(list, item)) {
        memset(BTL_IB_CONTAINER(item, btl_ib_segment_t, link)->wire, 0xee, 64);
    }
}

static void count_sent(bench_host_t *host, const btl_ib_trace_event_t *event)
{
    host->bench->scratch[0] +=
        event->kind == BTL_IB_TRACE_sent && event->type == BTL_IB_TYPE_PATH_RESPONSE;
}

/* Where datagrams have a trailer a challenge and its answer have one, too: zeros, if it would need
 * a key. A router is believed as without; and devices may still read what was sent. Traces have
 * both. */
TEST(with_a_trailer)
{
    static const btl_ib_protection_kind_t kinds[] = {BTL_IB_PROTECTION_CRC32C,
                                                     BTL_IB_PROTECTION_INTEGRITY};

    for (int i = 0; i < 2; i++) {
        bench_t *bench = begin(0);
        if (!bench_protection(bench, kinds[i])) {
            end(bench);
            continue;
        }
        bench->hosts[0].config.trace = bench->hosts[1].config.trace = true;
        bench->hosts[0].attr.inline_size = bench->hosts[1].attr.inline_size = 16;
        bench->on_event = count_sent;
        acquaint(bench);
        bench_run(bench, QUIET);
        bench->loses = drops_published;
        bench->routed = 1;
        bench->scratch[0] = 0;
        dirty_segments(bench, 0);
        dirty_segments(bench, 1);
        bench->taping = true;
        talk(bench, 2);
        assert_int_equal(bench_counters(bench, 1)->rewritten, 1);
        assert_true(bench->scratch[0] >= 2);
        for (const bench_datagram_t *d = bench->tape.first; d != NULL; d = d->next) {
            for (uint32_t at = sizeof(btl_ib_wire_header_t); at < d->size && i == 1; at++) {
                assert_true((d->data[0] & 0xf) != BTL_IB_TYPE_PATH_RESPONSE || d->data[at] == 0);
            }
        }
        end_delivered(bench);
    }
}

/* What is told of foreign sources is over once the peer is heard from where it should be. */
TEST(a_diagnosis)
{
    bench_t *bench = quiet();

    free(provoke(bench, MALLORY));
    assert_int_equal(btl_ib_conn_diagnosis(bench_conn(bench, 1, 0)).foreign, 1);
    bench_run(bench, 3 * SECOND);
    assert_int_equal(btl_ib_conn_diagnosis(bench_conn(bench, 1, 0)).foreign, 1);
    still_works(bench);
    assert_int_equal(btl_ib_conn_diagnosis(bench_conn(bench, 1, 0)).foreign, 0);
    end(bench);
}

/* The same of challenges: nothing larger goes to anybody than came, and only to the peer. */
TEST(challenges_again)
{
    bench_t *bench = quiet();
    bench_datagram_t *challenge = provoke(bench, MALLORY);

    for (uint32_t i = 0; i < 100; i++) {
        bench_datagram_t *answer = answer_of(bench, challenge);
        assert_int_equal(answer->to, bench_address(1, 0));
        assert_true(answer->size <= challenge->size);
        free(answer);
    }
    challenge->data[8] ^= 1;
    bench_throw(bench, 0, bench_address(1, 0), challenge->data, challenge->size);
    assert_int_equal(bench->wire.count, 0);
    free(challenge);
    end_working(bench);
}

UNIT_MAIN(NULL, NULL)
