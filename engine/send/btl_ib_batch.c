/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What waits in a channel leaves: planned, cut, and sent in batches. btl_ib_packetize.c makes the segments,
 * btl_ib_transmit.c sends them. */

#include "btl_ib_batch.h"

#include "btl_ib_answers.h"
#include "btl_ib_completion.h"
#include "btl_ib_latency.h"
#include "btl_ib_limits.h"
#include "btl_ib_min.h"
#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
#include "btl_ib_recovery.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_transmit.h"

enum {
    SHORT_TRAINS = 2, /* of a full one */
};

/* Segments about to be sent, in order. */
typedef struct batch {
    btl_ib_segment_t *segments[BTL_IB_BATCH];
    int count;
    btl_ib_list_t bundled; /* the messages in those that are BUNDLEs */
} batch_t;

/* The last segment of a batch could not leave: as if it had never been cut. */
static void uncut(btl_ib_conn_t *conn, batch_t *batch, btl_ib_list_t *pending)
{
    btl_ib_segment_t *segment = batch->segments[--batch->count];
    btl_ib_out_t *out = segment->out;

    for (uint32_t n = segment->bundled; n > 0; n--) {
        btl_ib_list_t *item = btl_ib_list_last(&batch->bundled);
        BTL_IB_CONTAINER(item, btl_ib_out_t, link)->offset = 0;
        btl_ib_list_remove(item);
        btl_ib_list_push_head(pending, item);
    }
    if (out != NULL) {
        btl_ib_packetize_undo(segment);
        if (btl_ib_list_empty(&out->link)) {
            btl_ib_list_push_head(pending, &out->link);
        }
    }
    btl_ib_sentmap_withdraw(conn, segment);
}

static void piece_left(btl_ib_conn_t *conn, btl_ib_segment_t *segment, btl_ib_list_t *bundled)
{
    btl_ib_out_t *out = segment->out;

    conn->engine->count.sent_bytes += segment->payload;
    if (segment->bundled > 0) {
        btl_ib_out_left_bundled(conn, bundled, segment->bundled);
        return;
    }
    btl_ib_packetize_left(segment);
    if (segment->last) {
        btl_ib_out_left(conn, out, segment->out == NULL);
    }
}

/* The first `count` segments of a batch have left. */
static void have_left(btl_ib_conn_t *conn, batch_t *batch, int count)
{
    btl_ib_sentmap_left(conn, batch->segments, count);
    btl_ib_recovery_sent(conn);
    for (int i = 0; i < count; i++) {
        piece_left(conn, batch->segments[i], &batch->bundled);
    }
}

/* The next that may be cut in a channel, or NULL. */
static btl_ib_out_t *next_out(const btl_ib_tx_space_t *tx)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(&tx->submit.pending)) != NULL) {
        btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
        if (out->kind != BTL_IB_OUT_STREAM
            || btl_ib_answers_find(BTL_IB_CONTAINER(out, btl_ib_stream_t, out))) {
            return out;
        }
    }
    return NULL;
}

/* What to cut next off what waits in a channel. */
typedef struct plan {
    uint32_t space; /* on which channel it travels */
    uint32_t count; /* messages to be bundled; if not several: the next pieces of the first */
    uint32_t size;  /* what they take */
    uint32_t room;  /* if not several: so many pieces may leave before the limits are asked again */
} plan_t;

/* Messages travel together on the smallest channel that holds them; if that is blocked, as many as their
 * own channel holds. */
static btl_ib_verdict_t make_plan(const btl_ib_conn_t *conn, uint32_t space, plan_t *plan)
{
    const btl_ib_list_t *pending = &conn->tx[space].submit.pending;
    uint32_t overhead = btl_ib_packet_overhead(conn);
    uint32_t room = conn->peer_queues->q[space].size;
    btl_ib_verdict_t verdict;

    plan->count = btl_ib_list_first(pending) == btl_ib_list_last(pending)
                      ? 1
                      : btl_ib_packetize_bundle_count(pending, conn->pmtud.datagram_max - overhead,
                                                      &plan->size);
    if (plan->count > 1) {
        plan->space = btl_ib_queues_channel(conn->peer_queues, plan->size + overhead);
        if (plan->space == space || btl_ib_limits_check(conn, plan->space) == BTL_IB_GO) {
            return btl_ib_limits_check(conn, plan->space);
        }
        room = room < conn->pmtud.datagram_max ? room : conn->pmtud.datagram_max;
        plan->count = btl_ib_packetize_bundle_count(pending, room - overhead, &plan->size);
    }
    plan->space = space;
    plan->room = btl_ib_limits_room(conn, space, &verdict);
    return verdict;
}

