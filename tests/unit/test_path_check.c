/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The check of a path without messages: what it finds where all gets through, where large datagrams
 * are lost, and where only one direction works. */

#include "hostile.h"
#include "unit.h"

enum {
    CONTACT = 64, /* bytes of a first contact: header and CONNECT */
    MOST = 1472,  /* that the rails carry */
    STEP = 32,    /* so exactly the size is found */
    HOP = 700,    /* that a router says it carries */
};

/* scratch: the sender whose datagrams are lost, plus 1; above so many bytes. */
static bool loses(bench_t *bench, const bench_datagram_t *datagram)
{
    return datagram->source / BENCH_RAILS + 1 == bench->scratch[0]
           && datagram->size > bench->scratch[1];
}

/* Two hosts that check their path to each other; what host `from` sends is lost above `bytes`. */
static bench_t *checked(uint32_t from, uint32_t bytes)
{
    bench_t *bench = new_bench();

    bench->loses = loses;
    bench->scratch[0] = from + 1;
    bench->scratch[1] = bytes;
    for (uint32_t i = 0; i < 2; i++) {
        bench_start(bench, i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        btl_ib_conn_check_path(bench_connect(bench, i, 1 - i), bench->now);
    }
    bench_run(bench, SECOND);
    return bench;
}

static btl_ib_path_info_t path(bench_t *bench, uint32_t from)
{
    return btl_ib_conn_path(bench_conn(bench, from, 1 - from));
}

TEST(all_is_well)
{
    bench_t *bench = checked(0, UINT32_MAX);

    for (uint32_t i = 0; i < 2; i++) {
        const btl_ib_path_info_t info = path(bench, i);

        assert_true(!info.checking && info.own && info.heard && info.answered && !info.refused);
        assert_int_equal(info.contact, CONTACT);
        assert_int_equal(info.sent, MOST);
        assert_int_equal(info.came, MOST);
        assert_int_equal(info.most, MOST);
        assert_int_equal(info.rtt, 2 * BENCH_DELAY);
        assert_int_equal(bench_counters(bench, i)->retransmits, 0);
        assert_int_equal(bench_counters(bench, i)->sent_messages, 0);
    }
    assert_true(bench->hosts[0].datagrams < 12);
    talk(bench, 2);
    end(bench);
}

/* What is lost in one direction says nothing of the other. */
TEST(a_hop_carries_less)
{
    static const uint32_t sizes[] = {1400, 1300, 1150, 520};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        bench_t *bench = checked(0, sizes[i]);
        const btl_ib_path_info_t there = path(bench, 0);
        const btl_ib_path_info_t back = path(bench, 1);

        assert_true(!there.checking && there.answered);
        assert_in_range(there.sent, sizes[i] - STEP, sizes[i]);
        assert_int_equal(bench_datagram_max(bench, 0, 1), there.sent);
        assert_int_equal(back.sent, MOST);
        assert_int_equal(back.came, there.sent);
        assert_true(bench_counters(bench, 0)->black_holes > 0);
        assert_int_equal(bench_counters(bench, 1)->black_holes, 0);
        talk(bench, 2);
        end(bench);
    }
}

/* A router says meanwhile that the path carries less: nothing larger is sent any more, and what it
 * says is proven. */
TEST(a_router_says_so)
{
    bench_t *bench = new_bench();
    bench_rail_t *rail = &bench->hosts[0].rails[0];

    bench_start(bench, 0);
    bench_start(bench, 1);
    bench->loses = loses;
    bench->scratch[0] = 1;
    bench->scratch[1] = 1000;
    btl_ib_conn_check_path(bench_connect(bench, 0, 1), bench->now);
    bench_run(bench, 1000);
    assert_true(path(bench, 0).checking);
    bench->scratch[1] = HOP;
    rail->what = BTL_IB_EVENT_PATH_MTU;
    rail->about = bench_address(1, 0);
    rail->size = HOP;
    rail->news = true;
    bench_turn(bench, 0);
    bench->taping = true;
    bench_run(bench, SECOND);
    assert_false(path(bench, 0).checking);
    assert_int_equal(path(bench, 0).sent, HOP);
    for (const bench_datagram_t *d = bench->tape.first; d != NULL; d = d->next) {
        assert_true(d->source != bench_address(0, 0) || d->size <= HOP);
    }
    talk(bench, 2);
    end(bench);
}

