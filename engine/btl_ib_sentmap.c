/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_sentmap.h"

#include "btl_ib_completion.h"
#include "btl_ib_pacing.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"
#include "btl_ib_zcopy.h"

#include <assert.h>

enum {
    WINDOW_SMALL = 32, /* segments, or two bursts: above, the receiver acknowledges soon enough */
    /* us: processes compute between their messages; TCP's least timeout on Linux, after which it
     * begins anew as well (RFC 5681, 4.1) */
    SILENCE_LEAST = 200000,
};

static inline btl_ib_tx_channel_t *channel_of(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    return &conn->tx[segment->channel];
}

/* Counts `count` segments of a channel that are in flight; negative: not any more. The caller
 * leaves SKIPs out. */
static inline void count_in_flight(btl_ib_conn_t *conn, btl_ib_tx_channel_t *tx, int count)
{
    conn->sentmap.in_flight += (uint32_t) count;
    tx->sentmap.in_flight += (uint32_t) count;
}

/*
 * Counts `count` segments like `like`, which have `bytes` together, from the moment they get their
 * sequences until they are acknowledged; negative: not any more. What is lost and waits to be sent
 * again counts, too: that bounds memory, and leaves the pool segments for acknowledgements.
 * `in_flight`: they are. SKIPs may rest for long: they hold nothing up and no limit bounds them, so
 * the pool gets one more for each.
 */
static inline void count_unacked(btl_ib_conn_t *conn, btl_ib_tx_channel_t *tx,
                                 const btl_ib_segment_t *like, int count, uint64_t bytes,
                                 bool in_flight)
{
    btl_ib_budget_t *budget = &conn->engine->budget;

    if (like->type == BTL_IB_TYPE_SKIP) {
        conn->sentmap.unacked += (uint32_t) count;
        conn->sentmap.skips += (uint32_t) count;
        btl_ib_pool_change_limit(like->pool, count);
        return;
    }
    const uint32_t before = btl_ib_conn_depth_apart(conn);
    conn->sentmap.unacked += (uint32_t) count;
    budget->unacked += (uint32_t) count;
    budget->apart += btl_ib_conn_depth_apart(conn) - before;
    budget->bytes_unacked += count > 0 ? bytes : -bytes;
    if (in_flight) {
        count_in_flight(conn, tx, count);
    }
}

static inline uint64_t segment_bytes(const btl_ib_segment_t *segment)
{
    return segment->size + segment->outside;
}

/* A batch is packetized before its first segment ends a silence; it must fit the window that
 * remains then. */
_Static_assert(BTL_IB_BATCH <= BTL_IB_CC_INIT, "a batch is longer than the window after a silence");

/* Forgets what is known of the path: after a silence longer than a timeout, and than SILENCE_LEAST,
 * of which the caller knows, it is out of date. */
__attribute__((noinline, cold)) static void end_silence(btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;
    const uint64_t timeout = btl_ib_rtt_timeout(&conn->loss.rtt, engine->config.rto_initial);
    if (engine->clock.now > conn->loss.probe_base + timeout) {
        conn->cc.ops->restart(&conn->cc);
    }
}

/* When to ask for an immediate acknowledgement. If nothing else is in flight the whole window is
 * left, whatever was sent before. */
typedef struct asking {
    uint32_t window; /* segments: what fills it asks; UINT32_MAX: it is large, nothing asks */
    uint32_t every;  /* and each so many */
} asking_t;

/* Says when segments ask for an acknowledgement: where the window is so small that a delayed one
 * would leave it empty, once in each quarter, or in each burst where it holds one. */
