/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Messages of host 0: held back, bundled, split, and done. */

#include <errno.h>
#include <string.h>

#include "btl_ib_completion.h"
#include "btl_ib_deferred_free.h"
#include "btl_ib_out_message.h"
#include "btl_ib_packet.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"
#include "hostile.h"
#include "unit.h"

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn;

static void begin(uint32_t joins)
{
    bench = new_bench();
    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].attr.gso_bytes = joins;
        bench->hosts[i].attr.max_batch = 64;
        bench->hosts[i].config.cc = BTL_IB_CC_NONE;
        strcpy(bench->hosts[i].queues, "P,128,256,128,16:S,1472,2048,1024,500");
    }
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    bench_turn(bench, 0);
}

static int set_up(void **state)
{
    begin(0);
    return 0;
}

static int tear_down(void **state)
{
    end_settled(bench, 10 * SECOND);
    return 0;
}

/* ---- coalescing ---- */

/* So many leave at once, the others are held until the next turn. */
TEST(how_many_at_once)
{
    btl_ib_coalesce_t coalesce = {.at_once_max = 2};

    for (uint32_t turn = 5; turn < 7; turn++) {
        for (int i = 0; i < 2; i++) {
            assert_false(btl_ib_coalesce_waits(&coalesce, turn));
            btl_ib_coalesce_at_once(&coalesce, turn, 100 + turn);
        }
        assert_true(btl_ib_coalesce_waits(&coalesce, turn));
        assert_int_equal(coalesce.last_at, 100 + turn);
    }
}

/* Held are fewer messages than a bound, and fewer bytes. */
TEST(how_much_is_held)
{
    btl_ib_coalesce_t coalesce = {.held = 0};

    for (uint32_t i = 1; i < BTL_IB_HELD_MOST; i++) {
        assert_true(btl_ib_coalesce_hold(&coalesce, 10, 100000));
        assert_int_equal(coalesce.held, i);
        assert_int_equal(coalesce.held_bytes, 10 * i);
    }
    assert_false(btl_ib_coalesce_hold(&coalesce, 10, 100000));
    btl_ib_coalesce_forget(&coalesce);
    assert_true(btl_ib_coalesce_hold(&coalesce, 999, 1000));
    assert_false(btl_ib_coalesce_hold(&coalesce, 1, 1000));
    assert_true(btl_ib_coalesce_hold(&coalesce, 0, 1000));
    btl_ib_coalesce_forget(&coalesce);
    assert_false(btl_ib_coalesce_hold(&coalesce, 1000, 1000));
    assert_false(btl_ib_coalesce_hold(&coalesce, UINT64_MAX, 1000));
    assert_int_equal(coalesce.held + coalesce.held_bytes, 0);
}

/* One leaves at once where others soon followed; twice as many, up to 16, where one was held, or
 * the next turn was long in coming, which is 20 us for each that was held. */
TEST(learned)
{
    static const struct {
        uint32_t held;
        uint64_t after;
        uint32_t before, then;
    } tries[] = {{0, 0, 4, 4},   {1, 0, 4, 8},   {2, 40, 4, 1},     {2, 41, 4, 8},
                 {3, 60, 16, 1}, {3, 61, 1, 2},  {100, 2000, 8, 1}, {100, 2001, 8, 16},
                 {1, 0, 15, 30}, {1, 0, 16, 16}, {1, 99, 1, 2}};

    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        btl_ib_coalesce_t coalesce = {.held = tries[i].held,
                                      .held_bytes = 7,
                                      .at_once_max = tries[i].before,
                                      .last_at = 1000};
        btl_ib_coalesce_release(&coalesce, 1000 + tries[i].after);
        assert_int_equal(coalesce.at_once_max, tries[i].then);
        assert_int_equal(coalesce.held, 0);
        assert_int_equal(coalesce.held_bytes, tries[i].held == 0 ? 7 : 0);
    }
}

