/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments that are right, but cannot be taken in now: when their sender is told that they may come
 * again, and what comes of it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

enum { DEAF = 200 }; /* the tag that host 1 does not listen to at first */

/* Host 1 refused `messages` of host 0, each of one segment, and all is quiet but for probes. */
static bench_t *refusing(uint32_t messages)
{
    bench_t *bench = job();

    bench->hosts[1].deaf[DEAF] = true;
    for (uint32_t i = 0; i < messages; i++) {
        bench_send(bench, 0, 1, 1000, DEAF);
    }
    bench_run(bench, SECOND);
    assert_true(bench_counters(bench, 1)->rnr_tag > 0);
    assert_int_equal(bench_counters(bench, 1)->sent_ready, 0);
    return bench;
}

static bool is_ready(const bench_datagram_t *datagram)
{
    return datagram->data[1] & BTL_IB_FLAG_READY;
}

/* Host 0 asks host 1 for an ACK. */
static void ask(bench_t *bench)
{
    bench_forgery_t question = bench_forge(bench, 1, 0, BTL_IB_TYPE_ACK);

    question.header.flags = BTL_IB_FLAG_ACK_NOW;
    bench_throw_forgery(bench, 1, 0, &question);
}

/* Until the first is there every ACK names it, and only the first of them sends it again. */
TEST(told_until_it_is_there)
{
    bench_t *bench = refusing(3);

    bench->hosts[1].deaf[DEAF] = false;
    uint64_t again = bench_counters(bench, 0)->retransmits;
    for (int i = 0; i < 5; i++) {
        bench_turn(bench, 1);
        ask(bench);
        bench->now++;
    }
    uint32_t acks = bench->wire.count;
    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        assert_true(is_ready(d));
    }
    assert_true(acks >= 5);
    while (acks-- > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
        bench_turn(bench, 0);
        bench->now++;
    }
    assert_int_equal(bench_counters(bench, 0)->retransmits, again + 1);
    assert_true(bench_settle(bench, SECOND));
    ask(bench);
    assert_int_equal(bench->wire.count, 1);
    assert_false(is_ready(bench->wire.first));
    end_delivered(bench);
}

static bool loses_the_first_chunk(bench_t *bench, const bench_datagram_t *datagram)
{
    btl_ib_wire_chunk_t chunk;

    if ((datagram->data[0] & 0xf)
        == BTL_IB_TYPE_PART) { /* it is sent so when it is lost again and again */
        return true;
    }
    if ((datagram->data[0] & 0xf) != BTL_IB_TYPE_CHUNK) {
        return false;
    }
    memcpy(&chunk, datagram->data + sizeof(btl_ib_wire_header_t), sizeof(chunk));
    return BTL_IB_LE32(chunk.fragment) == 0 && chunk.index == 0;
}

/* Refused for its tag, and then for want of a buffer: a sender that was told that the first cause
 * is gone does not repeat it without end because of the second. */
TEST(refused_for_two_reasons)
{
    bench_t *bench = new_bench();

    bench->hosts[1].config.reassembly_max = 0;
    acquaint(bench);                      /* no CONNECT is needed any more */
    bench->loses = loses_the_first_chunk; /* of the fragment that the only buffer is for */
    bench->hosts[1].deaf[DEAF] = true;
    bench_send(bench, 0, 1, 5000, 1);
    bench_send(bench, 0, 1, 5000, DEAF);
    bench_run(bench, SECOND);
    bench->hosts[1].deaf[DEAF] = false;
    uint64_t sent = bench->hosts[0].datagrams;
    bench_run(bench, SECOND);
    assert_true(bench_counters(bench, 1)->rnr_reassembly > 0);
    assert_in_range(bench->hosts[0].datagrams - sent, 1,
                    400); /* each copy of a segment is many parts */
    bench->loses = NULL;
    end_settled(bench, 10 * SECOND);
}

static bool loses_large_parts(bench_t *bench, const bench_datagram_t *datagram)
{
    return (datagram->data[0] & 0xf) == BTL_IB_TYPE_PART && datagram->size > 500;
}

