/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Engines over a transport that takes short messages past long ones (udp with two sockets). */

#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

/* Two that know each other; 0 has at most `window` segments on their way, in bursts of 44. */
static bench_t *bursts_job(bool overtakes, uint32_t window)
{
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].attr.bulk_lane = overtakes;
        bench->hosts[i].attr.gso_bytes = 65487;
        bench->hosts[i].attr.max_batch = 64;
        bench->hosts[i].config.credit_init = 1024;
        bench->hosts[i].config.cc = BTL_IB_CC_NONE;
        bench->hosts[i].config.depth_peer = window;
        bench->hosts[i].config.eager_max = 500000;
        strcpy(bench->hosts[i].queues, "P,256,256:P,1472,1024");
    }
    acquaint(bench);
    bench_turn(bench, 0);
    return bench;
}

static uint32_t type_of(const bench_datagram_t *datagram)
{
    return datagram->data[0] & 0xf;
}

/* Those of a kind that are on the wire arrive at their host; the others stay. Returns how many. */
static uint32_t let_in(bench_t *bench, bool bulk)
{
    bench_queue_t wire = bench->wire;
    uint32_t n = 0;

    bench->wire = (bench_queue_t){.last = &bench->wire.first};
    while (wire.count > 0) {
        bench_datagram_t *datagram = bench_pop(&wire);
        if ((type_of(datagram) == BTL_IB_TYPE_CHUNK) == bulk) {
            bench_deliver(bench, datagram);
            n++;
        } else {
            bench_push(&bench->wire, datagram);
        }
    }
    return n;
}

/* Short messages go to and fro while all of a long one is still on its way. */
static void exchange_short_ones(bench_t *bench, int times)
{
    for (int i = 0; i < times; i++) {
        bench_send(bench, 0, 1, 8, 1);
        (void) let_in(bench, false);
        bench->now += 30;
        bench_turn(bench, 1);
        bench_send(bench, 1, 0, 8, 1);
        (void) let_in(bench, false);
        bench->now += 30;
        bench_turn(bench, 0);
        bench_turn(bench, 0);
    }
}

/* What arrived of short ones says nothing of a long one that was sent before; only where they do
 * overtake. */
TEST(overtaken_is_not_lost)
{
    for (int overtakes = 0; overtakes < 2; overtakes++) {
        bench_t *bench = bursts_job(overtakes, 16384);

        bench_send(bench, 0, 1, 20000, 1);
        assert_in_range(bench->wire.count, 15, 20);
        exchange_short_ones(bench, 20);
        assert_int_equal(bench_counters(bench, 0)->losses > 0, !overtakes);
        end_settled(bench, SECOND);
    }
}

/* Bulk takes its lane from the first on where it is to be apart, else in latency mode only. */
TEST(bulk_apart)
{
    for (int apart = 0; apart < 2; apart++) {
        bench_t *bench = new_bench();

        bench->hosts[0].attr.bulk_lane = true;
        bench->hosts[0].attr.bulk_apart = apart;
        acquaint(bench);
        bench_send(bench, 0, 1, 20, 1);
        bench_send(bench, 0, 1, 20000, 1);
        assert_true(bench_settle(bench, SECOND));
        if (apart) {
            assert_in_range(bench->hosts[0].apart, 14, 20); /* and not what is short */
        } else {
            assert_int_equal(bench->hosts[0].apart, 0);
        }
        end(bench);
    }
}

/* Headers that acknowledge short ones say nothing of another channel: a message there is lost once
 * an ACK would have told of it, after the reordering window (20 us here), the delay of ACKs (150),
 * and four deviations of the round trip. */
TEST(headers_leave_time_for_an_ack)
{
    static const uint32_t cases[][4] = {
        /* us that datagrams take, in turn; it is lost after so many us: least, most */
        {10, 10, 20 + 20 + 150, 20 + 20 + 150 + 20},
        {10, 100, 550, 800},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_t *bench = bursts_job(false, 16384);
        uint64_t begun = 0;

        for (int n = 0; n < 1000 && bench_counters(bench, 0)->losses == 0; n++) {
            bench->delay = cases[i][n % 2];
            if (n == 100) {
                bench_send(bench, 0, 1, 600, 1);
                bench_clear(&bench->wire);
                begun = bench->now;
            }
            bench_send(bench, 0, 1, 8, 1);
            bench_flow(bench);
            bench_send(bench, 1, 0, 8, 1);
            bench_flow(bench);
        }
        assert_in_range(bench->now - begun, cases[i][2], cases[i][3]);
        end_settled(bench, SECOND);
    }
}

