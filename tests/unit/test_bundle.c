/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Small messages that leave together, and how they arrive. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

/* Two that know each other, in a turn of their own. */
static bench_t *pair(void)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    assert_int_equal(bench->wire.count, 0);
    bench_turn(bench, 0);
    bench_turn(bench, 1);
    return bench;
}

static void send_many(bench_t *bench, uint32_t count, uint32_t size)
{
    while (count-- > 0) {
        bench_send(bench, 0, 1, size, 1);
    }
}

/* Type, size and channel of the `n`th datagram on the wire. */
static const bench_datagram_t *on_wire(const bench_t *bench, uint32_t n)
{
    const bench_datagram_t *datagram = bench->wire.first;

    for (; n > 0; n--) {
        datagram = datagram->next;
    }
    return datagram;
}

static uint32_t type_on_wire(const bench_t *bench, uint32_t n)
{
    return on_wire(bench, n)->data[0] & 0xf;
}

static uint32_t channel_on_wire(const bench_t *bench, uint32_t n)
{
    return on_wire(bench, n)->data[offsetof(btl_ib_wire_header_t, channels)] & 0xf;
}

/* ---- leaving ---- */

/* Two leave at once, whatever their sender does next; what follows leaves in one datagram with
 * the next turn, and is complete then and not before. */
TEST(first_leave_at_once)
{
    bench_t *bench = pair();
    uint32_t first = bench->message_count;

    send_many(bench, 2, 8);
    assert_int_equal(bench->wire.count, 2);
    send_many(bench, 10, 8);
    assert_int_equal(bench->wire.count, 2);
    for (uint32_t i = first; i < bench->message_count; i++) {
        assert_int_equal(bench->messages[i].done, i < first + 2);
    }
    assert_true(btl_ib_engine_next_due(bench->hosts[0].engine) <= bench->now + 10);
    bench_turn(bench, 0);
    assert_int_equal(bench->wire.count, 3);
    assert_int_equal(type_on_wire(bench, 0), BTL_IB_TYPE_DATA);
    assert_int_equal(type_on_wire(bench, 2), BTL_IB_TYPE_BUNDLE);
    for (uint32_t i = first; i < bench->message_count; i++) {
        assert_true(bench->messages[i].sent && bench->messages[i].done);
    }
    assert_true(bench_settle(bench, SECOND));
    each_delivered_once(bench);
    assert_int_equal(bench_counters(bench, 0)->sent_bundles, 1);
    assert_int_equal(bench_counters(bench, 0)->sent_messages, 13);
    assert_int_equal(bench_counters(bench, 0)->sent_segments, 4);
    assert_int_equal(bench_counters(bench, 1)->received_messages, 13);
    assert_int_equal(bench_counters(bench, 1)->received_bytes,
                     bench_counters(bench, 0)->sent_bytes);
    end(bench);
}

/* An asynchronous turn sends them as well. */
TEST(async_progress_lets_go)
{
    bench_t *bench = pair();

    send_many(bench, 5, 8);
    assert_true(btl_ib_engine_async_due(bench->hosts[0].engine) <= bench->now + 10);
    btl_ib_engine_async_progress(bench->hosts[0].engine, bench->now, 16);
    assert_int_equal(bench->wire.count, 3);
    end_settled(bench, SECOND);
}

/* Two engines whose transports join datagrams. */
static bench_t *pair_that_joins(const char *queues, uint32_t credits)
{
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].attr.gso_bytes = 65487;
        bench->hosts[i].attr.max_batch = 64;
        bench->hosts[i].config.credit_init = credits;
        bench->hosts[i].config.cc = BTL_IB_CC_NONE;
        strcpy(bench->hosts[i].queues, queues);
    }
    acquaint(bench);
    bench_turn(bench, 0);
    assert_int_equal(bench_peer(bench, 0, 1).gso_segments, 44);
    return bench;
}

/* With so many credits of the large queue. */
static bench_t *pair_with_bursts(uint32_t credits)
{
    return pair_that_joins("P,256,256:P,1472,1024", credits);
}

