/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Operations on a peer's memory by messages: what may be asked for, which answers are taken; and
 * our answers to what the peer asks. */

#include <errno.h>
#include <string.h>

#include "btl_ib_conn.h"
#include "btl_ib_rma_initiator.h"
#include "btl_ib_rma_replies.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "pool_segments.h"
#include "unit.h"

enum { CHANNEL = 2, BYTES = 100 };

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1: they know each other */
static btl_ib_op_t op;
static uint8_t local[BYTES], payload[BYTES];

static btl_ib_engine_ops_t ops;
static uint32_t over;
static int status;

static void op_done(void *context, btl_ib_op_t *done, int how)
{
    over++;
    status = how;
}

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    ops = *engine->ops;
    ops.op_done = op_done;
    engine->ops = &ops;
    over = 0;
    memset(local, 0, sizeof(local));
    memset(payload, 0x77, sizeof(payload));
    return 0;
}

static int tear_down(void **state)
{
    bench_clear(&bench->wire);
    bench_check_accounts(&bench->hosts[0]);
    end(bench);
    return 0;
}

/* ---- what may be asked for ---- */

/* Begins it; what is begun ends with its connection. */
static int begin(btl_ib_op_kind_t kind, uint64_t offset, uint64_t size, void *memory)
{
    op = (btl_ib_op_t){.kind = kind,
                       .key = bench->hosts[1].key,
                       .offset = offset,
                       .size = size,
                       .local = memory,
                       .code = BTL_IB_ATOMIC_ADD,
                       .type = BTL_IB_ATOMIC_INT64,
                       /* the engine's: what was there does not matter */
                       .id = 77,
                       .asked = true};
    return btl_ib_op_start(conn, &op, bench->now);
}

/* Returns whether it is begun, and lets it end. */
static bool may_begin(btl_ib_op_kind_t kind, uint64_t offset, uint64_t size, void *memory)
{
    const int rc = begin(kind, offset, size, memory);

    assert_true(rc == 0 || rc == -EINVAL);
    if (rc == 0) {
        bench_run(bench, 3000);
        assert_int_equal(over, 1);
        over = 0;
    }
    return rc == 0;
}

/* Offsets end at 2^63 - 1; memory of ours is there, and ends where addresses do. */
TEST_WITH(what_can_be_asked_for, set_up, tear_down)
{
    const uint64_t most = INT64_MAX;
    uint8_t *const high = (uint8_t *) (UINTPTR_MAX - 7); /* refused, or never touched */

    assert_true(may_begin(BTL_IB_OP_GET, most - BYTES, BYTES, local));
    assert_false(may_begin(BTL_IB_OP_GET, most - BYTES + 1, BYTES, local));
    assert_true(may_begin(BTL_IB_OP_PUT, most, 0, local));
    assert_false(may_begin(BTL_IB_OP_PUT, most, 1, local));
    assert_true(may_begin(BTL_IB_OP_PUT, most, 0, NULL));
    assert_false(may_begin(BTL_IB_OP_PUT, 20000, 1, NULL));
    assert_true(may_begin(BTL_IB_OP_GET, (uint64_t) -5, BYTES, local)); /* before the region */
    assert_true(may_begin(BTL_IB_OP_GET, most - 7, 7, high));
    assert_false(may_begin(BTL_IB_OP_GET, 1024, 8, high));
    assert_true(may_begin(BTL_IB_OP_ATOMIC, most - 8, 0, NULL));
    assert_false(may_begin(BTL_IB_OP_ATOMIC, most - 7, 0, NULL));
    assert_false(may_begin((btl_ib_op_kind_t) 77, 1024, BYTES, local));
    op.kind = BTL_IB_OP_ATOMIC;
    op.offset = 0;
    op.type = (btl_ib_atomic_type_t) 77;
    assert_int_equal(btl_ib_op_start(conn, &op, bench->now), -EINVAL);
}

