/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_batch.h"

#include "btl_ib_completion.h"
#include "btl_ib_state.h"
#include "btl_ib_gso.h"
#include "btl_ib_latency.h"
#include "btl_ib_loss.h"
#include "btl_ib_out_message.h"
#include "btl_ib_pacing.h"
#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
#include "btl_ib_paths.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_rma_replies.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_transmit.h"

/* ---- what was never sent ---- */

enum {
    SHORT_BURSTS = 2, /* a GSO burst is this part of a full one in latency mode */
};

/* Segments about to be sent, in order. */
typedef struct batch {
    btl_ib_segment_t *segments[BTL_IB_BATCH];
    int count;
    btl_ib_list_t bundled; /* the messages in those that are BUNDLEs */
} batch_t;

/* Undoes what made the last segment of a batch, which could not leave. */
static void undo_last(btl_ib_conn_t *conn, batch_t *batch, btl_ib_list_t *pending)
{
    btl_ib_segment_t *segment = batch->segments[--batch->count];
    btl_ib_out_t *out = segment->out;

    btl_ib_message_unbundle(segment, &batch->bundled, pending);
    if (out != NULL) {
        btl_ib_packetize_undo(segment);
        if (btl_ib_list_empty(&out->link)) {
            btl_ib_list_push_head(pending, &out->link);
        }
    }
    btl_ib_sentmap_withdraw(conn, segment);
}

/* Returns the first that may be sent of what waits in a channel, or NULL. Rejects GETs whose region
 * is gone. */
static btl_ib_out_t *find_next_out(btl_ib_tx_channel_t *tx)
{
    btl_ib_out_t *out;

    while ((out = BTL_IB_LIST_FIRST(btl_ib_out_t, &tx->submit.pending, link)) != NULL
           && out->kind == BTL_IB_OUT_STREAM
           && !btl_ib_replies_find_or_reject(BTL_IB_CONTAINER(out, btl_ib_stream_t, out))) {
    }
    return out;
}

/* True if what waits first in a channel is bulk. */
static bool bulk_is_next(const btl_ib_conn_t *conn, const btl_ib_tx_channel_t *tx)
{
    const btl_ib_out_t *out = BTL_IB_LIST_FIRST(btl_ib_out_t, &tx->submit.pending, link);

    return out != NULL && (btl_ib_out_is_memory(out) || out->size > btl_ib_conn_segment_max(conn));
}

/* What to packetize next of what waits in a channel. */
typedef struct plan {
    uint32_t channel; /* the channel that it uses */
    uint32_t count;   /* messages to bundle; 1: none, the next segments of the first are made */
    uint32_t size;    /* bytes of the bundle */
    /* if none are bundled: segments that may leave before the limits are checked again */
    uint32_t room;
} plan_t;

/* Plans what leaves next. Short messages are bundled on the smallest channel that holds all of
 * them. If that is blocked, or bulk uses it, as many are bundled as their own channel holds: what
 * fits the command channel does not go behind bulk. */
static btl_ib_verdict_t make_plan(const btl_ib_conn_t *conn, uint32_t channel, plan_t *plan)
{
    const btl_ib_list_t *pending = &conn->tx[channel].submit.pending;
    uint32_t overhead = btl_ib_packet_overhead(conn);
    uint32_t room = conn->peer_queues->q[channel].size;
    btl_ib_verdict_t verdict;

    plan->count = btl_ib_list_first(pending) == btl_ib_list_last(pending)
                      ? 1
                      : btl_ib_message_bundle_count(pending, conn->pmtud.datagram_max - overhead,
                                                    &plan->size);
    if (plan->count > 1) {
        plan->channel = btl_ib_queues_channel(conn->peer_queues, plan->size + overhead);
        const bool bulk =
            btl_ib_bulk_in_flight(conn) || bulk_is_next(conn, &conn->tx[plan->channel]);
        verdict = btl_ib_send_limits_check(conn, plan->channel);
        if (plan->channel == channel || (!bulk && verdict == BTL_IB_GO)) {
            return verdict;
        }
        room = room < conn->pmtud.datagram_max ? room : conn->pmtud.datagram_max;
        plan->count = btl_ib_message_bundle_count(pending, room - overhead, &plan->size);
    }
    plan->channel = channel;
    plan->room = btl_ib_send_limits_room(conn, channel, &verdict);
    return verdict;
}

