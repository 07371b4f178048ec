/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* ECN: whether a path carries it, and what the peer tells of it. Tests are of 16 datagrams. */

#include "btl_ib_ecn.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { TEST_SIZE = 16, RTT = 100 };

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn;
static btl_ib_ecn_t *ecn;
static btl_ib_cc_ops_t ops;
static btl_ib_cc_marks_t told;
static uint32_t tellings;
static bool cut;

static bool note_marked(btl_ib_cc_t *cc, const btl_ib_cc_marks_t *marks)
{
    told = *marks;
    tellings++;
    return cut;
}

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    ecn = &conn->ecn;
    ops = *conn->cc.ops;
    ops.marked = note_marked;
    conn->cc.ops = &ops;
    told = (btl_ib_cc_marks_t){.now = 0};
    tellings = 0;
    cut = false;
    conn->loss.rtt = (btl_ib_rtt_t){.srtt8 = 8 * RTT, .rttvar4 = 50, .min = RTT};
    conn->route.via->transport->attr.ecn = true;
    ecn->agreed = true;
    btl_ib_ecn_begin_route(conn);
    return 0;
}

static int tear_down(void **state)
{
    conn->route.via->transport->attr.ecn = false;
    end(bench);
    return 0;
}

/* `count` datagrams leave, one of two with ECT(0). */
static void leave(int count)
{
    btl_ib_tx_t tx[64] = {{.size = 0}};

    for (int i = 0; i < count; i++) {
        tx[i].ect = i % 2 == 0;
    }
    btl_ib_ecn_left(conn, tx, count);
    conn->sentmap.order += (uint32_t) count;
}

/* A test leaves, and something behind it arrives; then the peer tells of so many more. */
static void test_path(uint32_t ect, uint32_t ce)
{
    leave(2 * TEST_SIZE);
    conn->loss.rack[BTL_IB_RACK_ALL].order = conn->sentmap.order;
    btl_ib_ecn_told(conn, ecn->told_ect + ect, ecn->told_ce + ce);
}

static void must_be(btl_ib_ecn_state_t state, bool marking)
{
    assert_int_equal(ecn->state, state);
    assert_int_equal(ecn->marking, marking);
}

/* No path is tested where a side does not want it, or the transport cannot. */
TEST_WITH(wanted, set_up, tear_down)
{
    must_be(BTL_IB_ECN_TESTING, true);
    ecn->agreed = false;
    btl_ib_ecn_begin_route(conn);
    must_be(BTL_IB_ECN_OFF, false);
    ecn->agreed = true;
    conn->route.via->transport->attr.ecn = false;
    btl_ib_ecn_begin_route(conn);
    must_be(BTL_IB_ECN_OFF, false);
}

/* No more than a test leaves with ECT(0) until the path is known; then all. */
TEST_WITH(capable, set_up, tear_down)
{
    leave(2 * TEST_SIZE - 2);
    must_be(BTL_IB_ECN_TESTING, true);
    assert_int_equal(ecn->test_order, 0);
    const uint64_t order = conn->sentmap.order;
    leave(2);
    must_be(BTL_IB_ECN_TESTING, false);
    assert_int_equal(ecn->test_order, order + 2);
    assert_int_equal(engine->count.ecn_sent, TEST_SIZE);
    conn->loss.rack[BTL_IB_RACK_ALL].order = ecn->test_order - 1;
    btl_ib_ecn_told(conn, 1, 0); /* some arrived, but not yet what was sent last */
    must_be(BTL_IB_ECN_TESTING, false);
    conn->loss.rack[BTL_IB_RACK_ALL].order = ecn->test_order;
    btl_ib_ecn_told(conn, 2, 0);
    must_be(BTL_IB_ECN_CAPABLE, true);
    assert_int_equal(engine->count.ecn_paths, 1);
    leave(4 * TEST_SIZE);
    must_be(BTL_IB_ECN_CAPABLE, true);
    test_path(1, 0); /* the next test is a path's second: it counts once */
    must_be(BTL_IB_ECN_CAPABLE, true);
    assert_int_equal(engine->count.ecn_paths, 1);
}

/* Three tests in a row of which nothing came: off. After fewer it is found out anew. */
TEST_WITH(cleared, set_up, tear_down)
{
    test_path(TEST_SIZE, 0);
    must_be(BTL_IB_ECN_CAPABLE, true);
    test_path(0, 0);
    must_be(BTL_IB_ECN_TESTING, true);
    test_path(0, 0);
    test_path(1, 0);
    must_be(BTL_IB_ECN_CAPABLE, true);
    assert_int_equal(engine->count.ecn_paths, 2);
    test_path(0, 0);
    test_path(0, 0);
    must_be(BTL_IB_ECN_TESTING, true);
    assert_int_equal(engine->count.ecn_paths_off, 0);
    test_path(0, 0);
    must_be(BTL_IB_ECN_OFF, false);
    assert_int_equal(engine->count.ecn_paths_off, 1);
    engine->clock.now += 3600ull * 1000000; /* for ever */
    test_path(TEST_SIZE, 0);
    must_be(BTL_IB_ECN_OFF, false);
}

