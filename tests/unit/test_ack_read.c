/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What an acknowledgement changes, and which ones are not believed. */

#include <string.h>

#include "btl_ib_ack_read.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { SENT = 4, COMMAND = 0 /* the only P channel */ };

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static btl_ib_tx_window_t *window;
static uint32_t channel; /* of four messages in flight, */
static uint32_t first;   /* from that sequence on */

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    for (uint32_t i = 0; i < SENT; i++) {
        bench->now += 10;
        bench_turn(bench, 0); /* each leaves by itself */
        bench_send(bench, 0, 1, 100, 1);
    }
    bench_clear(&bench->wire);
    channel = 1;
    window = &conn->tx[channel].sentmap.window;
    first = window->first;
    assert_int_equal(window->next - first, SENT);
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* ---- by headers ---- */

static btl_ib_view_t header(uint32_t of, uint32_t ack)
{
    return (btl_ib_view_t){.type = BTL_IB_TYPE_DATA,
                           .flags = BTL_IB_FLAG_ACK,
                           .ack_channel = (uint8_t) of,
                           .ack = ack,
                           .limit = conn->tx[of < 3 ? of : 0].limit};
}

/* Whether a header is believed, and if not, whether `cause` counts it. */
static bool is_believed(const btl_ib_view_t *view, const uint64_t *cause)
{
    const uint64_t before = *cause;
    const bool believed = btl_ib_ack_rx_check(conn, view);

    assert_int_equal(*cause - before, !believed);
    return believed;
}

TEST_WITH(headers_that_are_believed, set_up, tear_down)
{
    btl_ib_view_t view = header(channel, first + SENT);

    assert_true(is_believed(&view, &engine->count.dropped_ack));
    view.ack++; /* that was never sent */
    assert_false(is_believed(&view, &engine->count.dropped_ack));
    view.flags = 0; /* it acknowledges nothing */
    assert_true(is_believed(&view, &engine->count.dropped_ack));
    view = header(3, 0);
    assert_false(is_believed(&view, &engine->count.dropped_channel));
    view = header(COMMAND, conn->tx[COMMAND].sentmap.window.first);
    assert_true(is_believed(&view, &engine->count.dropped_credit));
    view.limit = conn->tx[COMMAND].sentmap.window.first + conn->peer_queues->q[COMMAND].num + 1;
    assert_false(is_believed(&view, &engine->count.dropped_credit));
}

TEST_WITH(what_is_new, set_up, tear_down)
{
    btl_ib_view_t view = header(channel, first);

    assert_false(btl_ib_ack_rx_is_new(conn, &view));
    view.ack++;
    assert_true(btl_ib_ack_rx_is_new(conn, &view));
    view.flags = 0;
    assert_false(btl_ib_ack_rx_is_new(conn, &view));
    view = header(COMMAND, conn->tx[COMMAND].sentmap.window.first);
    assert_false(btl_ib_ack_rx_is_new(conn, &view));
    view.limit++;
    assert_true(btl_ib_ack_rx_is_new(conn, &view));
    view = header(3, 0); /* which is counted when it is checked */
    assert_true(btl_ib_ack_rx_is_new(conn, &view));
    view.type = BTL_IB_TYPE_ACK;
    view.flags = 0;
    assert_true(btl_ib_ack_rx_is_new(conn, &view));
}