/* What is left of a window waits for the rest of a burst, if it is less than a third of what is
 * under way. */
TEST(room_for_a_burst)
{
    static const uint32_t credits[] = {46 + 14, 46 + 15};

    for (uint32_t i = 0; i < 2; i++) {
        bench_t *bench = pair_with_bursts(credits[i]);
        const btl_ib_counters_t *count = bench_counters(bench, 0);

        send_many(bench, 1, 65250);
        assert_int_equal(bench->wire.count, 46);
        send_many(bench, 1, 65250);
        assert_int_equal(bench->wire.count, 46 + (i == 0 ? 0 : 15));
        assert_int_equal(count->blocked_window, i == 0);
        assert_true(bench_settle(bench, SECOND));
        assert_int_equal(count->sent_probes, 0); /* the acknowledgement of a burst came by itself */
        end_delivered(bench);
    }
}

/* `max_pending_sends` is a hard cap, however long the path is. */
TEST(room_on_a_long_path)
{
    for (uint32_t rtt = 10; rtt <= 100000; rtt *= 100) {
        bench_t *bench = pair_that_joins("P,256,256:S,1472,1024,512,50", 256);

        bench_set_srtt(bench, 0, 1, rtt);
        send_many(bench, 1, 65250);
        assert_int_equal(bench->wire.count, 46);
        send_many(bench, 1, 65250);
        assert_int_equal(bench->wire.count, 46);
        end_settled(bench, SECOND);
    }
}

/* What waits for more room waits for acknowledgements of its own channel: others may never have
 * less under way. */
TEST(room_beside_other_channels)
{
    bench_t *bench = pair_that_joins("P,256,256:P,800,512:P,1472,16", 256);

    for (int i = 0; i < 150; i++) {
        send_many(bench, 1, 700);
        bench_turn(bench, 0);
    }
    assert_int_equal(bench->wire.count, 150);
    send_many(bench, 1, 65250);
    assert_int_equal(bench->wire.count, 150 + 16);
    end_settled(bench, SECOND);
}

/* The burst after which there is no room asks for its acknowledgement: a peer that expects to
 * answer would hold it back. */
TEST(waiting_for_room_asks)
{
    bench_t *bench = pair_with_bursts(1024);

    bench_set_window(bench, 0, 1, 0);
    send_many(bench, 2, 65250);
    assert_int_equal(bench->wire.count, 0);
    bench_set_window(bench, 0, 1, 44 + 13);
    bench_turn(bench, 0);
    assert_int_equal(bench->wire.count, 44);
    for (uint32_t i = 0; i < 44; i++) {
        assert_int_equal((on_wire(bench, i)->data[1] & BTL_IB_FLAG_ACK_NOW) != 0, i == 43);
    }
    end_settled(bench, SECOND);
}

/* Where datagrams are joined long messages of a burst leave in full bursts, and what is left of
 * one goes with the next, or in the next turn. The first of a turn leave whole. */
TEST(bursts_leave_full)
{
    bench_t *bench = pair_with_bursts(1024);
    const uint32_t burst = bench_peer(bench, 0, 1).gso_segments;

    send_many(bench, 2, 65250);
    assert_int_equal(bench->wire.count, 2 * 46);
    for (uint32_t n = 1; n <= 5; n++) {
        send_many(bench, 1, 65250);
        assert_int_equal(bench->wire.count, 2 * 46 + n * burst);
    }
    bench_turn(bench, 0);
    assert_int_equal(bench->wire.count, 7 * 46);
    end_settled(bench, SECOND);
}

/* sendi sends now or declines. */
TEST(sendi_declines)
{
    bench_t *bench = pair();
    btl_ib_conn_t *conn = bench_conn(bench, 0, 1);

    for (int i = 0; i < 4; i++) {
        void *out = btl_ib_sendi_begin(conn, 1, 8);
        assert_int_equal(out != NULL, i < 2);
        if (out != NULL) {
            memset(out, 0xff, 8);
            assert_int_equal(btl_ib_sendi_commit(conn, bench->now), 0);
        }
    }
    bench_turn(bench, 0);
    assert_non_null(btl_ib_sendi_begin(conn, 1, 8));
    btl_ib_sendi_abort(conn);
    end(bench);
}