/* What was refused as a whole comes again in parts, of which the path carries but some: that
 * copy was not refused, it is lost, and its sender is not told without end that it may come. */
TEST(comes_again_in_parts)
{
    bench_t *bench = refusing(1);
    bench_rail_t *rail = &bench->hosts[0].rails[0];

    rail->what = BTL_IB_EVENT_PATH_MTU;
    rail->about = bench_address(1, 0);
    rail->size = 600;
    rail->news = true;
    bench_turn(bench, 0);
    bench->loses = loses_large_parts;
    bench->hosts[1].deaf[DEAF] = false;
    const uint64_t sent = bench->hosts[0].datagrams;
    bench_run(bench, SECOND);
    assert_true(bench_counters(bench, 1)->received_parts > 0);
    assert_in_range(bench->hosts[0].datagrams - sent, 1, 100);
    bench->loses = NULL;
    end_settled(bench, 10 * SECOND);
}

static bool loses_all(bench_t *bench, const bench_datagram_t *datagram)
{
    return true;
}

/* Two whose causes are gone are told once each while nobody answers, and not one of them in
 * every turn. protocol: R31 */
TEST(two_are_told_once_each)
{
    bench_t *bench = new_bench();

    bench->hosts[1].config.backlog_max = 1;
    acquaint(bench);
    bench->hosts[1].deaf[DEAF] = true;
    bench_send(bench, 0, 1, 1000, DEAF);
    bench_run(bench, SECOND);
    assert_true(bench_counters(bench, 1)->rnr_tag > 0);
    bench_send(bench, 0, 1, 1000, 1); /* for this there is no room while the application computes */
    bench_deliver(bench, bench_pop(&bench->wire));
    btl_ib_engine_async_progress(bench->hosts[1].engine, bench->now, 16);
    assert_int_equal(bench_counters(bench, 1)->rnr_backlog, 1);
    assert_int_equal(bench_counters(bench, 1)->sent_ready, 0);
    bench->hosts[1].deaf[DEAF] = false;
    bench_clear(&bench->wire);
    bench->loses = loses_all;
    for (int i = 0; i < 50; i++) {
        bench_turn(bench, 1);
    }
    assert_int_equal(bench_counters(bench, 1)->sent_ready, 2);
    bench->loses = NULL;
    end_settled(bench, 10 * SECOND);
}

/* A connection that ends with something refused leaves nothing behind; its next life is not told
 * of it. */
TEST(ends_with_its_life)
{
    bench_t *bench = refusing(5);

    btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
    bench_run(bench, 10000);
    bench->hosts[1].deaf[DEAF] = false;
    bench_run(bench, SECOND);
    assert_int_equal(bench_counters(bench, 1)->sent_ready, 0);
    uint32_t next = bench_send(bench, 0, 1, 100, DEAF);
    bench_run(bench, SECOND);
    assert_int_equal(bench->messages[next].delivered, 1);
    end(bench);
}

/* What names what was never sent is no ACK at all; what names what is long there brings nothing. */
TEST(a_liar_names)
{
    bench_t *bench = refusing(5);
    const bench_channel_t tx = bench_channel(bench, 0, 1, 2);
    const struct {
        uint32_t channel, seq;
        const char *cause;
    } lies[] = {
        {3, tx.first, "dropped_channel"},  {15, tx.first, "dropped_channel"},
        {2, tx.next, "dropped_ack"},       {2, tx.next + 70000, "dropped_ack"},
        {1, tx.next + 100, "dropped_ack"}, {2, tx.first - 1, "received_ready"},
    };

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        bench_forgery_t lie = bench_forge(bench, 0, 1, BTL_IB_TYPE_ACK);
        bench_watch_t watch;
        lie.header.flags |= BTL_IB_FLAG_READY | BTL_IB_FLAG_ECHO;
        lie.header.channels = (uint8_t) lies[i].channel;
        lie.header.seq = BTL_IB_LE32(lies[i].seq);
        lie.header.echo = BTL_IB_LE32((uint32_t) bench->now);
        lie.header.hold = UINT16_MAX;
        bench_watch(&bench->hosts[0], false, &watch);
        bench_throw_forgery(bench, 0, 1, &lie);
        uint64_t acks = bench_counters(bench, 0)->received_acks - watch.count.received_acks;
        assert_int_equal(acks, i + 1 == sizeof(lies) / sizeof(lies[0]));
        watch.count.received_acks += acks;
        bench_unchanged(&watch, lies[i].cause, 1);
    }
    bench->hosts[1].deaf[DEAF] = false;
    assert_true(bench_settle(bench, SECOND));
    end(bench);
}

