/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What acknowledgements say, as whoever gets them reads it. */

#include <stdio.h>
#include <string.h>

#include "btl_ib_ack_send.h"
#include "btl_ib_ack_write.h"
#include "btl_ib_packet.h"
#include "btl_ib_rnr_receiver.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "support.h"
#include "unit.h"

enum { OTHER = 1, CHANNEL = 2, SPAN = 200, ROUNDS = 300 };

static bench_t *bench;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static btl_ib_rx_window_t *window;
static uint32_t base;          /* of the sequences below */
static bool here[SPAN + 1];    /* it arrived */
static bool told[SPAN + 1];    /* so an ACK said */
static bool refused[SPAN + 1]; /* that it got RNR an ACK said */
static uint16_t unnamed;       /* whether more got RNR, as an ACK said */

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    window = &conn->rx[CHANNEL].window;
    base = window->next;
    memset(here, 0, sizeof(here));
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

static btl_ib_view_t view_of(uint32_t channel, uint32_t seq, uint8_t flags)
{
    return (btl_ib_view_t){
        .type = BTL_IB_TYPE_DATA, .channel = (uint8_t) channel, .seq = seq, .flags = flags};
}

static void arrive(uint32_t at)
{
    const btl_ib_view_t view = view_of(CHANNEL, base + at, 0);

    btl_ib_ack_tx_accepting(conn, &view);
    assert_int_equal(btl_ib_rx_window_reserve(window, view.seq, &conn->engine->mem), 0);
    btl_ib_rx_window_mark(window, view.seq);
    btl_ib_ack_tx_set_pending(conn, CHANNEL, false);
    here[at] = true;
}

/* Room for an acknowledgement of one channel with so many ranges. */
static uint32_t room_for(uint32_t ranges)
{
    return (uint32_t) (sizeof(btl_ib_wire_ack_t) + ranges * sizeof(btl_ib_wire_range_t));
}

/* Reads a block of ranges that ascend, and do not touch each other. */
static void read_ranges(const btl_ib_ack_block_t *block, bool *said, bool arrived)
{
    uint32_t before = block->ack;

    for (uint32_t i = 0; i < block->ranges; i++) {
        uint32_t from, to;
        btl_ib_wire_range(block, i, &from, &to);
        assert_true(btl_ib_seq_before(before, from) && btl_ib_seq_before(from, to));
        assert_true(to - base <= SPAN);
        for (uint32_t seq = from; seq != to; seq++) {
            assert_int_equal(here[seq - base], arrived);
            said[seq - base] = true;
        }
        before = to;
    }
}

/* Writes an ACK of `channels` into `room` bytes, reads it, and notes that it was sent. */
static btl_ib_ack_filled_t write_and_read(uint32_t room, uint32_t channels)
{
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_ACK, room);
    uint32_t offset = 0;
    btl_ib_ack_block_t block;

    assert_non_null(segment);
    const btl_ib_ack_filled_t filled = btl_ib_ack_tx_fill(conn, segment, room, channels);
    uint8_t *body = btl_ib_packet_body(segment);
    const btl_ib_view_t view = {.type = BTL_IB_TYPE_ACK,
                                .payload = body,
                                .size = (uint32_t) (segment->wire + segment->size - body)};
    assert_true(view.size <= room);
    memset(told, 0, sizeof(told));
    memset(refused, 0, sizeof(refused));
    unnamed = 0;
    while (btl_ib_wire_next_block(&view, &offset, &block)) {
        const btl_ib_rx_channel_t *rx = &conn->rx[block.channel];
        assert_int_equal(block.ack, rx->window.next);
        if (block.rnr) {
            unnamed |= block.duplicates;
            if (block.channel == CHANNEL) {
                read_ranges(&block, refused, false);
            }
            continue;
        }
        assert_true(channels >> block.channel & 1);
        assert_int_equal(block.limit, rx->credit.limit);
        assert_int_equal(block.duplicates, rx->ack.duplicates);
        if (block.channel == CHANNEL) {
            read_ranges(&block, told, true);
        }
    }
    btl_ib_pool_put(segment);
    btl_ib_ack_tx_told(conn, &filled);
    return filled;
}

/* Runs that are ahead of a gap. */
static uint32_t count_runs(void)
{
    uint32_t runs = 0;

    for (uint32_t at = window->next - base; at < SPAN; at++) {
        runs += here[at] && (at == 0 || !here[at - 1]);
    }
    return runs;
}

/* Tells all, with room for so many ranges at a time; `newest` arrived last. Each ACK tells of the
 * highest range, of the newest arrival if it has room for four, and of ranges that none told of
 * before; and the last knows that it is the last. */
