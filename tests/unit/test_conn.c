/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Connections are made, asked, ended; and what is told of them. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_conn.h"
#include "btl_ib_loss.h"
#include "btl_ib_protection.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "pool_segments.h"
#include "unit.h"

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1: they know each other */

/* What traces were told of connections of host 0. */
static struct {
    uint8_t kind, cause;
    uint32_t count;
} lived[16];
static uint32_t events;

static void note_event(bench_host_t *host, const btl_ib_trace_event_t *event)
{
    if (events < 16
        && (event->kind == BTL_IB_TRACE_made || event->kind == BTL_IB_TRACE_reset
            || event->kind == BTL_IB_TRACE_dead || event->kind == BTL_IB_TRACE_closed)) {
        lived[events].kind = event->kind;
        lived[events].cause = event->cause;
        lived[events++].count = event->count;
    }
}

static char logged[300]; /* the last line */
static uint32_t lines;

static void note_line(void *context, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note_line(void *context, int level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void) vsnprintf(logged, sizeof(logged), format, args);
    va_end(args);
    lines++;
}

static void begin(bool traced)
{
    bench = new_bench();
    bench->rails = BENCH_RAILS;
    bench->hosts[0].config.trace = traced;
    bench->on_event = note_event;
    acquaint(bench);
    events = lines = 0;
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
}

static int set_up(void **state)
{
    begin(true);
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* ---- making ---- */

static btl_ib_peer_info_t info_of_another(void)
{
    btl_ib_peer_info_t info = bench_info(bench, 1, 0);

    info.name += 1000;
    return info;
}

static int create(uint32_t rail, const btl_ib_peer_info_t *info)
{
    btl_ib_conn_t *made = NULL;
    const int rc = btl_ib_conn_create(engine, rail, info, NULL, &made);

    if (rc == 0) {
        btl_ib_conn_destroy(made, bench->now);
        bench_run(bench, 10000);
    }
    return rc;
}

/* What a peer published must work with ours. */
TEST_WITH(what_does_not_work, set_up, tear_down)
{
    btl_ib_peer_info_t info = info_of_another();
    const uint64_t made = engine->count.connections;

    info.rail = BTL_IB_RAILS_MAX;
    assert_int_equal(create(0, &info), -EINVAL);
    info.rail--;
    assert_int_equal(create(0, &info), 0);
    info = info_of_another();
    info.protection = BTL_IB_PROTECTION_CRC32C;
    assert_int_equal(create(0, &info), -EINVAL);
    info = info_of_another();
    memset(&info.wire, 0, sizeof(info.wire));
    assert_int_equal(create(0, &info), -EINVAL);
    info = info_of_another();
    info.queues.q[0].num = 0;
    assert_int_equal(create(0, &info), -EINVAL);
    info = info_of_another();
    info.max_datagram = btl_ib_protection_datagram_min(BTL_IB_PROTECTION_NONE) - 1;
    assert_int_equal(create(0, &info), -EINVAL);
    info.max_datagram++;
    assert_int_equal(create(0, &info), 0);
    assert_int_equal(engine->count.connections, made + 2);
    info = info_of_another();
    assert_int_equal(create(BENCH_RAILS, &info), -EINVAL);
    engine->rails[1]->health.failed = true;
    assert_int_equal(create(1, &info), -ENETDOWN);
    engine->rails[1]->health.failed = false;
    assert_int_equal(create(1, &info), 0);
    info = bench_info(bench, 1, 0);
    assert_int_equal(create(0, &info), -EEXIST);
    assert_int_equal(btl_ib_conn_try(engine, 0, &info), -EEXIST);
    assert_int_equal(engine->admission.passive, 0);
}

/* A message has at most 65536 chunks: the longest of ours must be no more of them in the peer's
 * datagrams, of which headers and a trailer take some. */
TEST_WITH(longest_message, set_up, tear_down)
{
    const uint32_t before = engine->config.eager_max;
    btl_ib_peer_info_t info = info_of_another();

    info.max_datagram = 1000;
    const uint32_t chunk = 1000 - sizeof(btl_ib_wire_header_t) - sizeof(btl_ib_wire_connect_t)
                           - sizeof(btl_ib_wire_chunk_t);
    engine->config.eager_max = 65536 * chunk;
    assert_int_equal(create(0, &info), 0);
    engine->config.eager_max++;
    assert_int_equal(create(0, &info), -EINVAL);
    engine->config.eager_max = before;
}

static void in_use_text(const btl_ib_transport_t *t, btl_ib_addr_t addr, char *out, size_t len)
{
    snprintf(out, len, "joined to %u", (uint32_t) (addr == conn->route.to));
}

/* One that ends says what it had in use on its path, where the transport has words for it. */
TEST_WITH(what_was_in_use, set_up, tear_down)
{
    const btl_ib_transport_ops_t *const before = engine->rails[0]->transport->ops;
    btl_ib_transport_ops_t telling = *before;
    btl_ib_peer_info_t info = info_of_another();

    engine->config.log = (btl_ib_log_t){.print = note_line, .detailed = true};
    assert_int_equal(create(0, &info), 0);
    assert_non_null(strstr(logged, "went by bench: nothing special, "));
    telling.in_use_text = in_use_text;
    engine->rails[0]->transport->ops = &telling;
    btl_ib_conn_destroy(conn, bench->now);
    assert_non_null(strstr(logged, "went by bench: joined to 1, "));
    engine->rails[0]->transport->ops = before;
    engine->config.log = (btl_ib_log_t){0};
}

/* Who does not work with us is said; of one that is made nothing, unless details are wanted. */
TEST_WITH(what_is_said, set_up, tear_down)
{
    btl_ib_peer_info_t info = info_of_another();

    engine->config.log.print = note_line;
    assert_int_equal(create(0, &info), 0);
    bench->hosts[0].fail_in = 1;
    assert_int_equal(create(0, &info), -ENOMEM);
    assert_int_equal(lines, 0);
    info.queues.q[0].num = 0;
    assert_int_equal(create(0, &info), -EINVAL);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(logged, "do not work with ours"));
    info = info_of_another();
    engine->config.log.detailed = true;
    btl_ib_conn_t *made;
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &made), 0);
    assert_int_equal(lines, 2);
    assert_non_null(strstr(logged, "made: from bench"));
    for (int i = 0; i < 2; i++) { /* the second time changes nothing */
        btl_ib_conn_drain(made);
        assert_int_equal(lines, 3);
    }
    engine->config.log = (btl_ib_log_t){0};
}