static asking_t asking_of(const btl_ib_conn_t *conn, uint32_t channel)
{
    const btl_ib_queue_t *queue = &conn->peer_queues->q[channel];
    const uint32_t burst = btl_ib_max_u32(WINDOW_SMALL, conn->cc.gso_segments);
    const uint32_t small = btl_ib_max_u32(WINDOW_SMALL, btl_ib_cc_ack_every(&conn->cc));
    uint32_t window = btl_ib_min_u32(conn->cc.window, conn->incast.segments);

    if (queue->type == BTL_IB_QUEUE_SHARED && queue->max_pending < small) {
        window = btl_ib_min_u32(window, queue->max_pending);
    }
    if (window >= small) {
        return (asking_t){.window = UINT32_MAX, .every = UINT32_MAX};
    }
    return (asking_t){.window = window, .every = window < burst ? (window + 3) / 4 : burst};
}

/* Has a segment ask for an acknowledgement if one is due: `in_flight` segments are when this one
 * has left, `unasked` were sent since one asked. Returns how many were then. */
static inline uint32_t ask_for_ack(btl_ib_segment_t *segment, asking_t asking, uint32_t in_flight,
                                   uint32_t unasked)
{
    unasked = in_flight <= 1 ? 1 : unasked + 1;
    if (unasked >= asking.every || in_flight >= asking.window) {
        segment->flags |= BTL_IB_FLAG_ACK_NOW;
    }
    return segment->flags & BTL_IB_FLAG_ACK_NOW ? 0 : unasked;
}

/*
 * What follows happens to one segment, as most short messages are, or to a run. It is written once
 * and compiled twice: inline for one, which needs neither loops nor stack, and behind a call for a
 * run (map_x_run()).
 */

__attribute__((always_inline)) static inline void
map_enter(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count, uint32_t channel)
{
    btl_ib_tx_channel_t *tx = &conn->tx[channel];

    tx->sentmap.sent += (uint32_t) count;
    if (conn->sentmap.in_flight == 0
        && conn->engine->clock.now > conn->loss.probe_base + SILENCE_LEAST) {
        end_silence(conn);
    }
    btl_ib_pacer_spend(&conn->pacer, &conn->cc, conn->engine->clock.now, count);
    const uint32_t seq = btl_ib_tx_window_extend(&tx->sentmap.window, (uint32_t) count);
    const btl_ib_tx_window_t places = tx->sentmap.window;
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        segments[i]->channel = (uint8_t) channel;
        segments[i]->seq = seq + (uint32_t) i;
        btl_ib_tx_window_put(&places, seq + (uint32_t) i, segments[i]);
        bytes += segment_bytes(segments[i]);
    }
    /* after the silence ended, as the window may be smaller then */
    const asking_t asking = asking_of(conn, channel);
    const uint32_t before = conn->sentmap.in_flight + (segments[0]->type != BTL_IB_TYPE_SKIP);
    /* in a large window none asks, but perhaps the last of a message */
    int i = asking.window == UINT32_MAX ? count - 1 : 0;
    uint32_t unasked = (before > 1 ? conn->sentmap.unasked : 0) + (uint32_t) i;
    for (; i < count; i++) {
        unasked = ask_for_ack(segments[i], asking, before + (uint32_t) i, unasked);
    }
    conn->sentmap.unasked = unasked;
    count_unacked(conn, tx, segments[0], count, bytes, true);
}

__attribute__((noinline)) static void
map_enter_run(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count, uint32_t channel)
{
    map_enter(conn, segments, count, channel);
}

void btl_ib_sentmap_enter(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count,
                          uint32_t channel)
{
    if (count == 1) {
        map_enter(conn, segments, 1, channel);
    } else {
        map_enter_run(conn, segments, count, channel);
    }
}

/* Gives back the region that a segment, or a run of `count` that begins with it, is sent from. */
static inline void return_region(btl_ib_conn_t *conn, btl_ib_segment_t *segment, int count)
{
    if (segment->region != 0) {
        btl_ib_regions_return(&conn->engine->regions, segment->region, (uint32_t) count);
        segment->region = 0;
    }
}

