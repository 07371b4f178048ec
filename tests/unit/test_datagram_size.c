/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Paths that carry more to one peer than to another: datagrams, bursts of them, and credits by
 * what each does. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

enum {
    WIDE = 7744,   /* what the path between hosts 0 and 1 carries */
    NARROW = 1472, /* and those to host 2 */
    DATA = 1,      /* the queue of such datagrams */
    HELD = 400000, /* bytes that wait for a host: of WIDE 50, of NARROW 231 */
};

/* Hosts 0 and 1 are close to each other, host 2 is not. */
static bench_t *new_network(void)
{
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 3; i++) {
        bench_host_t *host = &bench->hosts[i];

        strcpy(host->queues, "P,256,512,256,64:P,7744,1024,512,64");
        host->attr.max_datagram = WIDE;
        host->attr.max_batch = 64;
        host->attr.gso_bytes = 65487;
        host->rx_bytes = HELD;
        host->path[0] = i == 2 ? NARROW : 0;
        host->path[1] = i == 2 ? NARROW : 0;
        host->path[2] = i == 2 ? 0 : NARROW;
    }
    return bench;
}

static bench_t *network(void)
{
    bench_t *bench = new_network();

    for (uint32_t i = 0; i < 3; i++) {
        bench_start(bench, i);
    }
    return bench;
}

/* The largest datagram that the wire sees from one host to another while it sends a message; the
 * bench itself demands that none is larger than its path. */
static uint32_t largest(bench_t *bench, uint32_t from, uint32_t to)
{
    uint32_t size = 0;

    bench_clear(&bench->tape);
    bench->taping = true;
    bench_send(bench, from, to, 60000, 1);
    assert_true(bench_settle(bench, SECOND));
    bench->taping = false;
    for (const bench_datagram_t *d = bench->tape.first; d != NULL; d = d->next) {
        size = d->size > size ? d->size : size;
    }
    return size;
}

/* No burst is longer than what one call sends, and where nothing is joined there are none. */
TEST(bursts_have_bounds)
{
    for (uint32_t joins = 0; joins < 2; joins++) {
        bench_t *bench = new_network();

        bench->hosts[0].attr.gso_bytes = joins * 65487;
        bench->hosts[0].path[2] = bench->hosts[2].path[0] = 512;
        bench_start(bench, 0);
        bench_start(bench, 2);
        (void) largest(bench, 0, 2);
        assert_int_equal(bench_peer(bench, 0, 2).gso_segments, joins == 0 ? 1 : 64);
        end(bench);
    }
}

/* What its path carries is too little for any talk: no connection, and nothing is left of it. */
TEST(a_path_that_is_none)
{
    bench_t *bench = new_network();
    btl_ib_conn_t *conn = NULL;

    bench->hosts[0].path[2] = 90;
    bench_start(bench, 0);
    bench_start(bench, 2);
    const btl_ib_peer_info_t info = bench_info(bench, 2, 0);
    assert_int_equal(btl_ib_conn_create(bench->hosts[0].engine, 0, &info, NULL, &conn), -EINVAL);
    for (uint32_t i = 0; i < BENCH_HOSTS * BENCH_RAILS; i++) {
        assert_int_equal(bench->hosts[0].rails[0].refs[i], 0);
    }
    assert_null(bench_conn(bench, 0, 2));
    end(bench);
}

/* An interface without buffers is waited for, unless it never takes what is larger than something:
 * then that is what the path carries. */
TEST(want_of_buffers)
{
    bench_t *bench = network();
    const btl_ib_counters_t *count = bench_counters(bench, 0);

    bench->hosts[0].rails[0].no_buffers = 1300;
    bench_send(bench, 0, 1, 1400, 1);
    bench_run(bench, 15000);
    assert_true(count->blocked_transport > 0);
    bench->hosts[0].rails[0].no_buffers = 0;
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(count->retransmits, 0);
    bench->hosts[0].rails[0].no_buffers = 1300;
    for (int i = 0; i < 20; i++) {
        bench_send(bench, 0, 1, 1400, 1);
    }
    assert_true(bench_settle(bench, 10 * SECOND));
    assert_int_equal(count->black_holes, 1);
    assert_in_range(bench_peer(bench, 0, 1).datagram_max, 1200, 1300);
    end(bench);
}