/* ECN is for two ends that can do it. */
TEST_WITH(who_can_do_ecn, set_up, tear_down)
{
    enum { PEER = 1, OURS = 2, BOTH = 3 };
    btl_ib_peer_info_t info = info_of_another();

    for (int can = 0; can <= BOTH; can++) {
        btl_ib_conn_t *made;
        info.name++;
        info.ecn = (can & PEER) != 0;
        engine->rails[0]->transport->attr.ecn = (can & OURS) != 0;
        assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &made), 0);
        assert_int_equal(made->ecn.agreed, can == BOTH);
        assert_int_equal(made->ecn.state, can == BOTH ? BTL_IB_ECN_TESTING : BTL_IB_ECN_OFF);
    }
    engine->rails[0]->transport->attr.ecn = false;
}

/* With keys a connection has more to remember, beside its channels. */
TEST(with_keys)
{
    bench_t *keyed = new_bench();

    if (!bench_protection(keyed, BTL_IB_PROTECTION_INTEGRITY)) {
        end(keyed);
        skip();
    }
    acquaint(keyed);
    end_working(keyed);
}

/* Without memory there is no connection, and nothing is left of it. */
TEST_WITH(no_memory, set_up, tear_down)
{
    const btl_ib_peer_info_t info = info_of_another();
    uint32_t fail_in = 1;
    int rc;

    assert_int_equal(create(0, &info), 0); /* what is kept for all is there from now on */
    const size_t bytes = bench->hosts[0].bytes;
    do {
        bench->hosts[0].fail_in = fail_in++;
        rc = create(0, &info);
        assert_true(rc == 0 || rc == -ENOMEM);
        assert_int_equal(bench->hosts[0].bytes, bytes);
    } while (rc != 0 && fail_in < 20);
    assert_int_equal(rc, 0);
    assert_true(fail_in > 2);
    bench->hosts[0].fail_in = 0;
}

/* Peers with the same queues share one table of them. */
TEST_WITH(tables_are_shared, set_up, tear_down)
{
    btl_ib_peer_info_t info = info_of_another();
    btl_ib_conn_t *same, *other, *fewer;

    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &same), 0);
    assert_ptr_equal(same->peer_queues, conn->peer_queues);
    info.name++;
    info.queues.q[2].num--;
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &other), 0);
    assert_ptr_not_equal(other->peer_queues, conn->peer_queues);
    assert_int_equal(other->peer_queues->q[2].num, conn->peer_queues->q[2].num - 1);
    info = info_of_another();
    info.name += 2;
    memset(&info.queues.q[--info.queues.count], 0, sizeof(info.queues.q[0]));
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &fewer), 0);
    assert_int_equal(fewer->peer_queues->count, 2);
}

/* A datagram is as large as both ends and the path carry. */
TEST_WITH(largest_datagram, set_up, tear_down)
{
    btl_ib_peer_info_t info = info_of_another();
    btl_ib_conn_t *made;

    info.max_datagram = 1000;
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &made), 0);
    assert_int_equal(made->pmtud.datagram_max, 1000);
    info.name++;
    bench->hosts[0].path[1] = 900;
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &made), 0);
    assert_int_equal(made->pmtud.datagram_max, 900);
    info.name++;
    info.max_datagram = 9000;
    bench->hosts[0].path[1] = 0;
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &made), 0);
    assert_int_equal(made->pmtud.datagram_max, 1472); /* ours */
    info.name++;
    bench->hosts[0].path[1] = 900; /* which a device that does not know of paths does not say */
    const btl_ib_transport_ops_t *const before = engine->rails[0]->transport->ops;
    btl_ib_transport_ops_t knows_no_path = *before;
    knows_no_path.path_datagram = NULL;
    engine->rails[0]->transport->ops = &knows_no_path;
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &made), 0);
    engine->rails[0]->transport->ops = before;
    assert_int_equal(made->pmtud.datagram_max, 1472);
    bench->hosts[0].path[1] = 0;
}

/* Whether the peer promises to answer while it computes is known from what it published. A rail
 * that stood by is in use as soon as somebody means to send by it. */
TEST_WITH(promised_and_in_use, set_up, tear_down)
{
    btl_ib_peer_info_t info = info_of_another();

    for (int promises = 0; promises < 2; promises++) {
        btl_ib_conn_t *made;
        info.name++;
        info.answers = promises != 0;
        engine->rails[1]->use.stands_by = true;
        assert_int_equal(btl_ib_conn_create(engine, 1, &info, &info, &made), 0);
        assert_ptr_equal(btl_ib_conn_user(made), &info);
        assert_int_equal(made->validation.promised, promises);
        assert_false(engine->rails[1]->use.stands_by);
        engine->rails[1]->use.stands_by = true;
        btl_ib_conn_adopt(made, NULL);
        assert_false(engine->rails[1]->use.stands_by);
    }
}

/* One that was just made has nothing under way. */
TEST_WITH(begins_with_nothing, set_up, tear_down)
{
    const btl_ib_peer_info_t info = info_of_another();
    btl_ib_conn_t *made;

    const uint32_t conns = engine->deferred_free.conns;
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &made), 0);
    assert_int_equal(engine->deferred_free.conns, conns + 1);
    assert_true(btl_ib_conn_is_quiet(made));
    assert_false(btl_ib_conn_is_busy(made));
    assert_true(btl_ib_list_empty(&made->ops.waiting) && btl_ib_list_empty(&made->ops.turn));
    assert_true(btl_ib_list_empty(&made->offload.waiting));
    assert_true(btl_ib_list_empty(&made->offload.running));
    assert_true(btl_ib_list_empty(&made->rnr.link) && btl_ib_list_empty(&made->incast.link));
    btl_ib_conn_destroy(made, bench->now);
    assert_int_equal(engine->deferred_free.conns, conns);
}