/* Nothing is begun of a connection that ends; each that is begun is counted. */
TEST_WITH(begun, set_up, tear_down)
{
    assert_int_equal(begin(BTL_IB_OP_PUT, 20000, BYTES, local), 0);
    assert_int_equal(engine->count.started_puts, 1);
    bench_run(bench, 3000);
    assert_int_equal(over, 1);
    assert_int_equal(begin(BTL_IB_OP_GET, 1024, BYTES, local), 0);
    assert_int_equal(engine->count.started_gets, 1);
    bench_run(bench, 3000);
    assert_int_equal(begin(BTL_IB_OP_ATOMIC, 0, 0, NULL), 0);
    assert_int_equal(engine->count.started_atomics, 1);
    bench_run(bench, 3000);
    assert_int_equal(over, 3);
    conn->draining = true;
    assert_int_equal(begin(BTL_IB_OP_PUT, 20000, BYTES, local), -EPIPE);
    conn->draining = false;
    conn->state = BTL_IB_CONN_DEAD;
    assert_int_equal(begin(BTL_IB_OP_PUT, 20000, BYTES, local), -EPIPE);
    conn->state = BTL_IB_CONN_OPEN;
    assert_int_equal(engine->count.started_puts, 1);
    assert_int_equal(conn->ops.count, 0);
}

/* Ids are used again after 2^24 operations. None is 0. */
TEST_WITH(ids_begin_again, set_up, tear_down)
{
    engine->op_ids.generation = UINT32_MAX / BTL_IB_OPS_MAX;
    assert_int_equal(begin(BTL_IB_OP_ATOMIC, 0, 0, NULL), 0);
    assert_int_equal(op.id / BTL_IB_OPS_MAX, 1);
    bench_run(bench, 3000);
    assert_int_equal(over, 1);
}

/* One that still waits for its turn when the connection ends had no slot. */
TEST_WITH(ends_before_its_turn, set_up, tear_down)
{
    btl_ib_op_t waiting;

    engine->config.ops_max = 1;
    assert_int_equal(begin(BTL_IB_OP_GET, 1024, BYTES, local), 0);
    waiting = op;
    waiting.id = 77;
    assert_int_equal(btl_ib_op_start(conn, &waiting, bench->now), 0);
    assert_int_equal(engine->op_ids.running, 1);
    assert_int_equal(conn->ops.count, 2);
    btl_ib_conn_kill(conn, BTL_IB_DEATH_ENDED);
    assert_int_equal(over, 2);
    assert_int_equal(status, -EPIPE);
    assert_int_equal(engine->op_ids.running, 0);
}

/* ---- answers ---- */

/* Begins an operation whose request leaves and is lost, and does nothing more. */
static void ask(btl_ib_op_kind_t kind, uint64_t size)
{
    assert_int_equal(begin(kind, 1024, size, local), 0);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    assert_int_not_equal(op.id, 0);
}

/* The next segment of the peer. */
static btl_ib_view_t answer(uint32_t id, uint64_t offset, uint32_t size)
{
    btl_ib_view_t view = {
        .channel = CHANNEL, .seq = conn->rx[CHANNEL].window.next, .payload = payload, .size = size};

    view.op.id = id;
    view.op.offset = offset;
    return view;
}

/* The peer sends those bytes of a GET. Returns how many segments were accepted. */
static uint32_t got(uint32_t id, uint64_t offset, uint32_t size)
{
    const btl_ib_view_t view = answer(id, offset, size);
    const uint32_t before = conn->rx[CHANNEL].window.next;

    btl_ib_op_recv_got(conn, &view);
    bench_turn(bench, 0); /* which calls back */
    bench_clear(&bench->wire);
    return conn->rx[CHANNEL].window.next - before;
}