/* Full bursts of what is held leave, and the rest with the next turn; no learning from that. */
TEST(full_bursts)
{
    begin(65487);
    const uint64_t burst = (uint64_t) conn->cc.gso_segments * conn->pmtud.datagram_max;

    assert_true(conn->cc.gso_segments > 1);
    conn->coalesce.held_bytes = 1000;
    assert_true(btl_ib_coalesce_fills_burst(conn, burst - 1000));
    assert_false(btl_ib_coalesce_fills_burst(conn, burst - 1001));
    const uint32_t segments = conn->cc.gso_segments;
    conn->cc.gso_segments = 1;
    assert_false(btl_ib_coalesce_fills_burst(conn, burst));
    conn->cc.gso_segments = segments;
    for (uint64_t left = 0; left < 3000; left += 500) {
        conn->coalesce.held_bytes = 1000;
        engine->clock.now += 10;
        btl_ib_list_remove(&conn->ready);
        btl_ib_coalesce_bursts_left(conn, 1000, left);
        assert_int_equal(conn->coalesce.held_bytes, left < 2000 ? 2000 - left : 0);
        assert_int_equal(conn->coalesce.last_at, engine->clock.now);
        assert_false(btl_ib_list_empty(&conn->ready));
    }
    conn->coalesce.at_once_max = 4;
    btl_ib_coalesce_release(&conn->coalesce, engine->clock.now);
    assert_int_equal(conn->coalesce.at_once_max, 1); /* more than one message was held */
    tear_down(NULL);
}

/* ---- bundles ---- */

/* Has messages of such sizes wait in the command channel. */
static btl_ib_list_t *have_wait(const uint32_t *sizes, uint32_t count)
{
    bench->hosts[0].rails[0].busy = 1000;
    for (uint32_t i = 0; i < count; i++) {
        bench_send(bench, 0, 1, sizes[i], 1);
    }
    bench->hosts[0].rails[0].busy = 0;
    return &conn->tx[0].submit.pending;
}

/* As many as fit: each with an entry of four bytes, and padded to four. */
TEST_WITH(how_many_fit, set_up, tear_down)
{
    static const uint32_t sizes[] = {8, 9, 12, 20};
    uint32_t size = 0;
    const btl_ib_list_t *pending = have_wait(sizes, 4);
    const uint32_t one = (uint32_t) btl_ib_wire_bundled_size(8);
    const uint32_t two = one + (uint32_t) btl_ib_wire_bundled_size(9);
    const uint32_t four =
        two + (uint32_t) btl_ib_wire_bundled_size(12) + (uint32_t) btl_ib_wire_bundled_size(20);

    assert_int_equal(btl_ib_message_bundle_count(pending, one - 1, &size), 0);
    assert_int_equal(size, 0);
    assert_int_equal(btl_ib_message_bundle_count(pending, one, &size), 1);
    assert_int_equal(btl_ib_message_bundle_count(pending, two - 1, &size), 1);
    assert_int_equal(size, one);
    assert_int_equal(btl_ib_message_bundle_count(pending, two, &size), 2);
    assert_int_equal(size, two);
    assert_int_equal(btl_ib_message_bundle_count(pending, 1400, &size), 4);
    assert_int_equal(size, four);
    /* what is split already, or whose order matters, is in none */
    btl_ib_msg_t *third =
        btl_ib_msg_of(BTL_IB_CONTAINER(pending->next->next->next, btl_ib_out_t, link));
    third->ordered = true;
    assert_int_equal(btl_ib_message_bundle_count(pending, 1400, &size), 2);
    third->ordered = false;
    third->unit = 8;
    assert_int_equal(btl_ib_message_bundle_count(pending, 1400, &size), 2);
    third->unit = 0;
    third->out.kind = BTL_IB_OUT_REQUEST;
    assert_int_equal(btl_ib_message_bundle_count(pending, 1400, &size), 2);
    third->out.kind = BTL_IB_OUT_MESSAGE;
}

/* A bundle that could not leave is none: its messages wait as before, in their order. */
TEST_WITH(taken_apart, set_up, tear_down)
{
    static const uint32_t sizes[] = {8, 9, 12, 20};
    btl_ib_list_t *pending = have_wait(sizes, 4), bundled;
    const uint64_t copied = engine->count.copied_out;
    uint32_t size = 0;

    btl_ib_list_init(&bundled);
    assert_int_equal(btl_ib_message_bundle_count(pending, 60, &size), 3);
    btl_ib_segment_t *segment = btl_ib_message_bundle(conn, pending, 3, size, 0, &bundled);
    assert_non_null(segment);
    assert_int_equal(segment->bundled, 3);
    assert_int_equal(segment->payload, 8 + 9 + 12);
    assert_int_equal(engine->count.copied_out - copied, 8 + 9 + 12);
    assert_int_equal(BTL_IB_LIST_FIRST(btl_ib_out_t, pending, link)->size, 20);
    btl_ib_message_unbundle(segment, &bundled, pending);
    assert_true(btl_ib_list_empty(&bundled));
    uint32_t i = 0;
    BTL_IB_LIST_FOREACH (const btl_ib_out_t, out, pending, link) {
        assert_int_equal(out->size, sizes[i++]);
        assert_int_equal(out->offset, 0);
    }
    assert_int_equal(i, 4);
    btl_ib_pool_put(segment);
}