/* But what arrived of what was sent after it, and is long as well, does. */
TEST(lost_among_its_like)
{
    bench_t *bench = bursts_job(true, 16384);
    bench_queue_t gone = {.last = &gone.first};

    bench_send(bench, 0, 1, 20000, 1);
    bench_push(&gone, bench_pop(&bench->wire));
    bench_clear(&gone);
    (void) let_in(bench, true);
    const uint64_t begun = bench->now;
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(bench_counters(bench, 0)->losses, 1);
    assert_int_equal(bench_counters(bench, 0)->retransmits, 1);
    assert_true(bench->now - begun < 1000);
    end_delivered(bench);
}

/* Those on the wire arrive in order, the first `most` of them; the others are kept in `rest`. */
static void let_in_first(bench_t *bench, uint32_t most, bench_queue_t *rest)
{
    *rest = (bench_queue_t){.last = &rest->first};
    while (bench->wire.count > 0) {
        bench_datagram_t *datagram = bench_pop(&bench->wire);
        if (most > 0) {
            most--;
            bench_deliver(bench, datagram);
        } else {
            bench_push(rest, datagram);
        }
    }
}

/* Which copy of a long one arrived no echo tells, as it may be of a short one that overtook it. So
 * where probes have repeated the newest and the oldest, and the oldest arrives, nothing that was
 * sent between its copies is lost. */
TEST(probes_are_not_the_newest)
{
    bench_queue_t rest;

    for (uint32_t probes = 1; probes <= 3; probes++) {
        bench_t *bench = bursts_job(true, 16384);

        bench_send(bench, 0, 1, 60000, 1);
        assert_in_range(bench->wire.count, 41, 46);
        while (bench_counters(bench, 0)->retransmits < probes) {
            bench->now += 200;
            bench_turn(bench, 0);
        }
        bench->now += 200;
        let_in_first(bench, 20, &rest);
        bench_send(bench, 0, 1, 8, 1);
        (void) let_in(bench, false);
        for (int i = 0; i < 3; i++) { /* its ACK overtakes, too */
            bench_turn(bench, 1);
            bench->now += 200;
        }
        assert_true(let_in(bench, false) > 0);
        bench_turn(bench, 0);
        bench->now += 200;
        bench_turn(bench, 0);
        assert_int_equal(bench_counters(bench, 0)->losses, 0);
        while (rest.count > 0) {
            bench_push(&bench->wire, bench_pop(&rest));
        }
        assert_true(bench_settle(bench, SECOND));
        assert_int_equal(bench_counters(bench, 0)->losses, 0);
        assert_in_range(bench_counters(bench, 0)->retransmits, probes, probes + 1);
        end_delivered(bench);
    }
}

/* Of a burst that was lost but for its end the rest is found lost by the first probe, which repeats
 * that end. */
TEST(probes_find_a_lost_burst)
{
    bench_queue_t gone;

    for (int overtakes = 0; overtakes < 2; overtakes++) {
        bench_t *bench = bursts_job(overtakes, 16384);
        const uint64_t begun = bench->now;

        bench_send(bench, 0, 1, 60000, 1);
        const uint32_t sent = bench->wire.count;
        let_in_first(bench, 0, &gone);
        bench_clear(&gone);
        assert_true(bench_settle(bench, SECOND));
        assert_int_equal(bench_counters(bench, 0)->losses, sent - 1);
        assert_int_equal(bench_counters(bench, 0)->sent_probes, 1);
        assert_int_equal(bench_counters(bench, 0)->retransmits_spurious, 0);
        assert_true(bench->now - begun < 5000);
        end_delivered(bench);
    }
}

/* A short one that is lost is found so by the next short ones, whatever is before it in the queue
 * of long ones. */