/* A GET is over when all its bytes came, in any order. */
TEST_WITH(bytes_of_a_get, set_up, tear_down)
{
    ask(BTL_IB_OP_GET, 60);
    conn->loss.probes = 3;
    assert_int_equal(got(op.id, 40, 20), 1);
    assert_int_equal(local[39], 0);
    assert_int_equal(local[40], 0x77);
    assert_int_equal(local[59], 0x77);
    assert_int_equal(local[60], 0);
    assert_int_equal(engine->count.copied_in, 20);
    assert_int_equal(over, 0);
    assert_int_equal(got(op.id, 0, 40), 1);
    assert_int_equal(over, 1);
    assert_int_equal(status, 0);
    assert_int_equal(conn->ops.count, 0);
    assert_int_equal(engine->count.copied_in, 60);
    assert_int_equal(engine->count.dropped_op, 0);
    assert_int_equal(got(op.id, 0, 40), 1); /* it was over already */
    assert_int_equal(engine->count.stale_answers, 1);
}

/* Bytes that nobody asked for are no answer: beyond the end, more than there are, for a PUT. */
TEST_WITH(false_bytes, set_up, tear_down)
{
    ask(BTL_IB_OP_GET, 60);
    assert_int_equal(got(op.id, 61, 0), 0);
    assert_int_equal(got(op.id, 60, 1), 0);
    assert_int_equal(got(op.id, 1, 60), 0);
    assert_int_equal(got(op.id, UINT64_MAX, 1), 0);
    assert_int_equal(engine->count.dropped_op, 4);
    assert_int_equal(got(op.id, 0, 59), 1);
    assert_int_equal(got(op.id, 0, 2), 0); /* with them there would be more than all */
    assert_int_equal(engine->count.dropped_op, 5);
    assert_int_equal(over, 0);
    assert_int_equal(got(op.id, 59, 1), 1);
    assert_int_equal(over, 1);
    ask(BTL_IB_OP_PUT, 60);
    assert_int_equal(got(op.id, 0, 10), 0);
    assert_int_equal(engine->count.dropped_op, 6);
}

/* The peer rejects it. */
static void rejected(uint32_t id)
{
    const btl_ib_view_t view = answer(id, 0, 0);

    btl_ib_op_recv_rejected(conn, &view);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
}

/* REJECTED ends a PUT, what is in flight of it too; of others it is too late, or false. */
TEST_WITH(rejections, set_up, tear_down)
{
    ask(BTL_IB_OP_PUT, BYTES);
    assert_int_equal(conn->sentmap.unacked, 1);
    rejected(op.id + 1);
    assert_int_equal(over, 0);
    rejected(op.id);
    assert_int_equal(over, 1);
    assert_int_equal(status, -EACCES);
    rejected(op.id);
    assert_int_equal(over, 1);
    assert_int_equal(engine->count.received_rejections, 3);
    assert_int_equal(engine->count.stale_answers, 2);
    ask(BTL_IB_OP_GET, BYTES);
    rejected(op.id);
    assert_int_equal(over, 1);
    assert_int_equal(engine->count.stale_answers, 3);
}

/* The peer replies to an operation, twice in a segment. */
static void replied_twice(uint32_t id, uint32_t how, uint64_t result)
{
    const btl_ib_wire_reply_t replies[2] = {
        {BTL_IB_LE64(result), BTL_IB_LE32(id), BTL_IB_LE32(how)},
        {BTL_IB_LE64(result + 1), BTL_IB_LE32(id), BTL_IB_LE32(how)}};
    btl_ib_view_t view = answer(0, 0, sizeof(replies));

    view.payload = (uint8_t *) (uintptr_t) replies;
    btl_ib_op_recv_replies(conn, &view);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
}

/* A reply ends what waits for it: an atomic operation with its result, a GET that has no bytes,
 * what was rejected. */