/* A sender that waits for each message gains nothing by coalescing: more and more
 * leave at once, up to 16 in a turn; a burst puts an end to that. */
TEST(lonely)
{
    bench_t *bench = pair();
    uint32_t at_once = 0, longest[6] = {0};

    for (uint32_t turns = 0; turns < 6;) {
        uint32_t id = bench_send(bench, 0, 1, 8, 1);
        at_once++;
        if (!bench->messages[id].sent) {
            longest[turns++] = at_once - 1;
            at_once = 0;
            bench_turn(bench, 0);
            assert_true(bench->messages[id].sent);
            assert_true(bench_settle(bench, SECOND));
            bench_turn(bench, 0);
        }
    }
    const uint32_t expected[] = {2, 4, 8, 16, 16, 16};
    assert_memory_equal(longest, expected, sizeof(expected));
    send_many(bench, 18, 8);
    assert_true(bench_settle(bench, SECOND));
    bench_turn(bench, 0);
    uint32_t before = bench->wire.count;
    send_many(bench, 5, 8);
    assert_int_equal(bench->wire.count, before + 1);
    end_settled(bench, SECOND);
}

/* A process that computes before it comes back wants all of it to leave: each time that what waited
 * had to wait for long twice as many leave at once. */
TEST(one_that_computes_is_not_held_up)
{
    static const uint64_t computes[] = {150, 170}; /* 20 us for each that waits */

    for (uint32_t k = 0; k < 2; k++) {
        bench_t *bench = pair();
        send_many(bench, 10, 8);
        assert_int_equal(bench->wire.count, 2);
        bench->now += computes[k];
        bench_turn(bench, 0);
        assert_true(bench_settle(bench, SECOND));
        bench_turn(bench, 0);
        send_many(bench, 10, 8);
        assert_int_equal(bench->wire.count, k == 0 ? 1 : 4);
        end_settled(bench, SECOND);
    }
}

/* Without a clock a message only ever waits with others. */
TEST(joins_without_a_clock)
{
    bench_t *bench = pair();
    btl_ib_conn_t *conn = bench_conn(bench, 0, 1);
    uint8_t bytes[8] = {0};
    btl_ib_msg_t msg = {
        .iov = {{.iov_base = bytes, .iov_len = bench->hosts[0].config.eager_max + 1}}};

    assert_false(btl_ib_engine_join(conn, &msg)); /* it could leave at once */
    send_many(bench, 3, 8);
    assert_false(btl_ib_engine_join(conn, &msg)); /* too long */
    assert_int_equal(bench->wire.count, 2);       /* one of them is held */
    uint32_t id = bench_send(bench, 0, 1, 8, 1);  /* held by way of the same function */
    assert_false(bench->messages[id].sent);
    assert_int_equal(bench->wire.count, 2);
    bench_turn(bench, 0);
    assert_int_equal(bench->wire.count, 3);
    assert_int_equal(type_on_wire(bench, 2), BTL_IB_TYPE_BUNDLE);
    end_settled(bench, SECOND);
}

/* What waits leaves before the turn takes in what came: its receiver may be idle. */
TEST(leaves_before_others_are_taken_in)
{
    bench_t *bench = pair();

    bench_send(bench, 1, 0, 8, 1);
    bench_push(&bench->hosts[0].rails[0].arrived, bench_pop(&bench->wire));
    send_many(bench, 5, 8);
    uint32_t told = on_wire(bench, 1)->size;
    btl_ib_wire_header_t before, header;
    memcpy(&before, on_wire(bench, 1)->data, sizeof(before));
    bench_turn(bench, 0);
    assert_true(on_wire(bench, 2)->size > told);
    memcpy(&header, on_wire(bench, 2)->data, sizeof(header));
    assert_int_equal(header.version_type & 0xf, BTL_IB_TYPE_BUNDLE);
    assert_int_equal(header.ack, before.ack);
    end_settled(bench, SECOND);
}

