/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What leaves together, in which order, and what waits: host 0 sends to host 1. */

#include <string.h>

#include "btl_ib_batch.h"
#include "btl_ib_packet.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"
#include "hostile.h"
#include "unit.h"

static bench_t *bench;
static btl_ib_conn_t *conn;
static bench_rail_t *rail; /* of host 0 */

/* `joins`: bytes of datagrams that transports join; `send_queues`: one for each channel. */
static void begin(uint32_t joins, bool send_queues)
{
    bench = new_bench();
    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].attr.gso_bytes = joins;
        bench->hosts[i].attr.max_batch = 64;
        bench->hosts[i].attr.send_queues = send_queues;
        bench->hosts[i].config.cc = BTL_IB_CC_NONE;
        strcpy(bench->hosts[i].queues, "P,128,256,128,16:S,1472,2048,1024,500");
    }
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    rail = &bench->hosts[0].rails[0];
    bench_turn(bench, 0);
}

static int set_up(void **state)
{
    begin(0, false);
    return 0;
}

static int tear_down(void **state)
{
    end_settled(bench, 10 * SECOND);
    return 0;
}

/* Channel and whether it was sent before, of the `n`th datagram on the wire: 'c' or 'd', in upper
 * case if it was. */
static char on_wire(uint32_t n)
{
    const bench_datagram_t *d = bench->wire.first;

    for (; d != NULL && n > 0; n--) {
        d = d->next;
    }
    if (d == NULL) {
        return 0;
    }
    const bool data = (d->data[offsetof(btl_ib_wire_header_t, channels)] & 0xf) != 0;
    const bool again =
        (d->data[offsetof(btl_ib_wire_header_t, flags)] & BTL_IB_FLAG_RETRANSMISSION) != 0;
    return (char) ((data ? 'd' : 'c') - (again ? 'a' - 'A' : 0));
}

static void assert_wire(const char *expected)
{
    const uint32_t count = (uint32_t) strlen(expected);

    for (uint32_t i = 0; i <= count; i++) {
        assert_int_equal(on_wire(i), expected[i]);
    }
}

/* Two commands and two segments of data that were lost, and as many new messages of both, which
 * wait for the transport. */
static void make_four_kinds(void)
{
    for (int i = 0; i < 2; i++) {
        bench_send(bench, 0, 1, 1400, 1);
        bench_send(bench, 0, 1, 20, 1);
        bench_turn(bench, 0);
    }
    bench_clear(&bench->wire);
    assert_int_equal(btl_ib_sentmap_lose_all(conn), 4);
    rail->busy = 1000;
    bench_send(bench, 0, 1, 1400, 1);
    bench_send(bench, 0, 1, 20, 1);
}

/* ---- order ---- */

/* What commands lost leaves first, then new ones, what data lost, and new data. */
TEST_WITH(commands_first, set_up, tear_down)
{
    make_four_kinds();
    btl_ib_flush(conn);
    assert_wire("");
    rail->busy = 0;
    btl_ib_flush(conn);
    assert_wire("CCcDDd");
}

/* A transport that takes no more ends it, and the rest leaves in the same order, with the next
 * turn. */
TEST_WITH(goes_on_in_order, set_up, tear_down)
{
    make_four_kinds();
    rail->full = 1u << 1; /* data are refused, which ends the turn */
    rail->busy = 0;
    btl_ib_flush(conn);
    assert_wire("CCc");
    rail->full = 0;
    bench_turn(bench, 0);
    assert_wire("CCcDDd");
}

/* Where each channel has a queue of its own a full one holds up none of the others. */
TEST(a_full_queue)
{
    begin(0, true);
    make_four_kinds();
    rail->busy = 0;
    rail->full = 1u << 0;
    btl_ib_flush(conn);
    assert_wire("DDd");
    rail->full = 0;
    bench_turn(bench, 0);
    assert_wire("DDdCCc");
    tear_down(NULL);
}

/* Without such queues it does. */
TEST_WITH(a_full_transport, set_up, tear_down)
{
    make_four_kinds();
    rail->busy = 0;
    rail->full = 1u << 0;
    btl_ib_flush(conn);
    assert_wire("");
    rail->full = 0;
    bench_turn(bench, 0);
    assert_wire("CCcDDd");
}

/* ---- what was sent again ---- */

/* The pace of the congestion control is that of copies, too. */
TEST_WITH(copies_wait_for_the_pace, set_up, tear_down)
{
    make_four_kinds();
    rail->busy = 0;
    conn->cc.pace = 1000000; /* ns */
    conn->cc.burst = 1;
    bool full = false;
    const btl_ib_verdict_t verdict = btl_ib_batch_resend(conn, true, &full);
    assert_int_equal(verdict, BTL_IB_TOO_SOON);
    assert_false(full);
    assert_true(bench->wire.count < 2);
    conn->cc.pace = 0;
}

