/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Header prediction: what takes the short way, and that it leads to where the usual one does. */

#include <string.h>

#include "btl_ib_predict.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "support.h"
#include "unit.h"

/* ---- the same traffic by both ways ---- */

static uint32_t predicted; /* messages that took the short way */

static void count_predicted(bench_t *bench, uint32_t message)
{
    const bench_host_t *host = &bench->hosts[bench->messages[message].to];

    predicted += host->engine->predicted.conn != NULL;
}

static bool loses_some(bench_t *bench, const bench_datagram_t *datagram)
{
    return bench->scratch[0] != 0 && ++bench->scratch[1] % bench->scratch[0] == 0;
}

/* Both have sent the same datagrams since the last time. */
static void same_datagrams(bench_t *short_way, bench_t *usual)
{
    assert_int_equal(short_way->tape.count, usual->tape.count);
    while (usual->tape.count > 0) {
        bench_datagram_t *a = bench_pop(&short_way->tape), *b = bench_pop(&usual->tape);
        assert_int_equal(a->size, b->size);
        assert_memory_equal(a->data, b->data, a->size);
        free(a);
        free(b);
    }
}

/* What one host knows of the other is the same in both. */
static void same_connection(bench_t *short_way, bench_t *usual, uint32_t i)
{
    const btl_ib_conn_t *a = bench_conn(short_way, i, 1 - i), *b = bench_conn(usual, i, 1 - i);

    assert_memory_equal(&a->loss.rtt, &b->loss.rtt, sizeof(a->loss.rtt));
    assert_int_equal(a->loss.timer.guest.due, b->loss.timer.guest.due);
    assert_int_equal(a->loss.blocked_since, b->loss.blocked_since);
    assert_int_equal(a->loss.acked_by_header, b->loss.acked_by_header);
    assert_int_equal(a->loss.unanswered_probes, b->loss.unanswered_probes);
    assert_int_equal(a->cc.window, b->cc.window);
    assert_int_equal(a->ack.at, b->ack.at);
    assert_int_equal(a->ack.echo_at, b->ack.echo_at);
    assert_int_equal(a->ack.echo_poll_gap, b->ack.echo_poll_gap);
    assert_int_equal(a->ack.delivered_at, b->ack.delivered_at);
    assert_int_equal(a->ack.count, b->ack.count);
    assert_memory_equal(&a->count, &b->count, sizeof(a->count));
    for (uint32_t channel = 0; channel < a->peer_queues->count; channel++) {
        assert_int_equal(a->tx[channel].loss.arrived, b->tx[channel].loss.arrived);
        assert_int_equal(a->rx[channel].accept.received, b->rx[channel].accept.received);
    }
}

static void same_host(bench_t *short_way, bench_t *usual, uint32_t i)
{
    static char a[BENCH_STATE_BYTES], b[BENCH_STATE_BYTES];

    bench_state(&short_way->hosts[i], true, a);
    bench_state(&usual->hosts[i], true, b);
    assert_string_equal(a, b);
    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; info->name != NULL; info++) {
        assert_int_equal(btl_ib_counter_value(info, bench_counters(short_way, i)),
                         btl_ib_counter_value(info, bench_counters(usual, i)));
    }
    assert_int_equal(btl_ib_engine_next_due(short_way->hosts[i].engine),
                     btl_ib_engine_next_due(usual->hosts[i].engine));
    same_connection(short_way, usual, i);
}

/* Does one thing that may happen, in one of the two. */
static void happen(bench_t *bench, uint32_t what, uint32_t size)
{
    const uint32_t from = what % 2;
    bench_datagram_t *datagram;

    switch (what / 2) {
    case 0: /* a short message, mostly */
    case 1:
    case 2:
        bench_send(bench, from, 1 - from, size % 80 + 8, 1);
        break;
    case 3:
        bench_send(bench, from, 1 - from, size + 8, 2);
        break;
    case 4:
        bench_op(bench, from, 1 - from, size % 2 == 0 ? BTL_IB_OP_GET : BTL_IB_OP_ATOMIC, 8);
        break;
    case 5:
    case 6: /* the next datagram arrives */
        datagram = bench_pop(&bench->wire);
        if (datagram == NULL) {
            break;
        }
        if (bench->loses(bench, datagram)) {
            free(datagram);
        } else {
            bench_deliver(bench, datagram);
        }
        break;
    case 7:
        bench->now += size % 100;
        bench_turn(bench, 0);
        bench_turn(bench, 1);
        break;
    case 8:
        bench_run(bench, size);
        break;
    default:
        bench->now += BENCH_DELAY;
        bench_turn(bench, from);
        break;
    }
}