/* Less than any network carries: the check ends, and says that no large datagram gets there. */
TEST(next_to_nothing)
{
    bench_t *bench = checked(0, 200);
    const btl_ib_path_info_t there = path(bench, 0);

    assert_true(!there.checking && there.answered);
    assert_int_equal(there.sent, 0);
    end(bench);
}

TEST(one_way)
{
    bench_t *bench = checked(0, 0);
    const btl_ib_path_info_t there = path(bench, 0);
    const btl_ib_path_info_t back = path(bench, 1);

    assert_true(there.checking && there.heard && !there.answered);
    assert_true(back.checking && !back.heard && !back.answered);
    assert_int_equal(there.sent + there.came + back.sent + back.came, 0);
    bench->loses = NULL; /* it was only for a while */
    bench_run(bench, SECOND);
    assert_int_equal(path(bench, 0).sent, MOST);
    assert_int_equal(path(bench, 1).sent, MOST);
    end(bench);
}

/* A few that are lost by chance say nothing of the size. */
static bool loses_some(bench_t *bench, const bench_datagram_t *datagram)
{
    return ++bench->scratch[2] % 7 == 0;
}

TEST(losses_by_chance)
{
    bench_t *bench = checked(0, 0);

    bench->loses = loses_some;
    bench_run(bench, SECOND);
    assert_int_equal(path(bench, 0).sent, MOST);
    assert_int_equal(path(bench, 1).sent, MOST);
    assert_true(!path(bench, 0).checking && !path(bench, 1).checking);
    end(bench);
}

/* Messages that go at the same time arrive, whatever the check finds. */
TEST(beside_messages)
{
    bench_t *bench = checked(0, 1300);

    for (int i = 0; i < 4; i++) {
        btl_ib_conn_check_path(bench_conn(bench, 0, 1), bench->now);
        talk(bench, 2);
        bench_run(bench, SECOND);
        assert_in_range(path(bench, 0).sent, 1300 - STEP, 1300);
    }
    end_delivered(bench);
}

static bool loses_second_rail(bench_t *bench, const bench_datagram_t *datagram)
{
    return bench->scratch[3] != 0 && datagram->to % BENCH_RAILS == 1;
}

/* A pair of rails of which nothing was heard yet is asked, although data would wait for the answer:
 * another pair leads there. If none comes the check ends: the connection goes by that one. */
TEST(beside_another_pair)
{
    for (uint64_t lost = 0; lost < 2; lost++) {
        bench_t *bench = new_bench();
        btl_ib_conn_t *conn;

        bench->rails = 2;
        bench->loses = loses_second_rail;
        bench->scratch[3] = lost;
        acquaint(bench);
        const btl_ib_peer_info_t info = bench_info(bench, 1, 1);
        assert_int_equal(btl_ib_conn_create(bench->hosts[0].engine, 1, &info, NULL, &conn), 0);
        btl_ib_conn_check_path(conn, bench->now);
        bench_run(bench, SECOND);
        const btl_ib_path_info_t found = btl_ib_conn_path(conn);
        assert_false(found.checking);
        assert_int_equal(found.own && found.heard && found.answered, !lost);
        assert_int_equal(found.sent, lost ? 0 : MOST);
        talk(bench, 2);
        end_delivered(bench);
    }
}

/* Each allocation of a check fails once: it goes on later. */
TEST(short_of_memory)
{
    for (uint32_t fail_in = 1; fail_in <= 16; fail_in++) {
        bench_t *bench = new_bench();
        bench_start(bench, 0);
        bench_start(bench, 1);
        btl_ib_conn_check_path(bench_connect(bench, 0, 1), bench->now);
        bench->hosts[0].fail_in = fail_in;
        bench_run(bench, SECOND);
        assert_int_equal(path(bench, 0).sent, MOST);
        assert_false(path(bench, 0).checking);
        end(bench);
    }
}

UNIT_MAIN(NULL, NULL)
