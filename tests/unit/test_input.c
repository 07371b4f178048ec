/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of a segment that arrived: checked, joined with those behind it, delivered, kept or
 * refused. */

#include <string.h>

#include "btl_ib_burst.h"
#include "btl_ib_input.h"
#include "btl_ib_refragment.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { SMALL, LARGE = 2, CHANNELS, DEAF = 200 }; /* channels: with credits, shared; a tag */

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static const btl_ib_counters_t *count;

static int begin(const char *queues)
{
    bench = new_bench();
    if (queues != NULL) {
        use_queues(bench, queues);
    }
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    count = bench_counters(bench, 0);
    return 0;
}

static int set_up(void **state)
{
    return begin(NULL);
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* The next segment of a channel. */
static btl_ib_view_t view_of(btl_ib_type_t type, uint32_t channel)
{
    return (btl_ib_view_t){
        .type = (uint8_t) type,
        .channel = (uint8_t) channel,
        .seq = conn->rx[channel].window.next,
        .tag = 1,
        .lowest = 1,
    };
}

/* ---- what is allowed ---- */

static bool allows(btl_ib_view_t *view, uint32_t size, uint64_t wrong)
{
    const btl_ib_counters_t before = *count;
    const bool allowed = btl_ib_input_check(conn, view, size);
    const btl_ib_counter_info_t *info = btl_ib_counter_next_drop(NULL, &before, count);

    if (allowed) {
        assert_null(info);
    } else {
        assert_non_null(info);
        assert_int_equal(info->offset, wrong);
        assert_int_equal(btl_ib_counter_value(info, count),
                         btl_ib_counter_value(info, &before) + 1);
        assert_null(btl_ib_counter_next_drop(info, &before, count));
    }
    return allowed;
}

TEST_WITH(sizes_and_tags, set_up, tear_down)
{
    const uint64_t channel = offsetof(btl_ib_counters_t, dropped_channel);
    btl_ib_view_t view = view_of(BTL_IB_TYPE_DATA, SMALL);

    assert_true(allows(&view, 128, 0));
    assert_false(allows(&view, 129, channel));
    view = view_of(BTL_IB_TYPE_DATA, LARGE);
    assert_true(allows(&view, 1472, 0));
    assert_false(allows(&view, 1473, channel));
    view.tag = BTL_IB_TAG_MAX;
    assert_true(allows(&view, 100, 0));
    view.tag = BTL_IB_TAG_MAX + 1;
    assert_false(allows(&view, 100, offsetof(btl_ib_counters_t, dropped_type)));
    view.channel = CHANNELS;
    assert_false(allows(&view, 100, channel));
}

/* Within credit, where that is needed, and the window. */
TEST_WITH(sequences, set_up, tear_down)
{
    const uint64_t wrong = offsetof(btl_ib_counters_t, dropped_sequence);
    btl_ib_view_t view = view_of(BTL_IB_TYPE_DATA, SMALL);

    view.seq = conn->rx[SMALL].credit.limit - 1;
    assert_true(allows(&view, 100, 0));
    view.seq++;
    assert_false(allows(&view, 100, wrong));
    for (uint32_t channel = SMALL; channel <= LARGE; channel += LARGE) {
        view = view_of(BTL_IB_TYPE_DATA, channel);
        view.seq -= BTL_IB_WINDOW_LIMIT; /* long there */
        assert_true(allows(&view, 100, 0));
        view.seq--;
        assert_false(allows(&view, 100, wrong));
    }
    view = view_of(BTL_IB_TYPE_DATA, LARGE);
    view.seq += BTL_IB_WINDOW_LIMIT - 1;
    assert_true(allows(&view, 100, 0));
    view.seq++;
    assert_false(allows(&view, 100, wrong));
}

/* ---- bursts ---- */

enum { MANY = 8 };
static bench_datagram_t *chunks[MANY];
static btl_ib_event_t events[MANY];
static uint32_t chunk_count;

/* Host 1 sends a message in chunks, which are not handed over yet. */
static void send_chunks(void)
{
    bench_send(bench, 1, 0, 4000, 1);
    bench_turn(bench, 1);
    chunk_count = bench->wire.count;
    assert_in_range(chunk_count, 3, MANY);
    for (uint32_t i = 0; i < chunk_count; i++) {
        chunks[i] = bench_pop(&bench->wire);
        events[i] = (btl_ib_event_t){.type = BTL_IB_EVENT_RECV,
                                     .size = chunks[i]->size,
                                     .data = chunks[i]->data,
                                     .from = conn->route.to};
    }
}

static void deliver_chunks(void)
{
    for (uint32_t i = 0; i < chunk_count; i++) {
        bench_push(&bench->wire, chunks[i]);
    }
    end_settled(bench, SECOND);
}

/* Segments of the burst that begins with the first, of so many events behind it. */
static uint32_t burst_of(uint32_t behind, uint8_t flags)
{
    btl_ib_arrival_t arrival = {
        .data = events[0].data, .size = events[0].size, .event = &events[0]};

    assert_true(btl_ib_input_look_at(engine, &arrival));
    btl_ib_burst_none(&arrival.view.more);
    arrival.view.flags |= flags;
    btl_ib_input_burst(conn, &arrival, behind);
    return btl_ib_burst_count(&arrival.view);
}

/* Whatever is unusual is looked at by itself. */
static void usual_only(void)
{
    static const uint8_t unusual[] = {BTL_IB_FLAG_CONNECT, BTL_IB_FLAG_ACK_NOW,
                                      BTL_IB_FLAG_RETRANSMISSION};
    const uint32_t all = chunk_count;
    const btl_ib_protection_ops_t *none = engine->protection.ops;
    btl_ib_view_t first;
    btl_ib_list_t part;

    assert_int_equal(btl_ib_wire_parse(events[0].data, events[0].size, &first), BTL_IB_WIRE_OK);
    btl_ib_rx_window_t *window = &conn->rx[first.channel].window;
    assert_int_equal(burst_of(all - 1, 0), all);
    assert_int_equal(burst_of(1, 0), 2);
    for (size_t i = 0; i < sizeof(unusual); i++) {
        assert_int_equal(burst_of(all - 1, unusual[i]), 1);
    }
    window->above = 1;
    assert_int_equal(burst_of(all - 1, 0), 1);
    window->above = 0;
    window->next++;
    assert_int_equal(burst_of(all - 1, 0), 1);
    window->next--;
    conn->rnr.any = true;
    assert_int_equal(burst_of(all - 1, 0), 1);
    conn->rnr.any = false;
    btl_ib_list_init(&part);
    btl_ib_list_push_tail(&conn->input.parts, &part);
    assert_int_equal(burst_of(all - 1, 0), 1);
    btl_ib_list_remove(&part);
    engine->protection.ops = btl_ib_protection_ops(BTL_IB_PROTECTION_CRC32C);
    btl_ib_arrival_t arrival = {.event = &events[0], .view = first};
    btl_ib_burst_none(&arrival.view.more);
    btl_ib_input_burst(conn, &arrival, all - 1);
    assert_int_equal(btl_ib_burst_count(&arrival.view), 1);
    engine->protection.ops = none;
    assert_int_equal(burst_of(all - 1, 0), all);
}

TEST(bursts)
{
    begin(NULL);
    send_chunks();
    usual_only();
    deliver_chunks();
}

/* As many as there is credit for. */
TEST(bursts_within_credit)
{
    begin("P,1472,256,128,16");
    send_chunks();
    usual_only();
    const uint32_t limit = conn->rx[0].credit.limit;
    for (uint32_t credits = 1; credits <= chunk_count; credits++) {
        conn->rx[0].credit.limit = conn->rx[0].window.next + credits;
        assert_int_equal(burst_of(chunk_count - 1, 0), credits);
    }
    conn->rx[0].credit.limit = limit;
    deliver_chunks();
}

/* ---- messages ---- */

/* Takes a segment in. Returns whether it was accepted. */
static bool take(btl_ib_view_t *view)
{
    const uint32_t next = conn->rx[view->channel].window.next;

    assert_false(btl_ib_input_take(conn, view, false));
    const uint32_t taken = conn->rx[view->channel].window.next - next;
    assert_in_range(taken, 0, 1);
    return taken == 1;
}

/* A segment without a body, which asks whether the path carries it. */
TEST_WITH(padding, set_up, tear_down)
{
    btl_ib_view_t view = view_of(BTL_IB_TYPE_VOID, LARGE);

    assert_true(take(&view));
    assert_true(conn->ack.due >> LARGE & 1);
}

/* It is refused once for each segment, told to the peer, and asked about for each kind of them. */
TEST_WITH(no_receiver, set_up, tear_down)
{
    static const btl_ib_type_t types[] = {BTL_IB_TYPE_DATA, BTL_IB_TYPE_CHUNK, BTL_IB_TYPE_BUNDLE};

    bench->hosts[0].deaf[DEAF] = true;
    for (uint32_t i = 0; i < 3; i++) {
        btl_ib_view_t view = view_of(types[i], LARGE);
        view.seq += i;
        view.tag = view.lowest = DEAF;
        conn->ack.no_tag = false;
        assert_false(take(&view));
        assert_int_equal(count->rnr_tag, i + 1);
        assert_true(conn->ack.no_tag);
        assert_false(conn->ack.at_once);
    }
    assert_true(conn->rnr.any);
    assert_int_equal(conn->rnr.runs->run[0].end - conn->rnr.runs->run[0].from, 3);
    btl_ib_view_t view = view_of(BTL_IB_TYPE_DATA, LARGE);
    view.tag = DEAF;
    view.flags = BTL_IB_FLAG_ACK_NOW; /* it asks: then it is told at once */
    assert_false(take(&view));
    assert_true(conn->ack.at_once);
    bench->hosts[0].deaf[DEAF] = false;
    assert_true(take(&view)); /* the same; and it is no message of ours */
    assert_int_equal(bench->hosts[0].strange, 1);
}

/* Of a bundle all messages have receivers, or none is delivered: the lowest tag counts as well. */
TEST_WITH(bundles_without_receiver, set_up, tear_down)
{
    const uint64_t messages = count->received_messages;
    bench_send(bench, 1, 0, 20, 1); /* two leave at once, the others together */
    bench_send(bench, 1, 0, 20, 1);
    bench_send(bench, 1, 0, 20, 100);
    bench_send(bench, 1, 0, 20, DEAF);
    for (uint32_t tag = 100; tag <= DEAF; tag += DEAF - 100) {
        bench->hosts[0].deaf[tag] = true;
        bench_run(bench, 1000);
        assert_true(count->rnr_tag > 0);
        assert_int_equal(count->received_messages, messages + 2);
        bench->hosts[0].deaf[tag] = false;
        bench->hosts[0].deaf[100 + DEAF - tag] = true;
    }
    bench->hosts[0].deaf[100] = false;
    assert_true(bench_settle(bench, SECOND));
    each_delivered_once(bench);
}

/* Of a connection that drains messages are acknowledged, and nobody gets them. */
TEST_WITH(drained, set_up, tear_down)
{
    bench->hosts[0].deaf[DEAF] = true;
    btl_ib_conn_drain(conn);
    uint32_t first = bench_send(bench, 1, 0, 20, DEAF);
    bench_send(bench, 1, 0, 600, 1);
    bench_send(bench, 1, 0, 3000, DEAF);
    bench_run(bench, SECOND);
    for (uint32_t i = first; i < bench->message_count; i++) {
        assert_true(bench->messages[i].done);
        assert_int_equal(bench->messages[i].delivered, 0);
    }
    assert_int_equal(count->undelivered, 3);
    assert_int_equal(count->rnr_tag, 0);
}

/* A segment that was there before: counted, and acknowledged at once if its sender asks. */
TEST_WITH(duplicates, set_up, tear_down)
{
    btl_ib_view_t view = view_of(BTL_IB_TYPE_DATA, SMALL);
    const uint64_t asked = count->sent_acks;

    view.seq--;
    assert_false(take(&view));
    assert_int_equal(count->dropped_duplicate, 1);
    assert_int_equal(btl_ib_conn_counters(conn).dropped_duplicate, 1);
    assert_int_equal(bench->hosts[0].strange, 0);
    view.flags = BTL_IB_FLAG_ACK_NOW;
    assert_false(take(&view));
    assert_int_equal(count->dropped_duplicate, 2);
    bench_turn(bench, 0);
    assert_int_equal(count->sent_acks, asked + 1);
}

/* An ACK is no segment. One that asks is answered for all channels, at once. */
TEST_WITH(acks_that_ask, set_up, tear_down)
{
    btl_ib_view_t view = {.type = BTL_IB_TYPE_ACK};
    const uint64_t before = count->received_acks;

    assert_false(btl_ib_input_take(conn, &view, false));
    assert_int_equal(count->received_acks, before + 1);
    assert_int_equal(conn->ack.due, 0);
    view.flags = BTL_IB_FLAG_ACK_NOW;
    assert_false(btl_ib_input_take(conn, &view, false));
    assert_int_equal(conn->ack.due, (1 << CHANNELS) - 1);
    assert_true(conn->ack.at_once);
    view = (btl_ib_view_t){.type = BTL_IB_TYPE_CLOSE};
    assert_true(btl_ib_input_take(conn, &view, false)); /* ends the incarnation */
}

/* ---- in chunks ---- */

static uint8_t bytes[3000];

static btl_ib_view_t chunk_of(uint32_t fragment, uint32_t index, uint32_t ahead)
{
    btl_ib_view_t view = view_of(BTL_IB_TYPE_CHUNK, LARGE);

    view.seq += ahead;
    view.chunk.fragment = conn->input.fragments.finished.next + fragment;
    view.chunk.total = 3000;
    view.chunk.unit = 1000;
    view.chunk.index = index;
    view.chunk.offset = index * 1000;
    view.payload = bytes + view.chunk.offset;
    view.size = 1000;
    return view;
}

/* What contradicts itself is counted, and accepted by nobody; what has no buffer comes again. */
TEST_WITH(chunks_that_are_not_taken, set_up, tear_down)
{
    btl_ib_view_t view = chunk_of(0, 0, 0);
    const uint64_t copied = count->copied_in;

    assert_true(take(&view));
    assert_int_equal(count->copied_in, copied + 1000);
    view = chunk_of(0, 1, 0);
    view.chunk.total++;
    view.flags = BTL_IB_FLAG_ACK_NOW; /* nor is it answered */
    assert_false(take(&view));
    assert_int_equal(count->dropped_chunk, 1);
    assert_false(conn->ack.at_once);
    assert_false(conn->rnr.any);
    engine->reasm.extra_max = 0; /* none is left for another message */
    view = chunk_of(1, 0, 0);
    assert_false(take(&view));
    assert_int_equal(count->rnr_reassembly, 1);
    assert_true(conn->rnr.entries[BTL_IB_RNR_BUFFER].kept);
    assert_int_equal(count->copied_in, copied + 1000);
}

/* Without memory it comes again as well, but nobody is told when: there is a buffer. */
TEST_WITH(chunks_without_memory, set_up, tear_down)
{
    btl_ib_view_t view = chunk_of(0, 0, 0);

    bench->hosts[0].fail_in = 1;
    assert_false(take(&view));
    assert_int_equal(count->rnr_reassembly, 1);
    assert_false(conn->rnr.any);
}

/* What the progress thread completes is delivered by the application's own turn, in its order, and
 * that has to come. */
TEST_WITH(completed_in_async, set_up, tear_down)
{
    const uint64_t messages = count->received_messages;

    engine->turn.async = true;
    for (uint32_t i = 0; i < 6; i++) {
        btl_ib_view_t view = chunk_of(i / 3, i % 3, 0);
        assert_true(take(&view));
    }
    engine->turn.async = false;
    assert_int_equal(count->received_messages, messages);
    assert_true(engine->work.waits);
    assert_int_equal(btl_ib_engine_next_due(engine), bench->now);
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 2);
    assert_int_equal(count->received_messages, messages + 2);
    assert_int_equal(bench->hosts[0].strange, 2); /* which nobody sent */
    assert_true(btl_ib_engine_next_due(engine) > bench->now);
    bench->hosts[0].strange = 0;
}