static bench_t *begin(bool predicts, const char *queues, uint64_t loss)
{
    bench_t *bench = new_bench();

    if (queues != NULL) {
        use_queues(bench, queues);
    }
    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].config.predict = predicts;
    }
    acquaint(bench);
    bench->taping = true;
    bench->loses = loses_some;
    bench->scratch[0] = loss;
    bench->on_deliver = count_predicted;
    return bench;
}

/* Whatever happens, a process that predicts and one that does not send the same. */
static void compare_ways(const char *queues, uint64_t loss, uint32_t most)
{
    test_random_t r = TEST_RANDOM_SEED;
    bench_t *short_way = begin(true, queues, loss), *usual = begin(false, queues, loss);

    predicted = 0;
    for (int step = 0; step < 4000 && short_way->message_count < 4000; step++) {
        const uint32_t what = test_random_below(&r, 30);
        const uint32_t size = test_random_below(&r, test_random_below(&r, 20) == 0 ? most : 200);
        const bool full = short_way->op_count >= BENCH_OPS - 1 && what / 2 == 4;
        const uint32_t before = predicted;
        happen(short_way, full ? 0 : what, size);
        const uint32_t after = predicted;
        happen(usual, full ? 0 : what, size);
        assert_int_equal(predicted, after); /* none of these */
        assert_true(after >= before);
        same_datagrams(short_way, usual);
        same_host(short_way, usual, 0);
        same_host(short_way, usual, 1);
    }
    assert_true(predicted > 300);
    assert_true(bench_settle(short_way, 60 * SECOND));
    assert_true(bench_settle(usual, 60 * SECOND));
    same_datagrams(short_way, usual);
    end_delivered(short_way);
    end_delivered(usual);
}

TEST(both_ways_without_loss)
{
    compare_ways(NULL, 0, 5000);
}

TEST(both_ways_with_loss)
{
    compare_ways(NULL, 23, 3000);
}

/* Credits run out and come back with headers. */
TEST(both_ways_with_few_credits)
{
    compare_ways("P,256,8,4,2:S,1472,256,128,32", 0, 2000);
    compare_ways("P,256,8,4,2:S,1472,256,128,32", 31, 2000);
}

/* ---- which datagrams do ---- */

static bench_t *bench;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static btl_ib_rail_t *rail;
static bench_datagram_t *next; /* what comes next from host 1 */
static btl_ib_wire_header_t *header;

/* Host 1 has sent a message, which did not arrive yet, and host 0 two, which are in flight. */
static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    rail = conn->rail;
    bench_send(bench, 1, 0, 20, 1);
    next = bench_pop(&bench->wire);
    header = (void *) next->data;
    bench_send(bench, 0, 1, 20, 1);
    bench_send(bench, 0, 1, 20, 1);
    bench_turn(bench, 0);
    assert_int_equal(bench_channel(bench, 0, 1, 0).in_flight, 2);
    return 0;
}

static int tear_down(void **state)
{
    free(next);
    end_settled(bench, 10 * SECOND);
    return 0;
}

static bool predict_from(btl_ib_addr_t from)
{
    const btl_ib_event_t event = {
        .type = BTL_IB_EVENT_RECV, .size = next->size, .data = next->data, .from = from};
    const bool taken = btl_ib_predict(rail, &event);

    assert_null(conn->engine->predicted.conn);
    return taken;
}

static bool predict(void)
{
    return predict_from(conn->route.to);
}