/* All that was refused is told as long as it is missing, in runs, and is parked by its sender. */
TEST(all_are_parked)
{
    bench_t *bench = job();

    bench->hosts[1].deaf[DEAF] = true;
    for (uint32_t i = 0; i < 15; i++) { /* one by one: none are bundled */
        bench_send(bench, 0, 1, 1000, i % 3 == 0 ? 1 : DEAF);
        bench_run(bench, 1000);
    }
    assert_int_equal(bench_peer(bench, 1, 0).refused, 5);
    assert_int_equal(bench_peer(bench, 0, 1).deferred, 10);
    assert_int_equal(bench_peer(bench, 0, 1).in_flight, 0);
    bench->hosts[1].deaf[DEAF] = false;
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(bench_peer(bench, 1, 0).refused, 0);
    assert_int_equal(bench_peer(bench, 0, 1).deferred, 0);
    end_delivered(bench);
}

/* An ACK has no room for all runs: it tells of what was refused last, and so in the end of each.
 * protocol: R16 */
TEST(all_are_told_in_time)
{
    bench_t *bench = job();

    bench->hosts[1].deaf[DEAF] = true;
    for (uint32_t i = 0; i < 60; i++) {
        bench_send(bench, 0, 1, 1000, i % 2 == 0 ? 1 : DEAF);
        bench_run(bench, 1000);
    }
    assert_int_equal(bench_peer(bench, 1, 0).refused, 30);
    assert_int_equal(bench_peer(bench, 0, 1).deferred, 30);
    assert_int_equal(bench_peer(bench, 0, 1).in_flight, 0);
    bench->hosts[1].deaf[DEAF] = false;
    end_settled(bench, SECOND);
}

/* Where an ACK has room for one block only, what was refused is told by ACKs of its own. */
TEST(told_in_small_buffers)
{
    bench_t *bench = new_bench();

    if (!bench_protection(bench, BTL_IB_PROTECTION_INTEGRITY)) {
        end(bench);
        skip();
        return; /* which the compiler does not know */
    }
    for (uint32_t i = 0; i < 2; i++) {
        strcpy(bench->hosts[i].queues, "P,104,256:S,1472,256");
    }
    acquaint(bench);
    bench->hosts[1].deaf[DEAF] = true;
    for (uint32_t i = 0; i < 15; i++) {
        bench_send(bench, 0, 1, 1000, i % 3 == 0 ? 1 : DEAF);
        bench_run(bench, 1000);
    }
    assert_int_equal(bench_peer(bench, 1, 0).refused, 5);
    assert_int_equal(bench_peer(bench, 0, 1).deferred, 10);
    assert_int_equal(bench_peer(bench, 0, 1).in_flight, 0);
    bench->hosts[1].deaf[DEAF] = false;
    end_settled(bench, SECOND);
}

/* What was refused fills the limit on all connections: others of its connection go beside it,
 * one at a time. protocol: R39 */
TEST(limits_hold_up_nobody)
{
    bench_t *bench = new_bench();

    bench->hosts[0].config.depth_total = 8;
    bench_start(bench, 0);
    bench_start(bench, 1);
    bench->hosts[1].deaf[DEAF] = true;
    for (uint32_t i = 0; i < 12; i++) {
        bench_send(bench, 0, 1, 1000, DEAF);
    }
    bench_run(bench, 10000);
    uint32_t heard = bench_send(bench, 0, 1, 1000, 1);
    bench_run(bench, 10000);
    assert_int_equal(bench->messages[heard].delivered, 1);
    assert_int_equal(bench_peer(bench, 0, 1).deferred, 12);
    bench->hosts[1].deaf[DEAF] = false;
    end_settled(bench, SECOND);
}