/* Who was not asked for is passive until it is adopted; then it has a user. */
TEST_WITH(passive_and_adopted, set_up, tear_down)
{
    const btl_ib_peer_info_t info = info_of_another();
    int user;

    assert_int_equal(btl_ib_conn_try(engine, 1, &info), 0);
    assert_int_equal(engine->admission.passive, 1);
    btl_ib_conn_t *tried = btl_ib_conn_find(engine, 1, info.name, 0);
    assert_non_null(tried);
    assert_null(btl_ib_conn_user(tried));
    assert_int_equal(btl_ib_conn_rail(tried), 1);
    assert_true(btl_ib_conn_name(tried) == info.name);
    for (int i = 0; i < 2; i++) {
        btl_ib_conn_adopt(tried, &user);
        assert_int_equal(engine->admission.passive, 0);
        assert_ptr_equal(btl_ib_conn_user(tried), &user);
    }
    const btl_ib_peer_info_t other = bench_info(bench, 1, 1);
    assert_int_equal(btl_ib_conn_try(engine, 1, &other), 0);
    tried = btl_ib_conn_find(engine, 1, other.name, 1);
    btl_ib_conn_destroy(tried, bench->now); /* one that nobody adopted counts no more */
    assert_int_equal(engine->admission.passive, 0);
}

/* ---- asking ---- */

static bool address_text(const void *address, size_t len, char *out, size_t size)
{
    memset(out, 'a', 3);
    out[3] = '\0';
    return len == 4;
}

/* An address is told where the transport has words for it. */
TEST_WITH(address, set_up, tear_down)
{
    const btl_ib_transport_ops_t *const before = engine->rails[0]->transport->ops;
    btl_ib_transport_ops_t telling = *before;
    char text[16];

    assert_false(btl_ib_conn_address_text(conn, text, sizeof(text)));
    telling.address_text = address_text;
    engine->rails[0]->transport->ops = &telling;
    assert_true(btl_ib_conn_address_text(conn, text, sizeof(text)));
    assert_string_equal(text, "aaa");
    engine->rails[0]->transport->ops = before;
}

/* Each reason has a text of its own. */
TEST(reasons)
{
    for (int i = 0; i <= BTL_IB_DEATH_HOST_LOST; i++) {
        const char *text = btl_ib_death_string((btl_ib_death_t) i);
        assert_string_not_equal(text, "unknown reason");
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(text, btl_ib_death_string((btl_ib_death_t) k));
        }
    }
    assert_string_equal(btl_ib_death_string((btl_ib_death_t) (BTL_IB_DEATH_HOST_LOST + 1)),
                        "unknown reason");
}

/* Nothing waits in a connection that is quiet: not for an acknowledgement, its turn, an operation,
 * credit, an answer or the rest of a message. */
TEST_WITH(quiet, set_up, tear_down)
{
    btl_ib_list_t other;

    assert_true(btl_ib_conn_drained(conn) && btl_ib_conn_is_quiet(conn));
    assert_false(btl_ib_conn_is_busy(conn));
    conn->sentmap.unacked++;
    assert_false(btl_ib_conn_drained(conn) || btl_ib_conn_is_quiet(conn));
    assert_true(btl_ib_conn_is_busy(conn));
    conn->sentmap.skips++; /* that was only a SKIP */
    assert_true(btl_ib_conn_drained(conn) && btl_ib_conn_is_quiet(conn));
    assert_true(btl_ib_conn_is_busy(conn));
    conn->sentmap.skips = conn->sentmap.unacked = 0;
    conn->ops.count = 1;
    assert_false(btl_ib_conn_drained(conn) || btl_ib_conn_is_quiet(conn));
    assert_true(btl_ib_conn_is_busy(conn));
    conn->state = BTL_IB_CONN_DEAD; /* it is over anyway */
    assert_true(btl_ib_conn_drained(conn));
    assert_true(btl_ib_conn_is_dead(conn));
    conn->state = BTL_IB_CONN_OPEN;
    assert_false(btl_ib_conn_is_dead(conn));
    conn->ops.count = 0;
    btl_ib_list_init(&other);
    btl_ib_list_push_tail(&conn->tx[1].submit.pending, &other);
    assert_false(btl_ib_conn_drained(conn) || btl_ib_conn_is_quiet(conn));
    assert_true(btl_ib_conn_is_busy(conn));
    btl_ib_list_remove(&other);
    conn->loss.blocked_since = 1;
    assert_true(btl_ib_conn_drained(conn) && !btl_ib_conn_is_quiet(conn));
    conn->loss.blocked_since = 0;
    conn->replies.streams = 1;
    assert_true(btl_ib_conn_drained(conn) && !btl_ib_conn_is_quiet(conn));
    conn->replies.streams = 0;
    btl_ib_list_t *const lists[] = {&conn->input.fragments.fragments, &conn->input.parts};
    for (int i = 0; i < 2; i++) {
        btl_ib_list_push_tail(lists[i], &other);
        assert_true(btl_ib_conn_drained(conn) && !btl_ib_conn_is_quiet(conn));
        btl_ib_list_remove(&other);
    }
    btl_ib_list_push_tail(&other, &conn->replies.out.link);
    assert_true(btl_ib_conn_drained(conn) && !btl_ib_conn_is_quiet(conn));
    btl_ib_list_remove(&conn->replies.out.link);
    assert_true(btl_ib_conn_is_quiet(conn));
}

/* ---- the end ---- */

/* A peer that is told by so many CLOSEs of the end, which are not acknowledged. Then the rest of it
 * goes. */
TEST_WITH(closes_are_repeated, set_up, tear_down)
{
    const uint64_t began = bench->now += 700;
    uint32_t closes = 0;

    bench->loses = NULL;
    const uint32_t segments = free_segments(&engine->rails[0]->pool, 0);
    btl_ib_conn_destroy(conn, bench->now);
    assert_int_equal(engine->clock.now, began); /* from when on it is repeated */
    assert_null(bench_conn(bench, 0, 1));
    while (btl_ib_engine_lingering(engine) && bench->now < began + SECOND) {
        closes += bench->wire.count;
        assert_true(bench->wire.count == 0
                    || bench->wire.first->size
                           == sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t));
        bench_clear(&bench->wire);
        bench->now += 100;
        bench_turn(bench, 0);
    }
    assert_in_range(closes + bench->wire.count, 2, 5);
    assert_in_range(bench->now - began, 1000, 10000);
    bench_clear(&bench->wire);
    assert_int_equal(free_segments(&engine->rails[0]->pool, 0), segments);
    assert_true(btl_ib_list_empty(&engine->conns));
}