/* Probes begin anew with whatever is acknowledged, or may be sent now, and only then. */
TEST_WITH(headers_taken_in, set_up, tear_down)
{
    const uint64_t third = ((btl_ib_segment_t *) btl_ib_tx_window_at(window, first + 2))->order;
    btl_ib_view_t view = header(channel, first);

    conn->loss.probes = 3;
    conn->loss.acked_by_header = false;
    btl_ib_ack_received(conn, &view); /* nothing new */
    assert_int_equal(conn->loss.probes, 3);
    assert_false(conn->loss.acked_by_header);
    view.ack = first + 1;
    btl_ib_ack_received(conn, &view);
    assert_int_equal(window->first, first + 1);
    assert_int_equal(conn->sentmap.in_flight, SENT - 1);
    assert_int_equal(conn->loss.probes, 0);
    assert_true(conn->loss.acked_by_header);
    view.ack = first + 3; /* two: the newest says all */
    btl_ib_ack_received(conn, &view);
    assert_int_equal(conn->sentmap.in_flight, SENT - 3);
    assert_int_equal(conn->loss.rack[BTL_IB_RACK_ALL].order, third);
    assert_int_equal(conn->tx[channel].loss.arrived, third);
    view = header(COMMAND, conn->tx[COMMAND].sentmap.window.first);
    view.limit = ++conn->tx[COMMAND].limit;
    conn->tx[COMMAND].limit--;
    conn->loss.probes = 3;
    btl_ib_ack_received(conn, &view);
    assert_int_equal(conn->tx[COMMAND].limit, view.limit);
    assert_int_equal(conn->loss.probes, 0);
}

/* ---- by ACKs ---- */

static uint8_t body[256] __attribute__((aligned(8)));

/* An ACK with one block: all before `ack`, and `count` from there and `offset` on. */
static btl_ib_view_t ack_of(uint32_t of, uint32_t ack, uint16_t offset, uint16_t count)
{
    const btl_ib_wire_ack_t block = {.channel = (uint8_t) of,
                                     .ranges = count > 0,
                                     .ack = BTL_IB_LE32(ack),
                                     .limit = BTL_IB_LE32(conn->tx[of < 3 ? of : 0].limit)};
    const btl_ib_wire_range_t range = {.offset = BTL_IB_LE16(offset), .count = BTL_IB_LE16(count)};

    memcpy(body, &block, sizeof(block));
    memcpy(body + sizeof(block), &range, sizeof(range));
    return (btl_ib_view_t){.type = BTL_IB_TYPE_ACK,
                           .payload = body,
                           .size = (uint32_t) (sizeof(block) + (count > 0 ? sizeof(range) : 0)),
                           .stamp = (uint32_t) bench->now};
}

TEST_WITH(acks_that_are_believed, set_up, tear_down)
{
    btl_ib_view_t view = ack_of(channel, first, 1, SENT - 1);

    assert_true(is_believed(&view, &engine->count.dropped_ack));
    view = ack_of(channel, first, 1, SENT);
    assert_false(is_believed(&view, &engine->count.dropped_ack));
    view = ack_of(channel, first + SENT, 0, 0);
    assert_true(is_believed(&view, &engine->count.dropped_ack));
    view = ack_of(channel, first + SENT + 1, 0, 0);
    assert_false(is_believed(&view, &engine->count.dropped_ack));
    view = ack_of(3, first, 0, 0);
    assert_false(is_believed(&view, &engine->count.dropped_channel));
    view = ack_of(channel, first, 0, 0); /* and names what may be sent again */
    view.flags = BTL_IB_FLAG_READY;
    view.channel = (uint8_t) channel;
    view.seq = first + SENT - 1;
    assert_true(is_believed(&view, &engine->count.dropped_ack));
    view.seq++;
    assert_false(is_believed(&view, &engine->count.dropped_ack));
}