TEST_WITH(replies, set_up, tear_down)
{
    const uint32_t next = conn->rx[CHANNEL].window.next;

    ask(BTL_IB_OP_ATOMIC, 0);
    replied_twice(op.id + 1, BTL_IB_REPLY_DONE, 5);
    assert_int_equal(engine->count.stale_answers, 2);
    assert_int_equal(over, 0);
    replied_twice(op.id, BTL_IB_REPLY_DONE, 5);
    assert_int_equal(over, 1);
    assert_int_equal(status, 0);
    assert_int_equal(op.result, 5);
    assert_int_equal(conn->rx[CHANNEL].window.next, next + 2);
    ask(BTL_IB_OP_ATOMIC, 0);
    replied_twice(op.id, BTL_IB_REPLY_REJECTED, 5);
    assert_int_equal(over, 2);
    assert_int_equal(status, -EACCES);
    ask(BTL_IB_OP_GET, 0);
    replied_twice(op.id, BTL_IB_REPLY_DONE, 0);
    assert_int_equal(over, 3);
    assert_int_equal(status, 0);
    ask(BTL_IB_OP_GET, 10);
    replied_twice(op.id, BTL_IB_REPLY_DONE, 0); /* its bytes are still to come */
    assert_int_equal(over, 3);
    replied_twice(op.id, BTL_IB_REPLY_REJECTED, 0);
    assert_int_equal(over, 4);
    assert_int_equal(status, -EACCES);
}

/* ---- our answers ---- */

/* Asks host 0 for `size` bytes of its memory. */
static btl_ib_stream_t *stream(uint32_t id, uint64_t offset, uint32_t size)
{
    btl_ib_view_t get = answer(id, offset, 0);

    get.op.end = offset + size;
    return btl_ib_replies_stream(conn, &get, &bench->hosts[0].key, offset);
}

/* There is room for so many answers that were not sent, of both kinds together; and memory only
 * while some are. */
TEST_WITH(room_for_answers, set_up, tear_down)
{
    conn->cc.window = 0;
    bench->hosts[0].fail_in = 1;
    assert_false(btl_ib_replies_reserve(conn));
    assert_int_equal(engine->count.rnr_memory, 1);
    const size_t bytes = bench->hosts[0].bytes;
    for (uint32_t i = 0; i < BTL_IB_OPS_MAX - 1; i++) {
        assert_true(btl_ib_replies_reserve(conn));
        btl_ib_replies_add(conn, i + 1, BTL_IB_REPLY_DONE, i);
    }
    assert_true(btl_ib_replies_reserve(conn));
    btl_ib_replies_begin(stream(99, 1024, 10));
    assert_false(btl_ib_replies_reserve(conn));
    assert_int_equal(engine->count.rnr_operations, 1);
    btl_ib_replies_shrink(conn);
    assert_non_null(conn->replies.ring);
    btl_ib_replies_drop(conn);
    assert_int_equal(conn->replies.streams, 0);
    assert_int_equal(conn->replies.out.offset, conn->replies.out.size);
    assert_true(btl_ib_list_empty(&conn->replies.out.link));
    assert_true(btl_ib_replies_reserve(conn));
    btl_ib_replies_shrink(conn);
    assert_null(conn->replies.ring);
    assert_int_equal(bench->hosts[0].bytes, bytes);
    bench->hosts[0].fail_in = 1;
    assert_null(stream(99, 1024, 10));
    assert_int_equal(engine->count.rnr_memory, 2);
}

/* Notes what the replies say that were sent: operations, statuses, results. Returns how many. */
static uint32_t said(btl_ib_wire_reply_t *to, uint32_t most)
{
    uint32_t count = 0;

    bench->taping = true;
    bench_run(bench, 5000);
    bench->taping = false;
    while (bench->tape.count > 0) {
        bench_datagram_t *d = bench_pop(&bench->tape);
        if ((d->data[0] & 0xf) == BTL_IB_TYPE_REPLY) {
            assert_false(d->data[1] & BTL_IB_FLAG_ACK_NOW); /* it is not urgent */
            for (uint32_t at = sizeof(btl_ib_wire_header_t); at < d->size && count < most;
                 at += (uint32_t) sizeof(*to)) {
                memcpy(&to[count++], d->data + at, sizeof(*to));
            }
        }
        free(d);
    }
    return count;
}