/* Nothing of a connection that was closed here is delivered any more. */
TEST_WITH(closed_before_its_delivery, set_up, tear_down)
{
    const uint64_t messages = count->received_messages;

    engine->turn.async = true;
    for (uint32_t i = 0; i < 3; i++) {
        btl_ib_view_t view = chunk_of(0, i, 0);
        assert_true(take(&view));
    }
    engine->turn.async = false;
    assert_false(btl_ib_list_empty(&engine->whole));
    btl_ib_conn_destroy(conn, bench->now);
    assert_true(btl_ib_list_empty(&engine->whole));
    bench_turn(bench, 0);
    assert_int_equal(count->received_messages, messages);
}

/* Memory of what is incomplete, and of numbers far ahead, is given back by idle connections. */
TEST_WITH(idle_memory, set_up, tear_down)
{
    const size_t before = bench->hosts[0].bytes;
    btl_ib_view_t part = view_of(BTL_IB_TYPE_PART, LARGE);

    part.part.total = 800;
    part.part.type = BTL_IB_TYPE_DATA;
    part.part.tag = 1;
    part.payload = bytes;
    part.size = 400;
    assert_false(take(&part));
    assert_int_equal(count->received_parts, 1);
    const uint32_t far = conn->input.fragments.finished.next + 1000;
    assert_int_equal(btl_ib_rx_window_reserve(&conn->input.fragments.finished, far, &engine->mem),
                     0);
    assert_true(bench->hosts[0].bytes > before + 800);
    btl_ib_input_shrink(conn);
    assert_int_equal(bench->hosts[0].bytes, before);
    assert_true(btl_ib_list_empty(&conn->input.parts));
}