/* Makes a BUNDLE, or segments of `out` for the rest of the batch. False: memory is too short for
 * all of that. */
static bool make_segments(btl_ib_conn_t *conn, btl_ib_tx_channel_t *tx, btl_ib_out_t *out,
                          const plan_t *plan, batch_t *batch, int most)
{
    btl_ib_segment_t **segments = &batch->segments[batch->count];
    int count;

    if (plan->count > 1) {
        most = 1;
        segments[0] = btl_ib_message_bundle(conn, &tx->submit.pending, plan->count, plan->size,
                                            plan->channel, &batch->bundled);
        count = segments[0] != NULL;
    } else {
        most = (int) btl_ib_min_u32(plan->room, (uint32_t) (most - batch->count));
        count = btl_ib_out_segments(conn, out, plan->channel, segments, most);
    }
    if (count == 0) {
        return false;
    }
    btl_ib_loss_sending(conn, segments[0]);
    btl_ib_sentmap_enter(conn, segments, count, plan->channel);
    batch->count += count;
    if (segments[count - 1]->last) {
        btl_ib_list_remove(&out->link);
        return true;
    }
    return count == most;
}

/* Makes a batch, of `room` segments at most, of what waits in a channel. Returns what stopped it;
 * *full: memory did. */
static btl_ib_verdict_t make_batch(btl_ib_conn_t *conn, uint32_t channel, uint32_t room,
                                   batch_t *batch, bool *full)
{
    btl_ib_tx_channel_t *tx = &conn->tx[channel];
    const int largest = (int) btl_ib_min_u32((uint32_t) btl_ib_transmit_max(conn), room);
    const int most = btl_ib_latency_wants_short_bursts(conn)
                         ? (largest + SHORT_BURSTS - 1) / SHORT_BURSTS
                         : largest;
    btl_ib_out_t *out;
    plan_t plan;

    batch->count = 0;
    while (batch->count < most && (out = find_next_out(tx)) != NULL) {
        btl_ib_verdict_t verdict = make_plan(conn, channel, &plan);
        if (verdict != BTL_IB_GO) {
            return verdict;
        }
        if (!make_segments(conn, tx, out, &plan, batch, most)) {
            conn->engine->count.blocked_memory++;
            *full = true;
            return BTL_IB_GO;
        }
    }
    return BTL_IB_GO;
}

/* True if enough waits in a channel to fill a GSO burst. */
static bool fills_burst(const btl_ib_conn_t *conn, const btl_ib_tx_channel_t *tx)
{
    const uint64_t burst = (uint64_t) conn->cc.gso_segments * btl_ib_conn_segment_max(conn);
    uint64_t bytes = 0;

    BTL_IB_LIST_FOREACH (const btl_ib_out_t, out, &tx->submit.pending, link) {
        bytes += out->size - out->offset;
        if (bytes >= burst) {
            return true;
        }
    }
    return false;
}

/* True if what waits first in a channel is bulk, and fills a GSO burst with what waits behind
 * it. */
static bool burst_is_next(const btl_ib_conn_t *conn, const btl_ib_tx_channel_t *tx)
{
    return bulk_is_next(conn, tx) && fills_burst(conn, tx);
}

/*
 * Does the rest of the window wait until a whole GSO burst fits (as in RFC 1122, 4.2.3.4: a short
 * burst costs nearly as much as a full one)? Not if it is large beside what is in flight on its
 * channel, because both hosts should have something to do; nor if less than a burst is in flight
 * there, which may not be acknowledged soon.
 */
static bool waits_for_room(const btl_ib_conn_t *conn, const btl_ib_tx_channel_t *tx,
                           uint32_t channel)
{
    const uint32_t burst = conn->cc.gso_segments;

    if (burst == 1 || tx->sentmap.in_flight < burst) {
        return false;
    }
    if (btl_ib_send_limits_way(conn, channel) >= btl_ib_min_u32(burst, tx->sentmap.in_flight / 3)) {
        return false;
    }
    return burst_is_next(conn, tx);
}

/* Notes that `count` segments of a batch left, from `from` on; all but the first of them continue
 * it. */
