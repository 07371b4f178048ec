/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the network says of datagrams that an engine sent: nobody is there, or the path carries
 * less. Only what quotes the token of a connection that goes there counts; two messages of anybody
 * else, however far apart, end nothing.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_icmp.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "support.h"
#include "unit.h"

enum {
    VERSION_AT = offsetof(btl_ib_wire_header_t, version_type),
    CONNECTION_AT = offsetof(btl_ib_wire_header_t, connection),
    TOKEN_AT = offsetof(btl_ib_wire_header_t, token),
    NARROW = 600,
    APART = 150000, /* us: two refusals are a row that lasts long enough to be believed */
    FAR = 12000000, /* us: they are no row */
};

static test_random_t numbers = TEST_RANDOM_SEED;

/* The beginning of a datagram. */
typedef struct quote {
    uint8_t bytes[BTL_IB_QUOTED_MAX];
    uint32_t size;
} quote_t;

static quote_t quote(const bench_datagram_t *datagram)
{
    quote_t q = {.size = sizeof(q.bytes)};

    memcpy(q.bytes, datagram->data, sizeof(q.bytes));
    return q;
}

/* Of one that host 0 sends to another, and that gets there. */
static quote_t sent_to(bench_t *bench, uint32_t to)
{
    bench_send(bench, 0, to, 100, 1);
    const quote_t q = quote(bench->wire.first);

    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 3000);
    return q;
}

/* An ICMP message about what host 0 sent to another over its rail `rail`. */
static void tell(bench_t *bench, btl_ib_event_type_t what, uint32_t about, uint32_t rail_index,
                 const quote_t *q)
{
    bench_rail_t *rail = &bench->hosts[0].rails[rail_index];

    rail->by_icmp = true;
    memcpy(rail->quoted, q->bytes, q->size);
    rail->quoted_size = q->size;
    rail->what = what;
    rail->about = bench_address(about, rail_index);
    rail->size = NARROW;
    rail->news = true;
    bench_turn(bench, 0);
}

/* It changes nothing but the counter of its cause, the second time as little as the first. */
static void without_effect(bench_t *bench, uint32_t about, const quote_t *q, const char *cause)
{
    static const btl_ib_event_type_t events[] = {BTL_IB_EVENT_REFUSED, BTL_IB_EVENT_PATH_MTU};

    for (int i = 0; i < 4; i++) {
        bench_watch_t watch;
        bench_watch(&bench->hosts[0], true, &watch);
        tell(bench, events[i % 2], about, 0, q);
        bench_unchanged(&watch, cause, 1);
        assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_REFUSED], 0);
        if (i == 1) {
            bench_run(bench, APART);
        }
    }
}

static void believed(bench_t *bench, uint32_t about, uint32_t rail, const quote_t *q)
{
    tell(bench, BTL_IB_EVENT_REFUSED, about, rail, q);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_REFUSED], 0);
    bench_run(bench, APART);
    tell(bench, BTL_IB_EVENT_REFUSED, about, rail, q);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_REFUSED], 1);
}

/* ---- what is ours ---- */

/* With every protection: the token is in the clear. */
TEST(genuine)
{
    for (uint32_t protection = 0; protection < BTL_IB_PROTECTION_KINDS; protection++) {
        bench_t *bench = new_bench();
        if (!bench_protection(bench, (btl_ib_protection_kind_t) protection)) {
            end(bench);
            continue;
        }
        acquaint(bench);
        quote_t q = sent_to(bench, 1);
        tell(bench, BTL_IB_EVENT_PATH_MTU, 1, 0, &q);
        assert_int_equal(bench_datagram_max(bench, 0, 1), NARROW);
        q.bytes[TOKEN_AT] ^= 1;
        without_effect(bench, 1, &q, "rejected_icmp");
        q.bytes[TOKEN_AT] ^= 1;
        believed(bench, 1, 0, &q);
        assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 4);
        end(bench);
    }
}