void btl_ib_sentmap_withdraw(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_tx_channel_t *tx = channel_of(conn, segment);

    return_region(conn, segment, 1);
    count_unacked(conn, tx, segment, -1, segment_bytes(segment), true);
    btl_ib_pacer_take_back(&conn->pacer, &conn->cc);
    btl_ib_tx_window_unpush(&tx->sentmap.window);
    tx->sentmap.sent--;
    btl_ib_pool_put(segment);
}

__attribute__((always_inline)) static inline int
map_left(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int most)
{
    btl_ib_engine_t *engine = conn->engine;
    const uint64_t awake = btl_ib_clock_awake(&engine->clock);
    const uint64_t now = engine->clock.now;
    btl_ib_list_t *sent = &conn->sentmap.sent[btl_ib_segment_is_bulk(segments[0])];
    btl_ib_list_t *last = sent->prev;
    uint64_t order = conn->sentmap.order;
    int count = 0;

    do { /* those that continue it are of its kind */
        btl_ib_segment_t *segment = segments[count];
        segment->first_sent = awake;
        segment->last_sent = now;
        segment->order = ++order;
        segment->copies = 1;
        btl_ib_list_join(last, &segment->link);
        last = &segment->link;
    } while (++count < most && segments[count]->continues);
    btl_ib_list_join(last, sent);
    conn->sentmap.order = order;
    engine->count.sent_segments += (uint32_t) count;
    return count;
}

__attribute__((noinline)) static int map_left_run(btl_ib_conn_t *conn,
                                                  btl_ib_segment_t *const *segments, int most)
{
    return map_left(conn, segments, most);
}

int btl_ib_sentmap_left(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int most)
{
    return most == 1 ? map_left(conn, segments, 1) : map_left_run(conn, segments, most);
}

void btl_ib_sentmap_retransmitted(btl_ib_conn_t *conn, btl_ib_segment_t *segment, bool probe)
{
    btl_ib_engine_t *engine = conn->engine;
    const bool by_path = segment->path != 0;

    btl_ib_trace(conn, BTL_IB_TRACE_retransmitted,
                 segment->rnr_copy == segment->copies ? BTL_IB_CAUSE_rnr
                 : probe                              ? BTL_IB_CAUSE_probing
                                                      : BTL_IB_CAUSE_loss,
                 segment, 1);
    btl_ib_list_remove(&segment->link);
    btl_ib_list_push_tail(&conn->sentmap.sent[btl_ib_segment_is_bulk(segment)], &segment->link);
    if (by_path) { /* a probe leaves by the usual one */
        btl_ib_paths_end_flight(conn, segment);
    }
    if (segment->lost) {
        segment->lost = false;
        conn->sentmap.deferred_count -= segment->deferred;
        segment->deferred = false;
        if (segment->type != BTL_IB_TYPE_SKIP) {
            count_in_flight(conn, channel_of(conn, segment), +1);
        }
    }
    if (probe && !segment->probe) {
        segment->unprobed_stamp = (uint32_t) segment->last_sent;
        segment->unprobed_order = by_path ? 0 : segment->order; /* says nothing of the usual path */
    }
    segment->last_sent = engine->clock.now;
    segment->order = ++conn->sentmap.order;
    segment->probe = probe;
    segment->copies++;
    btl_ib_pacer_spend(&conn->pacer, &conn->cc, engine->clock.now, 1);
    engine->count.retransmits++;
    conn->count.retransmits++;
}

/* Returns the link before which a lost segment enters `lost`: those of the command channel go
 * first, in their order. */
static btl_ib_list_t *before_which(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    btl_ib_list_t *lost = &conn->sentmap.lost;
    const btl_ib_segment_t *last =
        btl_ib_list_entry(btl_ib_list_last(lost), offsetof(btl_ib_segment_t, link));
    btl_ib_segment_t *other;

    if (segment->channel != 0 || last == NULL || last->channel == 0) {
        return lost;
    }
    for (other = BTL_IB_LIST_FIRST(btl_ib_segment_t, lost, link); other->channel == 0;
         other = BTL_IB_CONTAINER(btl_ib_list_next(lost, &other->link), btl_ib_segment_t, link)) {
    }
    return &other->link;
}