static void run_left(btl_ib_conn_t *conn, batch_t *batch, int from, int count)
{
    btl_ib_segment_t *const *segments = &batch->segments[from];
    const bool last = segments[count - 1]->last;
    btl_ib_out_t *out = segments[0]->out;

    if (segments[0]->bundled > 0) {
        btl_ib_message_left_bundled(conn, &batch->bundled, segments[0]->bundled);
        return;
    }
    const bool waits = btl_ib_packetize_waits(segments[0]);
    for (int i = 0; i < count && !waits; i++) {
        segments[i]->out = NULL; /* it is a copy, and may outlive `out` */
    }
    if (last) {
        btl_ib_out_left(conn, out, !waits);
    }
}

/* Sends a batch; what does not leave waits again. Returns how many segments left. */
static int send_batch(btl_ib_conn_t *conn, batch_t *batch, btl_ib_list_t *pending, bool *full)
{
    if (batch->count == 0) {
        return 0;
    }
    const int sent = btl_ib_transmit_segments(conn, batch->segments, batch->count);
    while (batch->count > sent) {
        undo_last(conn, batch, pending);
        *full = true;
    }
    if (sent > 0) {
        btl_ib_loss_sent(&conn->loss, conn->engine->clock.now);
    }
    uint64_t bytes = 0;
    for (int i = 0, run; i < sent; i += run) {
        run = btl_ib_sentmap_left(conn, &batch->segments[i], sent - i);
        if (conn->capped.paths != NULL) {
            btl_ib_paths_left(conn, batch->segments[i], (uint32_t) run);
        }
        bytes += (uint64_t) run * batch->segments[i]->payload;
        run_left(conn, batch, i, run);
    }
    conn->engine->count.sent_bytes += bytes;
    conn->count.sent_bytes += bytes;
    return sent;
}

btl_ib_verdict_t btl_ib_batch_push(btl_ib_conn_t *conn, uint32_t channel, bool bursts, bool *full)
{
    const btl_ib_engine_t *engine = conn->engine;
    const uint32_t ack_every = btl_ib_cc_ack_every(&conn->cc);
    btl_ib_tx_channel_t *tx = &conn->tx[channel];
    btl_ib_list_t *pending = &tx->submit.pending;
    btl_ib_verdict_t verdict = BTL_IB_GO;
    batch_t batch;

    (void) find_next_out(tx); /* what is rejected is no bulk */
    /* In latency mode the application gets a short message received in this turn before a burst of
     * bulk leaves. A single short message holds nothing up: its receiver may compute now, and not
     * call again for long. What is less than a burst, what was lost and short messages do not wait:
     * they cost little. */
    if (btl_ib_latency_holds_bulk(conn) && burst_is_next(conn, tx)) {
        btl_ib_conn_ready(conn);
        return BTL_IB_GO;
    }
    btl_ib_list_init(&batch.bundled);
    while (verdict == BTL_IB_GO && !*full && !btl_ib_list_empty(pending)
           && (!bursts || fills_burst(conn, tx))) {
        const bool by_path = conn->capped.paths != NULL && bulk_is_next(conn, tx);
        const uint32_t room = by_path ? btl_ib_paths_choose(conn) : UINT32_MAX;
        if (room == 0 || (!by_path && waits_for_room(conn, tx, channel))) {
            return BTL_IB_NO_WINDOW;
        }
        verdict = make_batch(conn, channel, room, &batch, full);
        (void) find_next_out(tx);
        /* Asks for an ACK if the next batch waits for the acknowledgement of this one, which is not
         * expected soon. */
        if (batch.count > 0
            && (conn->sentmap.unasked >= ack_every || conn->sentmap.in_flight < ack_every)
            && waits_for_room(conn, tx, channel)) {
            batch.segments[batch.count - 1]->flags |= BTL_IB_FLAG_ACK_NOW;
        }
        const int sent = send_batch(conn, &batch, pending, full);
        if (by_path) {
            btl_ib_paths_choose_usual(conn);
        }
        if (sent == 0) {
            continue;
        }
        btl_ib_idle_active(&conn->idle, conn, engine->clock.now);
        /* One-sided operations may be very long: the next one in the channel has its turn. The
         * chunks of a message stay together, because the receiver's reassembly needs that. */
        btl_ib_out_t *out = BTL_IB_LIST_FIRST(btl_ib_out_t, pending, link);
        if (out != NULL && out->offset > 0 && btl_ib_out_is_memory(out)) {
            btl_ib_list_remove(&out->link);
            btl_ib_list_push_tail(pending, &out->link);
        }
        /* There is a turn between any two bursts of bulk in latency mode, to look for short
         * messages; and after a pause, when a window takes ms to send, to receive what fills the
         * peer's meanwhile, and to stamp each burst with its own time. */
        if (engine->turn.sending && btl_ib_segment_is_bulk(batch.segments[0])
            && (btl_ib_latency_wants_short_bursts(conn)
                || engine->clock.now < engine->turn.behind_until)) {
            btl_ib_conn_ready(conn);
            break;
        }
    }
    return verdict;
}