/* What is told of a connection that is dead, but not destroyed yet, is neither forged nor late. */
TEST(of_one_that_is_dead)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    const quote_t q = sent_to(bench, 1);
    btl_ib_conn_t *conn = bench_conn(bench, 0, 1);
    btl_ib_event_t event = {.type = BTL_IB_EVENT_REFUSED,
                            .origin = BTL_IB_ORIGIN_NETWORK,
                            .from = conn->route.to,
                            .quoted_size = (uint8_t) q.size};
    memcpy(event.quoted, q.bytes, q.size);
    conn->state = BTL_IB_CONN_DEAD;
    assert_true(btl_ib_icmp_check(conn->rail, &event));
    event.quoted[TOKEN_AT] ^= 1;
    assert_false(btl_ib_icmp_check(conn->rail, &event));
    conn->state = BTL_IB_CONN_OPEN;
    end_working(bench);
}

static bool loses_all(bench_t *bench, const bench_datagram_t *datagram)
{
    return true;
}

/* What a connection sent to its own address before its port went down, and it moved to other rails,
 * is still its own; with another token nothing of it is believed. */
TEST(sent_before_it_moved)
{
    bench_t *bench = new_bench();
    btl_ib_conn_t *other;

    bench->rails = BENCH_RAILS;
    acquaint(bench);
    quote_t q = sent_to(bench, 1);
    const btl_ib_peer_info_t info = bench_info(bench, 1, 1);
    assert_int_equal(btl_ib_conn_create(bench->hosts[0].engine, 1, &info, NULL, &other), 0);
    bench->hosts[0].rails[0].what = BTL_IB_EVENT_DOWN;
    bench->hosts[0].rails[0].news = true;
    bench_turn(bench, 0);
    assert_int_equal(bench_counters(bench, 0)->failovers, 1);
    tell(bench, BTL_IB_EVENT_PATH_MTU, 1, 0, &q);
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 0);
    q.bytes[TOKEN_AT] ^= 1;
    tell(bench, BTL_IB_EVENT_PATH_MTU, 1, 0, &q);
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 1);
    end_settled(bench, SECOND);
}

/* A first contact names no connection of the peer's yet: nobody was ever there. */
TEST(first_contact)
{
    bench_t *bench = new_bench();

    bench_start(bench, 0);
    bench_start(bench, 1);
    bench_send(bench, 0, 1, 100, 1);
    const quote_t q = quote(bench->wire.first);
    bench->loses = loses_all;
    uint32_t connection;
    memcpy(&connection, q.bytes + CONNECTION_AT, sizeof(connection));
    assert_int_equal(connection, 0);
    believed(bench, 1, 0, &q);
    end(bench);
}

static void connect_by_rail_1(bench_t *bench, uint32_t from, uint32_t to)
{
    const btl_ib_peer_info_t info = bench_info(bench, to, 1);
    btl_ib_conn_t *conn = NULL;

    assert_int_equal(
        btl_ib_conn_create(bench->hosts[from].engine, 1, &info, &bench->hosts[to], &conn), 0);
}

static bench_t *joined_by_two_rails(void)
{
    bench_t *bench = new_bench();

    bench->rails = 2;
    acquaint(bench);
    connect_by_rail_1(bench, 0, 1);
    connect_by_rail_1(bench, 1, 0);
    return bench;
}

/* What went over another rail, because its own failed. */
TEST(by_another_rail)
{
    bench_t *bench = joined_by_two_rails();

    bench->hosts[0].rails[0].failure = true;
    bench_turn(bench, 0);
    assert_true(bench_settle(bench, SECOND));
    const quote_t q = sent_to(bench, 1);
    assert_int_equal(bench_peer(bench, 0, 1).rail, 1);
    tell(bench, BTL_IB_EVENT_PATH_MTU, 1, 1, &q);
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 0);
    assert_int_equal(bench_datagram_max(bench, 0, 1), NARROW);
    end(bench);
}

