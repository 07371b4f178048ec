/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Connections that are ready, starved or idle. */

#include "btl_ib_sched.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn;

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    bench_run(bench, 3000);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    assert_true(btl_ib_list_empty(&conn->ready));
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* Who starves is in line once, and is ready only when it may have a segment beside the others. */
TEST_WITH(starves, set_up, tear_down)
{
    btl_ib_conn_starve(conn);
    assert_true(conn->sched.starved);
    assert_ptr_equal(btl_ib_list_first(&engine->starved), &conn->ready);
    btl_ib_conn_starve(conn);
    conn->sentmap.unacked++;
    btl_ib_conn_ready(conn);
    assert_ptr_equal(btl_ib_list_first(&engine->starved), &conn->ready);
    conn->sentmap.unacked--;
    btl_ib_conn_ready(conn);
    assert_true(btl_ib_list_empty(&engine->starved));
    assert_false(conn->sched.starved);
    assert_ptr_equal(btl_ib_list_first(&engine->ready), &conn->ready);
    btl_ib_conn_starve(conn); /* it is ready, which is better */
    assert_false(conn->sched.starved);
    btl_ib_conn_fed(conn); /* nor does it starve */
    assert_ptr_equal(btl_ib_list_first(&engine->ready), &conn->ready);
    assert_ptr_equal(btl_ib_sched_pop(&engine->ready), conn);
    assert_null(btl_ib_sched_pop(&engine->ready));
    btl_ib_conn_starve(conn);
    assert_ptr_equal(btl_ib_sched_pop(&engine->starved), conn);
    assert_false(conn->sched.starved);
}

/* A connection that is closed is not ready. */
TEST_WITH(not_alive, set_up, tear_down)
{
    conn->state = BTL_IB_CONN_DEAD;
    btl_ib_conn_ready(conn);
    assert_true(btl_ib_list_empty(&conn->ready));
    conn->state = BTL_IB_CONN_OPEN;
}

/* A connection rests when nothing has happened for long and nothing waits; until then its timer
 * looks again. */
TEST_WITH(rests, set_up, tear_down)
{
    const uint64_t after = engine->config.idle_after;
    btl_ib_hotel_guest_t *guest = &conn->idle.timer.guest;

    if (conn->idle.shrunk) {
        btl_ib_idle_end(conn);
    }
    const uint32_t active = engine->sched.active;
    assert_true(active > 0);
    conn->idle.active_at = engine->clock.now - after + 1;
    assert_false(btl_ib_conn_rest(conn, true));
    assert_int_equal(guest->due, engine->clock.now + 1);
    conn->idle.active_at = engine->clock.now - after;
    assert_false(btl_ib_conn_rest(conn, false)); /* something waits */
    assert_int_equal(guest->due, engine->clock.now + after);
    assert_int_equal(engine->sched.active, active);
    assert_true(btl_ib_conn_rest(conn, true));
    assert_true(conn->idle.shrunk);
    assert_int_equal(engine->sched.active, active - 1);
    btl_ib_idle_end(conn);
    assert_false(conn->idle.shrunk);
    assert_int_equal(engine->sched.active, active);
    assert_int_equal(guest->due, engine->clock.now + after);
}

/* One that is taken out has no timer, is in no line and counts no more, however often. */
TEST_WITH(taken_out, set_up, tear_down)
{
    if (conn->idle.shrunk) {
        btl_ib_idle_end(conn);
    }
    const uint32_t active = engine->sched.active;
    btl_ib_hotel_checkin(&engine->hotel, &conn->loss.timer.guest, engine->clock.now + 5);
    btl_ib_hotel_checkin(&engine->hotel, &conn->pacer.timer.guest, engine->clock.now + 5);
    btl_ib_conn_starve(conn);
    conn->idle.active_at = 0;
    for (int i = 0; i < 2; i++) {
        btl_ib_conn_unschedule(conn);
        assert_false(conn->sched.starved);
        assert_true(btl_ib_list_empty(&conn->ready));
        assert_false(btl_ib_hotel_guest_is_in(&conn->loss.timer.guest));
        assert_false(btl_ib_hotel_guest_is_in(&conn->idle.timer.guest));
        assert_false(btl_ib_hotel_guest_is_in(&conn->pacer.timer.guest));
        assert_int_equal(engine->sched.active, active - 1);
        assert_true(conn->idle.shrunk);
        assert_int_equal(conn->idle.active_at, engine->clock.now);
    }
}

/* A message that was to leave as a whole goes on the channel of the longest when it is too long for
 * that now; one that is not, and what goes in parts anyway, stay. */
TEST_WITH(too_long_now, set_up, tear_down)
{
    const uint32_t most = btl_ib_conn_segment_max(conn);
    const uint32_t home = btl_ib_queues_channel(conn->peer_queues, conn->pmtud.home);
    btl_ib_out_t outs[] = {
        {.conn = conn, .size = most, .kind = BTL_IB_OUT_MESSAGE},
        {.conn = conn, .size = most + 1, .kind = BTL_IB_OUT_MESSAGE},
        {.conn = conn, .size = most + 1, .kind = BTL_IB_OUT_STREAM},
        {.conn = conn, .size = most + 2, .kind = BTL_IB_OUT_MESSAGE},
    };

    assert_true(home > 0);
    for (int i = 0; i < 4; i++) {
        btl_ib_list_init(&outs[i].link);
        btl_ib_list_push_tail(&conn->tx[0].submit.pending, &outs[i].link);
    }
    btl_ib_pending_shrunk(conn);
    btl_ib_list_t *kept = &conn->tx[0].submit.pending;
    btl_ib_list_t *moved = &conn->tx[home].submit.pending;
    assert_ptr_equal(btl_ib_list_first(kept), &outs[0].link);
    assert_ptr_equal(btl_ib_list_last(kept), &outs[2].link);
    assert_ptr_equal(btl_ib_list_first(moved), &outs[1].link); /* in their order */
    assert_ptr_equal(btl_ib_list_last(moved), &outs[3].link);
    for (int i = 0; i < 4; i++) {
        btl_ib_list_remove(&outs[i].link);
    }
}

/* A connection is woken if anything waits in it. */
TEST_WITH(woken, set_up, tear_down)
{
    btl_ib_list_t one, *lists[] = {&conn->tx[0].submit.pending, &conn->sentmap.lost,
                                   &conn->ops.waiting, &conn->offload.waiting};

    btl_ib_list_init(&one);
    conn->pmtud.search_at = UINT64_MAX;
    btl_ib_pending_wake(conn);
    assert_true(btl_ib_list_empty(&conn->ready));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        btl_ib_list_push_tail(lists[i], &one);
        assert_int_equal(btl_ib_pending_any(conn), i == 0);
        assert_int_equal(btl_ib_pending_work(conn), i < 3);
        btl_ib_pending_wake(conn);
        assert_false(btl_ib_list_empty(&conn->ready));
        btl_ib_list_remove(&conn->ready);
        btl_ib_list_remove(&one);
    }
    conn->pmtud.search_at = engine->clock.now + 1;
    btl_ib_pending_wake(conn);
    assert_true(btl_ib_list_empty(&conn->ready));
    conn->pmtud.search_at = engine->clock.now;
    btl_ib_pending_wake(conn);
    assert_false(btl_ib_list_empty(&conn->ready));
    conn->pmtud.search_at = UINT64_MAX;
}

UNIT_MAIN(NULL, NULL)