/* What arrived behind a gap leaves, and the gap stays; an ACK says all that arrived. */
TEST_WITH(acks_taken_in, set_up, tear_down)
{
    btl_ib_view_t view = ack_of(channel, first, 1, 2);

    conn->loss.probes = 3;
    conn->loss.acked_by_header = true;
    btl_ib_ack_received(conn, &view);
    assert_false(conn->loss.acked_by_header);
    assert_int_equal(conn->loss.probes, 0);
    assert_int_equal(window->first, first);
    assert_int_equal(conn->sentmap.unacked, SENT - 2);
    assert_non_null(btl_ib_tx_window_at(window, first));
    assert_null(btl_ib_tx_window_at(window, first + 1));
    assert_null(btl_ib_tx_window_at(window, first + 2));
    conn->loss.probes = 3;
    conn->loss.acked_by_header = true;
    btl_ib_ack_received(conn, &view); /* again */
    assert_false(conn->loss.acked_by_header);
    assert_int_equal(conn->loss.probes, 3);
    assert_int_equal(conn->sentmap.unacked, SENT - 2);
    view = ack_of(channel, first + SENT, 0, 0);
    btl_ib_ack_received(conn, &view);
    assert_int_equal(conn->sentmap.unacked, 0);
    assert_int_equal(window->first, first + SENT);
}

/* Runs that got RNR are deferred; where more did than are named sizes are not judged by what is
 * missing. */
TEST_WITH(runs_that_got_rnr, set_up, tear_down)
{
    for (uint16_t more = 0; more <= 1; more++) {
        btl_ib_view_t view = ack_of(channel | BTL_IB_CHANNEL_RNR, first, more, 1);
        const uint16_t duplicates = BTL_IB_LE16(more);
        memcpy(body + offsetof(btl_ib_wire_ack_t, duplicates), &duplicates, sizeof(duplicates));
        view.flags = BTL_IB_FLAG_ECHO;
        view.echo = (uint32_t) engine->clock.now;
        conn->pmtud.streaks[0].losses = 5;
        conn->pmtud.streaks[0].shown = 2;
        btl_ib_ack_received(conn, &view);
        assert_int_equal(conn->pmtud.streaks[0].losses, more ? 2 : 5);
        assert_int_equal(conn->sentmap.deferred_count, more + 1);
        assert_int_equal(conn->sentmap.unacked, SENT);
    }
    conn->pmtud.streaks[0].losses = conn->pmtud.streaks[0].shown = 0;
}

/* An ACK that ends the wait for a turn is progress, too; one that says the same is not. */
TEST_WITH(turns_that_begin, set_up, tear_down)
{
    btl_ib_view_t view = ack_of(channel, first, 0, 0);

    conn->loss.probes = 3;
    view.tag = 7;
    btl_ib_ack_received(conn, &view);
    assert_int_equal(conn->incast.segments, 7);
    assert_int_equal(conn->loss.probes, 3);
    conn->incast.segments = 0;
    btl_ib_ack_received(conn, &view);
    assert_int_equal(conn->incast.segments, 7);
    assert_int_equal(conn->loss.probes, 0);
}

/* Where all is acknowledged and there is no credit nothing would come by itself if the last news of
 * it was lost: the sender asks, and goes on when it is told. protocol: R52 */
TEST_WITH(without_credit_it_asks, set_up, tear_down)
{
    btl_ib_view_t view = header(channel, first + SENT);
    const uint32_t limit = conn->tx[COMMAND].limit;

    btl_ib_ack_received(conn, &view);
    assert_int_equal(conn->sentmap.in_flight, 0);
    assert_false(btl_ib_loss_waits(conn));
    conn->tx[COMMAND].limit = conn->tx[COMMAND].sentmap.window.next;
    bench_send(bench, 0, 1, 8, 1);
    bench_turn(bench, 0);
    assert_null(bench->wire.first);
    assert_true(btl_ib_loss_waits(conn));
    for (int i = 0; i < 50 && bench->wire.first == NULL; i++) {
        bench->now += 1000;
        bench_turn(bench, 0);
    }
    assert_non_null(bench->wire.first);
    bench_clear(&bench->wire);
    view = header(COMMAND, conn->tx[COMMAND].sentmap.window.first);
    view.limit = limit;
    btl_ib_ack_received(conn, &view);
    bench_turn(bench, 0);
    assert_non_null(bench->wire.first);
    assert_int_equal(conn->sentmap.in_flight, 1);
}

UNIT_MAIN(NULL, NULL)