TEST(lost_beside_bulk)
{
    bench_t *bench = bursts_job(true, 16384);
    bench_queue_t gone = {.last = &gone.first};
    bench_queue_t bulk = {.last = &bulk.first};

    bench_send(bench, 0, 1, 20000, 1);
    while (bench->wire.count > 0) {
        bench_push(&bulk, bench_pop(&bench->wire));
    }
    bench_turn(bench, 0);
    bench_send(bench, 0, 1, 8, 1);
    assert_int_equal(bench->wire.count, 1);
    bench_push(&gone, bench_pop(&bench->wire));
    bench_clear(&gone);
    exchange_short_ones(bench, 3);
    assert_int_equal(bench_counters(bench, 0)->losses, 1);
    assert_int_equal(bench_counters(bench, 0)->retransmits, 1);
    while (bulk.count > 0) {
        bench_push(&bench->wire, bench_pop(&bulk));
    }
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(bench_counters(bench, 0)->losses, 1);
    end_delivered(bench);
}

/* A window that long messages fill has room for an eighth more of short ones. */
TEST(beside_a_full_window)
{
    bench_t *bench = bursts_job(true, 80);

    bench_send(bench, 0, 1, 400000, 1);
    assert_int_equal(bench->wire.count, 80);
    for (uint32_t n = 1; n <= 12; n++) {
        bench_turn(bench, 0); /* each leaves by itself */
        bench_send(bench, 0, 1, 8, 1);
        assert_int_equal(bench->wire.count, 80 + (n < 10 ? n : 10));
    }
    end_settled(bench, SECOND);
}

/* Data channels whose send queues are full hold up nothing of the command channel: neither short
 * messages and acknowledgements, nor what repeats them. */
TEST(beside_full_send_queues)
{
    bench_queue_t gone = {.last = &gone.first};

    for (uint32_t before = 0; before <= 20000; before += 20000) { /* on their way already */
        bench_t *bench = bursts_job(false, 16384);
        bench_rail_t *rail = &bench->hosts[0].rails[0];
        if (before > 0) {
            bench_send(bench, 0, 1, before, 1);
            (void) let_in(bench, true);
        }
        rail->full = ~1u;
        bench_send(bench, 0, 1, 400000, 1);
        bench_flow(bench);
        const uint64_t blocked = bench_counters(bench, 0)->blocked_transport;
        assert_true(blocked > 0);
        for (int n = 0; n < 20; n++) {
            const uint64_t received = bench_counters(bench, 1)->received_messages;
            bench_turn(bench, 0); /* each leaves by itself */
            bench_send(bench, 0, 1, 8, 1);
            assert_int_equal(bench->wire.count, 1);
            if (n % 5 == 0) {
                bench_push(&gone, bench_pop(&bench->wire));
                bench_run(bench, 5000);
            }
            bench_flow(bench);
            bench_turn(bench, 1);
            assert_int_equal(bench_counters(bench, 1)->received_messages, received + 1);
            bench_send(bench, 1, 0, 8, 1); /* is acknowledged */
            bench_run(bench, 200);
        }
        assert_int_equal(bench_counters(bench, 1)->retransmits, 0);
        assert_int_equal(bench_counters(bench, 0)->retransmits, 4);
        assert_true(bench_counters(bench, 0)->blocked_transport > blocked);
        rail->full = 0;
        assert_true(bench_settle(bench, SECOND));
        each_delivered_once(bench);
        bench_clear(&gone);
        end(bench);
    }
}

/* Two that know each other, and have three queues; each has a send queue if `own`. */
static bench_t *three_queues(bool own)
{
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 2; i++) {
        strcpy(bench->hosts[i].queues, "P,256,64:P,1024,64:P,4096,64");
        bench->hosts[i].attr.max_datagram = 4096;
        bench->hosts[i].attr.send_queues = own;
    }
    acquaint(bench);
    return bench;
}

/* How many of three messages that wait, one for each queue, arrive while the send queue of one is
 * full. */
