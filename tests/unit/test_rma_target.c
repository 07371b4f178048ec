/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What a target does with each request of a peer: its memory, its answers, its counters. */

#include <string.h>

#include "btl_ib_rma.h"
#include "btl_ib_rma_target.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "pool_segments.h"
#include "unit.h"

enum { CHANNEL = 2, ID = 77, BYTES = 100 };

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static uint8_t *memory;     /* of host 0, registered */
static uint8_t payload[BYTES];

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    memory = bench->hosts[0].memory;
    memset(payload, 0x77, sizeof(payload));
    return 0;
}

static int tear_down(void **state)
{
    bench_clear(&bench->wire);
    end(bench);
    return 0;
}

/* The next segment of the peer: a request for `size` bytes of that region. */
static btl_ib_view_t request(uint32_t id, uint64_t offset, uint32_t size)
{
    btl_ib_view_t view = {
        .channel = CHANNEL, .seq = conn->rx[CHANNEL].window.next, .payload = payload, .size = size};

    view.op.id = id;
    view.op.key = bench->hosts[0].key;
    view.op.offset = offset;
    view.op.end = offset + size;
    return view;
}

/* Returns how many of a request's segments are accepted by `serve`. */
static uint32_t accepted(bool (*serve)(btl_ib_conn_t *, const btl_ib_view_t *),
                         const btl_ib_view_t *view)
{
    const uint32_t before = conn->rx[CHANNEL].window.next;
    const bool done = serve(conn, view);
    const uint32_t count = conn->rx[CHANNEL].window.next - before;

    assert_int_equal(done, count > 0);
    return count;
}

/* ---- PUT ---- */

/* The wire has one REJECTED of that operation, or nothing. */
static bool is_rejection_sent(uint32_t id)
{
    const bench_datagram_t *d = bench->wire.first;
    const bool sent = d != NULL;

    if (sent) {
        uint32_t said;
        assert_int_equal(bench->wire.count, 1);
        assert_int_equal(d->data[0] & 0xf, BTL_IB_TYPE_REJECTED);
        memcpy(&said, d->data + d->size - sizeof(said), sizeof(said));
        assert_int_equal(BTL_IB_LE32(said), id);
        bench_clear(&bench->wire);
    }
    return sent;
}

static uint32_t rejections, unplaced;

static bool is_told(const btl_ib_view_t *view)
{
    assert_int_equal(accepted(btl_ib_target_put, view), 0);
    assert_int_equal(engine->count.unplaced_puts, ++unplaced);
    const bool told = is_rejection_sent(view->op.id);
    rejections += told;
    assert_int_equal(engine->count.sent_rejections, rejections);
    return told;
}

/* A rejection is told once for each batch of datagrams, until the transport takes it.
 * protocol: R72 */
TEST_WITH(rejected_puts, set_up, tear_down)
{
    btl_ib_view_t put = request(ID, 0, BYTES), other = request(ID + 1, 0, BYTES);
    const uint32_t segments = free_segments(&engine->rails[0]->pool, 0);

    rejections = unplaced = 0;
    put.op.key.secret++;
    other.op.key.secret++;
    assert_true(is_told(&put));
    assert_false(is_told(&put));
    assert_true(is_told(&other));
    assert_false(is_told(&other));
    engine->turn.batch++;
    bench->hosts[0].rails[0].busy = 1;
    assert_false(is_told(&other));
    assert_true(is_told(&other));
    engine->turn.batch++;
    assert_true(is_told(&other));
    assert_int_equal(free_segments(&engine->rails[0]->pool, 0), segments);
    assert_int_equal(memory[0], 0);
    assert_int_equal(engine->count.placed_puts, 0);
}

/* Without memory for it a rejection is told when the next segment of that PUT comes. */
TEST_WITH(no_memory_for_a_rejection, set_up, tear_down)
{
    btl_ib_pool_t *pool = &engine->rails[0]->pool;
    const uint32_t limit = pool->limit;
    btl_ib_view_t put = request(ID, 0, BYTES);
    btl_ib_list_t hidden;

    rejections = unplaced = 0;
    put.op.key.secret++;
    btl_ib_list_init(&hidden);
    btl_ib_list_splice_tail(&hidden, &pool->kind[0].free);
    pool->limit = 0;
    assert_false(is_told(&put));
    pool->limit = limit;
    btl_ib_list_splice_tail(&pool->kind[0].free, &hidden);
    assert_true(is_told(&put));
    assert_false(is_told(&put));
}

TEST_WITH(placed_puts, set_up, tear_down)
{
    btl_ib_view_t put = request(ID, 1, BYTES);

    memset(memory, 0x11, BYTES + 2);
    assert_int_equal(accepted(btl_ib_target_put, &put), 1);
    assert_int_equal(memory[0], 0x11);
    assert_memory_equal(memory + 1, payload, BYTES);
    assert_int_equal(memory[BYTES + 1], 0x11);
    assert_int_equal(engine->count.placed_puts, 1);
    assert_int_equal(engine->count.copied_in, BYTES);
    put = request(ID, BYTES + 1, 1); /* a single byte */
    assert_int_equal(accepted(btl_ib_target_put, &put), 1);
    assert_int_equal(memory[BYTES + 1], 0x77);
    put = request(ID, 0, 0); /* nothing */
    assert_int_equal(accepted(btl_ib_target_put, &put), 1);
    assert_int_equal(memory[0], 0x11);
    assert_int_equal(engine->count.placed_puts, 3);
    assert_int_equal(engine->count.copied_in, BYTES + 1);
    assert_int_equal(engine->count.unplaced_puts, 0);
    assert_int_equal(bench->wire.count, 0);
}