/* Nobody is told who has heard nothing of us, or cannot be reached by a device that failed. */
TEST_WITH(who_is_not_told, set_up, tear_down)
{
    const btl_ib_peer_info_t info = info_of_another();
    btl_ib_conn_t *other;

    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &other), 0);
    btl_ib_conn_destroy(other, bench->now);
    assert_int_equal(bench->wire.count, 0);
    assert_false(btl_ib_engine_lingering(engine));
    bench_start(bench, 2); /* which may have heard of us, though we have not of it */
    bench_send(bench, 0, 2, 100, 1);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    btl_ib_conn_destroy(bench_conn(bench, 0, 2), bench->now);
    assert_int_equal(bench->wire.count, 1);
    assert_int_equal(bench->wire.first->data[0] & 0xf, BTL_IB_TYPE_CLOSE);
    while (btl_ib_engine_lingering(engine)) {
        bench_clear(&bench->wire);
        bench->now += 1000;
        bench_turn(bench, 0);
    }
    bench_clear(&bench->wire);
    engine->rails[0]->health.failed = true;
    btl_ib_conn_destroy(conn, bench->now);
    engine->rails[0]->health.failed = false;
    assert_int_equal(bench->wire.count, 0);
    assert_false(btl_ib_engine_lingering(engine));
}

/* Its end completes what it still had to send, each by itself: with the cause. */
TEST_WITH(what_was_to_be_sent, set_up, tear_down)
{
    const uint32_t first = bench_send(bench, 0, 1, 20000, 1);

    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    btl_ib_conn_destroy(conn, bench->now);
    assert_true(bench->messages[first].done);
    assert_int_equal(bench->messages[first].status, -ECANCELED);
    bench_run(bench, 10000);
    const uint32_t second = bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    const uint64_t dead = engine->count.connections_dead;
    conn = bench_conn(bench, 0, 1);
    btl_ib_conn_kill(conn, BTL_IB_DEATH_ENDED);
    assert_true(bench->messages[second].done);
    assert_int_equal(bench->messages[second].status, -EPIPE);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_ENDED], 1);
    assert_int_equal(engine->count.connections_dead, dead + 1);
    assert_int_equal(engine->budget.unacked, 0);
    bench_check_accounts(&bench->hosts[0]);
}

static void expect_done(void *context, btl_ib_conn_t *dead, btl_ib_death_t reason)
{
    const bench_t *of = ((bench_host_t *) context)->bench;

    ((bench_host_t *) context)->deaths[reason] += of->messages[of->message_count - 1].done;
}

/* Whoever is told of its end has been told before of all that it had. */
TEST_WITH(told_last_of_the_end, set_up, tear_down)
{
    const btl_ib_engine_ops_t *const before = engine->ops;
    btl_ib_engine_ops_t expecting = *before;

    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    expecting.dead = expect_done;
    engine->ops = &expecting;
    btl_ib_conn_kill(conn, BTL_IB_DEATH_ENDED);
    engine->ops = before;
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_ENDED], 1);
    btl_ib_conn_destroy(conn, bench->now);
}

/* The paths of a connection go with it, and with its route. */
TEST(ends_with_paths)
{
    bench_t *wide = new_bench();

    wide->hosts[0].attr.flows = 3;
    wide->hosts[0].attr.spare_flow = true;
    wide->hosts[0].attr.paths = 3;
    acquaint(wide);
    btl_ib_conn_t *with = bench_conn(wide, 0, 1);
    const size_t bytes = wide->hosts[0].bytes;
    assert_true(btl_ib_paths_add(with));
    assert_true(wide->hosts[0].bytes > bytes);
    btl_ib_conn_begin_route(with); /* of another route nothing is known */
    assert_null(with->capped.paths);
    assert_true(btl_ib_paths_add(with));
    btl_ib_conn_kill(with, BTL_IB_DEATH_ENDED);
    assert_true(wide->hosts[0].bytes < bytes);
    end(wide);
}

/* Traces have each step of its life once, and why it died. */
TEST_WITH(a_life, set_up, tear_down)
{
    static const uint8_t kinds[] = {BTL_IB_TRACE_made, BTL_IB_TRACE_closed, BTL_IB_TRACE_reset,
                                    BTL_IB_TRACE_dead};
    btl_ib_peer_info_t info = info_of_another();

    assert_int_equal(create(0, &info), 0);
    btl_ib_conn_reset(conn);
    btl_ib_conn_kill(conn, BTL_IB_DEATH_ENDED);
    assert_int_equal(events, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(lived[i].kind, kinds[i]);
        assert_int_equal(lived[i].count, 1);
    }
    assert_int_equal(lived[3].cause, BTL_IB_CAUSE_ended);
}

static uint8_t call; /* that the callback makes */
static uint32_t unaccounted;

static void expect_accounted(void *context, btl_ib_conn_t *dead, btl_ib_death_t reason)
{
    assert_null(engine->predicted.conn);
    btl_ib_conn_destroy(dead, bench->now);
}

/* Ends or makes something while a predicted message is delivered. */
static void call_within(bench_t *with, uint32_t message)
{
    btl_ib_peer_info_t info = bench_info(with, 1, 1);

    if (engine->predicted.conn == NULL) {
        return;
    }
    unaccounted++;
    if (call == 0) {
        assert_int_equal(btl_ib_conn_try(engine, 1, &info), 0);
    } else if (call == 1) {
        btl_ib_conn_drain(conn);
    } else if (call == 2) {
        const btl_ib_engine_ops_t *const before = engine->ops;
        btl_ib_engine_ops_t expecting = *before;
        expecting.dead = expect_accounted;
        engine->ops = &expecting;
        btl_ib_conn_kill(conn, BTL_IB_DEATH_ENDED);
        engine->ops = before;
    } else {
        btl_ib_conn_destroy(conn, with->now);
    }
    assert_null(engine->predicted.conn);
}