/* All of them leave, in order, also when places are used again. */
TEST_WITH(replies_leave, set_up, tear_down)
{
    static btl_ib_wire_reply_t replies[BTL_IB_OPS_MAX];
    enum { EACH = BTL_IB_OPS_MAX - 20 };

    conn->cc.window = 1000;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < EACH; i++) {
            assert_true(btl_ib_replies_reserve(conn));
            btl_ib_replies_add(conn, round * EACH + i + 1,
                               i % 3 == 0 ? BTL_IB_REPLY_REJECTED : BTL_IB_REPLY_DONE, i * 3);
        }
        assert_int_equal(said(replies, BTL_IB_OPS_MAX), EACH);
        for (uint32_t i = 0; i < EACH; i++) {
            assert_int_equal(BTL_IB_LE32(replies[i].operation), round * EACH + i + 1);
            assert_int_equal(BTL_IB_LE32(replies[i].status),
                             i % 3 == 0 ? BTL_IB_REPLY_REJECTED : BTL_IB_REPLY_DONE);
            assert_int_equal(BTL_IB_LE64(replies[i].result), i * 3);
        }
    }
}

/* Without memory for a segment they wait; with it all leave, in order. */
TEST_WITH(no_memory_for_replies, set_up, tear_down)
{
    btl_ib_wire_reply_t replies[4];
    hidden_t hidden;

    conn->cc.window = 1000;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(btl_ib_replies_reserve(conn));
        btl_ib_replies_add(conn, i + 1, BTL_IB_REPLY_DONE, i);
    }
    const uint64_t blocked = engine->count.blocked_memory;
    hide_segments(&hidden, &conn->rail->pool);
    bench_turn(bench, 0);
    show_segments(&hidden);
    assert_true(engine->count.blocked_memory > blocked);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(said(replies, 4), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(BTL_IB_LE32(replies[i].operation), i + 1);
        assert_int_equal(BTL_IB_LE64(replies[i].result), i);
    }
}

/* The bytes of a region that is withdrawn are not sent: the peer is told. */
TEST_WITH(region_is_gone, set_up, tear_down)
{
    btl_ib_wire_reply_t replies[2];

    assert_true(btl_ib_replies_reserve(conn));
    btl_ib_stream_t *begun = stream(99, 1024, 10);
    btl_ib_replies_begin(begun);
    assert_true(btl_ib_replies_find_or_reject(begun));
    assert_ptr_equal(begun->memory, bench->hosts[0].memory + 1024);
    btl_ib_region_remove(engine, &bench->hosts[0].key);
    assert_false(btl_ib_replies_find_or_reject(begun));
    assert_int_equal(conn->replies.streams, 0);
    assert_int_equal(said(replies, 2), 1);
    assert_int_equal(BTL_IB_LE32(replies[0].operation), 99);
    assert_int_equal(BTL_IB_LE32(replies[0].status), BTL_IB_REPLY_REJECTED);
}

/* A stream that was not begun, or not all of it, ends with its incarnation; messages stay. */
TEST_WITH(dropped, set_up, tear_down)
{
    const size_t bytes = bench->hosts[0].bytes;

    conn->cc.window = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(btl_ib_replies_reserve(conn));
        btl_ib_replies_begin(stream(i + 1, 1024, 1000));
    }
    btl_ib_replies_add(conn, 9, BTL_IB_REPLY_DONE, 1);
    btl_ib_replies_drop(conn);
    btl_ib_replies_shrink(conn);
    assert_int_equal(conn->replies.streams, 0);
    assert_int_equal(bench->hosts[0].bytes, bytes);
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        assert_true(btl_ib_list_empty(&conn->tx[i].submit.pending));
    }
    bench_turn(bench, 0);
    assert_int_equal(bench->wire.count, 0);
}

UNIT_MAIN(NULL, NULL)