/* Operations are held like messages: the first leave at once, the others in one call of the
 * transport. */
TEST(operations_leave_together)
{
    static const btl_ib_op_kind_t kinds[] = {BTL_IB_OP_PUT, BTL_IB_OP_GET, BTL_IB_OP_ATOMIC};

    for (uint32_t k = 0; k < 3; k++) {
        bench_t *bench = pair();
        const uint64_t calls = bench->hosts[0].calls;
        for (uint32_t i = 0; i < 12; i++) {
            assert_int_not_equal(bench_op(bench, 0, 1, kinds[k], 8), UINT32_MAX);
        }
        assert_int_equal(bench->hosts[0].calls, calls + 2);
        assert_int_equal(bench->wire.count, 2);
        bench_turn(bench, 0);
        assert_int_equal(bench->hosts[0].calls, calls + 3);
        assert_int_equal(bench->wire.count, 12);
        bench_run(bench, 5000);
        for (uint32_t i = 0; i < 12; i++) {
            assert_true(bench->ops[i].done && bench->ops[i].status == 0);
        }
        bench_check_ops(bench);
        end(bench);
    }
}

/* Bytes of an operation that are many do not wait. */
TEST(long_operations_leave_at_once)
{
    bench_t *bench = pair();

    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t before = bench->wire.count;
        assert_int_not_equal(bench_op(bench, 0, 1, BTL_IB_OP_PUT, i < 3 ? 8 : 16384), UINT32_MAX);
        assert_int_equal(bench->wire.count > before, i < 2 || i == 4);
    }
    bench_run(bench, 20000);
    bench_check_ops(bench);
    end(bench);
}

/* A process that never calls progress does not hold back more than 128 messages, or 16 full
 * datagrams. */
TEST(not_too_many_wait)
{
    static const uint32_t sizes[] = {8, 1000, 4000}, counts[] = {300, 30, 10};

    for (uint32_t k = 0; k < 3; k++) {
        bench_t *bench = pair();
        uint32_t waiting = 0, most = 0;
        for (uint32_t i = 0; i < counts[k]; i++) {
            uint32_t id = bench_send(bench, 0, 1, sizes[k], 1);
            waiting = bench->messages[id].sent ? 0 : waiting + 1;
            most = waiting > most ? waiting : most;
        }
        const uint32_t full = 16 * 1472 / sizes[k]; /* so many wait, and the next goes with them */
        assert_int_equal(most, full < 127 ? full : 127);
        assert_true(waiting < counts[k] - 2);
        end_settled(bench, SECOND);
    }
}

/* The smallest channel that holds them; if that is blocked as many as their own holds. */
TEST(channels)
{
    static const uint32_t counts[] = {5, 20, 20}, sizes[] = {8, 8, 40};

    for (uint32_t channel = 0; channel < 3; channel++) {
        bench_t *bench = pair();
        send_many(bench, 2, 8);
        send_many(bench, counts[channel], sizes[channel]);
        bench_turn(bench, 0);
        assert_int_equal(bench->wire.count, 3);
        assert_int_equal(type_on_wire(bench, 2), BTL_IB_TYPE_BUNDLE);
        assert_int_equal(channel_on_wire(bench, 2), channel);
        end(bench);
    }
    bench_t *bench = pair();
    while (bench_channel(bench, 0, 1, 2).in_flight < 32) { /* max_pending of that queue */
        bench_send(bench, 0, 1, 1400, 1);
        bench_turn(bench, 0);
    }
    uint32_t before = bench->wire.count;
    send_many(bench, 2 + 30, 40);
    bench_turn(bench, 0);
    assert_true(bench->wire.count > before + 3);
    assert_int_equal(channel_on_wire(bench, before + 2), 0);
    for (uint32_t i = before + 2; i < bench->wire.count; i++) {
        assert_int_equal(type_on_wire(bench, i), BTL_IB_TYPE_BUNDLE);
        assert_true(channel_on_wire(bench, i) < 2); /* the last of them fit into channel 1 */
    }
    end_settled(bench, SECOND);
}