static void tell_all(uint32_t ranges, uint32_t newest)
{
    const uint32_t most = count_runs() / (ranges - ranges / 2) + 2;
    const uint32_t top = window->top - 1 - base;
    bool any[SPAN] = {false};
    uint32_t acks = 0;

    conn->rx[CHANNEL].ack.duplicates++;
    for (bool all = false; !all; acks++) {
        const btl_ib_ack_filled_t filled = write_and_read(room_for(ranges), 1u << CHANNEL);
        all = filled.told != 0;
        assert_true(filled.all);
        assert_int_equal(filled.channels, 1u << CHANNEL);
        assert_int_equal(conn->ack.due >> CHANNEL & 1, !all);
        assert_int_equal(
            conn->rx[CHANNEL].ack.duplicates_reported == conn->rx[CHANNEL].ack.duplicates, all);
        assert_true(window->above == 0 || told[top]);
        assert_true(ranges < 4 || base + newest - window->next > SPAN || told[newest]);
        for (uint32_t at = 0; at < SPAN; at++) {
            any[at] = any[at] || told[at];
        }
        assert_true(acks < most);
    }
    for (uint32_t at = window->next - base; at < SPAN; at++) {
        assert_int_equal(any[at], here[at]);
    }
}

/* protocol: R44 */
TEST_WITH(all_ranges_are_told, set_up, tear_down)
{
    test_random_t random = TEST_RANDOM_SEED;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t ranges = 2 + test_random_below(&random, 12);
        const uint32_t span = 2 + test_random_below(&random, SPAN - 2);
        const uint32_t arrivals = 1 + test_random_below(&random, span);
        uint32_t newest = UINT32_MAX;
        for (uint32_t i = 0; i < arrivals; i++) {
            const uint32_t at = 1 + test_random_below(&random, span - 1);
            if (!here[at] && btl_ib_seq_before(window->next, base + at)) {
                arrive(at);
                newest = at;
            }
        }
        if (newest != UINT32_MAX) {
            tell_all(ranges, newest);
        }
        if (round % 4 == 3) { /* all that is missing comes */
            for (uint32_t at = 0; at < SPAN; at++) {
                if (!here[at]) {
                    arrive(at);
                }
            }
            assert_int_equal(window->next, base + SPAN);
            (void) write_and_read(room_for(2), 1u << CHANNEL);
            base = window->next;
            memset(here, 0, sizeof(here));
        }
    }
}

/* Where there are far more ranges than fit the last arrivals are told of, however far back. */
TEST_WITH(the_newest_of_many, set_up, tear_down)
{
    for (uint32_t at = 1; at < SPAN; at += 2) {
        arrive(at);
    }
    for (uint32_t i = 0; i < BTL_IB_NEWEST_KEPT; i++) {
        arrive(122 + 4 * i);
    }
    (void) write_and_read(room_for(50), 1u << CHANNEL);
    for (uint32_t i = 0; i < BTL_IB_NEWEST_KEPT; i++) {
        assert_true(told[122 + 4 * i]);
    }
    assert_false(told[101]);
}

/* An ACK tells of as many channels as fit, whole; what does not fit is left to the next. */
TEST_WITH(several_channels, set_up, tear_down)
{
    btl_ib_ack_filled_t filled;

    btl_ib_ack_tx_set_pending(conn, 0, false);
    btl_ib_ack_tx_set_pending(conn, OTHER, false);
    filled = write_and_read(2 * room_for(0), 3); /* without a range */
    assert_int_equal(filled.told, 3);
    arrive(1);
    arrive(3);
    arrive(5);
    btl_ib_ack_tx_set_pending(conn, 0, false);
    btl_ib_ack_tx_set_pending(conn, OTHER, false);
    filled = write_and_read(2 * room_for(0) - 1, 7);
    assert_int_equal(filled.channels, 1);
    assert_int_equal(filled.told, 1);
    assert_false(filled.all);
    assert_int_equal(conn->ack.due, 6);
    filled = write_and_read(2 * room_for(0) + 2 * (uint32_t) sizeof(btl_ib_wire_range_t), 6);
    assert_int_equal(filled.channels, 6);
    assert_int_equal(filled.told, 2); /* of three ranges there was room for two */
    assert_true(filled.all);
    btl_ib_ack_tx_set_pending(conn, CHANNEL, false); /* all may be new to it again */
    filled = write_and_read(200, 4);
    assert_int_equal(filled.told, 4);
    assert_true(filled.all);
    assert_int_equal(conn->ack.due, 0);
    assert_true(told[1] && told[3] && told[5]);
    assert_int_equal(conn->rx[CHANNEL].ack.unreported, 0);
    assert_true(btl_ib_list_empty(&conn->ack.link));
}