/* ---- in parts ---- */

/* A segment comes in two parts. Returns whether it is accepted. */
static bool take_parts(btl_ib_type_t type, uint32_t total, uint8_t tag)
{
    btl_ib_view_t part = view_of(BTL_IB_TYPE_PART, LARGE);

    part.part.total = total;
    part.part.type = (uint8_t) type;
    part.part.tag = tag;
    part.payload = bytes;
    part.size = 8;
    assert_false(take(&part));
    part.part.offset = 8;
    part.payload += 8;
    part.size = total - 8;
    return take(&part);
}

TEST_WITH(in_parts, set_up, tear_down)
{
    enum { MOST = 1472 - sizeof(btl_ib_wire_header_t) };
    btl_ib_view_t whole = view_of(BTL_IB_TYPE_DATA, LARGE);

    assert_true(take_parts(BTL_IB_TYPE_DATA, 600, 1));
    assert_int_equal(bench->hosts[0].strange, 1);
    assert_int_equal(count->received_parts, 1);
    assert_true(btl_ib_list_empty(&conn->input.parts));
    assert_true(take_parts(BTL_IB_TYPE_DATA, MOST, BTL_IB_TAG_MAX));
    assert_int_equal(bench->hosts[0].strange, 2);
    /* larger than its channel takes, in each part */
    assert_false(take_parts(BTL_IB_TYPE_DATA, MOST + 1, 1));
    assert_int_equal(count->dropped_channel, 2);
    /* whole it is wrong */
    assert_false(take_parts(BTL_IB_TYPE_DATA, 600, BTL_IB_TAG_MAX + 1));
    assert_int_equal(count->dropped_type, 1);
    assert_false(take_parts(BTL_IB_TYPE_ATOMIC, 600, 1));
    assert_int_equal(count->dropped_length, 1);
    assert_int_equal(bench->hosts[0].strange, 2);
    /* Refused before, and now here in part: its sender waits no longer. */
    bench->hosts[0].deaf[DEAF] = true;
    whole = view_of(BTL_IB_TYPE_DATA, LARGE);
    whole.tag = DEAF;
    assert_false(take(&whole));
    assert_true(conn->rnr.entries[BTL_IB_RNR_TAG].kept);
    bench->hosts[0].deaf[DEAF] = false;
    btl_ib_view_t part = view_of(BTL_IB_TYPE_PART, LARGE);
    part.part.total = 600;
    part.part.type = BTL_IB_TYPE_DATA;
    part.part.tag = DEAF;
    part.payload = bytes;
    part.size = 8;
    assert_false(take(&part));
    assert_false(conn->rnr.entries[BTL_IB_RNR_TAG].kept);
    /* Without memory it comes again. */
    btl_ib_refragment_drop(&conn->input.parts, &engine->mem);
    bench->hosts[0].fail_in = 1;
    assert_false(take(&part));
    assert_int_equal(count->rnr_reassembly, 1);
    assert_true(btl_ib_list_empty(&conn->input.parts));
}