/* Whatever is called while a message is delivered counts that message as received: what ends then
 * had it. */
TEST(calls_in_a_callback)
{
    for (call = 0; call < 4; call++) {
        begin(false); /* nothing is predicted where traces are wanted */
        unaccounted = 0;
        for (int i = 0; i < 20; i++) { /* settled by then */
            bench_send(bench, 1, 0, 20, 1);
            bench_run(bench, 1000);
        }
        const uint64_t received = engine->count.received_segments;
        bench->on_deliver = call_within;
        bench_send(bench, 1, 0, 20, 1);
        bench_flow(bench);
        assert_int_equal(unaccounted, 1);
        assert_int_equal(engine->count.received_segments, received + 1);
        bench_check_counters(&bench->hosts[0]);
        bench->on_deliver = NULL;
        end(bench);
    }
}

static void keep_dead(void *context, btl_ib_conn_t *dead, btl_ib_death_t reason)
{
    ((bench_host_t *) context)->deaths[reason]++;
}

/* It dies once. */
TEST_WITH(dies_once, set_up, tear_down)
{
    const btl_ib_engine_ops_t *const before = engine->ops;
    btl_ib_engine_ops_t keeping = *before;
    btl_ib_list_t shares;

    keeping.dead = keep_dead;
    engine->ops = &keeping;
    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    conn->loss.blocked_since = 5;
    btl_ib_list_init(&shares); /* of those to whom many send */
    btl_ib_list_push_tail(&shares, &conn->incast.link);
    conn->incast.held = true;
    btl_ib_conn_kill(conn, BTL_IB_DEATH_SILENCE);
    assert_true(btl_ib_list_empty(&shares));
    assert_false(btl_ib_hotel_guest_is_in(&conn->loss.timer.guest)); /* nothing is due any more */
    assert_false(btl_ib_hotel_guest_is_in(&conn->idle.timer.guest));
    assert_true(btl_ib_list_empty(&conn->ready));
    assert_int_equal(conn->loss.blocked_since, 0);
    btl_ib_conn_kill(conn, BTL_IB_DEATH_SILENCE);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_SILENCE], 1);
    assert_int_equal(engine->count.connections_dead, 1);
    assert_int_equal(engine->deferred_free.depth, 0);
    assert_true(btl_ib_conn_is_dead(conn));
    assert_null(bench_conn(bench, 0, 1));
    engine->ops = before;
    btl_ib_conn_destroy(conn, bench->now); /* which tells nobody */
    assert_int_equal(bench->wire.count, 0);
    assert_false(btl_ib_engine_lingering(engine));
}

/* Who dies while nobody has adopted it counts as passive no more, also if it is adopted later. */
TEST_WITH(dies_passive, set_up, tear_down)
{
    const btl_ib_engine_ops_t *const before = engine->ops;
    const btl_ib_peer_info_t info = info_of_another();
    btl_ib_engine_ops_t keeping = *before;

    keeping.dead = keep_dead;
    engine->ops = &keeping;
    assert_int_equal(btl_ib_conn_try(engine, 0, &info), 0);
    btl_ib_conn_t *tried = btl_ib_conn_find(engine, 0, info.name, 0);
    btl_ib_conn_kill(tried, BTL_IB_DEATH_SILENCE);
    assert_int_equal(engine->admission.passive, 0);
    btl_ib_conn_adopt(tried, NULL);
    assert_int_equal(engine->admission.passive, 0);
    engine->ops = before;
    btl_ib_conn_destroy(tried, bench->now);
}

/* A new incarnation begins with nothing of the one before: what was in flight is over, and the peer
 * has to introduce itself, and to answer, anew. */
TEST_WITH(begins_anew, set_up, tear_down)
{
    const uint32_t epoch = conn->identity.epoch, id = conn->identity.id;
    const uint32_t small = bench_send(bench, 0, 1, 100, 1);
    const uint32_t chunks = bench_send(bench, 0, 1, 9000, 1);
    const uint32_t large = bench_send(bench, 0, 1, 200000 / 4, 1);

    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    assert_false(bench->messages[chunks].done); /* all of it is in flight */
    conn->ecn.ect = conn->ecn.ce = conn->ecn.told_ect = conn->ecn.told_ce = 5;
    conn->gso.watched = conn->gso.alone = true;
    conn->coalesce.held = conn->coalesce.held_bytes = 5;
    conn->flow.rounds = 5;
    conn->ecn.retry_at = 5;
    conn->pacer.at = UINT64_MAX;
    conn->ack.no_tag = true;
    conn->coalesce.at_once_max++;
    const btl_ib_peer_info_t info = info_of_another();
    btl_ib_conn_t *fresh;
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &fresh), 0);
    conn->loss.reo_wnd_mult = 5;
    conn->ack.unreplied = false;
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        conn->tx[i].loss.duplicates = 5;
        conn->rx[i].ack.duplicates = 5;
    }
    conn->validation.asked_at = conn->validation.route_refused = 5;
    conn->loss.no_tag_at = conn->loss.refused_since = 5;
    conn->loss.disconnected = true;
    conn->cc.window = 1;
    btl_ib_conn_reset(conn);
    bench_turn(bench, 0); /* which calls back */
    assert_true(bench->messages[small].done && bench->messages[small].status == 0);
    assert_true(bench->messages[chunks].done && bench->messages[chunks].status == 0);
    assert_int_equal(conn->ecn.ect + conn->ecn.ce, 0);
    assert_int_equal(conn->ecn.told_ect + conn->ecn.told_ce, 0);
    assert_false(conn->gso.watched || conn->gso.alone);
    assert_int_equal(conn->flow.rounds, 0);
    assert_int_equal(conn->ecn.retry_at, 0);
    assert_int_equal(conn->loss.reo_wnd_mult, 0);
    assert_false(conn->ack.no_tag);
    assert_int_equal(conn->coalesce.at_once_max, fresh->coalesce.at_once_max);
    assert_int_equal(conn->coalesce.held, 0);
    assert_int_equal(conn->coalesce.held_bytes, 0);
    assert_true(conn->ack.unreplied);
    assert_int_equal(conn->pacer.at, 0);
    assert_true(bench->messages[large].done && bench->messages[large].status == -EPIPE);
    assert_true(conn->identity.epoch > epoch);
    assert_int_equal(conn->identity.epoch, fresh->identity.epoch + 1); /* later than any other */
    assert_int_not_equal(conn->identity.id, id);
    assert_ptr_equal(btl_ib_table_by_id(&engine->table, conn->identity.id), conn);
    assert_null(btl_ib_table_by_id(&engine->table, id));
    assert_false(conn->identity.bound);
    assert_int_equal(conn->sentmap.unacked, 0);
    assert_int_equal(conn->validation.asked_at, 0);
    assert_int_equal(conn->validation.route_refused, 0);
    assert_int_equal(conn->loss.no_tag_at, 0);
    assert_int_equal(conn->loss.refused_since, 0);
    assert_false(conn->loss.disconnected);
    assert_true(conn->cc.window > 1);
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        const btl_ib_queue_t *queue = &conn->peer_queues->q[i];
        assert_int_equal(conn->tx[i].sentmap.window.next, engine->config.first_seq);
        assert_int_equal(conn->tx[i].limit,
                         engine->config.first_seq + btl_ib_credit_initial(queue, queue->init));
        assert_int_equal(conn->rx[i].window.next, engine->config.first_seq);
        assert_int_equal(conn->tx[i].loss.duplicates, 0);
        assert_int_equal(conn->rx[i].ack.duplicates, 0);
    }
    bench_check_accounts(&bench->hosts[0]); /* what the peer held is ours again */
    const uint32_t message = bench_send(bench, 0, 1, 100, 1);
    const uint32_t split = bench_send(bench, 0, 1, 9000, 1);
    bench_run(bench, SECOND);
    assert_int_equal(bench->messages[message].delivered, 1);
    assert_int_equal(bench->messages[split].delivered, 1);
    assert_int_equal(conn->message.next_fragment, 1); /* that one was the first */
}