/* ---- GET and ATOMIC ---- */

/* So many replies were added; the last is of that operation. */
static void replied(uint32_t count, uint32_t status, uint64_t result)
{
    const btl_ib_replies_t *replies = &conn->replies;

    assert_int_equal(replies->out.size, count * sizeof(btl_ib_wire_reply_t));
    assert_int_equal(BTL_IB_LE32(replies->ring[count - 1].operation), ID);
    assert_int_equal(BTL_IB_LE32(replies->ring[count - 1].status), status);
    if (status == BTL_IB_REPLY_DONE) {
        assert_int_equal(BTL_IB_LE64(replies->ring[count - 1].result), result);
    }
    assert_false(btl_ib_list_empty(&replies->out.link));
    assert_false(btl_ib_list_empty(&conn->ready));
}

TEST_WITH(gets, set_up, tear_down)
{
    bench_host_t *host = &bench->hosts[0];
    btl_ib_view_t get = request(ID, 0, BYTES);

    host->fail_in = 1; /* no memory for the replies, */
    assert_int_equal(accepted(btl_ib_target_get, &get), 0);
    assert_null(conn->replies.ring);
    host->fail_in = 2; /* or for the stream */
    assert_int_equal(accepted(btl_ib_target_get, &get), 0);
    assert_int_equal(conn->replies.streams, 0);
    assert_int_equal(engine->count.served_gets, 0);
    assert_int_equal(engine->count.rnr_memory, 2);
    assert_int_equal(accepted(btl_ib_target_get, &get), 1);
    assert_int_equal(conn->replies.streams, 1);
    assert_int_equal(conn->replies.out.size, 0);
    assert_int_equal(engine->count.served_gets, 1);
    get = request(ID, 0, 1);
    assert_int_equal(accepted(btl_ib_target_get, &get), 1);
    assert_int_equal(conn->replies.streams, 2);
    get = request(ID, 0, 0); /* there is nothing to send */
    assert_int_equal(accepted(btl_ib_target_get, &get), 1);
    assert_int_equal(conn->replies.streams, 2);
    assert_int_equal(engine->count.served_gets, 3);
    replied(1, BTL_IB_REPLY_DONE, 0);
    get = request(ID, 0, BYTES);
    get.op.key.secret++;
    assert_int_equal(accepted(btl_ib_target_get, &get), 1); /* but not served */
    assert_int_equal(conn->replies.streams, 2);
    assert_int_equal(engine->count.served_gets, 3);
    assert_int_equal(engine->count.rejected_region, 1);
    replied(2, BTL_IB_REPLY_REJECTED, 0);
}

static btl_ib_view_t add_to(uint64_t offset, uint64_t operand)
{
    btl_ib_view_t atomic = request(ID, offset, 0);

    atomic.op.code = BTL_IB_ATOMIC_ADD;
    atomic.op.type = BTL_IB_ATOMIC_INT64;
    atomic.op.operand = operand;
    return atomic;
}

TEST_WITH(atomics, set_up, tear_down)
{
    btl_ib_view_t atomic = add_to(8, 5);
    uint64_t word = 100;

    memcpy(memory + 8, &word, sizeof(word));
    bench->hosts[0].fail_in = 1;
    assert_int_equal(accepted(btl_ib_target_atomic, &atomic), 0);
    assert_int_equal(accepted(btl_ib_target_atomic, &atomic), 1);
    memcpy(&word, memory + 8, sizeof(word));
    assert_int_equal(word, 105);
    assert_int_equal(engine->count.served_atomics, 1);
    replied(1, BTL_IB_REPLY_DONE, 100);
    atomic = add_to(4, 5); /* not aligned */
    assert_int_equal(accepted(btl_ib_target_atomic, &atomic), 1);
    assert_int_equal(engine->count.rejected_aligned, 1);
    replied(2, BTL_IB_REPLY_REJECTED, 0);
    atomic = add_to(BENCH_MEMORY, 5);
    assert_int_equal(accepted(btl_ib_target_atomic, &atomic), 1);
    assert_int_equal(engine->count.rejected_bounds, 1);
    replied(3, BTL_IB_REPLY_REJECTED, 0);
    assert_int_equal(engine->count.served_atomics, 1);
    assert_int_equal(engine->count.rejected_aligned, 1);
}

/* ---- regions ---- */

TEST_WITH(found_regions, set_up, tear_down)
{
    btl_ib_region_key_t key;

    assert_int_equal(btl_ib_region_add(engine, memory + 8, 64, BTL_IB_ACCESS_READ, &key), 0);
    assert_ptr_equal(btl_ib_region_find(engine, &key, 8, 56, BTL_IB_ACCESS_READ), memory + 16);
    assert_null(btl_ib_region_find(engine, &key, 8, 57, BTL_IB_ACCESS_READ));
    assert_null(btl_ib_region_find(engine, &key, 8, 56, BTL_IB_ACCESS_WRITE));
    btl_ib_region_remove(engine, &key);
    assert_null(btl_ib_region_find(engine, &key, 8, 56, BTL_IB_ACCESS_READ));
}

UNIT_MAIN(NULL, NULL)