/* More than an ACK can tell, or be parked, are lost: none is forgotten. */
TEST(too_many_to_park)
{
    bench_t *bench = job();

    bench->hosts[1].deaf[DEAF] = true;
    for (uint32_t i = 0; i < 400; i++) {
        bench_send(bench, 0, 1, 1000, i % 2 == 0 && i < 100 ? 1 : DEAF);
        bench_run(bench, 1000);
    }
    assert_in_range(bench_peer(bench, 1, 0).refused, 1, 32);
    assert_in_range(bench_peer(bench, 0, 1).deferred, 1, 256);
    bench->hosts[1].deaf[DEAF] = false;
    end_settled(bench, SECOND);
}

/* "No receiver for the tag" explains a death only if it was said lately. */
TEST(a_reason_of_long_ago)
{
    bench_t *bench = new_bench();

    bench->hosts[0].config.silence_limit = 4 * SECOND;
    bench_start(bench, 0);
    bench_start(bench, 1);
    bench->hosts[1].deaf[DEAF] = true;
    bench_send(bench, 0, 1, 100, DEAF);
    bench_run(bench, SECOND);
    assert_true(bench_peer(bench, 0, 1).no_tag);
    bench_stop(bench, 1);
    bench_run(bench, 8 * SECOND);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_SILENCE], 1);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_NO_TAG], 0);
    end(bench);
}

static bool loses_skips(bench_t *bench, const bench_datagram_t *datagram)
{
    return (datagram->data[0] & 0xf) == BTL_IB_TYPE_SKIP;
}

/*
 * Credits that were given back (SKIPs) and that nobody acknowledges, one for each channel of peers
 * that are silent, need buffers that no limit counts. They must not be those of what a peer is to
 * be told, or nothing that it sends would be acknowledged again.
 */
TEST(skips_take_no_buffers)
{
    bench_t *bench = malloc(sizeof(*bench));
    char queues[160] = "";

    assert_non_null(bench);
    bench_init(bench, 2000);
    for (uint32_t q = 0; q < BTL_IB_QUEUES_MAX; q++) {
        snprintf(queues + strlen(queues), sizeof(queues) - strlen(queues), "%sP,%u,64",
                 q > 0 ? ":" : "", BTL_IB_QUEUE_SIZE_MIN + 8 * q);
    }
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        memcpy(bench->hosts[i].queues, queues, sizeof(queues));
        bench->hosts[i].config.depth_total = 1;
        bench_start(bench, i);
    }
    for (uint32_t i = 0; i < 20 * BTL_IB_QUEUES_MAX; i++) {
        bench_send(bench, 0, 2, 64 + 8 * (i / 20), 1);
        bench_send(bench, 0, 3, 64 + 8 * (i / 20), 1);
        assert_true(bench_settle(bench, SECOND));
    }
    bench->loses = loses_skips;
    bench_run(bench, 10 * SECOND);
    assert_int_equal(bench_peer(bench, 0, 2).unacked, BTL_IB_QUEUES_MAX);
    assert_int_equal(bench_peer(bench, 0, 3).unacked, BTL_IB_QUEUES_MAX);
    bench->hosts[1].deaf[DEAF] = true; /* what it refuses takes all else that there is */
    for (uint32_t i = 0; i < 120; i++) {
        bench_send(bench, 0, 1, 64 + 8 * (i % BTL_IB_QUEUES_MAX), DEAF);
        bench_run(bench, SECOND / 10);
    }
    const uint32_t message = bench_send(bench, 3, 0, 20, 1);
    bench_run(bench, SECOND);
    assert_true(bench_peer(bench, 3, 0).unacked == 0 && bench->messages[message].delivered);
    bench->hosts[1].deaf[DEAF] = false;
    bench->loses = NULL;
    end_settled(bench, 10 * SECOND);
}

UNIT_MAIN(NULL, NULL)
