/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What got RNR, verb by verb: which segment its receiver keeps and when it may come again; and what
 * its sender defers. */

#include <string.h>

#include "btl_ib_rnr_receiver.h"
#include "btl_ib_rnr_sender.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { OTHER = 1, CHANNEL = 2, TAG = 9, FRAGMENT = 33 };

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static uint32_t base;       /* the first sequence that is missing */

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    base = conn->rx[CHANNEL].window.next;
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* ---- the receiver ---- */

static btl_ib_view_t view_of(uint32_t channel, uint32_t at)
{
    btl_ib_view_t view = {.type = BTL_IB_TYPE_DATA, .channel = (uint8_t) channel, .seq = base + at};

    view.chunk.fragment = FRAGMENT;
    return view;
}

static const btl_ib_rnr_entry_t *refuse(uint32_t channel, uint32_t at, btl_ib_rnr_cause_t cause)
{
    const btl_ib_view_t view = view_of(channel, at);

    btl_ib_rnr_note(conn, &view, TAG, cause);
    assert_true(conn->rnr.entries[cause].kept);
    assert_true(conn->rnr.any);
    return &conn->rnr.entries[cause];
}

static void arrive(uint32_t at)
{
    btl_ib_rx_window_t *window = &conn->rx[CHANNEL].window;

    assert_int_equal(btl_ib_rx_window_reserve(window, base + at, &engine->mem), 0);
    btl_ib_rx_window_mark(window, base + at);
}

/* Of a channel the lowest that is still missing, else the last. protocol: R47 */
TEST_WITH(which_is_kept, set_up, tear_down)
{
    const btl_ib_rnr_entry_t *entry = refuse(CHANNEL, 10, BTL_IB_RNR_BUFFER);

    assert_int_equal(entry->seq, base + 10);
    assert_int_equal(entry->channel, CHANNEL);
    assert_int_equal(entry->tag, TAG);
    assert_int_equal(entry->fragment, 0); /* it is no chunk */
    assert_false(conn->ack.at_once);      /* others may come, too */
    (void) refuse(CHANNEL, 12, BTL_IB_RNR_BUFFER);
    assert_int_equal(entry->seq, base + 10);
    (void) refuse(CHANNEL, 8, BTL_IB_RNR_BUFFER);
    assert_int_equal(entry->seq, base + 8);
    arrive(8);
    (void) refuse(CHANNEL, 14, BTL_IB_RNR_BUFFER);
    assert_int_equal(entry->seq, base + 14);
    (void) refuse(OTHER, 16, BTL_IB_RNR_BUFFER);
    assert_int_equal(entry->channel, OTHER);
    conn->rnr.entries[BTL_IB_RNR_BUFFER].kept = false;
    (void) refuse(OTHER, 18, BTL_IB_RNR_BUFFER);
    assert_int_equal(entry->seq, base + 18);
    btl_ib_view_t chunk = view_of(CHANNEL, 20);
    chunk.type = BTL_IB_TYPE_CHUNK;
    btl_ib_rnr_note(conn, &chunk, TAG, BTL_IB_RNR_BUFFER);
    assert_int_equal(entry->fragment, FRAGMENT);
    assert_false(btl_ib_list_empty(&conn->rnr.link));
    assert_true(conn->ack.due >> CHANNEL & 1 && conn->ack.due >> OTHER & 1);
    assert_true(engine->work.waits);
}

/* A copy that comes ends the entry of its segment, and no other. */
TEST_WITH(a_copy_comes, set_up, tear_down)
{
    const btl_ib_rnr_entry_t *entries = conn->rnr.entries;
    const btl_ib_view_t other = view_of(OTHER, 3), view = view_of(CHANNEL, 3);

    (void) refuse(CHANNEL, 3, BTL_IB_RNR_TAG);
    (void) refuse(CHANNEL, 4, BTL_IB_RNR_BUFFER);
    (void) refuse(CHANNEL, 6, BTL_IB_RNR_BACKLOG);
    assert_int_equal(conn->rnr.runs->count, 2);
    btl_ib_rnr_here(conn, &other);
    assert_true(entries[BTL_IB_RNR_TAG].kept && entries[BTL_IB_RNR_BUFFER].kept
                && entries[BTL_IB_RNR_BACKLOG].kept);
    btl_ib_rnr_here(conn, &view);
    assert_false(entries[BTL_IB_RNR_TAG].kept);
    assert_true(entries[BTL_IB_RNR_BUFFER].kept && entries[BTL_IB_RNR_BACKLOG].kept);
    assert_int_equal(btl_ib_rnr_runs_within(conn->rnr.runs, CHANNEL, base + 3, base + 4), 0);
    assert_int_equal(btl_ib_rnr_runs_within(conn->rnr.runs, CHANNEL, base + 4, base + 5), 1);
}