/* ---- what cannot be read ---- */

TEST_WITH(forms, set_up, tear_down)
{
    static const struct {
        btl_ib_type_t type;
        uint32_t body, length;
        size_t counter;
    } cases[] = {
        {BTL_IB_TYPE_CHUNK, 40, 40, offsetof(btl_ib_counters_t, dropped_chunk)},
        {BTL_IB_TYPE_ACK, 5, 5, offsetof(btl_ib_counters_t, dropped_ack)},
        {BTL_IB_TYPE_DATA, 5, 6, offsetof(btl_ib_counters_t, dropped_length)},
        {BTL_IB_TYPE_PUT, 3, 3, offsetof(btl_ib_counters_t, dropped_short)},
        {BTL_IB_TYPE_BUNDLE, 3, 3, offsetof(btl_ib_counters_t, dropped_length)},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_forgery_t forgery = bench_forge(bench, 0, 1, cases[i].type);
        const uint64_t *counter = (const void *) ((const char *) count + cases[i].counter);
        const uint64_t before = *counter;
        btl_ib_arrival_t arrival = {.data = (uint8_t *) &forgery,
                                    .size = (uint32_t) sizeof(forgery.header) + cases[i].body};
        forgery.header.length = BTL_IB_LE16(cases[i].length);
        assert_false(btl_ib_input_look_at(engine, &arrival));
        assert_int_equal(*counter, before + 1);
    }
}

UNIT_MAIN(NULL, NULL)