/* Segments of what is cut have one size but for the last, so that a transport can join them. */
TEST(equal_sizes)
{
    bench_t *bench = pair();

    send_many(bench, 2 + 31, 100);
    bench_turn(bench, 0);
    for (uint32_t i = 3; i < bench->wire.count - 1; i++) {
        assert_int_equal(on_wire(bench, i)->size, on_wire(bench, 2)->size);
    }
    assert_int_equal(bench->wire.count, 2 + 3);
    assert_true(on_wire(bench, 2)->size > 1472 - 104);
    end(bench);
}

/* Where messages were before the transport took them they are again if it does not, and in
 * order. */
TEST(refused_by_the_transport)
{
    for (uint32_t busy = 1; busy < 6; busy++) {
        bench_t *bench = pair();
        uint32_t first = bench->message_count;
        send_many(bench, 2, 8);
        send_many(bench, 31, 60);
        bench->hosts[0].rails[0].busy = busy;
        uint32_t turns = 0; /* the first tries twice: before and after it has looked what came */
        for (; !bench->messages[first + 2].sent; turns++) {
            assert_int_equal(bench->wire.count, 2);
            bench_turn(bench, 0);
            bench_check_accounts(&bench->hosts[0]);
        }
        assert_int_equal(turns, busy);
        uint32_t id = first + 2;
        for (uint32_t n = 2; n < bench->wire.count; n++) {
            btl_ib_bundled_t message;
            btl_ib_view_t view;
            uint32_t offset = 0;
            bench_datagram_t *datagram = bench_copy(on_wire(bench, n));
            assert_int_equal(btl_ib_wire_parse(datagram->data, datagram->size, &view), 0);
            while (btl_ib_wire_next_message(&view, &offset, &message)) {
                assert_memory_equal(message.data, &id, sizeof(id));
                id++;
            }
            free(datagram);
        }
        assert_int_equal(id, bench->message_count);
        end_settled(bench, SECOND);
    }
}

/* An ordered message is a chunk, and no part of a bundle. */
TEST(ordered_stay_apart)
{
    bench_t *bench = pair();
    uint32_t first = bench->message_count;

    send_many(bench, 2 + 4, 600); /* in the list of the channel that chunks use */
    for (uint32_t i = 2; i < 6; i++) {
        bench->messages[first + i].msg.ordered = i == 3;
    }
    bench_turn(bench, 0);
    const uint32_t types[] = {BTL_IB_TYPE_DATA, BTL_IB_TYPE_CHUNK, BTL_IB_TYPE_BUNDLE};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(type_on_wire(bench, 2 + i), types[i]);
    }
    end_settled(bench, SECOND);
}

/* ---- arriving ---- */

