/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments that host 0 has sent to host 1, which the network holds. */

#include <errno.h>
#include <string.h>

#include "btl_ib_completion.h"
#include "btl_ib_packet.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum {
    SILENCE = 200000, /* us */
    CHUNKS = 28,      /* of a message of LONG bytes */
    LONG = 39000,
};

static bench_t *bench;
static btl_ib_conn_t *conn; /* of host 0 */

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    bench_turn(bench, 0);
    return 0;
}

static int tear_down(void **state)
{
    bench_check_accounts(&bench->hosts[0]);
    end(bench);
    return 0;
}

static btl_ib_segment_t *sent(int list, uint32_t n)
{
    btl_ib_list_t *item = btl_ib_list_first(&conn->sentmap.sent[list]);

    for (; item != NULL && n > 0; n--) {
        item = btl_ib_list_next(&conn->sentmap.sent[list], item);
    }
    return item == NULL ? NULL : BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
}

/* Short ones leave by the command channel, long ones by the last. */
static void send_some(uint32_t count, uint32_t size)
{
    for (; count > 0; count--) {
        bench_send(bench, 0, 1, size, 1);
        bench_turn(bench, 0);
    }
}

/* ---- entering ---- */

static uint32_t restarts;

static void count_restart(btl_ib_cc_t *cc)
{
    restarts++;
}

/* What is known of the path is out of date after a silence that is longer than 200 ms and than a
 * timeout; while something is in flight there is no silence. */
TEST_WITH(silence, set_up, tear_down)
{
    const struct {
        uint32_t srtt;
        uint64_t pause;
        uint32_t restarts;
    } tries[] = {{100, SILENCE, 0},
                 {100, SILENCE + 1, 1},
                 {SECOND, 2 * SILENCE, 0},
                 {SECOND, 20 * SECOND, 1}};

    btl_ib_cc_ops_t counted = *conn->cc.ops;
    counted.restart = count_restart;
    conn->cc.ops = &counted;
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        bench_set_srtt(bench, 0, 1, tries[i].srtt);
        restarts = 0;
        bench->now = conn->loss.probe_base + tries[i].pause;
        bench_send(bench, 0, 1, 1000, 1);
        assert_int_equal(restarts, tries[i].restarts);
        conn->loss.probe_base -= 30 * SECOND;
        bench_send(bench, 0, 1, 1000, 1);
        assert_int_equal(restarts, tries[i].restarts);
        conn->loss.probe_base = bench->now;
        assert_true(bench_settle(bench, SECOND));
        bench_run(bench, 5000);
    }
}

/* Checks which of the first chunks of a message ask for an acknowledgement in such a window: one
 * in each quarter, and what fills it. */
static void check_asking(uint32_t window)
{
    const uint32_t every = (window + 3) / 4;
    uint32_t n = 0;

    bench_send(bench, 0, 1, LONG, 1);
    bench_turn(bench, 0);
    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        const uint8_t flags = d->data[offsetof(btl_ib_wire_header_t, flags)];
        n++;
        assert_int_equal((flags & BTL_IB_FLAG_ACK_NOW) != 0, n % every == 0 || n == window);
    }
    assert_int_equal(n, window);
}

TEST(who_asks)
{
    for (uint32_t window = 1; window < CHUNKS; window++) {
        for (int share = 0; share < 2; share++) {
            set_up(NULL);
            bench->message_count += bench->message_count % 4 == 0; /* the bench has each 4th ask */
            if (share) {
                conn->incast.segments = window;
                conn->incast.received_at = bench->now;
            } else {
                bench_set_window(bench, 0, 1, window);
            }
            check_asking(window);
            tear_down(NULL);
        }
    }
}

