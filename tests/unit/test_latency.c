/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Latency mode: begins when short messages follow each other, and ends when they do not. */

#include "btl_ib_latency.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum {
    TURNS = 8,    /* until it begins, the first not counted */
    SOON = 40,    /* us: two turns within 100 us */
    LATER = 400,  /* two turns within 1 ms */
    SHORT = 1024, /* bytes in a turn, at most */
};

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn;

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    conn->route.via->transport->attr.bulk_lane = true;
    conn->route.via->transport->attr.bulk_apart = false;
    engine->clock.now += 1000000;
    engine->latency = (btl_ib_latency_t){.lane = true};
    return 0;
}

static int tear_down(void **state)
{
    conn->route.via->transport->attr.bulk_lane = false;
    end(bench);
    return 0;
}

/* A turn `gap` us after the one before, which receives so much. */
static void turn(uint32_t gap, uint32_t messages, uint32_t bytes)
{
    const uint64_t before = engine->count.received_messages;
    const uint64_t bytes_before = engine->count.received_bytes;

    engine->clock.now += gap;
    engine->count.received_messages += messages;
    engine->count.received_bytes += bytes;
    btl_ib_latency_turn(engine, before, bytes_before);
}

static void turns(uint32_t count, uint32_t gap)
{
    for (uint32_t i = 0; i < count; i++) {
        turn(gap, 1, 8);
    }
}

static void must_want(bool lane, bool short_bursts)
{
    assert_int_equal(btl_ib_latency_wants_lane(conn), lane);
    assert_int_equal(btl_ib_latency_wants_short_bursts(conn), short_bursts);
}

TEST_WITH(begins, set_up, tear_down)
{
    turns(TURNS, SOON);
    must_want(false, false);
    turns(1, SOON);
    must_want(true, true);
    conn->route.via->transport->attr.bulk_lane = false;
    must_want(false, false);
    conn->route.via->transport->attr.bulk_apart = true; /* always, as it costs nothing */
    must_want(true, false);
    conn->route.via->transport->attr.bulk_apart = false;
}

/* The last two turns count: the limit of bursts is shorter. */
TEST_WITH(ends_by_time, set_up, tear_down)
{
    turns(TURNS + 1, SOON);
    engine->clock.now += 100 - SOON - 1;
    must_want(true, true);
    engine->clock.now += 1;
    must_want(true, false);
    engine->clock.now += 899;
    must_want(true, false);
    engine->clock.now += 1;
    must_want(false, false);
    turns(1, 41); /* more than 1 ms since the last: all begins anew */
    must_want(false, false);
    turns(TURNS - 1, LATER);
    must_want(false, false);
    turns(1, LATER);
    must_want(true, false);
    turn(1000, 1, 8); /* not so late that it would begin anew */
    turn(LATER, 1, 8);
    turn(LATER, 1, 8);
    must_want(true, false);
}

/* Turns with much, or with nothing, are none; messages that belong to one-sided operations do not
 * count. */
TEST_WITH(what_counts, set_up, tear_down)
{
    turns(TURNS, SOON);
    turn(SOON, 1, SHORT + 1);
    must_want(false, false);
    turn(0, 0, 0);
    must_want(false, false);
    engine->count.started_puts++;
    turn(0, 1, 8);
    must_want(false, false);
    engine->count.started_gets++;
    engine->count.served_gets++;
    turn(0, 2, 16);
    must_want(false, false);
    turn(0, 1, SHORT);
    must_want(true, true);
}

/* What operations excuse in advance is bounded. */
TEST_WITH(excused, set_up, tear_down)
{
    turns(TURNS, 0);
    engine->count.started_puts += 1000;
    turn(0, 1, 8);
    for (uint32_t i = 0; i < 64; i++) {
        must_want(false, false);
        turn(0, 1, 8);
    }
    must_want(false, false);
    turn(0, 1, 8);
    must_want(true, true);
}

/* Bulk waits in a turn with short messages, not in two of them in succession, and only where this
 * is latency mode and the application's turn. */
TEST_WITH(holds_bulk, set_up, tear_down)
{
    turns(TURNS + 2, SOON); /* the first held it, the second did not */
    engine->turn.sending = true;
    assert_false(btl_ib_latency_holds_bulk(conn));
    turns(1, SOON);
    assert_true(btl_ib_latency_holds_bulk(conn));
    engine->turn.sending = false;
    assert_false(btl_ib_latency_holds_bulk(conn));
    engine->turn.sending = true;
    engine->clock.now += 1000;
    assert_false(btl_ib_latency_holds_bulk(conn));
    engine->clock.now -= 1000;
    btl_ib_latency_release_bulk(&engine->latency);
    assert_false(btl_ib_latency_holds_bulk(conn));
    turns(1, SOON);
    assert_true(btl_ib_latency_holds_bulk(conn));
    turn(SOON, 0, 0);
    assert_false(btl_ib_latency_holds_bulk(conn));
    turn(SOON, 1, SHORT + 1);
    assert_false(btl_ib_latency_holds_bulk(conn));
    engine->turn.sending = false;
}

UNIT_MAIN(NULL, NULL)