/* Host `from` sends more than anybody lets be on the way. */
static uint32_t grant_after_stream(bench_t *bench, uint32_t from)
{
    for (int i = 0; i < 40; i++) {
        bench_send(bench, from, 0, 60000, 1);
    }
    assert_true(bench_settle(bench, 10 * SECOND));
    bench_check_accounts(&bench->hosts[0]);
    return bench_channel(bench, 0, from, DATA).grant;
}

/* A peer whose datagrams are small gets as many credits as the receiver has room for those, and
 * not for the largest. */
TEST(credits_by_size)
{
    bench_t *bench = network();

    const uint32_t wide = grant_after_stream(bench, 1);
    assert_in_range(wide, 16, HELD / (WIDE + 256));
    end(bench);
    bench = network();
    const uint32_t narrow = grant_after_stream(bench, 2);
    assert_in_range(narrow, 2 * wide, HELD / (NARROW + 256));
    /* A peer that comes later gets its share of the room, which is in bytes, once the first uses
     * its credits. */
    for (int round = 0; round < 10; round++) {
        (void) grant_after_stream(bench, 1);
        (void) grant_after_stream(bench, 2);
    }
    const bench_channel_t held = bench_channel(bench, 0, 1, DATA);
    assert_in_range(held.pool_granted, 1, held.pool_depth);
    assert_in_range(grant_after_stream(bench, 1), 16, wide / 2 + 1);
    assert_in_range(grant_after_stream(bench, 2), wide, narrow / 2 + 1);
    end(bench);
}

/* No more credits than the configuration allows, however small the datagrams. */
TEST(credits_are_limited)
{
    bench_t *bench = new_network();

    bench->hosts[0].config.credit_pool = 40;
    for (uint32_t i = 0; i < 3; i++) {
        bench_start(bench, i);
    }
    assert_in_range(grant_after_stream(bench, 2), 17, 40);
    end(bench);
}

/* ---- another rail in the middle of a search ---- */

/* Hosts 0 and 1 are connected over each of two rails, the second of which carries `second` bytes.
 * */
static void start_two_rails(bench_t *bench, uint32_t second)
{
    btl_ib_conn_t *beside;

    bench->rails = 2;
    bench->carries[1] = second;
    bench_start(bench, 0);
    bench_start(bench, 1);
    for (uint32_t i = 0; i < 2; i++) {
        const btl_ib_peer_info_t info = bench_info(bench, 1 - i, 1);
        assert_int_equal(
            btl_ib_conn_create(bench->hosts[i].engine, 1, &info, &bench->hosts[1 - i], &beside), 0);
    }
}

static bench_t *two_rails(uint32_t second)
{
    bench_t *bench = new_network();

    start_two_rails(bench, second);
    assert_in_range(largest(bench, 0, 1), WIDE - 500, WIDE);
    return bench;
}

/* What a way of the connection `conn` of host 0 carries, as the network says. */
static void narrow(bench_t *bench, uint32_t rail, uint32_t size)
{
    bench_rail_t *at = &bench->hosts[0].rails[rail];

    at->what = BTL_IB_EVENT_PATH_MTU;
    at->about = bench_address(1, rail);
    at->size = size;
    at->news = true;
    bench_flow(bench);
}

/* As many segments go as one as have room in what is joined, also when they become smaller or
 * larger. */