/* With `change` it does not take the short way, and nothing is done. */
#define NOT_WITH(what, value)                                                                      \
    do {                                                                                           \
        const __typeof__(what) right = (what);                                                     \
        bench_watch_t watch;                                                                       \
        (what) = (value);                                                                          \
        bench_watch(&bench->hosts[0], true, &watch);                                               \
        assert_false(predict());                                                                   \
        bench_unchanged(&watch, "received_datagrams", 0);                                          \
        (what) = right;                                                                            \
    } while (0)

TEST_WITH(headers, set_up, tear_down)
{
    const uint32_t seq = BTL_IB_LE32(header->seq);

    NOT_WITH(next->size, sizeof(*header) - 1);
    NOT_WITH(next->size, next->size - 1);
    NOT_WITH(next->size, next->size + 1);
    NOT_WITH(header->version_type,
             (uint8_t) (header->version_type ^ BTL_IB_TYPE_DATA ^ BTL_IB_TYPE_BUNDLE));
    NOT_WITH(header->version_type, (uint8_t) (header->version_type + 16));
    NOT_WITH(header->version_type, (uint8_t) (header->version_type - 16));
    NOT_WITH(header->flags, 0);
    NOT_WITH(header->flags, BTL_IB_FLAG_ACK);
    NOT_WITH(header->flags, BTL_IB_FLAG_ECHO);
    for (int bit = 0; bit < 8; bit++) { /* neither more nor less */
        NOT_WITH(header->flags, (uint8_t) (header->flags ^ 1 << bit));
    }
    NOT_WITH(header->tag, BTL_IB_TAG_MAX + 1);
    NOT_WITH(header->connection, header->connection + BTL_IB_LE32(1));
    NOT_WITH(header->connection, header->connection ^ BTL_IB_LE32(1u << 31));
    NOT_WITH(header->token, header->token ^ BTL_IB_LE64(1));
    NOT_WITH(header->seq, BTL_IB_LE32(seq + 1));
    NOT_WITH(header->seq, BTL_IB_LE32(seq - 1));
    NOT_WITH(header->channels, 3); /* ours has three */
    NOT_WITH(header->channels, 15);
    NOT_WITH(header->channels, (uint8_t) (header->channels | 3 << 4)); /* the peer's, too */
    NOT_WITH(header->channels, (uint8_t) (header->channels | 15 << 4));
    bench->hosts[0].deaf[1] = true;
    assert_false(predict());
    bench->hosts[0].deaf[1] = false;
    assert_true(predict());
    assert_int_equal(bench->messages[2].delivered, 1);
    assert_false(predict()); /* twice */
}

/* What it acknowledges: nothing, or the oldest segment in flight. */
TEST_WITH(acknowledgements, set_up, tear_down)
{
    const uint32_t first = bench_channel(bench, 0, 1, 0).first;
    const uint32_t limit = bench_channel(bench, 0, 1, 0).limit;
    btl_ib_segment_t *oldest = btl_ib_tx_window_get(&conn->tx[0].sentmap.window, first);

    assert_int_equal(BTL_IB_LE32(header->ack), first);
    NOT_WITH(header->ack, BTL_IB_LE32(first + 2)); /* two at once */
    NOT_WITH(header->ack, BTL_IB_LE32(first + 3)); /* more than was sent */
    NOT_WITH(header->ack, BTL_IB_LE32(first - 1));
    /* of another channel, in which nothing is in flight */
    header->channels |= 1 << 4;
    NOT_WITH(header->ack, BTL_IB_LE32(conn->tx[1].sentmap.window.first + 1));
    header->channels &= 0xf;
    header->ack = BTL_IB_LE32(first + 1);
    header->credits = BTL_IB_LE16(limit - first - 1);
    NOT_WITH(oldest->type, BTL_IB_TYPE_SKIP); /* it is not a message that was sent once */
    NOT_WITH(oldest->copies, 2);
    NOT_WITH(oldest->lost, true);
    NOT_WITH(oldest->rnr_copy, 1);
    conn->sentmap.deferred_count++;
    assert_false(predict());
    conn->sentmap.deferred_count--;
    conn->pmtud.streaks[0].losses++;
    assert_false(predict());
    conn->pmtud.streaks[0].losses--;
    conn->gso.losses++;
    assert_false(predict());
    conn->gso.losses--;
    /* more credit than there is */
    NOT_WITH(header->credits, BTL_IB_LE16(bench_channel(bench, 0, 1, 0).next + 257 - first - 1));
    header->credits = BTL_IB_LE16(limit + 1 - first - 1);
    oldest->busy = true; /* the transport still reads it: then its SENT event frees it */
    assert_true(predict());
    assert_true(btl_ib_list_empty(&oldest->link));
    btl_ib_pool_sent(oldest);
    assert_false(btl_ib_list_empty(&oldest->link));
    assert_int_equal(bench_channel(bench, 0, 1, 0).first, first + 1);
    assert_int_equal(bench_channel(bench, 0, 1, 0).in_flight, 1);
    assert_int_equal(bench_channel(bench, 0, 1, 0).limit, limit + 1);
}