/* The datagrams on the wire are handed over, and the BUNDLE among them is the last. */
static void burst_arrives(bench_t *bench, uint32_t count)
{
    send_many(bench, 2 + count, 8);
    bench_turn(bench, 0);
    while (bench->wire.count > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
}

/* One message that nobody can take yet holds up all of its bundle, which comes again. */
TEST(one_without_receiver)
{
    bench_t *bench = pair();
    uint32_t first = bench->message_count;

    send_many(bench, 5, 8);
    bench_send(bench, 0, 1, 8, 200);
    send_many(bench, 3, 8);
    bench->hosts[1].deaf[200] = true;
    bench_run(bench, 20000);
    for (uint32_t i = first; i < bench->message_count; i++) {
        assert_int_equal(bench->messages[i].delivered, i < first + 2);
    }
    assert_true(bench_counters(bench, 1)->rnr_tag > 0);
    bench_check_counters(&bench->hosts[1]);
    bench->hosts[1].deaf[200] = false;
    end_settled(bench, SECOND);
}

/* In an asynchronous turn all of a bundle is kept, or nothing. */
TEST(kept_in_async)
{
    uint32_t times[4] = {0}; /* that so many segments were kept */

    for (uint32_t room = 0; room <= 4096; room += 64) {
        bench_t *bench = new_bench();
        bench->hosts[1].config.backlog_max = room;
        acquaint(bench);
        burst_arrives(bench, 10);
        uint64_t before = bench_counters(bench, 1)->received_segments;
        btl_ib_engine_async_progress(bench->hosts[1].engine, bench->now, 16);
        const uint64_t kept = bench_counters(bench, 1)->received_segments - before;
        assert_in_range(kept, 0, 3);
        assert_int_equal(bench_counters(bench, 1)->rnr_backlog, 3 - kept);
        assert_int_equal(bench_counters(bench, 1)->received_messages, 1);
        bench_turn(bench, 1);
        assert_int_equal(bench_counters(bench, 1)->received_messages, kept == 3 ? 13 : 1 + kept);
        times[kept]++;
        end_settled(bench, SECOND);
    }
    assert_true(times[2] > 5); /* there was room for a few of the bundle's ten */
    assert_true(times[3] > 0);
}

static void destroy_at_the_third(bench_t *bench, uint32_t message)
{
    if (++bench->scratch[0] == 3) {
        btl_ib_conn_destroy(bench_conn(bench, 1, 0), bench->now);
    }
}

static void kill_at_the_third(bench_t *bench, uint32_t message)
{
    if (++bench->scratch[0] == 3) {
        btl_ib_conn_kill(bench_conn(bench, 1, 0), BTL_IB_DEATH_DEVICE);
    }
}

static void drain_at_the_third(bench_t *bench, uint32_t message)
{
    if (++bench->scratch[0] == 3) {
        btl_ib_conn_drain(bench_conn(bench, 1, 0));
    }
}

/* A callback ends the connection: nothing more is delivered on it. */
TEST(ended_in_a_callback)
{
    static void (*const ends[])(bench_t * bench, uint32_t message) = {
        destroy_at_the_third, kill_at_the_third, drain_at_the_third};

    for (uint32_t k = 0; k < 3; k++) {
        bench_t *bench = pair();
        bench->on_deliver = ends[k];
        burst_arrives(bench, 10);
        bench_turn(bench, 1);
        assert_int_equal(bench->scratch[0], 3);
        assert_int_equal(bench_counters(bench, 1)->received_messages, 1 + 3);
        assert_int_equal(bench_counters(bench, 1)->undelivered, k == 2 ? 9 : 0);
        bench_run(bench, SECOND);
        assert_int_equal(bench->scratch[0], 3);
        end(bench);
    }
}

static void closed_at_the_third(bench_t *bench, uint32_t message)
{
    if (++bench->scratch[0] == 3) {
        btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
        while (bench->wire.count > 0) {
            bench_deliver(bench, bench_pop(&bench->wire));
        }
        bench_turn(bench, 1);
        assert_int_equal(bench_counters(bench, 1)->connections_closed, 1);
    }
}

/* The sender closes while a callback runs that takes the CLOSE in: what was acknowledged is still
 * delivered. */
TEST(closed_by_the_peer)
{
    bench_t *bench = pair();

    bench->on_deliver = closed_at_the_third;
    burst_arrives(bench, 10);
    bench_turn(bench, 1);
    assert_int_equal(bench->scratch[0], 12);
    assert_int_equal(bench_counters(bench, 1)->received_messages, 1 + 12);
    end(bench);
}

/* The connection ends while messages wait for company: they come back. */
TEST(given_back)
{
    bench_t *bench = pair();
    uint32_t first = bench->message_count;

    send_many(bench, 7, 8);
    btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
    for (uint32_t i = first; i < bench->message_count; i++) {
        assert_true(bench->messages[i].done);
        assert_int_equal(bench->messages[i].status, i < first + 2 ? 0 : -ECANCELED);
    }
    end(bench);
}

UNIT_MAIN(NULL, NULL)