TEST(bursts_follow_the_path)
{
    bench_t *bench = two_rails(WIDE);

    assert_int_equal(bench_peer(bench, 0, 1).gso_segments, 65487 / WIDE);
    narrow(bench, 0, NARROW);
    assert_int_equal(bench_peer(bench, 0, 1).gso_segments, 65487 / NARROW);
    bench_search_mtu(bench, 0, 1);
    for (int i = 0; i < 10; i++) {
        bench_send(bench, 0, 1, 100, 1);
        assert_true(bench_settle(bench, SECOND));
        bench_run(bench, 1000);
    }
    assert_int_equal(bench_datagram_max(bench, 0, 1), WIDE);
    assert_int_equal(bench_peer(bench, 0, 1).gso_segments, 65487 / WIDE);
    end(bench);
}

enum { CARRIED = 4000, TRIES = 3, SIZES = 16 };

/* What host 0 sent that was larger than CARRIED: how often each size. */
static struct {
    uint32_t size, count;
} lost[SIZES];

static bool lose_large(bench_t *bench, const bench_datagram_t *datagram)
{
    uint32_t i = 0;

    if (datagram->size <= CARRIED || datagram->source != bench_address(0, 0)) {
        return false;
    }
    while (lost[i].size != 0 && lost[i].size != datagram->size) {
        i++;
        BENCH_REQUIRE(i < SIZES);
    }
    lost[i].size = datagram->size;
    lost[i].count++;
    return true;
}

/* One lost probe says little, whichever sizes were lost before. */
TEST(each_size_is_tried_again)
{
    bench_t *bench = network();

    memset(lost, 0, sizeof(lost));
    assert_in_range(largest(bench, 0, 1), WIDE - 500, WIDE);
    narrow(bench, 0, NARROW);
    bench->loses = lose_large;
    bench_search_mtu(bench, 0, 1);
    for (int i = 0; i < 100; i++) {
        bench_send(bench, 0, 1, 100, 1);
        assert_true(bench_settle(bench, SECOND));
        bench_run(bench, 1000);
    }
    assert_in_range(bench_datagram_max(bench, 0, 1), CARRIED - 100, CARRIED);
    assert_int_equal(lost[0].size, WIDE);
    assert_true(lost[2].size != 0);
    for (int i = 0; i < SIZES && lost[i].size != 0; i++) {
        assert_int_equal(lost[i].count, TRIES);
    }
    end(bench);
}

/* Host 0 tries whether its first rail carries WIDE bytes again. Returns the acknowledgement of
 * that, which host 0 has not got yet: as one that comes over the second rail. */
static bench_datagram_t *answer_to_probe(bench_t *bench)
{
    narrow(bench, 0, NARROW);
    assert_int_equal(bench_datagram_max(bench, 0, 1), NARROW);
    bench_search_mtu(bench, 0, 1);
    bench_send(bench, 0, 1, 100, 1);
    for (int i = 0; i < 100 && (bench->wire.count == 0 || bench->wire.first->size < WIDE); i++) {
        if (bench->wire.count > 0) {
            bench_deliver(bench, bench_pop(&bench->wire));
        }
        bench->now += BENCH_DELAY;
        bench_turn(bench, 1);
        bench_turn(bench, 0);
    }
    assert_int_equal(bench->wire.count, 1);
    bench_deliver(bench, bench_pop(&bench->wire));
    bench_turn(bench, 1);
    assert_int_equal(bench->wire.count, 1);
    bench_datagram_t *answer = bench_pop(&bench->wire);
    assert_int_equal(answer->to, bench_address(0, 0));
    answer->source = bench_address(1, 1);
    answer->to = bench_address(0, 1);
    return answer;
}

/* Host 0's first rail fails, and what is lost with it has not left again when `answer` is there. */
static void fail_over(bench_t *bench, bench_datagram_t *answer)
{
    bench->hosts[0].rails[0].failure = true;
    bench_deliver(bench, answer);
    bench_turn(bench, 0);
    assert_int_equal(bench_peer(bench, 0, 1).rail, 1);
    assert_int_equal(bench->hosts[0].rails[1].arrived.count, 0);
}

/* What a probe showed of a way says nothing of the next one, whether its rails carry less or the
 * network between them does. */