/* ---- split messages ---- */

/* Where datagrams are joined chunks have one size, a multiple of 8 with their headers, and the last
 * is as long as the others if few zeros make it so. Else all but the last are full. */
TEST(chunks)
{
    for (int joins = 0; joins < 2; joins++) {
        begin(joins ? 65487 : 0);
        const uint32_t heads =
            btl_ib_packet_overhead(conn) + (uint32_t) sizeof(btl_ib_wire_chunk_t);
        const uint32_t most = conn->pmtud.datagram_max - heads;
        for (uint32_t size = btl_ib_conn_segment_max(conn) + 1; size < 45000; size += 617) {
            bench_clear(&bench->wire);
            bench_send(bench, 0, 1, size, 1);
            bench_turn(bench, 0);
            const uint32_t first = bench->wire.first->size, count = bench->wire.count;
            const bench_datagram_t *d = bench->wire.first;
            const uint32_t least = (size + most - 1) / most;
            uint32_t bytes = 0;
            for (; d->next != NULL; d = d->next) {
                assert_int_equal(d->size, first);
                bytes += d->size - heads;
            }
            assert_true(d->size <= first);
            assert_true(count >= least && count <= least + (uint32_t) joins * least / 16);
            if (!joins) {
                assert_int_equal(first, conn->pmtud.datagram_max);
                assert_int_equal(bytes + d->size - heads, size);
            } else {
                assert_true(first % 8 == 0 || first == conn->pmtud.datagram_max);
                const uint32_t rest = size - bytes, pad = first - heads - rest;
                assert_int_equal(d->size, pad <= BTL_IB_PAD_MAX ? first : heads + rest);
            }
            assert_true(bench_settle(bench, 10 * SECOND));
            bench_run(bench, 1000);
        }
        tear_down(NULL);
    }
}

/* ---- done ---- */

/* What is over waits for its callback, once, which the next turn of the application calls. */
TEST_WITH(callbacks_are_due, set_up, tear_down)
{
    static const uint32_t sizes[] = {20};
    const btl_ib_list_t *pending = have_wait(sizes, 1);
    btl_ib_out_t *out = BTL_IB_LIST_FIRST(btl_ib_out_t, pending, link);
    const uint64_t finished = engine->completion.finished;

    btl_ib_list_remove(&out->link);
    engine->work = (btl_ib_work_t){.waits = false};
    btl_ib_completion_sent(out);
    assert_true(out->sent_due && !out->done_due);
    assert_true(engine->work.waits);
    btl_ib_completion_add(out, 0);
    assert_true(out->done_due);
    assert_ptr_equal(btl_ib_list_first(&engine->events), &out->link);
    assert_ptr_equal(btl_ib_list_last(&engine->events), &out->link);
    btl_ib_completion_callbacks(engine);
    assert_int_equal(engine->completion.finished, finished + 1);
    assert_false(out->sent_due || out->done_due);
    bench_message_t *m = &bench->messages[bench->message_count - 1];
    assert_true(m->sent && m->done);
    m->delivered = 1; /* it never left */
}

/* Connections are counted until they are freed: a rail's pool has a segment for each. */
TEST_WITH(counted_until_freed, set_up, tear_down)
{
    const uint32_t conns = engine->deferred_free.conns;
    const uint32_t limit = conn->rail->pool.limit;

    bench_start(bench, 2);
    btl_ib_conn_t *other = bench_connect(bench, 0, 2);
    assert_int_equal(engine->deferred_free.conns, conns + 1);
    assert_int_equal(conn->rail->pool.limit, limit + 1);
    btl_ib_engine_enter(engine);
    btl_ib_conn_destroy(other, bench->now);
    btl_ib_engine_leave(engine);
    bench_run(bench, SECOND);
    assert_int_equal(engine->deferred_free.conns, conns);
    assert_int_equal(conn->rail->pool.limit, limit);
}

UNIT_MAIN(NULL, NULL)