/* What was lost in joined datagrams does not matter where nothing is acknowledged. */
TEST_WITH(nothing_new, set_up, tear_down)
{
    conn->gso.losses++;
    assert_true(predict());
    conn->gso.losses--;
}

/* What is open on the connection goes the usual way. */
TEST_WITH(connections, set_up, tear_down)
{
    const btl_ib_addr_t to = conn->route.to;
    btl_ib_rx_channel_t *rx = &conn->rx[0];
    btl_ib_list_t part;
    btl_ib_rail_t other;

    conn->state = BTL_IB_CONN_CLOSING;
    assert_false(predict());
    conn->state = BTL_IB_CONN_OPEN;
    conn->identity.peer_knows = false;
    assert_false(predict());
    conn->identity.peer_knows = true;
    NOT_WITH(conn->route.own, false);
    conn->validation.valid = false;
    assert_false(predict());
    conn->validation.valid = true;
    NOT_WITH(conn->validation.route_refused, 1);
    NOT_WITH(conn->validation.refused_at, 1);
    NOT_WITH(conn->draining, true);
    NOT_WITH(conn->rnr.any, true);
    btl_ib_list_init(&part);
    btl_ib_list_push_tail(&conn->input.parts, &part);
    assert_false(predict());
    btl_ib_list_remove(&part);
    /* from elsewhere */
    assert_false(predict_from(to + 1));
    assert_false(predict_from(BTL_IB_ADDR_UNKNOWN));
    other = *rail;
    rail = &other;
    assert_false(predict());
    rail = conn->rail;
    /* a gap, no credit, no buffer of that size */
    rx->window.above = 1;
    assert_false(predict());
    rx->window.above = 0;
    rx->credit.limit -= 256;
    assert_false(predict());
    rx->credit.limit += 256;
    NOT_WITH(rail->queues.q[0].size, next->size - 1);
    rail->queues.q[0].size = next->size;
    assert_true(predict());
    rail->queues.q[0].size = 128;
}

/* A transport that cannot tell sources is believed. */
TEST_WITH(unknown_sources, set_up, tear_down)
{
    rail->transport->attr.knows_source = false;
    assert_true(predict_from(BTL_IB_ADDR_UNKNOWN));
    rail->transport->attr.knows_source = true;
}

/* The last that there is credit for, of the largest tag; none is wanted where all share buffers. */
TEST_WITH(last_credit, set_up, tear_down)
{
    const uint32_t limit = conn->rx[0].credit.limit;

    header->tag = BTL_IB_TAG_MAX;
    conn->rx[0].credit.limit = BTL_IB_LE32(header->seq);
    assert_false(predict());
    conn->rx[0].credit.limit++;
    assert_true(predict());
    conn->rx[0].credit.limit = limit;
    assert_int_equal(bench->hosts[0].strange, 1); /* that tag */
    bench->hosts[0].strange = 0;
    bench->messages[2].delivered = 1;
    header->tag = 1;
    header->channels |= 1;
    header->seq = BTL_IB_LE32(conn->rx[1].window.next);
    conn->rx[1].credit.limit = conn->rx[1].window.next;
    assert_true(predict());
    conn->rx[1].credit.limit = 0;
    assert_int_equal(bench->messages[2].delivered, 2);
    bench->messages[2].delivered = 1;
}

UNIT_MAIN(NULL, NULL)