/* What may come again: its cause is gone, it is missing, and of two the one that nobody was told
 * of. */
TEST_WITH(which_is_named, set_up, tear_down)
{
    btl_ib_rnr_entry_t *entries = conn->rnr.entries;

    assert_null(btl_ib_rnr_pick(conn));
    bench->hosts[0].deaf[TAG] = true;
    (void) refuse(CHANNEL, 3, BTL_IB_RNR_TAG);
    assert_null(btl_ib_rnr_pick(conn));
    assert_true(conn->rnr.any);
    conn->draining = true; /* whatever it is, nobody waits for it */
    assert_ptr_equal(btl_ib_rnr_pick(conn), &entries[BTL_IB_RNR_TAG]);
    conn->draining = false;
    bench->hosts[0].deaf[TAG] = false;
    (void) refuse(CHANNEL, 5, BTL_IB_RNR_BACKLOG);
    assert_ptr_equal(btl_ib_rnr_pick(conn), &entries[BTL_IB_RNR_TAG]);
    const uint64_t ready = engine->count.sent_ready;
    btl_ib_rnr_told(conn, &entries[BTL_IB_RNR_TAG]);
    assert_int_equal(engine->count.sent_ready, ready + 1);
    assert_ptr_equal(btl_ib_rnr_pick(conn), &entries[BTL_IB_RNR_BACKLOG]);
    engine->turn.async = true; /* the application has not taken it */
    assert_ptr_equal(btl_ib_rnr_pick(conn), &entries[BTL_IB_RNR_TAG]);
    engine->turn.async = false;
    btl_ib_rnr_told(conn, &entries[BTL_IB_RNR_BACKLOG]);
    assert_non_null(btl_ib_rnr_pick(conn)); /* until it is there */
    arrive(3);
    assert_ptr_equal(btl_ib_rnr_pick(conn), &entries[BTL_IB_RNR_BACKLOG]);
    assert_false(entries[BTL_IB_RNR_TAG].kept);
    arrive(5);
    assert_null(btl_ib_rnr_pick(conn));
    assert_true(conn->rnr.any); /* ACKs name the runs still */
    btl_ib_rnr_runs_take(conn->rnr.runs, CHANNEL, base + 3);
    btl_ib_rnr_runs_take(conn->rnr.runs, CHANNEL, base + 5);
    assert_null(btl_ib_rnr_pick(conn));
    assert_false(conn->rnr.any);
}

/* A turn looks whether a cause is gone, for as long as the peer is to be told of it. */
TEST_WITH(looked_at_each_turn, set_up, tear_down)
{
    bench->hosts[0].deaf[TAG] = true;
    const btl_ib_rnr_entry_t *entry = refuse(CHANNEL, 3, BTL_IB_RNR_TAG);
    btl_ib_ack_tx_settled(&conn->ack, UINT32_MAX);
    btl_ib_rnr_turn(engine);
    assert_int_equal(conn->ack.due, 0);
    assert_false(btl_ib_list_empty(&engine->rnr));
    bench->hosts[0].deaf[TAG] = false;
    btl_ib_rnr_turn(engine);
    assert_true(conn->ack.at_once);
    assert_int_equal(conn->ack.due, 1u << CHANNEL);
    assert_false(btl_ib_list_empty(&engine->rnr)); /* that ACK may not leave */
    conn->rnr.entries[BTL_IB_RNR_TAG].told = true;
    btl_ib_rnr_turn(engine);
    assert_true(btl_ib_list_empty(&engine->rnr));
    assert_true(entry->kept);
    (void) refuse(CHANNEL, 2, BTL_IB_RNR_TAG);
    arrive(2);
    btl_ib_ack_tx_settled(&conn->ack, UINT32_MAX);
    btl_ib_rnr_turn(engine);
    assert_int_equal(conn->ack.due, 0);
    assert_true(btl_ib_list_empty(&engine->rnr));
}