TEST(probes_count_for_their_way)
{
    for (int narrow_rail = 0; narrow_rail < 2; narrow_rail++) {
        bench_t *bench = two_rails(narrow_rail == 1 ? NARROW : WIDE);
        if (narrow_rail == 0) {
            narrow(bench, 1, NARROW);
        }
        fail_over(bench, answer_to_probe(bench));
        assert_int_equal(bench_datagram_max(bench, 0, 1), NARROW);
        assert_in_range(largest(bench, 0, 1), NARROW - 100, NARROW);
        end_delivered(bench);
    }
}

/* A connection that goes on over the rails of another one, of which a search was about to find that
 * they carry more, does not wait for 10 minutes to find that itself. */
TEST(search_goes_on_by_other_rails)
{
    for (uint32_t searches = 0; searches < 2; searches++) {
        bench_t *bench = two_rails(WIDE);

        narrow(bench, 1, NARROW);
        if (searches == 1) {
            bench_search_mtu_beside(bench, 0, 1, 1);
        }
        bench->hosts[0].rails[0].failure = true;
        bench_turn(bench, 0);
        assert_int_equal(bench_peer(bench, 0, 1).rail, 1);
        assert_int_equal(bench_datagram_max(bench, 0, 1), NARROW);
        for (int i = 0; i < 10; i++) {
            bench_send(bench, 0, 1, 100, 1);
            assert_true(bench_settle(bench, SECOND));
            bench_run(bench, 1000);
        }
        assert_int_equal(bench_datagram_max(bench, 0, 1), searches == 1 ? WIDE : NARROW);
        end(bench);
    }
}

/* Is it a chunk, or a part of one? */
static bool is_chunk(const bench_datagram_t *d, uint32_t *channel)
{
    btl_ib_view_t view;

    if (btl_ib_wire_parse((uint8_t *) (uintptr_t) d->data, d->size, &view) != BTL_IB_WIRE_OK) {
        return false;
    }
    *channel = view.channel;
    return view.type == BTL_IB_TYPE_CHUNK
           || (view.type == BTL_IB_TYPE_PART && view.part.type == BTL_IB_TYPE_CHUNK);
}

/* Two NICs of different MTU. The one with the larger fails when a message is half on its way, and
 * others wait: its chunks are of the size of then, whether they are copies or sent in place. What
 * was to leave as a whole leaves in chunks. All chunks use the channel that they used before, or
 * their order would be lost. */
TEST(a_smaller_rail)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        bench_t *bench = new_network();
        uint32_t channel, chunks = 0;

        for (int i = 0; i < 2; i++) {
            strcpy(bench->hosts[i].queues, "P,256,512,256,64:P,1472,512,256,64:P,3000,512,256,64:"
                                           "P,7744,1024,512,64");
            bench->hosts[i].attr.max_iov = in_place == 1 ? 3 : 1;
            bench->hosts[i].attr.inline_size = in_place == 1 ? 65536 : 0;
        }
        start_two_rails(bench, NARROW);
        bench_send(bench, 0, 1, 100, 1);
        assert_true(bench_settle(bench, SECOND));
        bench->taping = true;
        bench_set_window(bench, 0, 1, 3);
        bench_send(bench, 0, 1, 60000, 1);
        bench_send(bench, 0, 1, 2500, 1);
        assert_int_equal(bench_peer(bench, 0, 1).in_flight, 3);
        bench->hosts[0].rails[0].failure = true;
        bench_turn(bench, 0);
        assert_int_equal(bench_datagram_max(bench, 0, 1), NARROW);
        bench_send(bench, 0, 1, 20000, 1);
        assert_true(bench_settle(bench, SECOND));
        for (const bench_datagram_t *d = bench->tape.first; d != NULL; d = d->next) {
            if (is_chunk(d, &channel)) {
                assert_int_equal(channel, 3);
                chunks++;
            }
        }
        assert_in_range(chunks, 60000 / NARROW, 200);
        end_delivered(bench);
    }
}

UNIT_MAIN(NULL, NULL)