/* Each copy has what it must say, and nothing else: one that asks, asks. */
TEST_WITH(one_again, set_up, tear_down)
{
    bench_send(bench, 0, 1, 1400, 1);
    bench_clear(&bench->wire);
    btl_ib_segment_t *segment =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
    rail->busy = 1;
    bench->now += 100;
    conn->engine->clock.now += 100;
    const uint64_t base = conn->loss.probe_base;
    assert_false(btl_ib_retransmit(conn, segment, BTL_IB_FLAG_ACK_NOW));
    assert_int_equal(segment->copies, 1);
    assert_int_equal(conn->loss.probe_base, base);
    assert_true(btl_ib_retransmit(conn, segment, BTL_IB_FLAG_ACK_NOW));
    assert_int_equal(segment->copies, 2);
    assert_true(segment->probe);
    assert_int_equal(conn->loss.probe_base, conn->engine->clock.now);
    assert_wire("D");
    assert_true(bench->wire.first->data[offsetof(btl_ib_wire_header_t, flags)]
                & BTL_IB_FLAG_ACK_NOW);
}

/* ---- memory ---- */

/* Where memory is short the rest waits for the next turn, which is due. */
TEST_WITH(memory_is_short, set_up, tear_down)
{
    const uint64_t before = conn->engine->count.blocked_memory;
    btl_ib_list_t taken;
    btl_ib_segment_t *segment;

    bench_send(bench, 0, 1, 20000, 1);
    assert_true(bench_settle(bench, SECOND));
    btl_ib_list_init(&taken);
    conn->rail->pool.limit = conn->rail->pool.kind[0].made; /* no more than there are, */
    while ((segment = btl_ib_pool_get(&conn->rail->pool, 100)) != NULL) {
        btl_ib_list_push_tail(&taken, &segment->link);
    }
    for (int i = 0; i < 5; i++) { /* of which five are free */
        segment = BTL_IB_LIST_POP(btl_ib_segment_t, &taken, link);
        btl_ib_pool_put(segment);
    }
    bench_send(bench, 0, 1, 60000, 1);
    bench_turn(bench, 0);
    assert_int_equal(bench->wire.count, 5);
    assert_true(conn->engine->count.blocked_memory > before);
    assert_true(conn->engine->count.blocked_memory < before + 10);
    assert_false(btl_ib_list_empty(&conn->ready));
    while ((segment = BTL_IB_LIST_POP(btl_ib_segment_t, &taken, link)) != NULL) {
        btl_ib_pool_put(segment);
    }
    conn->rail->pool.limit = 1000;
    bench_turn(bench, 0);
    assert_int_equal(bench->wire.count, 43);
}

/* ---- bursts ---- */

/* Of what waits only whole bursts leave, where that is asked for. */
TEST(whole_bursts)
{
    for (int32_t more = -1; more <= 1; more++) {
        begin(65487, false);
        const uint32_t segment = btl_ib_conn_segment_max(conn);
        conn->cc.gso_segments = 4;
        rail->busy = 1;
        const uint32_t size = 4 * segment + (uint32_t) more;
        bench_send(bench, 0, 1, size, 1);
        rail->busy = 0;
        assert_int_equal(bench->wire.count, 0);
        bool full = false;
        assert_int_equal(btl_ib_batch_push(conn, 1, true, &full), BTL_IB_GO);
        if (more < 0) {
            assert_int_equal(bench->wire.count, 0);
        } else {
            assert_true(bench->wire.count >= 4);
        }
        tear_down(NULL);
    }
}

/* ---- turns of operations ---- */

/* Long operations have their turns, a batch each; the chunks of a message stay together. */
TEST_WITH(by_turns, set_up, tear_down)
{
    uint64_t offset = 0;
    uint32_t changes = 0;

    rail->busy = 1000;
    bench_op(bench, 0, 1, BTL_IB_OP_PUT, 16384);
    bench_op(bench, 0, 1, BTL_IB_OP_PUT, 16384);
    bench_op(bench, 0, 1, BTL_IB_OP_PUT, 16384);
    rail->base.attr.max_batch = 4;
    rail->busy = 0;
    bench_turn(bench, 0);
    bench_turn(bench, 0);
    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        btl_ib_wire_target_t target;
        if ((d->data[0] & 0xf) == BTL_IB_TYPE_PUT) {
            memcpy(&target, d->data + sizeof(btl_ib_wire_header_t), sizeof(target));
            changes += BTL_IB_LE32(target.operation) != offset;
            offset = BTL_IB_LE32(target.operation);
        }
    }
    assert_true(changes >= 6);
}

UNIT_MAIN(NULL, NULL)