/* Of many connections each has its turn. */
TEST_WITH(all_have_their_turn, set_up, tear_down)
{
    static btl_ib_conn_t *others[100];
    btl_ib_peer_info_t info = bench_info(bench, 1, 0);

    bench->hosts[0].deaf[TAG] = true;
    for (uint32_t i = 0; i < 100; i++) {
        const btl_ib_view_t view = view_of(CHANNEL, 3);
        info.name += 1000;
        assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &others[i]), 0);
        btl_ib_rnr_note(others[i], &view, TAG, BTL_IB_RNR_TAG);
        btl_ib_ack_tx_settled(&others[i]->ack, UINT32_MAX);
    }
    bench->hosts[0].deaf[TAG] = false;
    btl_ib_rnr_turn(engine);
    assert_int_not_equal(others[63]->ack.due, 0);
    assert_int_equal(others[64]->ack.due, 0); /* in a turn there is time for so many */
    btl_ib_rnr_turn(engine);
    assert_int_not_equal(others[99]->ack.due, 0);
}

TEST_WITH(forgotten, set_up, tear_down)
{
    (void) refuse(CHANNEL, 3, BTL_IB_RNR_TAG);
    (void) refuse(CHANNEL, 4, BTL_IB_RNR_BACKLOG);
    btl_ib_rnr_forget(conn);
    assert_false(conn->rnr.any);
    assert_null(conn->rnr.runs);
    assert_true(btl_ib_list_empty(&engine->rnr));
    assert_null(btl_ib_rnr_pick(conn));
}

/* ---- the sender ---- */

static btl_ib_segment_t *segments[4];
static uint32_t sent_on;

/* Four messages are in flight, each of which left alone. */
static void leave_four(void)
{
    const btl_ib_list_t *list = &conn->sentmap.sent[BTL_IB_SENT_OTHERS];
    btl_ib_list_t *item = NULL;

    for (uint32_t i = 0; i < 4; i++) {
        bench->now += 10;
        bench_turn(bench, 0);
        bench_send(bench, 0, 1, 100, 1);
    }
    bench_clear(&bench->wire);
    for (uint32_t i = 0; i < 4; i++) {
        item = item == NULL ? btl_ib_list_first(list) : btl_ib_list_next(list, item);
        assert_non_null(item);
        segments[i] = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        assert_int_equal(segments[i]->channel, segments[0]->channel);
    }
    sent_on = segments[0]->channel;
}

/* The peer says that these got RNR, and echoes what was stamped then. Returns how many are
 * deferred. */
static uint32_t told_rnr(uint32_t first, uint32_t end, uint64_t stamped_at, uint8_t flags)
{
    const btl_ib_view_t view = {.flags = flags, .echo = (uint32_t) stamped_at};

    btl_ib_rnr_sender_add(conn, sent_on, segments[0]->seq + first, segments[0]->seq + end, &view);
    return conn->sentmap.deferred_count;
}

TEST_WITH(which_are_deferred, set_up, tear_down)
{
    leave_four();
    const uint64_t at = segments[1]->last_sent;
    engine->clock.now += 100;
    assert_int_equal(told_rnr(1, 2, at, 0), 0);                    /* of which copy? */
    assert_int_equal(told_rnr(1, 2, at - 1, BTL_IB_FLAG_ECHO), 0); /* of an earlier one */
    assert_int_equal(told_rnr(1, 2, at, BTL_IB_FLAG_ECHO), 1);
    assert_true(segments[1]->deferred && segments[1]->lost);
    assert_int_equal(conn->deferred.at, engine->clock.now);
    assert_false(btl_ib_list_empty(&conn->ready));
    assert_int_equal(engine->count.deferred, 1);
    engine->clock.now += 100;
    assert_int_equal(told_rnr(1, 2, engine->clock.now, BTL_IB_FLAG_ECHO), 1); /* that is known */
    assert_int_equal(engine->count.deferred, 1);
    assert_int_equal(told_rnr(0, 3, engine->clock.now, BTL_IB_FLAG_ECHO), 3);
    assert_false(segments[3]->deferred);
    assert_int_equal(conn->deferred.at, engine->clock.now - 100);             /* of the first */
    assert_int_equal(told_rnr(3, 9, engine->clock.now, BTL_IB_FLAG_ECHO), 4); /* and no more */
    assert_int_equal(conn->sentmap.in_flight, 0);
}