static void refuse(uint32_t channel, uint32_t at)
{
    const btl_ib_view_t view = view_of(channel, base + at, 0);

    btl_ib_rnr_note(conn, &view, 0, BTL_IB_RNR_BUFFER);
}

/* What got RNR is named beside what arrived, run by run, and whether there is more. */
TEST_WITH(what_got_rnr, set_up, tear_down)
{
    arrive(2);
    assert_false(btl_ib_ack_tx_has_rnr(conn));
    refuse(CHANNEL, 7);
    assert_true(btl_ib_ack_tx_has_rnr(conn));
    refuse(CHANNEL, 3);
    refuse(CHANNEL, 4);
    assert_true(btl_ib_ack_tx_has_rnr(conn));
    (void) write_and_read(200, 1u << CHANNEL);
    assert_true(told[2] && refused[3] && refused[4] && refused[7]);
    assert_false(refused[5] || refused[6] || refused[8]);
    assert_int_equal(unnamed, 0);
    (void) write_and_read(2 * room_for(1), 1u << CHANNEL); /* room for one run beside */
    assert_true(told[2] && refused[3] && refused[4]);
    assert_false(refused[7]);
    assert_int_equal(unnamed, 1);
    refuse(CHANNEL, 8); /* the run of the last goes first */
    (void) write_and_read(2 * room_for(1), 1u << CHANNEL);
    assert_true(refused[7] && refused[8]);
    assert_false(refused[3]);
    assert_int_equal(unnamed, 1);
    btl_ib_rnr_runs_take(conn->rnr.runs, CHANNEL, base + 8);
    btl_ib_rnr_runs_take(conn->rnr.runs, CHANNEL, base + 7);
    (void) write_and_read(200, 1u << CHANNEL);
    assert_true(refused[3] && refused[4]);
    assert_false(refused[7] || refused[8]);
    (void) write_and_read(room_for(1), 1u << CHANNEL); /* what arrived is told first */
    assert_true(told[2]);
    assert_false(refused[3]);
}

/* ---- duplicates ---- */

static uint32_t counted(btl_ib_view_t view)
{
    const uint16_t before = conn->rx[view.channel].ack.duplicates;

    conn->ack.at_once = false;
    btl_ib_ack_tx_duplicate(conn, &view);
    assert_true(conn->ack.at_once); /* perhaps our ACK was lost */
    assert_true(conn->ack.due >> view.channel & 1);
    return (uint16_t) (conn->rx[view.channel].ack.duplicates - before);
}

/* What the network repeats is no retransmission; a first copy that comes behind one is.
 * protocol: R80 */
TEST_WITH(duplicates, set_up, tear_down)
{
    btl_ib_view_t view = view_of(CHANNEL, 1000, 0);

    assert_int_equal(counted(view), 0);
    view.flags = BTL_IB_FLAG_RETRANSMISSION;
    assert_int_equal(counted(view), 1);
    view.type = BTL_IB_TYPE_PART; /* of a copy in parts the first counts */
    assert_int_equal(counted(view), 1);
    view.part.offset = 1;
    assert_int_equal(counted(view), 0);
    for (uint32_t i = 0; i < 3 * BTL_IB_REPAIRED_KEPT; i++) {
        const btl_ib_view_t repair = view_of(CHANNEL, window->next + i, BTL_IB_FLAG_RETRANSMISSION);
        btl_ib_ack_tx_accepting(conn, &repair);
        assert_int_equal(counted(view_of(CHANNEL, window->next + i + 1, 0)), 0);
        assert_int_equal(counted(view_of(OTHER, window->next + i, 0)), 0);
        for (uint32_t k = 0; k <= i; k++) { /* the last eight are remembered */
            assert_int_equal(counted(view_of(CHANNEL, window->next + k, 0)),
                             i - k < BTL_IB_REPAIRED_KEPT);
        }
    }
}

/* ---- when ---- */