void btl_ib_sentmap_to_lost(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    if (segment->path != 0) {
        btl_ib_paths_end_flight(conn, segment);
    }
    if (!segment->lost) {
        if (segment->type != BTL_IB_TYPE_SKIP) {
            count_in_flight(conn, channel_of(conn, segment), -1);
        }
        segment->lost = true;
    }
    conn->sentmap.deferred_count -= segment->deferred;
    segment->deferred = false;
    btl_ib_list_remove(&segment->link);
    btl_ib_list_insert_before(before_which(conn, segment), &segment->link);
}

uint32_t btl_ib_sentmap_segments_acked(const btl_ib_conn_t *conn)
{
    uint64_t sent = 0;

    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        sent += conn->tx[i].sentmap.sent;
    }
    return (uint32_t) sent - conn->sentmap.unacked;
}

uint32_t btl_ib_sentmap_lose_all(btl_ib_conn_t *conn)
{
    btl_ib_list_t *item;
    uint32_t lost = 0;

    for (int i = 0; i < btl_ib_sent_lists(conn); i++) {
        while ((item = btl_ib_list_first(btl_ib_sent_list(conn, i))) != NULL) {
            btl_ib_sentmap_to_lost(conn, BTL_IB_CONTAINER(item, btl_ib_segment_t, link));
            lost++;
        }
    }
    return lost;
}

bool btl_ib_sentmap_defer(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint32_t most)
{
    segment->rnr_copy = segment->copies;
    if (conn->sentmap.deferred_count >= most) {
        return false;
    }
    btl_ib_sentmap_to_lost(conn, segment);
    btl_ib_list_remove(&segment->link);
    btl_ib_list_push_tail(&conn->sentmap.deferred, &segment->link);
    conn->sentmap.deferred_count++;
    segment->deferred = true;
    return true;
}

/* Removes `count` segments from all counts and frees them: `first`, and those that continue it up
 * to `last`, which are in flight. Returns what they are pieces of, if that is finished now. */
__attribute__((always_inline)) static inline btl_ib_out_t *
end_segments(btl_ib_conn_t *conn, btl_ib_tx_channel_t *tx, btl_ib_segment_t *first,
             btl_ib_segment_t *last, int count)
{
    btl_ib_out_t *out = first->out;

    count_unacked(conn, tx, first, -count, (uint64_t) count * segment_bytes(first), !first->lost);
    conn->sentmap.deferred_count -= first->deferred;
    if (conn->capped.paths != NULL) {
        btl_ib_paths_acked(conn, last, (uint32_t) count);
    }
    return_region(conn, first, count);
    if (count == 1) {
        btl_ib_list_remove(&first->link);
        btl_ib_pool_put(first);
    } else {
        btl_ib_pool_put_run(first, last);
    }
    if (out == NULL) {
        return NULL;
    }
    btl_ib_out_count(out, -count);
    return out->pending > 0 || out->offset < out->size ? NULL : out;
}

btl_ib_out_t *btl_ib_sentmap_end(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    return end_segments(conn, channel_of(conn, segment), segment, segment, 1);
}

__attribute__((always_inline)) static inline void
map_acked(btl_ib_conn_t *conn, btl_ib_segment_t *first, btl_ib_segment_t *last, uint32_t count)
{
    btl_ib_tx_channel_t *tx = channel_of(conn, first);

    btl_ib_tx_window_clear(&tx->sentmap.window, first->seq, count);
    btl_ib_out_t *out = end_segments(conn, tx, first, last, (int) count);
    if (out != NULL) {
        btl_ib_completion_add(out, 0);
    }
}

__attribute__((noinline)) static void map_acked_run(btl_ib_conn_t *conn, btl_ib_segment_t *first,
                                                    btl_ib_segment_t *last, uint32_t count)
{
    map_acked(conn, first, last, count);
}