/* A datagram of an incarnation of the peer begins no other one once that is over. */
TEST_WITH(the_old_one_is_over, set_up, tear_down)
{
    bench->taping = true;
    btl_ib_conn_reset(bench_conn(bench, 1, 0));
    bench_send(bench, 1, 0, 100, 1);
    bench_turn(bench, 1);
    bench->taping = false;
    bench_datagram_t *first = bench_pop(&bench->tape); /* host 0 is told who that is */
    assert_int_equal(first->data[1] & BTL_IB_FLAG_CONNECT, BTL_IB_FLAG_CONNECT);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    assert_true(conn->identity.bound);
    btl_ib_conn_reset(conn);
    const uint64_t received = engine->count.received_segments;
    bench_throw(bench, 0, first->source, first->data, first->size);
    assert_false(conn->identity.bound);
    assert_int_equal(engine->count.received_segments, received);
    bench->loses = NULL;
    btl_ib_conn_destroy(conn, bench->now);
    bench_throw(bench, 0, first->source, first->data, first->size);
    assert_null(bench_conn(bench, 0, 1));
    free(first);
}

/* If only the peer's incarnation ended its credits are ours again, what had not arrived there goes
 * to the next one, and answers to what it asked go to nobody. */
TEST_WITH(loses_its_peer, set_up, tear_down)
{
    bench_op(bench, 1, 0, BTL_IB_OP_GET, 3000);
    bench_turn(bench, 1);
    while (bench->wire.count > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
    bench_turn(bench, 0);
    const uint32_t answers = conn->sentmap.in_flight;
    const uint32_t message = bench_send(bench, 0, 1, 100, 1);

    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    assert_int_equal(conn->sentmap.in_flight, answers + 1);
    assert_true(answers > 0);
    const uint64_t voided = engine->count.voided;
    btl_ib_conn_lose_peer(conn);
    assert_false(conn->identity.bound);
    assert_int_equal(engine->count.voided, voided + answers);
    assert_int_equal(conn->sentmap.in_flight, 1);
    bench_check_accounts(&bench->hosts[0]);
    assert_int_equal(bench->messages[message].delivered, 0);
}

/* Half a message will never be whole. */
TEST_WITH(half_a_message, set_up, tear_down)
{
    bench_send(bench, 1, 0, 9000, 1);
    bench_turn(bench, 1);
    bench_deliver(bench, bench_pop(&bench->wire));
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    assert_false(btl_ib_list_empty(&conn->input.fragments.fragments));
    btl_ib_conn_lose_peer(conn);
    assert_true(btl_ib_list_empty(&conn->input.fragments.fragments));
    bench_check_accounts(&bench->hosts[0]);
}

/* What was refused of an incarnation never comes again. */
TEST_WITH(what_was_refused, set_up, tear_down)
{
    enum { DEAF = 200 };

    bench->hosts[0].deaf[DEAF] = true;
    bench_send(bench, 1, 0, 1000, DEAF);
    bench_flow(bench);
    assert_int_equal(bench_peer(bench, 0, 1).refused, 1);
    btl_ib_conn_lose_peer(conn);
    assert_int_equal(bench_peer(bench, 0, 1).refused, 0);
    assert_true(btl_ib_list_empty(&conn->rnr.link));
}

/* Answers to the peer that were not sent yet go to nobody. */
TEST_WITH(answers_to_nobody, set_up, tear_down)
{
    conn->cc.window = 1;
    bench_op(bench, 1, 0, BTL_IB_OP_GET, 3000);
    bench_turn(bench, 1);
    while (bench->wire.count > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    assert_int_equal(conn->sentmap.in_flight, 1);
    assert_int_equal(conn->replies.streams, 1);
    btl_ib_conn_lose_peer(conn);
    assert_int_equal(conn->replies.streams, 0);
    assert_true(btl_ib_list_empty(&conn->replies.out.link));
}

/* A connection without traffic gives its memory back. */
TEST_WITH(idle, set_up, tear_down)
{
    bench_op(bench, 1, 0, BTL_IB_OP_GET, 3000);
    bench_op(bench, 0, 1, BTL_IB_OP_ATOMIC, 0);
    for (int i = 0; i < 200; i++) { /* so many that it needs more credits */
        bench_send(bench, 1, 0, 20, 1);
        bench_flow(bench);
    }
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    assert_int_equal(engine->rails[0]->credit[0].busy, 1);
    const size_t bytes = bench->hosts[0].bytes;
    assert_true(bench_peer(bench, 0, 1).answers);
    assert_false(btl_ib_conn_shrink(conn)); /* it was used just now */
    assert_true(bench_peer(bench, 0, 1).answers);
    bench_run(bench, 5 * engine->config.idle_after);
    assert_true(bench_peer(bench, 0, 1).shrunk);
    assert_false(bench_peer(bench, 0, 1).answers);
    assert_true(bench->hosts[0].bytes < bytes);
    assert_null(conn->ops.slots);
    assert_int_equal(engine->rails[0]->credit[0].busy, 0); /* others get its share */
    still_works(bench);
}

/* What traffic took is given back whenever it is idle: windows, answers, runs that were refused. */
TEST_WITH(idle_again, set_up, tear_down)
{
    enum { DEAF = 200 };
    size_t bytes = 0;

    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 300; k++) {
            bench_send(bench, 0, 1, 1000, 1);
        }
        bench->hosts[0].deaf[DEAF] = true;
        bench_send(bench, 1, 0, 1000, DEAF);
        bench_run(bench, 10000);
        bench->hosts[0].deaf[DEAF] = false;
        still_works(bench);
        assert_true(bench->hosts[0].bytes > bytes);
        bench_run(bench, 5 * engine->config.idle_after);
        assert_true(bench_peer(bench, 0, 1).shrunk);
        assert_true(i == 0 || bench->hosts[0].bytes <= bytes + 256);
        assert_null(conn->rnr.runs);
        for (uint32_t channel = 0; channel < conn->peer_queues->count; channel++) {
            assert_true(conn->tx[channel].sentmap.window.first
                        == conn->tx[channel].sentmap.window.next);
            assert_true(conn->tx[channel].sentmap.window.size <= 8);
        }
        bytes = bench->hosts[0].bytes;
    }
}