/* What went by a connection's own rail before it left that, and is told late. */
TEST(of_a_rail_that_was_left)
{
    bench_t *bench = joined_by_two_rails();

    const quote_t q = sent_to(bench, 1);
    tell(bench, BTL_IB_EVENT_REFUSED, 1, 0, &q);
    bench_run(bench, APART);
    tell(bench, BTL_IB_EVENT_REFUSED, 1, 0, &q);
    assert_int_equal(bench_peer(bench, 0, 1).rail, 1);
    tell(bench, BTL_IB_EVENT_REFUSED, 1, 0, &q);
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 0);
    end(bench);
}

/* What went by another rail, until its own was back, and is told late. */
TEST(of_another_rail_that_was_left)
{
    bench_t *bench = joined_by_two_rails();
    bench_rail_t *own = &bench->hosts[0].rails[0];

    own->error = ENETDOWN;
    own->what = BTL_IB_EVENT_DOWN;
    own->news = true;
    bench_turn(bench, 0);
    (void) sent_to(bench, 1); /* a first contact of the connection whose rail that is */
    const quote_t q = sent_to(bench, 1);
    assert_int_equal(bench_peer(bench, 0, 1).rail, 1);
    own->what = BTL_IB_EVENT_UP;
    own->news = true;
    bench_run(bench, 20 * SECOND);
    assert_int_equal(bench_peer(bench, 0, 1).rail, 0);
    tell(bench, BTL_IB_EVENT_REFUSED, 1, 1, &q);
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 0);
    quote_t other = q;
    other.bytes[TOKEN_AT] ^= 1;
    tell(bench, BTL_IB_EVENT_REFUSED, 1, 1, &other);
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 1);
    end(bench);
}

/* Refusals that are far apart are no row, however long ago the first one was. */
TEST(far_apart)
{
    bench_t *bench = joined_by_two_rails();

    const quote_t q = sent_to(bench, 1);
    tell(bench, BTL_IB_EVENT_REFUSED, 1, 0, &q);
    bench_run(bench, FAR);
    tell(bench, BTL_IB_EVENT_REFUSED, 1, 0, &q);
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 0);
    assert_int_equal(bench_peer(bench, 0, 1).rail, 0);
    bench_run(bench, APART);
    tell(bench, BTL_IB_EVENT_REFUSED, 1, 0, &q);
    assert_int_equal(bench_peer(bench, 0, 1).rail, 1);
    end(bench);
}

/* Nor are those between which the peer answers. */
TEST(answered_between)
{
    bench_t *bench = joined_by_two_rails();

    const quote_t q = sent_to(bench, 1);
    for (int i = 0; i < 5; i++) {
        tell(bench, BTL_IB_EVENT_REFUSED, 1, 0, &q);
        bench->now += APART;
        bench_send(bench, 0, 1, 8, 1);
        bench_flow(bench);
        bench_send(bench, 1, 0, 8, 1); /* carries the acknowledgement */
        bench_flow(bench);
    }
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 0);
    assert_int_equal(bench_peer(bench, 0, 1).rail, 0);
    end_delivered(bench);
}

/* ---- what is not ---- */

/* protocol: R64 */
TEST(of_nothing_that_was_sent)
{
    bench_t *bench = job();
    const quote_t right = sent_to(bench, 1);
    quote_t q = right;

    for (uint32_t bit = 0; bit < 64; bit++) {
        q.bytes[TOKEN_AT + bit / 8] ^= (uint8_t) (1u << bit % 8);
        without_effect(bench, 1, &q, "rejected_icmp");
        q = right;
    }
    q.bytes[VERSION_AT] ^= 0x10;
    without_effect(bench, 1, &q, "rejected_icmp");
    q = right;
    q.bytes[CONNECTION_AT] ^= 1;
    without_effect(bench, 1, &q, "rejected_icmp");
    for (int i = 0; i < 100; i++) {
        for (uint32_t k = 0; k < q.size; k++) {
            q.bytes[k] = (uint8_t) test_random64(&numbers);
        }
        without_effect(bench, 1, &q, "rejected_icmp");
    }
    end_working(bench);
}