void btl_ib_sentmap_acked(btl_ib_conn_t *conn, btl_ib_segment_t *first, btl_ib_segment_t *last,
                          uint32_t count)
{
    if (count == 1) {
        map_acked(conn, first, first, 1);
    } else {
        map_acked_run(conn, first, last, count);
    }
}

/* True if a segment was sent once, so that nothing but its acknowledgement can be known of it. */
static inline bool was_sent_once(const btl_ib_segment_t *segment)
{
    return segment->copies == 1 && !segment->lost && !segment->busy;
}

uint32_t btl_ib_sentmap_run(const btl_ib_tx_window_t *window, btl_ib_segment_t *first,
                            uint32_t most, btl_ib_segment_t **last)
{
    const btl_ib_tx_window_t places = *window;
    uint32_t run = 1;

    *last = first;
    if (!was_sent_once(first)) {
        return 1;
    }
    assert(first->seq + most - window->first <= window->next - window->first);
    for (; run < most; run++) {
        btl_ib_segment_t *next = btl_ib_tx_window_get(&places, first->seq + run);
        if (next == NULL || !next->continues || !was_sent_once(next)) {
            break;
        }
        *last = next;
    }
    return run;
}

void btl_ib_sentmap_cut_off(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_tx_channel_t *tx = channel_of(conn, segment);

    /* Count anew, because a VOID has no bytes of a message. */
    count_unacked(conn, tx, segment, -1, segment_bytes(segment), false);
    return_region(conn, segment, 1);
    btl_ib_packet_make_void(segment);
    count_unacked(conn, tx, segment, +1, segment_bytes(segment), false);
}

/* Makes void the segments that are pieces of `out`, or, if that is NULL, answers to operations. */
static void void_some(btl_ib_conn_t *conn, btl_ib_list_t *segments, const btl_ib_out_t *out)
{
    btl_ib_list_t *next;

    for (btl_ib_list_t *item = btl_ib_list_first(segments); item != NULL; item = next) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        bool answer = segment->type == BTL_IB_TYPE_GOT || segment->type == BTL_IB_TYPE_REPLY;
        next = btl_ib_list_next(segments, item);
        if (out != NULL ? segment->out == out : answer) {
            if (!segment->lost || segment->deferred) {
                btl_ib_sentmap_to_lost(conn, segment);
            }
            btl_ib_sentmap_cut_off(conn, segment);
            conn->engine->count.voided++;
        }
    }
}

void btl_ib_sentmap_void(btl_ib_conn_t *conn, const btl_ib_out_t *out)
{
    void_some(conn, &conn->sentmap.lost, out);
    for (int i = 0; i < btl_ib_sent_lists(conn); i++) {
        void_some(conn, btl_ib_sent_list(conn, i), out);
    }
    void_some(conn, &conn->sentmap.deferred, out);
    btl_ib_conn_ready(conn);
}

static void copy_bytes_of(btl_ib_engine_t *engine, btl_ib_list_t *segments, uint64_t region)
{
    for (btl_ib_list_t *item = btl_ib_list_first(segments); item != NULL;
         item = btl_ib_list_next(segments, item)) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        if (segment->region == region) {
            engine->count.copied_out += segment->outside;
            btl_ib_packet_own_bytes(segment);
        }
    }
}

void btl_ib_sentmap_own(btl_ib_engine_t *engine, uint64_t region)
{
    for (btl_ib_list_t *item = btl_ib_list_first(&engine->conns); item != NULL;
         item = btl_ib_list_next(&engine->conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        for (int i = 0; i < btl_ib_sent_lists(conn); i++) {
            copy_bytes_of(engine, btl_ib_sent_list(conn, i), region);
        }
        copy_bytes_of(engine, &conn->sentmap.lost, region);
        copy_bytes_of(engine, &conn->sentmap.deferred, region);
    }
}