/* One that drains takes nothing new, but sends what it had. */
TEST_WITH(drains, set_up, tear_down)
{
    const uint32_t before = bench_send(bench, 0, 1, 100, 1);

    btl_ib_conn_drain(conn);
    assert_true(conn->draining);
    assert_int_equal(bench_send(bench, 0, 1, 100, 1), UINT32_MAX);
    const uint32_t came = bench_send(bench, 1, 0, 100, 1);
    bench_run(bench, SECOND);
    assert_int_equal(bench->messages[before].delivered, 1);
    assert_true(bench->messages[came].done); /* what comes is acknowledged, and not delivered */
    assert_int_equal(bench->messages[came].delivered, 0);
    assert_true(btl_ib_conn_drained(conn));
}

/* Credits that it does not need while idle go back by a SKIP: those of a channel of the peer's own,
 * if nothing is on its way there, and the peer knows of us. */
TEST_WITH(gives_credits_back, set_up, tear_down)
{
    enum { NOTHING_IN_FLIGHT = 1, BOUND = 2, PER_PEER = 4, IDLE = 8, ALL = 15 };

    for (int holds = 0; holds <= ALL; holds++) {
        btl_ib_tx_channel_t *tx = &conn->tx[holds & PER_PEER ? 0 : 1];
        conn->idle.shrunk = false;
        engine->sched.active++;
        engine->clock.now = conn->idle.active_at + engine->config.idle_after - !(holds & IDLE);
        tx->limit += 100;
        tx->sentmap.window.next += !(holds & NOTHING_IN_FLIGHT);
        conn->identity.bound = (holds & BOUND) != 0;
        assert_int_equal(btl_ib_conn_shrink(conn), (holds & IDLE) != 0);
        assert_int_equal(bench->wire.count, holds == ALL);
        conn->identity.bound = true;
        if (holds != ALL) {
            tx->sentmap.window.next -= !(holds & NOTHING_IN_FLIGHT);
            tx->limit -= 100;
            engine->sched.active -= !(holds & IDLE);
        }
    }
    assert_int_equal(bench->wire.first->data[0] & 0xf, BTL_IB_TYPE_SKIP);
    assert_int_equal(conn->sentmap.skips, 1);
    bench_clear(&bench->wire);
    btl_ib_conn_kill(conn, BTL_IB_DEATH_ENDED); /* the peer knows of no such credits */
}

/* ---- what is told ---- */

/* What connections sent and received is told of each, of their rails and of the channels, also once
 * they are no more. */
TEST_WITH(counters, set_up, tear_down)
{
    btl_ib_rail_counters_t before, after;
    uint64_t segments[3], received[3];

    talk(bench, 2);
    bench_run(bench, 5000);
    const btl_ib_conn_counters_t count = btl_ib_conn_counters(conn);
    btl_ib_engine_rail_counters(engine, 0, &before);
    uint64_t sent = 0, came = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const btl_ib_channel_counters_t channel = btl_ib_engine_channel_counters(engine, 0, i);
        sent += segments[i] = channel.sent_segments;
        came += received[i] = channel.received_segments;
    }
    assert_int_equal(count.sent_segments, engine->count.sent_segments);
    assert_int_equal(count.received_segments, engine->count.received_segments);
    assert_int_equal(before.sent_segments, count.sent_segments);
    assert_int_equal(before.received_segments, count.received_segments);
    assert_int_equal(sent, count.sent_segments);
    assert_int_equal(came, count.received_segments);
    assert_true(segments[0] > 0 && segments[2] > 0 && received[2] > 0);
    assert_int_equal(btl_ib_engine_channel_counters(engine, 0, 3).sent_segments, 0);
    assert_int_equal(btl_ib_engine_channel_counters(engine, 0, 3).received_segments, 0);
    btl_ib_engine_rail_counters(engine, 1, &after);
    assert_int_equal(after.sent_segments, 0);
    assert_int_equal(btl_ib_engine_channel_counters(engine, 1, 0).sent_segments, 0);
    btl_ib_conn_destroy(conn, bench->now);
    for (int i = 0; i < 2; i++) { /* while it closes, and when it is gone */
        btl_ib_engine_rail_counters(engine, 0, &after);
        assert_int_equal(after.sent_segments, before.sent_segments);
        assert_int_equal(after.received_bytes, before.received_bytes);
        for (uint32_t k = 0; k < 3; k++) {
            const btl_ib_channel_counters_t channel = btl_ib_engine_channel_counters(engine, 0, k);
            assert_int_equal(channel.sent_segments, segments[k]);
            assert_int_equal(channel.received_segments, received[k]);
        }
        bench->loses = NULL;
        bench_run(bench, 10000);
    }
    assert_false(btl_ib_engine_lingering(engine));
}

