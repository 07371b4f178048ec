/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of a message that is given to a connection. */

#include <errno.h>
#include <string.h>

#include "btl_ib_pmtud.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"
#include "hostile.h"
#include "pool_segments.h"
#include "unit.h"

static bench_t *bench;
static btl_ib_conn_t *conn; /* of host 0 */

static struct {
    uint64_t count;
    uint32_t channel; /* of the last one */
    uint8_t cause;
} blocked;

static void note(bench_host_t *host, const btl_ib_trace_event_t *event)
{
    if (event->kind == BTL_IB_TRACE_blocked) {
        blocked.count++;
        blocked.channel = event->channel;
        blocked.cause = event->cause;
    }
}

static void begin(const char *queues)
{
    memset(&blocked, 0, sizeof(blocked));
    bench = new_bench();
    bench->on_event = note;
    bench->hosts[0].config.trace = true;
    if (queues != NULL) {
        use_queues(bench, queues);
    }
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    bench_turn(bench, 0);
}

static int set_up(void **state)
{
    begin(NULL);
    return 0;
}

static int tear_down(void **state)
{
    end_settled(bench, 10 * SECOND);
    return 0;
}

static uint32_t sequenced_on_wire(btl_ib_type_t type)
{
    uint32_t count = 0;

    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        count += (btl_ib_type_t) (d->data[0] & 0xf) == type;
    }
    return count;
}

/* A probe of a path that is checked, which the transport does not take, leaves with the next turn:
 * nothing else is sent there that would ask. */
TEST_WITH(a_check_that_must_wait, set_up, tear_down)
{
    btl_ib_conn_check_path(conn, bench->now);
    bench->hosts[0].rails[0].busy = 1;
    bench_turn(bench, 0);
    assert_int_equal(sequenced_on_wire(BTL_IB_TYPE_VOID), 0);
    bench_turn(bench, 0);
    assert_int_equal(sequenced_on_wire(BTL_IB_TYPE_VOID), 1);
}

/* The trace tells what is new on a channel from what is sent again, on any. */
TEST_WITH(who_is_blocked, set_up, tear_down)
{
    for (int i = 0; i < 4; i++) {
        bench_send(bench, 0, 1, 1400, 1);
    }
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
    (void) btl_ib_sentmap_lose_all(conn);
    bench->hosts[0].rails[0].busy = 1;
    btl_ib_flush(conn);
    assert_int_equal(blocked.count, 1);
    assert_int_equal(blocked.channel, BTL_IB_TRACE_NO_CHANNEL);
    assert_int_equal(blocked.cause, BTL_IB_CAUSE_full);
}

/* What a channel of a rail was stopped by is counted there. */
TEST(counted_by_channel)
{
    begin("P,256,64,32,16:P,1472,64,32,16");
    const btl_ib_channel_counters_t *count = conn->rail->channels;

    for (int i = 0; i < 200; i++) {
        bench_send(bench, 0, 1, 1400, 1);
    }
    bench_turn(bench, 0);
    assert_true(count[1].blocked_credit > 0 && count[1].blocked_credit < 1000);
    assert_int_equal(count[0].blocked_credit + count[0].blocked_window, 0);
    assert_int_equal(count[1].blocked_window, 0);
    tear_down(NULL);
    begin(NULL);
    bench_set_window(bench, 0, 1, 4);
    for (int i = 0; i < 50; i++) {
        bench_send(bench, 0, 1, 1400, 1);
    }
    bench_turn(bench, 0);
    const btl_ib_channel_counters_t *last = &conn->rail->channels[conn->peer_queues->count - 1];
    assert_true(last->blocked_window > 0 && last->blocked_window < 1000);
    assert_int_equal(last->blocked_credit, 0);
    tear_down(NULL);
}