/* All came with CE, sixteen times, without a queue: off, and tried again after half a minute. */
TEST_WITH(all_marked, set_up, tear_down)
{
    for (int i = 0; i < 15; i++) {
        test_path(0, TEST_SIZE);
        must_be(BTL_IB_ECN_CAPABLE, true);
    }
    test_path(1, TEST_SIZE - 1); /* but one */
    for (int i = 0; i < 15; i++) {
        test_path(0, TEST_SIZE);
    }
    must_be(BTL_IB_ECN_CAPABLE, true);
    test_path(0, TEST_SIZE);
    must_be(BTL_IB_ECN_OFF, false);
    assert_int_equal(engine->count.ecn_paths_off, 1);
    engine->clock.now += 29999999;
    btl_ib_ecn_told(conn, 500, 700);
    must_be(BTL_IB_ECN_OFF, false);
    engine->clock.now += 1;
    btl_ib_ecn_told(conn, 600, 800);
    must_be(BTL_IB_ECN_TESTING, true);
    assert_int_equal(ecn->tested, 1400); /* what came before is of no test */
    tellings = 0;
    btl_ib_ecn_told(conn, 601, 800);
    assert_int_equal(tellings, 1);
    assert_int_equal(told.count, 1);
    for (int i = 0; i < 4; i++) { /* three without any: cleared, which is for ever */
        test_path(0, 0);
    }
    must_be(BTL_IB_ECN_OFF, false);
    engine->clock.now += 30000000;
    btl_ib_ecn_told(conn, 700, 900);
    must_be(BTL_IB_ECN_OFF, false);
}

/* A queue that delays by more than half of the shortest round trip all of that time is that of
 * others: then it takes 128 tests. */
TEST_WITH(all_marked_by_a_queue, set_up, tear_down)
{
    conn->loss.rtt.srtt8 = 8 * (RTT + RTT / 2 + 1);
    for (int i = 0; i < 127; i++) {
        test_path(0, TEST_SIZE);
        must_be(BTL_IB_ECN_CAPABLE, true);
    }
    conn->loss.rtt.srtt8 = 8 * (RTT + RTT / 2); /* no more */
    test_path(0, TEST_SIZE);
    must_be(BTL_IB_ECN_OFF, false);
}

/* Congestion control is told what is new; what was overtaken, and what cannot be, is left aside. */
TEST_WITH(tells, set_up, tear_down)
{
    conn->loss.rack[BTL_IB_RACK_ALL].xmit_ts = 77;
    btl_ib_ecn_told(conn, 10, 4);
    assert_int_equal(tellings, 1);
    assert_int_equal(told.now, engine->clock.now);
    assert_int_equal(told.sent_at, 77);
    assert_int_equal(told.count, 14);
    assert_int_equal(told.ce, 4);
    assert_int_equal(engine->count.ecn_ce_told, 4);
    assert_int_equal(engine->count.ecn_cuts, 0);
    cut = true;
    btl_ib_ecn_told(conn, 10, 5);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.ce, 1);
    assert_int_equal(engine->count.ecn_cuts, 1);
    tellings = 0;
    btl_ib_ecn_told(conn, 10, 5); /* again */
    btl_ib_ecn_told(conn, 10, 4); /* late */
    btl_ib_ecn_told(conn, 8, 9);  /* more with CE than have come in all */
    assert_int_equal(tellings, 0);
    assert_int_equal(engine->count.ecn_ce_told, 5);
    btl_ib_ecn_told(conn, 12, 5);
    assert_int_equal(told.count, 2);
    assert_int_equal(told.ce, 0);
    btl_ib_ecn_begin_peer(conn); /* which counts anew */
    btl_ib_ecn_told(conn, 1, 0);
    assert_int_equal(told.count, 1);
    must_be(BTL_IB_ECN_TESTING, true);
}

/* Counts wrap. */
TEST_WITH(wraps, set_up, tear_down)
{
    ecn->told_ect = UINT32_MAX;
    ecn->told_ce = UINT32_MAX - 1;
    btl_ib_ecn_told(conn, 1, 1);
    assert_int_equal(told.count, 5);
    assert_int_equal(told.ce, 3);
}

/* What comes is counted by its codepoint; CE asks for an ACK at once. */
TEST_WITH(counts_what_comes, set_up, tear_down)
{
    const bool at_once = conn->ack.at_once;

    btl_ib_ecn_arrived(conn, 0, BTL_IB_CODEPOINT_ECT0, 3);
    assert_int_equal(ecn->ect, 3);
    assert_int_equal(ecn->ce, 0);
    assert_int_equal(conn->ack.at_once, at_once);
    btl_ib_ecn_arrived(conn, 0, BTL_IB_CODEPOINT_CE, 2);
    assert_int_equal(ecn->ect, 3);
    assert_int_equal(ecn->ce, 2);
    assert_true(conn->ack.at_once);
    assert_int_equal(engine->count.ecn_ce_received, 2);
    ecn->agreed = false;
    btl_ib_ecn_arrived(conn, 0, BTL_IB_CODEPOINT_CE, 2);
    btl_ib_ecn_arrived(conn, 0, BTL_IB_CODEPOINT_ECT0, 2);
    assert_int_equal(ecn->ect + ecn->ce, 5);
    ecn->agreed = true;
}

UNIT_MAIN(NULL, NULL)