/* ---- what leaves again: btl_ib_loss.c says which ---- */

/* Gathers the next batch of what was lost, as far as the limits and the `room` of a path allow, and
 * nothing of `full` channels, a bit for each. Returns what stopped it. What the command channel
 * lost is first in the list. */
static btl_ib_verdict_t gather_lost(btl_ib_conn_t *conn, bool command, uint32_t full, uint32_t room,
                                    btl_ib_segment_t **segments, int *count)
{
    btl_ib_list_t *item = btl_ib_list_first(&conn->sentmap.lost);
    const uint32_t paced = btl_ib_pacer_room(&conn->pacer, &conn->cc, conn->engine->clock.now,
                                             btl_ib_is_behind(conn->engine));
    const int batch = btl_ib_transmit_max(conn);

    for (; item != NULL && *count < batch; item = btl_ib_list_next(&conn->sentmap.lost, item)) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        if (command != (segment->channel == 0)) {
            if (command) {
                break;
            }
            continue;
        }
        if ((full >> segment->channel & 1) != 0) {
            continue;
        }
        if (!btl_ib_send_limits_may_retransmit(conn, segment->channel, (uint32_t) *count)
            || (uint32_t) *count >= room) {
            return BTL_IB_NO_WINDOW;
        }
        if ((uint32_t) *count >= paced) {
            return BTL_IB_TOO_SOON;
        }
        btl_ib_pmtud_retransmitting(conn, segment);
        btl_ib_gso_retransmitting(segment);
        segment->flags |= BTL_IB_FLAG_RETRANSMISSION;
        segments[(*count)++] = segment;
    }
    return BTL_IB_GO;
}

btl_ib_verdict_t btl_ib_batch_resend(btl_ib_conn_t *conn, bool command, bool *full)
{
    const bool apart = conn->route.via->transport->attr.send_queues;
    btl_ib_segment_t *segments[BTL_IB_BATCH];
    btl_ib_verdict_t verdict = BTL_IB_GO;
    uint32_t full_channels = 0;
    int count = 1;

    while (verdict == BTL_IB_GO && (!*full || apart) && count > 0) {
        count = 0;
        const bool by_path = conn->capped.paths != NULL && !command;
        const uint32_t room = by_path ? btl_ib_paths_choose(conn) : UINT32_MAX;
        verdict = gather_lost(conn, command, full_channels, room, segments, &count);
        int taken = count == 0 ? 0 : btl_ib_transmit_segments(conn, segments, count);
        for (int i = 0; i < taken; i++) {
            btl_ib_sentmap_retransmitted(conn, segments[i], false);
            btl_ib_loss_retransmitted(&conn->loss, conn->engine->clock.now);
            if (by_path) {
                btl_ib_paths_left(conn, segments[i], 1);
            }
        }
        if (by_path) {
            btl_ib_paths_choose_usual(conn);
        }
        if (taken < count) {
            *full = true;
            full_channels |= 1u << segments[taken]->channel;
        }
    }
    return verdict;
}

bool btl_ib_retransmit(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint8_t flags)
{
    btl_ib_pmtud_retransmitting(conn, segment);
    btl_ib_gso_retransmitting(segment);
    segment->flags |= BTL_IB_FLAG_RETRANSMISSION | flags;
    if (!btl_ib_transmit_one(conn, segment)) {
        return false;
    }
    btl_ib_sentmap_retransmitted(conn, segment, flags & BTL_IB_FLAG_ACK_NOW);
    btl_ib_loss_retransmitted(&conn->loss, conn->engine->clock.now);
    return true;
}