/* All connections are told, one after the other. */
TEST_WITH(all_of_them, set_up, tear_down)
{
    btl_ib_peer_info_t info = info_of_another();
    btl_ib_conn_t *other;

    assert_int_equal(btl_ib_conn_create(engine, 1, &info, NULL, &other), 0);
    const btl_ib_conn_t *first = btl_ib_engine_next_conn(engine, NULL);
    const btl_ib_conn_t *second = btl_ib_engine_next_conn(engine, first);
    assert_true(first == conn && second == other);
    assert_null(btl_ib_engine_next_conn(engine, second));
    assert_int_equal(btl_ib_engine_rails(engine), BENCH_RAILS);
    assert_ptr_equal(btl_ib_engine_rail_transport(engine, 1), &bench->hosts[0].rails[1].base);
}

/* Times and windows as they hold. */
TEST_WITH(levels, set_up, tear_down)
{
    conn->loss.rtt = (btl_ib_rtt_t){.srtt8 = 8 * 1000, .rttvar4 = 4 * 100};
    conn->identity.peer_ack_delay = 50;
    conn->cc.window = 33;
    const uint32_t timeout = btl_ib_rtt_timeout(&conn->loss.rtt, 0);
    assert_int_equal(btl_ib_conn_levels(conn).rto, timeout + 50);
    engine->config.rto_min = timeout + 50;
    assert_int_equal(btl_ib_conn_levels(conn).rto, timeout + 50);
    engine->config.rto_min++;
    assert_int_equal(btl_ib_conn_levels(conn).rto, timeout + 51);
    assert_int_equal(btl_ib_conn_levels(conn).srtt, 1000);
    conn->loss.rtt = (btl_ib_rtt_t){0};
    assert_int_equal(btl_ib_conn_levels(conn).srtt, 0); /* not known */
    assert_int_equal(btl_ib_conn_levels(conn).window, 33);
    assert_int_equal(btl_ib_conn_levels(conn).in_flight, 0);
    assert_int_equal(btl_ib_conn_levels(conn).datagram_max, 1472);
    static const struct {
        uint32_t segments, told;
    } shares[] = {{UINT32_MAX, 0}, {0, 1}, {1, 1}, {7, 7}};
    for (int i = 0; i < 4; i++) {
        conn->incast.segments = shares[i].segments;
        assert_int_equal(btl_ib_conn_levels(conn).share, shares[i].told);
    }
    conn->incast.segments = UINT32_MAX;
}

/* What is known of the path, for a program that checks paths. */
TEST_WITH(path, set_up, tear_down)
{
    btl_ib_path_info_t path = btl_ib_conn_path(conn);

    assert_true(path.own && path.heard && path.answered);
    assert_false(path.checking || path.refused);
    conn->pmtud.checking = true;
    assert_true(btl_ib_conn_path(conn).checking);
    conn->state = BTL_IB_CONN_DEAD;
    assert_false(btl_ib_conn_path(conn).checking);
    conn->state = BTL_IB_CONN_OPEN;
    conn->pmtud.checking = false;
    conn->loss.refused_since = 1;
    assert_true(btl_ib_conn_path(conn).refused);
    conn->loss.refused_since = 0;
    conn->validation.refused_at = 1;
    assert_true(btl_ib_conn_path(conn).refused);
    conn->validation.refused_at = 0;
    conn->validation.valid = conn->validation.answered = false;
    path = btl_ib_conn_path(conn);
    assert_false(path.heard || path.answered || path.refused);
}

static char text[400];

/* The line about the connection, `us` after its engine's last turn, has that in it. */
static void says(uint64_t us, const char *part)
{
    (void) btl_ib_conn_format(conn, engine->clock.turned_at + us, text, sizeof(text));
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in: %s", part, text);
    }
}

/* The line for people says what is under way, for how long, and what stops it. */
TEST_WITH(a_line, set_up, tear_down)
{
    says(0, "open, connected, epoch ");
    says(0, ", 0 segments in flight, 0 channels with queued messages, 0 probes since progress,");
    conn->loss.heard_at = engine->clock.awake - 10;
    says(0, "heard 10 us ago");
    says(5, "heard 15 us ago");
    says((uint64_t) -5, "heard 10 us ago"); /* asked by a clock that is a little behind */
    conn->loss.heard_at = 0;
    says(0, "never heard");
    conn->draining = true;
    says(0, "connected, draining, epoch");
    conn->draining = false;
    conn->identity.bound = false;
    says(0, "open, epoch");
    conn->identity.bound = true;
    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    const btl_ib_segment_t *oldest =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_BULK], link);
    assert_non_null(oldest);
    engine->clock.awake = oldest->first_sent + 30;
    says(0, "(oldest 30 us)");
    says(7, "(oldest 37 us)");
    says(0, "0 channels with queued");
    conn->cc.window = 1;
    conn->incast.segments = UINT32_MAX;
    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    says(0, "1 channels with queued messages, stopped by the window,");
    bench_clear(&bench->wire);
    conn->cc.window = 1000;
    assert_true(bench_settle(bench, 2 * SECOND));
    bench_send(bench, 0, 1, 20, 1); /* no bulk, which is in another list */
    bench_turn(bench, 0);
    bench->now += 5;
    bench_turn(bench, 0);
    says(7, "1 segments in flight (oldest 12 us)");
    assert_true(bench_settle(bench, SECOND));
    const uint32_t limit = conn->tx[0].limit;
    conn->tx[0].limit = conn->tx[0].sentmap.window.next;
    bench_send(bench, 0, 1, 20, 1);
    says(0, "1 channels with queued messages, stopped by credit,");
    conn->tx[0].limit = limit;
    bench_set_window(bench, 0, 1, conn->cc.window); /* what waits may leave */
    assert_true(bench_settle(bench, SECOND));
}

UNIT_MAIN(NULL, NULL)