static uint64_t arrive_beside(uint32_t full, bool own)
{
    static const uint32_t sizes[] = {8, 600, 3000};
    bench_t *bench = three_queues(own);
    bench_rail_t *rail = &bench->hosts[0].rails[0];

    const uint64_t before = bench_counters(bench, 1)->received_messages;
    rail->full = ~0u;
    for (uint32_t i = 0; i < 3; i++) {
        bench_send(bench, 0, 1, sizes[i], 1);
    }
    rail->full = 1u << full;
    bench_flow(bench);
    bench_run(bench, 200);
    const uint64_t arrived = bench_counters(bench, 1)->received_messages - before;
    rail->full = 0;
    assert_true(bench_settle(bench, SECOND));
    each_delivered_once(bench);
    end(bench);
    return arrived;
}

/* A full send queue stops one channel where each has its own, else all behind it. */
TEST(beside_own_send_queues)
{
    for (uint32_t full = 0; full < 3; full++) {
        assert_int_equal(arrive_beside(full, true), 2);
        assert_int_equal(arrive_beside(full, false), full);
    }
}

/* Whether what the last queue lost leaves again while the send queue of the one before it, which
 * lost something earlier, is full. */
static bool leaves_again_beside(bool own)
{
    bench_t *bench = three_queues(own);
    bench_queue_t gone = {.last = &gone.first};

    for (uint32_t i = 0; i < 4; i++) {
        bench_turn(bench, 0); /* each leaves by itself */
        bench_send(bench, 0, 1, i % 2 == 0 ? 600 : 3000, 1);
        assert_int_equal(bench->wire.count, i < 2 ? 1 : i - 1);
        if (i < 2) {
            bench_push(&gone, bench_pop(&bench->wire));
        }
    }
    bench->hosts[0].rails[0].full = 1u << 1;
    bench_flow(bench);
    bench_run(bench, 1000);
    assert_int_equal(bench_counters(bench, 0)->losses, 2);
    const bool left = bench_counters(bench, 0)->retransmits > 0;
    bench->hosts[0].rails[0].full = 0;
    assert_true(bench_settle(bench, SECOND));
    each_delivered_once(bench);
    bench_clear(&gone);
    end(bench);
    return left;
}

TEST(lost_beside_own_send_queues)
{
    assert_true(leaves_again_beside(true));
    assert_false(leaves_again_beside(false));
}

/* Chunks that leave in the next turn of 0. */
static uint32_t leave(bench_t *bench)
{
    const uint32_t before = bench->wire.count;

    bench_turn(bench, 0);
    return bench->wire.count - before;
}

/* As if 1 had taken in all chunks that are on the wire. */
static void take_in(bench_t *bench)
{
    (void) let_in(bench, true);
    bench_turn(bench, 1);
    bench_turn(bench, 1);
    bench_turn(bench, 1);
}

/* Host 0 has so many messages that came short, one each 4 us. */
static void some_short_ones_come(bench_t *bench, int count)
{
    for (int i = 0; i < count; i++) {
        bench_turn(bench, 1);
        bench_send(bench, 1, 0, 8, 1);
        (void) let_in(bench, false);
        bench->now += 4;
        bench_turn(bench, 0);
    }
}

/* Enough of them: such are about. */
static void short_ones_come(bench_t *bench)
{
    some_short_ones_come(bench, 10);
}

/* While short ones are about a turn sends one burst of half the size, and the turn that a short one
 * came in none; else all that may. */
TEST(bursts_make_way)
{
    for (int overtakes = 0; overtakes < 2; overtakes++) {
        bench_t *bench = bursts_job(overtakes, 132);

        bench_send(bench, 0, 1, 480000, 1);
        assert_int_equal(bench->wire.count, 132);
        take_in(bench);
        assert_true(let_in(bench, false) > 0);
        assert_in_range(leave(bench), 88, 132);
        short_ones_come(bench);
        take_in(bench);
        bench_turn(bench, 0); /* what else there is to say of the short ones */
        bench_send(bench, 1, 0, 8, 1);
        assert_true(let_in(bench, false) > 0);
        const uint32_t first = leave(bench);
        assert_in_range(first, overtakes ? 0 : 45, overtakes ? 0 : 132);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(leave(bench), overtakes ? 22 : 0);
        }
        bench->now += 1000;
        end_settled(bench, SECOND);
    }
}

/* A process that gets one short message may compute then: all that may leave does so in the same
 * turn. */