/* The most urgent is the first: one at once, else the one that is due first. */
TEST_WITH(the_first_of_all, set_up, tear_down)
{
    const uint32_t delay = conn->engine->config.ack_delay;
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_ack_tx_settled(&conn->ack, UINT32_MAX);
    assert_null(btl_ib_ack_tx_first(engine));
    conn->ack.unreplied = true;
    btl_ib_ack_tx_set_pending(conn, CHANNEL, false);
    assert_int_equal(conn->ack.at, engine->clock.now + delay / 3);
    assert_ptr_equal(btl_ib_ack_tx_first(engine), conn);
    assert_true(btl_ib_list_empty(&engine->acks_answered));
    btl_ib_ack_tx_settled(&conn->ack, UINT32_MAX);
    conn->ack.unreplied = false; /* the next message is likely to carry it */
    btl_ib_ack_tx_set_pending(conn, CHANNEL, false);
    assert_int_equal(conn->ack.at, engine->clock.now + delay);
    assert_ptr_equal(btl_ib_ack_tx_first(engine), conn);
    assert_true(btl_ib_list_empty(&engine->acks));
    bench_start(bench, 2);
    btl_ib_conn_t *other = bench_connect(bench, 0, 2);
    other->ack.unreplied = true;
    btl_ib_ack_tx_set_pending(other, CHANNEL, false);
    assert_ptr_equal(btl_ib_ack_tx_first(engine), other);
    other->ack.at = conn->ack.at;
    assert_ptr_equal(btl_ib_ack_tx_first(engine), other);
    other->ack.at = conn->ack.at + 1;
    assert_ptr_equal(btl_ib_ack_tx_first(engine), conn);
    btl_ib_ack_tx_set_pending(other, OTHER, true);
    assert_ptr_equal(btl_ib_ack_tx_first(engine), other);
    btl_ib_ack_tx_set_pending(conn, OTHER, true);
    assert_true(btl_ib_list_empty(&engine->acks_answered));
    assert_int_equal(conn->ack.count, 2);
    conn->ack.at = 0;
    btl_ib_ack_tx_put_off(conn);
    assert_false(conn->ack.at_once);
    assert_int_equal(conn->ack.at, engine->clock.now + delay);
    assert_false(btl_ib_list_empty(&engine->acks_answered));
    assert_ptr_equal(btl_ib_ack_tx_first(engine), other);
    btl_ib_ack_tx_settled(&conn->ack, 1u << OTHER);
    assert_int_equal(conn->ack.due, 1u << CHANNEL);
    assert_int_equal(conn->ack.count, 2);
    btl_ib_ack_tx_settled(&conn->ack, 1u << CHANNEL);
    assert_int_equal(conn->ack.count, 0);
    assert_true(btl_ib_list_empty(&conn->ack.link));
    btl_ib_ack_tx_set_pending(conn, 0, false); /* of the first channel alone, too */
    conn->ack.at = 0;
    btl_ib_ack_tx_put_off(conn);
    assert_int_equal(conn->ack.at, engine->clock.now + delay);
    btl_ib_ack_tx_settled(&conn->ack, 1);
    btl_ib_ack_tx_put_off(conn); /* nothing is due */
    assert_true(btl_ib_list_empty(&conn->ack.link));
}

/* ---- sending ---- */

/* An ACK tells each limit that the peer does not know, whatever it is sent for. */
TEST(limits_go_along)
{
    bench = new_bench();
    use_queues(bench, "P,256,256:P,512,256:P,1472,1024");
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        conn->rx[i].credit.used += 5;
    }
    btl_ib_ack_tx_set_pending(conn, 0, false);
    assert_true(btl_ib_ack_send(conn, 0));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(conn->rx[i].credit.used, 0);
        assert_int_equal(conn->rx[i].credit.told, conn->rx[i].credit.limit);
    }
    assert_int_equal(conn->ack.due, 0);
    bench_clear(&bench->wire);
    end(bench);
}

/* An ACK is a short datagram, however long those of its channel may be; one that the transport does
 * not take tells nothing. */
TEST(it_is_short)
{
    bench = new_bench();
    use_queues(bench, "P,1472,256");
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    for (uint32_t i = 1; i < SPAN; i += 2) {
        const uint32_t seq = conn->rx[0].window.next + i;
        assert_int_equal(btl_ib_rx_window_reserve(&conn->rx[0].window, seq, &conn->engine->mem), 0);
        btl_ib_rx_window_mark(&conn->rx[0].window, seq);
    }
    btl_ib_ack_tx_set_pending(conn, 0, false);
    bench->hosts[0].rails[0].busy = 1;
    assert_false(btl_ib_ack_send(conn, 0));
    assert_int_equal(conn->ack.due, 1);
    assert_true(btl_ib_ack_send(conn, 0));
    assert_int_equal(bench->wire.count, 1);
    assert_in_range(bench->wire.first->size, BTL_IB_SEGMENT_SMALL / 2, BTL_IB_SEGMENT_SMALL);
    assert_int_equal(conn->ack.due, 1); /* so many ranges do not fit */
    bench_clear(&bench->wire);
    end(bench);
}

