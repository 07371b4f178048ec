/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What is noted of a sequence that is accepted: where it is, whose credit it used, what was
 * counted, and whether its acknowledgement may wait. */

#include "btl_ib_accept.h"
#include "btl_ib_refragment.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { PER_PEER = 0, SHARED = 2, BYTES = 60 }; /* channels of the bench */

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1: they know each other */
static uint8_t payload[BYTES];

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    bench_run(bench, SECOND); /* all is acknowledged */
    assert_int_equal(conn->ack.due, 0);
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* The peer's segment that comes `ahead` of the next one of a channel. */
static btl_ib_view_t segment(uint32_t channel, uint32_t ahead)
{
    return (btl_ib_view_t){.type = BTL_IB_TYPE_DATA,
                           .channel = (uint8_t) channel,
                           .seq = conn->rx[channel].window.next + ahead,
                           .payload = payload,
                           .size = BYTES};
}

static void accept_one(uint32_t channel, uint32_t ahead)
{
    const btl_ib_view_t view = segment(channel, ahead);

    assert_true(btl_ib_accept_room(conn, &view));
    btl_ib_accept(conn, &view);
}

/* ---- one, and several ---- */

/* Each is counted everywhere, and its bytes. */
TEST_WITH(counted, set_up, tear_down)
{
    const btl_ib_counters_t before = engine->count;
    const uint64_t bytes = conn->count.received_bytes,
                   of_channel = conn->rx[SHARED].accept.received;
    btl_ib_view_t burst = segment(SHARED, 1);

    accept_one(SHARED, 0);
    assert_int_equal(engine->count.received_segments, before.received_segments + 1);
    assert_int_equal(engine->count.received_bytes, before.received_bytes + BYTES);
    burst.more.count = 2; /* three in all, the last of which is shorter */
    burst.more.less = 10;
    const uint32_t next = conn->rx[SHARED].window.next;
    burst.seq = next;
    btl_ib_accept(conn, &burst);
    assert_int_equal(conn->rx[SHARED].window.next, next + 3);
    assert_int_equal(engine->count.received_segments, before.received_segments + 4);
    assert_int_equal(engine->count.received_bytes, before.received_bytes + 4 * BYTES - 10);
    assert_int_equal(conn->count.received_bytes, bytes + 4 * BYTES - 10);
    assert_int_equal(conn->rx[SHARED].accept.received, of_channel + 4);
    btl_ib_accept_next(conn, SHARED, 7);
    assert_int_equal(conn->rx[SHARED].window.next, next + 4);
    assert_int_equal(engine->count.received_segments, before.received_segments + 5);
    assert_int_equal(conn->count.received_bytes, bytes + 4 * BYTES - 3);
    assert_int_equal(engine->count.received_out_of_order, before.received_out_of_order);
}

/* What comes ahead of a gap is out of order, and so is what follows until the gap is filled. */
TEST_WITH(out_of_order, set_up, tear_down)
{
    const uint64_t before = engine->count.received_out_of_order;
    const uint32_t next = conn->rx[SHARED].window.next;

    accept_one(SHARED, 2);
    assert_int_equal(conn->rx[SHARED].window.next, next);
    assert_int_equal(conn->rx[SHARED].window.above, 1);
    assert_int_equal(engine->count.received_out_of_order, before + 1);
    accept_one(SHARED, 0);
    assert_int_equal(conn->rx[SHARED].window.next, next + 1);
    assert_int_equal(engine->count.received_out_of_order, before + 2);
    accept_one(SHARED, 0);
    assert_int_equal(conn->rx[SHARED].window.next, next + 3);
    assert_int_equal(conn->rx[SHARED].window.above, 0);
    assert_int_equal(engine->count.received_out_of_order, before + 2);
}

/* What comes whole is not waited for in parts. */
TEST_WITH(came_in_parts_too, set_up, tear_down)
{
    btl_ib_view_t part = segment(SHARED, 0);
    btl_ib_refragment_t *whole;
    const size_t bytes = bench->hosts[0].bytes;

    part.type = BTL_IB_TYPE_PART;
    part.size = 48;
    part.part.total = BYTES;
    part.part.type = BTL_IB_TYPE_DATA;
    (void) btl_ib_refragment_add(&conn->input.parts, &engine->mem, &part, &whole);
    assert_false(btl_ib_list_empty(&conn->input.parts));
    accept_one(SHARED, 1); /* another one */
    assert_false(btl_ib_list_empty(&conn->input.parts));
    accept_one(SHARED, 0);
    assert_true(btl_ib_list_empty(&conn->input.parts));
    assert_true(bench->hosts[0].bytes < bytes + 256);
}

/* It uses a credit where credits are the peer's own. */
TEST_WITH(credits, set_up, tear_down)
{
    const uint32_t used = conn->rx[PER_PEER].credit.used;
    btl_ib_view_t burst = segment(PER_PEER, 0);

    accept_one(PER_PEER, 0);
    assert_int_equal(conn->rx[PER_PEER].credit.used, used + 1);
    btl_ib_accept_next(conn, PER_PEER, BYTES);
    assert_int_equal(conn->rx[PER_PEER].credit.used, used + 2);
    burst.seq = conn->rx[PER_PEER].window.next;
    burst.more.count = 1;
    btl_ib_accept(conn, &burst);
    assert_int_equal(conn->rx[PER_PEER].credit.used, used + 4);
    accept_one(SHARED, 0);
    assert_int_equal(conn->rx[SHARED].credit.used, 0);
}