TEST(alone_holds_nothing_up)
{
    bench_t *bench = bursts_job(true, 132);

    bench_send(bench, 0, 1, 480000, 1);
    take_in(bench);
    bench_send(bench, 1, 0, 8, 1);
    assert_true(let_in(bench, false) > 0);
    assert_in_range(leave(bench), 88, 132);
    end_settled(bench, SECOND);
}

/* Where they are about bursts wait in the turn of a short one; what was lost goes again, */
TEST(lost_ones_do_not_wait)
{
    bench_t *bench = bursts_job(true, 132);
    bench_queue_t gone = {.last = &gone.first};

    bench_send(bench, 0, 1, 480000, 1);
    bench_push(&gone, bench_pop(&bench->wire));
    bench_clear(&gone);
    short_ones_come(bench);
    take_in(bench);
    assert_true(let_in(bench, false) > 0);
    assert_int_equal(leave(bench), 22);
    bench->now += 25;
    bench_send(bench, 1, 0, 8, 1);
    assert_true(let_in(bench, false) > 0);
    assert_int_equal(leave(bench), 1);
    assert_int_equal(bench_counters(bench, 0)->retransmits, 1);
    assert_int_equal(leave(bench), 22);
    end_settled(bench, SECOND);
}

/* and what is less than a burst leaves. */
TEST(a_rest_does_not_wait)
{
    bench_t *bench = bursts_job(true, 132);

    bench_send(bench, 0, 1, 200000, 1);
    assert_int_equal(bench->wire.count, 132);
    short_ones_come(bench);
    take_in(bench);
    bench_send(bench, 1, 0, 8, 1);
    assert_true(let_in(bench, false) > 0);
    assert_in_range(leave(bench), 8, 21);
    assert_int_equal(leave(bench), 0);
    end_settled(bench, SECOND);
}

/* Bulk goes the way of all else as long as nobody has short messages, or few, */
TEST(bulk_alone_goes_with_all_else)
{
    bench_t *bench = bursts_job(true, 132);

    some_short_ones_come(bench, 3);
    bench_send(bench, 0, 1, 480000, 1);
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(bench->hosts[0].apart, 0);
    end_delivered(bench);
}

/* by itself once they have, and then until all of it has arrived, so that none passes another. */
TEST(bulk_makes_room_for_short_ones)
{
    bench_t *bench = bursts_job(true, 132);

    bench_send(bench, 0, 1, 480000, 1);
    assert_int_equal(bench->hosts[0].apart, 0);
    short_ones_come(bench);
    take_in(bench);
    assert_true(let_in(bench, false) > 0);
    assert_int_equal(leave(bench), 22);
    assert_int_equal(bench->hosts[0].apart, 22);
    bench_send(bench, 0, 1, 8, 1); /* a short one stays where it is looked for first */
    assert_true(let_in(bench, false) > 0);
    assert_int_equal(bench->hosts[0].apart, 22);
    bench->now += 5000;
    assert_true(bench_settle(bench, SECOND));
    const uint64_t apart = bench->hosts[0].apart;
    assert_in_range(apart, 150, 400);
    bench->now += 5000;
    bench_send(bench, 0, 1, 480000, 1);
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(bench->hosts[0].apart, apart);
    end_delivered(bench);
}

/* Short messages that come with operations on memory, one with each, say nothing of others; those
 * that come later do.  */
TEST(announcements_do_not_count)
{
    for (int gets = 0; gets < 2; gets++) {
        bench_t *bench = bursts_job(true, 132);

        for (int i = 0; i < 12; i++) {
            if (gets) {
                (void) bench_op(bench, 1, 0, BTL_IB_OP_GET, 64);
                (void) let_in(bench, false);
                bench_turn(bench, 0);
                (void) let_in(bench, false);
            }
            some_short_ones_come(bench, 1);
        }
        bench_send(bench, 0, 1, 480000, 1);
        assert_int_equal(bench->hosts[0].apart > 0, !gets);
        assert_true(bench_settle(bench, SECOND));
        short_ones_come(bench);
        bench_send(bench, 0, 1, 480000, 1);
        assert_true(bench->hosts[0].apart > 0);
        end_settled(bench, SECOND);
    }
}

UNIT_MAIN(NULL, NULL)