/* All are sent again once one that got RNR was accepted, or now and then with other progress. */
TEST_WITH(sent_again, set_up, tear_down)
{
    leave_four();
    (void) told_rnr(0, 3, engine->clock.now, BTL_IB_FLAG_ECHO);
    btl_ib_rnr_sender_acked(conn, segments[3]); /* that got none */
    assert_int_equal(conn->sentmap.deferred_count, 3);
    engine->clock.now += 50;
    btl_ib_rnr_sender_acked(conn, segments[0]);
    assert_int_equal(conn->sentmap.deferred_count, 0);
    assert_true(segments[1]->lost && !segments[1]->deferred);
    assert_int_equal(conn->deferred.at, engine->clock.now);
    btl_ib_rnr_sender_acked(conn, segments[0]);
    assert_int_equal(told_rnr(3, 4, engine->clock.now, BTL_IB_FLAG_ECHO), 1);
    engine->clock.now = conn->deferred.at + engine->config.rto_max - 1;
    btl_ib_rnr_sender_retry(conn);
    assert_int_equal(conn->sentmap.deferred_count, 1);
    engine->clock.now++;
    btl_ib_rnr_sender_retry(conn);
    assert_int_equal(conn->sentmap.deferred_count, 0);
    assert_int_equal(conn->deferred.at, engine->clock.now);
}

static uint64_t ready(uint32_t number, uint64_t stamped_at, uint8_t flags)
{
    const uint64_t again = engine->count.retransmits;
    const uint64_t heard = engine->count.received_ready;
    const btl_ib_view_t view = {.flags = flags,
                                .channel = (uint8_t) sent_on,
                                .seq = segments[0]->seq + number,
                                .echo = (uint32_t) stamped_at};

    conn->loss.no_tag_at = 5;
    btl_ib_rnr_sender_ready(conn, &view);
    assert_int_equal(conn->loss.no_tag_at, 0);
    assert_int_equal(engine->count.received_ready, heard + 1);
    return engine->count.retransmits - again;
}

/* The one that is named is sent again at once, if it was the last copy that got RNR. */
TEST_WITH(named, set_up, tear_down)
{
    leave_four();
    (void) told_rnr(0, 4, engine->clock.now, BTL_IB_FLAG_ECHO);
    engine->clock.now += 100;
    const uint64_t at = segments[1]->last_sent;
    assert_int_equal(ready(1, at, 0), 0);
    assert_int_equal(ready(1, at - 1, BTL_IB_FLAG_ECHO), 0);
    assert_int_equal(ready(77, at, BTL_IB_FLAG_ECHO), 0); /* nobody sent that */
    assert_int_equal(conn->loss.probed, 0);
    btl_ib_hotel_checkout(&engine->hotel, &conn->loss.timer.guest);
    assert_int_equal(ready(1, at, BTL_IB_FLAG_ECHO), 1);
    assert_int_equal(conn->loss.probed, 1);
    assert_true(segments[1]->probe && !segments[1]->deferred);
    assert_true(btl_ib_hotel_guest_is_in(&conn->loss.timer.guest));
    bench->hosts[0].rails[0].busy = 1; /* the device takes nothing now */
    assert_int_equal(ready(2, engine->clock.now, BTL_IB_FLAG_ECHO), 0);
    assert_true(segments[2]->lost && !segments[2]->deferred);
    bench->hosts[0].rails[0].busy = 0;
    bench_clear(&bench->wire);
}

UNIT_MAIN(NULL, NULL)