/* Four short ACKs leave at once, where more channels have something to tell. */
TEST(no_more_than_four)
{
    char queues[160] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < BTL_IB_QUEUES_MAX; i++) {
        used += (size_t) snprintf(queues + used, sizeof(queues) - used, "%sP,%u,8",
                                  i > 0 ? ":" : "", 104 + 16 * i);
    }
    bench = new_bench();
    use_queues(bench, queues);
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    for (uint32_t i = 0; i < BTL_IB_QUEUES_MAX; i++) {
        conn->rx[i].credit.used++;
    }
    btl_ib_ack_tx_set_pending(conn, BTL_IB_QUEUES_MAX - 1, false);
    assert_true(btl_ib_ack_send(conn, 0));
    assert_int_equal(bench->wire.count, 4);
    assert_int_equal(conn->ack.due, 1u << (BTL_IB_QUEUES_MAX - 1)); /* that is not told yet */
    assert_int_equal(conn->rx[0].credit.told, conn->rx[0].credit.limit);
    const btl_ib_credit_t *last = &conn->rx[BTL_IB_QUEUES_MAX - 1].credit;
    assert_int_not_equal(last->told, last->limit);
    bench_clear(&bench->wire);
    end(bench);
}

/* Without memory for a segment nothing is told, and that is counted. */
TEST_WITH(no_memory_for_it, set_up, tear_down)
{
    btl_ib_pool_t *pool = &conn->rail->pool;
    btl_ib_segment_t *taken[4096];
    const uint32_t limit = pool->limit;
    uint32_t count = 0;

    pool->limit = pool->kind[0].made;
    while (count < 4096 && (taken[count] = btl_ib_pool_get(pool, 64)) != NULL) {
        count++;
    }
    btl_ib_ack_tx_set_pending(conn, CHANNEL, false);
    assert_false(btl_ib_ack_send(conn, 0));
    assert_int_equal(conn->engine->count.blocked_memory, 1);
    assert_int_equal(conn->ack.due, 1u << CHANNEL);
    while (count > 0) {
        btl_ib_pool_put(taken[--count]);
    }
    pool->limit = limit;
    assert_true(btl_ib_ack_send(conn, 0));
    bench_clear(&bench->wire);
}

/* A rail that takes nothing now is not tried again in the same turn. */
TEST_WITH(full_rails_wait, set_up, tear_down)
{
    bench_start(bench, 2);
    btl_ib_ack_tx_set_pending(conn, CHANNEL, true);
    btl_ib_ack_tx_set_pending(bench_connect(bench, 0, 2), CHANNEL, true);
    bench->hosts[0].rails[0].busy = 5;
    btl_ib_ack_turn(conn->engine, true);
    assert_int_equal(bench->hosts[0].rails[0].busy, 4);
    bench->hosts[0].rails[0].busy = 0;
    btl_ib_ack_turn(conn->engine, true);
    assert_int_equal(bench->wire.count, 2);
    bench_clear(&bench->wire);
}

/* Whether an ACK that is urgent leaves in a turn that received something, when so many segments are
 * unacknowledged, and its delay is over in so many us. */
static bool leaves(uint32_t count, uint64_t after)
{
    btl_ib_engine_t *engine = conn->engine;
    const uint64_t before = engine->count.sent_acks;

    engine->turn.idle_calls = 0;
    btl_ib_ack_tx_settled(&conn->ack, UINT32_MAX);
    btl_ib_ack_tx_set_pending(conn, CHANNEL, true);
    conn->ack.count = count;
    conn->ack.at = engine->clock.now + after;
    btl_ib_ack_turn(engine, false);
    return engine->count.sent_acks > before;
}

/* Where bulk of ours waits for one of the peer's it carries the ACK of less than two bursts. */
TEST(bulk_carries_it)
{
    bench = new_bench();
    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].attr.gso_bytes = 65487;
        bench->hosts[i].attr.max_batch = 64;
    }
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    bench_set_window(bench, 0, 1, 20);
    const uint32_t two = 2 * conn->cc.gso_segments;
    window = &conn->rx[CHANNEL].window;
    base = window->next;
    assert_true(leaves(1, 9)); /* there is no bulk */
    bench_send(bench, 0, 1, 60000, 1);
    assert_false(leaves(1, 9));
    assert_false(leaves(1, 1));
    assert_true(leaves(1, 0));
    assert_false(leaves(two - 1, 9));
    assert_true(leaves(two, 9));
    arrive(2); /* something may be lost */
    assert_true(leaves(1, 9));
    btl_ib_ack_tx_settled(&conn->ack, UINT32_MAX);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