/* Nothing is accepted of a length that no receiver takes, or by a connection that ends. */
TEST_WITH(refused, set_up, tear_down)
{
    static uint8_t bytes[64];
    btl_ib_msg_t msg = {.iov = {{bytes, 10}, {bytes, 20}}};

    conn->engine->config.eager_max = 29;
    assert_int_equal(btl_ib_engine_send(conn, &msg, bench->now), -EMSGSIZE);
    assert_null(btl_ib_sendi_begin(conn, 1, 30));
    assert_non_null(btl_ib_sendi_begin(conn, 1, 29));
    btl_ib_sendi_abort(conn);
    conn->draining = true;
    assert_null(btl_ib_sendi_begin(conn, 1, 29));
    assert_int_equal(btl_ib_engine_send(conn, &msg, bench->now), -EPIPE);
    conn->draining = false;
    conn->engine->config.eager_max = bench->hosts[0].config.eager_max;
}

/* A message joins those that wait for the next turn; where none would wait it does not. */
TEST_WITH(joined, set_up, tear_down)
{
    static uint8_t bytes[64];
    static btl_ib_msg_t msg = {.iov = {{bytes, 10}, {bytes, 20}}};

    assert_false(btl_ib_engine_join(conn, &msg));
    for (int i = 0; i < 3; i++) {
        bench_send(bench, 0, 1, 20, 1);
    }
    assert_int_equal(conn->coalesce.held, 1);
    conn->engine->config.eager_max = 29;
    assert_false(btl_ib_engine_join(conn, &msg));
    conn->engine->config.eager_max = bench->hosts[0].config.eager_max;
    conn->draining = true;
    assert_false(btl_ib_engine_join(conn, &msg));
    conn->draining = false;
    assert_int_equal(conn->coalesce.held, 1);
    assert_int_equal(conn->coalesce.held_bytes, 20);
}

/* Credit that is not used is given back, but for what a new peer has; so much at once that no window
 * is too small. */
TEST(unused_credit)
{
    begin(NULL);
    btl_ib_tx_channel_t *tx = &conn->tx[0];
    const btl_ib_queue_t *queue = &conn->peer_queues->q[0];
    const uint32_t keep = btl_ib_credit_initial(queue, queue->init);
    const uint32_t next = tx->sentmap.window.next;
    const uint32_t nothing[] = {next - 1, next, next + 1, next + keep};
    const uint32_t segments = segments_in_use(&conn->rail->pool);
    hidden_t hidden;
    uint32_t count;

    for (int i = 0; i < 4; i++) {
        tx->limit = nothing[i];
        btl_ib_send_skip(conn, 0);
        assert_int_equal(tx->sentmap.window.next, next);
    }
    assert_int_equal(bench->wire.count, 0);
    tx->limit = next + keep + 5;
    hide_segments(&hidden, &conn->rail->pool); /* it is kept while there is no memory, */
    btl_ib_send_skip(conn, 0);
    show_segments(&hidden);
    const uint32_t places = tx->sentmap.window.size;
    tx->sentmap.window.size = 0; /* or none for a place in the window, */
    bench->hosts[0].fail_in = 1;
    btl_ib_send_skip(conn, 0);
    assert_int_equal(bench->hosts[0].fail_in, 0);
    tx->sentmap.window.size = places;
    assert_int_equal(segments_in_use(&conn->rail->pool), segments);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(tx->sentmap.window.next, next); /* or the transport is busy */
    bench->hosts[0].rails[0].busy = 1;
    btl_ib_send_skip(conn, 0);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(tx->sentmap.window.next, next);
    btl_ib_send_skip(conn, 0);
    assert_int_equal(tx->sentmap.window.next, next + 5);
    const uint8_t *data = bench->wire.first->data;
    btl_ib_wire_header_t header;
    memcpy(&header, data, sizeof(header));
    memcpy(&count, data + sizeof(header), sizeof(count));
    assert_int_equal(header.version_type & 0xf, BTL_IB_TYPE_SKIP);
    assert_int_equal(BTL_IB_LE32(header.seq), next + 4);
    assert_int_equal(BTL_IB_LE32(count), 5);
    end(bench);
    begin(NULL);
    tx = &conn->tx[0];
    const uint32_t before = tx->sentmap.window.next;
    tx->limit = before + keep + BTL_IB_SKIP_MAX + 9;
    btl_ib_send_skip(conn, 0);
    assert_int_equal(tx->sentmap.window.next, before + BTL_IB_SKIP_MAX);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