/* RFC 792: nothing behind the header of UDP; and all else that does not hold the token. */
TEST(too_short)
{
    bench_t *bench = job();
    quote_t q = sent_to(bench, 1);

    for (q.size = 0; q.size < TOKEN_AT + sizeof(uint64_t); q.size++) {
        without_effect(bench, 1, &q, "rejected_icmp_short");
    }
    end_working(bench);
}

/* What was sent to one peer says that it is not there, not that another is not. */
TEST(of_another_connection)
{
    bench_t *bench = job();
    const quote_t other = sent_to(bench, 2);
    const quote_t right = sent_to(bench, 1);

    without_effect(bench, 1, &other, "rejected_icmp");
    without_effect(bench, 2, &right, "rejected_icmp");
    still_works(bench);
    believed(bench, 2, 0, &other);
    end(bench);
}

/* The peer closed: what the life before sent proves nothing of this one. */
TEST(of_an_earlier_life)
{
    bench_t *bench = job();
    const quote_t before = sent_to(bench, 1);

    btl_ib_conn_destroy(bench_conn(bench, 1, 0), bench->now);
    bench_run(bench, 5000);
    const quote_t right = sent_to(bench, 1);
    without_effect(bench, 1, &before, "rejected_icmp");
    believed(bench, 1, 0, &right);
    end(bench);
}

/* An address that nobody has any more. */
TEST(of_nobody)
{
    bench_t *bench = job();
    const quote_t right = sent_to(bench, 1);
    bench_rail_t *rail = &bench->hosts[0].rails[0];

    for (int i = 0; i < 2; i++) {
        rail->by_icmp = true;
        memcpy(rail->quoted, right.bytes, right.size);
        rail->quoted_size = right.size;
        rail->refused = BENCH_UNKNOWN;
        rail->refusal = true;
        bench_turn(bench, 0);
        bench_run(bench, APART);
    }
    assert_int_equal(bench_counters(bench, 0)->rejected_icmp, 2);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_REFUSED], 0);
    end_working(bench);
}

/* What the network said once is over as soon as the peer is heard, and stays so, however long ago
 * that is: a peer that is silent a month later is not lost for it. */
TEST(long_ago)
{
    static const uint64_t days[] = {1, 20, 30, 45, 60};

    for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
        bench_t *bench = new_bench();
        bench->hosts[0].config.keepalive = SECOND;
        acquaint(bench);
        const quote_t q = sent_to(bench, 1);
        bench->hosts[0].rails[0].error = EHOSTUNREACH;
        tell(bench, BTL_IB_EVENT_UNREACHABLE, 1, 0, &q);
        assert_int_equal(btl_ib_conn_diagnosis(bench_conn(bench, 0, 1)).said, EHOSTUNREACH);
        bench_run(bench, 5 * SECOND); /* it is asked, and answers */
        assert_int_equal(btl_ib_conn_diagnosis(bench_conn(bench, 0, 1)).said, 0);
        bench_listen(&bench->hosts[0], days[i] * 24 * 3600 * SECOND);
        bench_run(bench, 5 * SECOND);
        assert_int_equal(btl_ib_conn_diagnosis(bench_conn(bench, 0, 1)).said, 0);
        for (int turns = 0; turns < 40; turns++) { /* its process is stopped */
            bench->now += SECOND / 4;
            bench_turn(bench, 0);
            bench_clear(&bench->wire);
        }
        assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_HOST_LOST], 0);
        end_working(bench);
    }
}

UNIT_MAIN(NULL, NULL)