/* A segment that could not leave leaves no trace. */
TEST_WITH(withdrawn, set_up, tear_down)
{
    const btl_ib_sentmap_t before = conn->sentmap;
    const btl_ib_budget_t budget = conn->engine->budget;
    btl_ib_tx_channel_t *tx = &conn->tx[conn->peer_queues->count - 1];
    const uint32_t next = tx->sentmap.window.next;
    const uint64_t count = tx->sentmap.sent;

    bench->hosts[0].rails[0].busy = 2; /* by itself, and with all that waits */
    bench_send(bench, 0, 1, 1400, 1);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(tx->sentmap.window.next, next);
    assert_int_equal(tx->sentmap.sent, count);
    assert_int_equal(conn->sentmap.in_flight, before.in_flight);
    assert_int_equal(conn->sentmap.unacked, before.unacked);
    assert_memory_equal(&conn->engine->budget, &budget, sizeof(budget));
    bench_turn(bench, 0);
    assert_int_equal(bench->wire.count, 1);
    assert_int_equal(tx->sentmap.window.next, next + 1);
}

/* ---- lost, deferred, sent again ---- */

/* What the command channel lost is sent again first; each of both in its order. */
TEST_WITH(order_of_the_lost, set_up, tear_down)
{
    btl_ib_segment_t *short_ones[3], *long_ones[3];

    send_some(3, 20);
    send_some(3, 1400);
    for (uint32_t i = 0; i < 3; i++) {
        short_ones[i] = sent(BTL_IB_SENT_OTHERS, i);
        long_ones[i] = sent(BTL_IB_SENT_OTHERS, 3 + i);
        assert_int_equal(short_ones[i]->channel, 0);
        assert_int_not_equal(long_ones[i]->channel, 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        btl_ib_sentmap_to_lost(conn, long_ones[i]);
        btl_ib_sentmap_to_lost(conn, short_ones[i]);
        assert_int_equal(conn->sentmap.in_flight, 6 - 2 * (i + 1));
    }
    const btl_ib_list_t *item = btl_ib_list_first(&conn->sentmap.lost);
    for (uint32_t i = 0; i < 6; i++) {
        assert_ptr_equal(item, i < 3 ? &short_ones[i]->link : &long_ones[i - 3]->link);
        item = btl_ib_list_next(&conn->sentmap.lost, item);
    }
    assert_null(item);
    btl_ib_sentmap_to_lost(conn, long_ones[0]); /* once more: the last now, and counted once */
    assert_ptr_equal(btl_ib_list_last(&conn->sentmap.lost), &long_ones[0]->link);
    assert_int_equal(conn->sentmap.in_flight, 0);
    assert_int_equal(conn->sentmap.unacked, 6);
}

TEST_WITH(all_lost, set_up, tear_down)
{
    send_some(2, 20);
    send_some(1, LONG);
    btl_ib_sentmap_to_lost(conn, sent(BTL_IB_SENT_OTHERS, 0));
    assert_int_equal(btl_ib_sentmap_lose_all(conn), 1 + CHUNKS);
    assert_int_equal(conn->sentmap.in_flight, 0);
    assert_int_equal(btl_ib_sentmap_lose_all(conn), 0);
}

/* What the peer has no room for is out of flight, up to a limit. */
TEST_WITH(deferred, set_up, tear_down)
{
    send_some(4, 1400);
    btl_ib_segment_t *first = sent(BTL_IB_SENT_OTHERS, 0), *second = sent(BTL_IB_SENT_OTHERS, 1);
    btl_ib_segment_t *third = sent(BTL_IB_SENT_OTHERS, 2);

    assert_true(btl_ib_sentmap_defer(conn, first, 2));
    btl_ib_sentmap_to_lost(conn, second);
    assert_true(btl_ib_sentmap_defer(conn, second, 2));
    assert_false(btl_ib_sentmap_defer(conn, third, 2));
    assert_true(btl_ib_segment_got_rnr(third));
    assert_false(third->lost || third->deferred);
    assert_int_equal(conn->sentmap.deferred_count, 2);
    assert_int_equal(conn->sentmap.in_flight, 2);
    assert_ptr_equal(btl_ib_list_first(&conn->sentmap.deferred), &first->link);
    assert_ptr_equal(btl_ib_list_last(&conn->sentmap.deferred), &second->link);
    btl_ib_sentmap_retransmitted(conn, first, false);
    assert_int_equal(conn->sentmap.deferred_count, 1);
    assert_int_equal(conn->sentmap.in_flight, 3);
    assert_false(first->lost || first->deferred || btl_ib_segment_got_rnr(first));
    btl_ib_sentmap_to_lost(conn, second);
    assert_int_equal(conn->sentmap.deferred_count, 0);
    assert_true(second->lost && !second->deferred);
    assert_true(btl_ib_sentmap_defer(conn, second, 2)); /* and arrives after all */
    btl_ib_sentmap_acked(conn, second, second, 1);
    assert_int_equal(conn->sentmap.deferred_count, 0);
    assert_int_equal(conn->sentmap.in_flight, 3);
    assert_int_equal(conn->sentmap.unacked, 3);
}

/* A copy is the newest of all; one that probes keeps in mind what was known without it. */
TEST_WITH(sent_again, set_up, tear_down)
{
    send_some(2, 1400);
    btl_ib_segment_t *segment = sent(BTL_IB_SENT_OTHERS, 0);
    const uint64_t at = segment->last_sent, order = segment->order;
    const uint64_t before = conn->count.retransmits;

    assert_int_equal(conn->sentmap.order, order + 1);
    conn->engine->clock.now += 100;
    btl_ib_sentmap_retransmitted(conn, segment, true);
    assert_int_equal(segment->copies, 2);
    assert_int_equal(segment->order, order + 2);
    assert_int_equal(conn->sentmap.order, order + 2);
    assert_int_equal(segment->last_sent, at + 100);
    assert_int_equal(segment->unprobed_stamp, (uint32_t) at);
    assert_int_equal(segment->unprobed_order, order);
    assert_ptr_equal(sent(BTL_IB_SENT_OTHERS, 1), segment);
    conn->engine->clock.now += 100;
    btl_ib_sentmap_retransmitted(conn, segment, true); /* a probe behind a probe */
    assert_int_equal(segment->unprobed_stamp, (uint32_t) at);
    assert_int_equal(segment->unprobed_order, order);
    btl_ib_sentmap_to_lost(conn, segment);
    btl_ib_sentmap_retransmitted(conn, segment, false);
    assert_false(segment->probe || segment->lost);
    assert_int_equal(segment->copies, 4);
    assert_int_equal(conn->sentmap.in_flight, 2);
    assert_int_equal(conn->count.retransmits, before + 3);
}

/* Each copy takes its time of a pacer. */
TEST_WITH(copies_are_paced, set_up, tear_down)
{
    send_some(1, 1400);
    conn->cc.pace = 1000000; /* ns */
    conn->cc.burst = 1;
    const btl_ib_pacer_t before = conn->pacer;
    btl_ib_sentmap_retransmitted(conn, sent(BTL_IB_SENT_OTHERS, 0), false);
    assert_memory_not_equal(&conn->pacer, &before, sizeof(before));
    conn->cc.pace = 0;
}

/* ---- acknowledged ---- */

/* A run ends before what was sent again, is lost, or is read by a transport. */
TEST_WITH(runs, set_up, tear_down)
{
    btl_ib_segment_t *last;
    const btl_ib_tx_window_t *window = &conn->tx[conn->peer_queues->count - 1].sentmap.window;

    send_some(1, LONG); /* there is memory then */
    assert_true(bench_settle(bench, SECOND));
    send_some(1, LONG);
    btl_ib_segment_t *first = sent(BTL_IB_SENT_BULK, 0), *sixth = sent(BTL_IB_SENT_BULK, 5);
    const uint32_t whole = btl_ib_sentmap_run(window, first, CHUNKS, &last);
    assert_true(whole >= 10);
    assert_ptr_equal(last, sent(BTL_IB_SENT_BULK, whole - 1));
    assert_int_equal(btl_ib_sentmap_run(window, first, 3, &last), 3);
    assert_ptr_equal(last, sent(BTL_IB_SENT_BULK, 2));
    for (int way = 0; way < 4; way++) {
        sixth->lost = way == 0;
        sixth->busy = way == 1;
        sixth->copies = 1 + (way == 2);
        sixth->continues = way != 3;
        assert_int_equal(btl_ib_sentmap_run(window, first, CHUNKS, &last), 5);
        assert_ptr_equal(last, sent(BTL_IB_SENT_BULK, 4));
        assert_int_equal(btl_ib_sentmap_run(window, sixth, 5, &last), way == 3 ? 5 : 1);
    }
    sixth->continues = true;
    assert_int_equal(btl_ib_sentmap_run(window, first, CHUNKS, &last), whole);
}

TEST_WITH(how_many_arrived, set_up, tear_down)
{
    const uint32_t before = btl_ib_sentmap_segments_acked(conn);

    send_some(2, 20);
    send_some(3, 1400);
    assert_int_equal(btl_ib_sentmap_segments_acked(conn), before);
    bench_flow(bench);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    assert_int_equal(btl_ib_sentmap_segments_acked(conn), before + 5);
}

/* ---- void ---- */

/* What a connection has in flight, lost or deferred of a type. */
static uint32_t count_type(const btl_ib_conn_t *of, btl_ib_type_t type)
{
    const btl_ib_list_t *const lists[] = {&of->sentmap.sent[0], &of->sentmap.sent[1],
                                          &of->sentmap.lost, &of->sentmap.deferred};
    uint32_t count = 0;

    for (int i = 0; i < 4; i++) {
        BTL_IB_LIST_FOREACH (const btl_ib_segment_t, segment, lists[i], link) {
            count += segment->type == type;
        }
    }
    return count;
}

/* Of what is given up only the sequences have to arrive, also of what is in flight, was lost, or
 * was deferred; what else is sent stays as it is. */
TEST_WITH(given_up, set_up, tear_down)
{
    bench_op(bench, 0, 1, BTL_IB_OP_PUT, 9000);
    bench_turn(bench, 0);
    send_some(1, LONG);
    btl_ib_segment_t *segment = sent(BTL_IB_SENT_BULK, 0);
    btl_ib_out_t *out = segment->out;
    const uint32_t puts = count_type(conn, BTL_IB_TYPE_PUT);

    assert_int_equal(segment->type, BTL_IB_TYPE_PUT);
    assert_true(puts >= 6);
    btl_ib_sentmap_to_lost(conn, sent(BTL_IB_SENT_BULK, 1));
    assert_true(btl_ib_sentmap_defer(conn, sent(BTL_IB_SENT_BULK, 2), 5));
    const uint32_t in_flight = conn->sentmap.in_flight;
    const uint32_t chunks = count_type(conn, BTL_IB_TYPE_CHUNK);
    btl_ib_sentmap_void(conn, out);
    assert_int_equal(count_type(conn, BTL_IB_TYPE_PUT), 0);
    assert_int_equal(count_type(conn, BTL_IB_TYPE_VOID), puts);
    assert_int_equal(count_type(conn, BTL_IB_TYPE_CHUNK), chunks);
    assert_int_equal(conn->engine->count.voided, puts);
    assert_int_equal(conn->sentmap.in_flight, in_flight - (puts - 2));
    assert_int_equal(conn->sentmap.deferred_count, 0);
    btl_ib_completion_add(out, -ECANCELED);
}

/* So are answers to a peer that began anew. */
TEST_WITH(answers_given_up, set_up, tear_down)
{
    bench_op(bench, 0, 1, BTL_IB_OP_GET, 9000);
    bench_op(bench, 0, 1, BTL_IB_OP_ATOMIC, 0);
    bench_turn(bench, 0);
    while (bench->wire.first != NULL && bench->wire.first->to == bench_address(1, 0)) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
    bench_turn(bench, 1);
    bench_turn(bench, 1);
    btl_ib_conn_t *of = bench_conn(bench, 1, 0);
    const uint32_t gots = count_type(of, BTL_IB_TYPE_GOT);
    const uint32_t replies = count_type(of, BTL_IB_TYPE_REPLY);
    assert_true(gots >= 6 && replies > 0);
    btl_ib_sentmap_void(of, NULL);
    assert_int_equal(count_type(of, BTL_IB_TYPE_GOT) + count_type(of, BTL_IB_TYPE_REPLY), 0);
    assert_int_equal(count_type(of, BTL_IB_TYPE_VOID), gots + replies);
    bench_check_accounts(&bench->hosts[1]);
}

UNIT_MAIN(NULL, NULL)