/* Cut a BUNDLE, or pieces of `out` for what is left of the batch. False: there is no memory for all that. */
static bool cut_as_planned(btl_ib_conn_t *conn, btl_ib_tx_space_t *tx, btl_ib_out_t *out,
                           const plan_t *plan, batch_t *batch, int most)
{
    btl_ib_segment_t **segments = &batch->segments[batch->count];
    int count;

    if (plan->count > 1) {
        most = 1;
        segments[0] = btl_ib_packetize_bundle(conn, &tx->submit.pending, plan->count, plan->size,
                                              plan->space, &batch->bundled);
        count = segments[0] != NULL;
    } else {
        most = (int) btl_ib_min_u32(plan->room, (uint32_t) (most - batch->count));
        count = btl_ib_packetize(conn, out, plan->space, segments, most);
    }
    if (count == 0) {
        return false;
    }
    btl_ib_recovery_sending(conn, segments[0]);
    btl_ib_sentmap_enter(conn, segments, count, plan->space);
    batch->count += count;
    if (segments[count - 1]->last) {
        btl_ib_list_remove(&out->link);
        return true;
    }
    return count == most;
}

static int largest_batch(const btl_ib_conn_t *conn)
{
    const int most = btl_ib_transmit_max(conn);

    return btl_ib_latency_short_ones_are_about(conn) ? (most + SHORT_TRAINS - 1) / SHORT_TRAINS
                                                     : most;
}

/* Cut a batch off what waits in a channel. Returns what stopped it; *full: memory did. */
static btl_ib_verdict_t cut_batch(btl_ib_conn_t *conn, uint32_t space, batch_t *batch, bool *full)
{
    btl_ib_tx_space_t *tx = &conn->tx[space];
    const int most = largest_batch(conn);
    btl_ib_out_t *out;
    plan_t plan;

    batch->count = 0;
    while (batch->count < most && (out = next_out(tx)) != NULL) {
        btl_ib_verdict_t verdict = make_plan(conn, space, &plan);
        if (verdict != BTL_IB_GO) {
            return verdict;
        }
        if (!cut_as_planned(conn, tx, out, &plan, batch, most)) {
            conn->engine->count.blocked_memory++;
            *full = true;
            return BTL_IB_GO;
        }
    }
    return BTL_IB_GO;
}

/* Bytes of one-sided operations have no end in sight: after each batch others have their turn. The
 * pieces of a message stay together, as its receiver's reassembly wants it. */
static void take_turns(btl_ib_tx_space_t *tx)
{
    btl_ib_list_t *first = btl_ib_list_first(&tx->submit.pending);

    if (first != NULL && first != btl_ib_list_last(&tx->submit.pending)) {
        const btl_ib_out_t *out = BTL_IB_CONTAINER(first, btl_ib_out_t, link);
        if ((out->kind == BTL_IB_OUT_PUT || out->kind == BTL_IB_OUT_STREAM) && out->offset > 0) {
            btl_ib_list_remove(first);
            btl_ib_list_push_tail(&tx->submit.pending, first);
        }
    }
}

/* Is there enough to fill a train? */
static bool fills_train(const btl_ib_conn_t *conn, const btl_ib_tx_space_t *tx)
{
    const uint64_t train = (uint64_t) conn->cc.gso_segments * btl_ib_conn_segment_max(conn);
    uint64_t bytes = 0;

    for (const btl_ib_list_t *item = btl_ib_list_first(&tx->submit.pending); item != NULL;
         item = btl_ib_list_next(&tx->submit.pending, item)) {
        const btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
        bytes += out->size - out->offset;
        if (bytes >= train) {
            return true;
        }
    }
    return false;
}