/* A gap is told at once, but not what only extends the range above it, nor what fills the last
 * one. */
TEST_WITH(acknowledged_at_once, set_up, tear_down)
{
    btl_ib_view_t asks = segment(SHARED, 0);

    accept_one(SHARED, 0);
    assert_false(conn->ack.at_once);
    asks.seq = conn->rx[SHARED].window.next;
    asks.flags = BTL_IB_FLAG_ACK_NOW;
    btl_ib_accept(conn, &asks);
    assert_true(conn->ack.at_once);
    conn->ack.at_once = false;
    asks.seq++;
    asks.flags = 0;
    asks.more.asks = true;
    btl_ib_accept(conn, &asks);
    assert_true(conn->ack.at_once);
    conn->ack.at_once = false;
    accept_one(SHARED, 2);
    assert_true(conn->ack.at_once);
    conn->ack.at_once = false;
    accept_one(SHARED, 3);
    assert_false(conn->ack.at_once);
    accept_one(SHARED, 1);
    assert_true(conn->ack.at_once);
    conn->ack.at_once = false;
    accept_one(SHARED, 0);
    assert_false(conn->ack.at_once);
    assert_int_equal(conn->rx[SHARED].window.above, 0);
}

/* Without memory for its place nothing is accepted, which is counted. */
TEST_WITH(no_room, set_up, tear_down)
{
    const btl_ib_view_t far = segment(SHARED, 2000);

    bench->hosts[0].fail_in = 1;
    assert_false(btl_ib_accept_room(conn, &far));
    assert_int_equal(engine->count.rnr_memory, 1);
    assert_true(btl_ib_accept_room(conn, &far));
    assert_int_equal(engine->count.rnr_memory, 1);
}

/* An idle connection gives the memory back that a large window took. */
TEST_WITH(rests, set_up, tear_down)
{
    const size_t bytes = bench->hosts[0].bytes;

    accept_one(SHARED, 2000);
    const size_t most = bench->hosts[0].bytes;
    assert_true(most > bytes);
    conn->rx[SHARED].window.above = 0; /* as if the rest had come */
    for (uint32_t i = 0; i < 2000; i++) {
        btl_ib_rx_window_mark(&conn->rx[SHARED].window, conn->rx[SHARED].window.next);
    }
    btl_ib_accept_rest(conn);
    assert_true(bench->hosts[0].bytes < most);
    assert_true(bench->hosts[0].bytes <= bytes);
}

/* ---- credits that come back ---- */

/* The idle peer gives so many credits back, up to the sequence `ahead` of the next one. Returns
 * whether that is accepted. */
static bool skips(uint32_t channel, uint32_t skip, uint32_t ahead)
{
    btl_ib_view_t view = segment(channel, ahead);
    const uint64_t dropped = engine->count.dropped_sequence;
    const uint64_t received = engine->count.received_skips;

    view.skip = skip;
    btl_ib_accept_skip(conn, &view);
    const bool accepted = engine->count.received_skips > received;
    assert_int_equal(engine->count.dropped_sequence, dropped + !accepted);
    return accepted;
}

/* They are those that follow the last sequence, of which none arrived; and no more than the peer
 * has, which keeps one. */
TEST_WITH(given_back, set_up, tear_down)
{
    const btl_ib_rx_channel_t *rx = &conn->rx[PER_PEER];
    const uint32_t left = rx->credit.grant - rx->credit.used, next = rx->window.next;

    assert_true(left > 3 && rx->credit.used == 0);
    assert_false(skips(SHARED, 1, 0));
    assert_false(skips(PER_PEER, 2, 0)); /* it begins before what is next */
    assert_false(skips(PER_PEER, 1, 1)); /* or behind it */
    assert_false(skips(PER_PEER, left, left - 1));
    assert_false(skips(PER_PEER, left + 1, left));
    assert_int_equal(rx->window.next, next);
    assert_true(skips(PER_PEER, 2, 1));
    assert_int_equal(rx->window.next, next + 2);
    assert_int_equal(rx->credit.grant, left - 2);
    assert_true(conn->ack.due & 1u << PER_PEER);
    assert_true(skips(PER_PEER, left - 3, left - 4)); /* all but one */
    assert_int_equal(rx->credit.grant, 1);
}

/* Later traffic may have overtaken it, but not what it gives up. */
TEST_WITH(given_back_and_overtaken, set_up, tear_down)
{
    const btl_ib_rx_channel_t *rx = &conn->rx[PER_PEER];
    const uint32_t next = rx->window.next;

    accept_one(PER_PEER, 2);
    assert_false(skips(PER_PEER, 3, 2));
    assert_int_equal(rx->window.next, next);
    assert_true(skips(PER_PEER, 2, 1));
    assert_int_equal(rx->window.next, next + 3);
    assert_int_equal(rx->window.above, 0);
}

UNIT_MAIN(NULL, NULL)