static bool out_is_bulk(const btl_ib_conn_t *conn, const btl_ib_out_t *out)
{
    return out->kind == BTL_IB_OUT_PUT || out->kind == BTL_IB_OUT_STREAM
           || out->size > btl_ib_conn_segment_max(conn);
}

/*
 * Whoever waits for the short message that came in this turn has it before a train of bulk leaves. One that came alone
 * holds nothing up: perhaps its receiver computes now, and does not call again for long. Nor is anything else put
 * off: what is less than a train, what was lost, and short messages cost next to nothing.
 */
static bool makes_way(const btl_ib_conn_t *conn, const btl_ib_tx_space_t *tx)
{
    if (!btl_ib_latency_holds_bulk(conn)) {
        return false;
    }
    const btl_ib_out_t *first = next_out(tx);
    return first != NULL && out_is_bulk(conn, first) && fills_train(conn, tx);
}

/* While short messages are about somebody looks for them between any two trains. */
static bool one_train_is_enough(const btl_ib_conn_t *conn, const btl_ib_segment_t *first)
{
    return conn->engine->turn.sending && btl_ib_latency_short_ones_are_about(conn)
           && btl_ib_segment_is_bulk(first);
}

/*
 * Does what is left of a window wait for more, so that a whole train may leave? (RFC 1122, 4.2.3.4: a train that is short
 * costs nearly as much.) Not if it is much beside what is under way on its channel, for both hosts are to have something to do;
 * nor if less than a train is under way there, which nobody acknowledges soon.
 */
static bool waits_for_room(const btl_ib_conn_t *conn, const btl_ib_tx_space_t *tx, uint32_t space)
{
    const uint32_t train = conn->cc.gso_segments;

    if (train == 1 || tx->sentmap.in_flight < train) {
        return false;
    }
    if (btl_ib_limits_way(conn, space) >= btl_ib_min_u32(train, tx->sentmap.in_flight / 3)) {
        return false;
    }
    const btl_ib_out_t *first = btl_ib_list_empty(&tx->submit.pending) ? NULL : next_out(tx);
    return first != NULL && out_is_bulk(conn, first) && fills_train(conn, tx);
}

/* Send a batch; what does not leave is as if it had never been cut. Returns how many segments left. */
static int send_batch(btl_ib_conn_t *conn, batch_t *batch, btl_ib_list_t *pending, bool *full)
{
    if (batch->count == 0) {
        return 0;
    }
    const int sent = btl_ib_transmit(conn, batch->segments, batch->count);
    while (batch->count > sent) {
        uncut(conn, batch, pending);
        *full = true;
    }
    if (sent > 0) {
        have_left(conn, batch, sent);
    }
    return sent;
}

btl_ib_verdict_t btl_ib_batch_push(btl_ib_conn_t *conn, uint32_t space, bool trains, bool *full)
{
    btl_ib_tx_space_t *tx = &conn->tx[space];
    btl_ib_verdict_t verdict = BTL_IB_GO;
    batch_t batch;

    if (makes_way(conn, tx)) {
        btl_ib_conn_ready(conn);
        return BTL_IB_GO;
    }
    btl_ib_list_init(&batch.bundled);
    while (verdict == BTL_IB_GO && !*full && !btl_ib_list_empty(&tx->submit.pending)
           && (!trains || fills_train(conn, tx))) {
        if (waits_for_room(conn, tx, space)) {
            return BTL_IB_NO_WINDOW;
        }
        verdict = cut_batch(conn, space, &batch, full);
        if (batch.count > 0 && waits_for_room(conn, tx, space)) {
            /* What comes next waits for the acknowledgement of this batch. */
            batch.segments[batch.count - 1]->flags |= BTL_IB_FLAG_ACK_NOW;
        }
        if (send_batch(conn, &batch, &tx->submit.pending, full) > 0) {
            btl_ib_conn_active(conn);
            take_turns(tx);
            if (one_train_is_enough(conn, batch.segments[0])) {
                btl_ib_conn_ready(conn);
                break;
            }
        }
    }
    return verdict;
}
