/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which segments may leave when, and what becomes of them. btl_ib_cut.c makes them, btl_ib_datagram.c
 * sends them. */

#include "btl_ib_min.h"
#include "btl_ib_state.h"

#include <errno.h>
#include <string.h>

enum {
    PENDING_TIME = 50, /* us */
    WINDOW_SMALL = 32, /* segments: for more, an ACK for each 16 is often enough */
    /* Sends in a turn that leave by themselves: who sends two and computes must not find the second
     * held back. And how often that is doubled where no company comes. */
    ALONE_LEAST = 2,
    LONELY_MAX = 3,
    /* So many messages, or full datagrams (or as many of them as are joined), wait at most: their
     * receiver is to have something to do while more are made. */
    HELD_MESSAGES = 32,
    HELD_DATAGRAMS = 16,
};

/* ---- accounts ---- */

static void in_flight(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, int sign)
{
    if (segment->type == BTL_IB_TYPE_SKIP) { /* may rest for long; must not hold anything up */
        return;
    }
    conn->in_flight += (uint32_t) sign;
    conn->tx[segment->space].in_flight += (uint32_t) sign;
}

/* A segment is kept until it is acknowledged, also while it is lost and waits to go again: that is
 * what limits memory, and what leaves the pool something for acknowledgements. */
static void keep(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, int sign)
{
    btl_ib_engine_t *engine = conn->engine;
    bool skip = segment->type == BTL_IB_TYPE_SKIP;
    uint64_t bytes = segment->size + segment->outside;

    conn->unacked += (uint32_t) sign;
    if (skip) {
        conn->skips += (uint32_t) sign;
    } else {
        engine->unacked += (uint32_t) sign;
        engine->bytes_unacked += sign > 0 ? bytes : -bytes;
    }
}

/* One segment more has had its time, were it sent without bursts. */
static void spend_time(btl_ib_conn_t *conn)
{
    if (conn->cc.pace != 0) {
        uint64_t now = conn->engine->now * 1000;
        conn->pace_at = (conn->pace_at > now ? conn->pace_at : now) + conn->cc.pace;
    }
}

/* After a silence that is longer than a timeout what was known of the path is old. */
static void notice_silence(btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    if (conn->in_flight > 0) {
        return;
    }
    uint64_t timeout = btl_ib_rtt_timeout(&conn->rtt, engine->config.rto_initial);
    timeout = timeout > engine->config.rto_min ? timeout : engine->config.rto_min;
    if (engine->now > conn->probe_base + timeout) {
        conn->cc.ops->restart(&conn->cc);
    }
}

/*
 * S: how many segments of a channel may be on the way. `max_pending_sends` is about the buffers of the
 * receiver; where the way is long most of them are in the network, so it counts for each PENDING_TIME
 * of the shortest round trip, without what hosts may have had their part in.
 */
static uint32_t pending_max(const btl_ib_conn_t *conn, const btl_ib_queue_t *queue)
{
    uint32_t times = conn->path / PENDING_TIME;

    if (times <= 1 || conn->path == UINT32_MAX) {
        return queue->max_pending;
    }
    uint64_t max = (uint64_t) queue->max_pending * times;
    return max < BTL_IB_WINDOW_LIMIT ? (uint32_t) max : BTL_IB_WINDOW_LIMIT;
}

/* Has so much of a small window been used that the peer had better not hold its acknowledgement back? Who
 * had nothing else in flight has all of the window left, whatever went before. */
static bool asks_for_ack(btl_ib_conn_t *conn, uint32_t space)
{
    const btl_ib_queue_t *queue = &conn->peer_queues->q[space];
    uint32_t window = conn->cc.window;

    conn->unasked = conn->in_flight <= 1 ? 1 : conn->unasked + 1;
    if (queue->type == BTL_IB_QUEUE_SHARED && queue->max_pending < WINDOW_SMALL) {
        uint32_t pending = pending_max(conn, queue);
        window = window < pending ? window : pending;
    }
    return window < WINDOW_SMALL && (4 * conn->unasked >= window || conn->in_flight >= window);
}

/* Give a new segment its sequence and count it; undone by withdraw() if it cannot leave. */
static void enlist(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint32_t space)
{
    segment->space = (uint8_t) space;
    segment->seq = btl_ib_tx_window_push(&conn->tx[space].window, segment);
    if (segment->type != BTL_IB_TYPE_SKIP && btl_ib_conn_only_skips(conn)) {
        conn->probes = 0;
    }
    notice_silence(conn);
    keep(conn, segment, +1);
    in_flight(conn, segment, +1);
    spend_time(conn);
    if (asks_for_ack(conn, space)) {
        segment->flags |= BTL_IB_FLAG_ACK_NOW;
    }
    if (segment->flags & BTL_IB_FLAG_ACK_NOW) {
        conn->unasked = 0;
    }
}

/* It is not sent from a region any more. */
static void settle(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    if (segment->region != 0) {
        btl_ib_regions_return(&conn->engine->regions, segment->region);
        segment->region = 0;
    }
}

static void withdraw(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    settle(conn, segment);
    keep(conn, segment, -1);
    in_flight(conn, segment, -1);
    if (conn->cc.pace != 0) {
        conn->pace_at -= conn->cc.pace;
    }
    btl_ib_tx_window_unpush(&conn->tx[segment->space].window);
    btl_ib_pool_put(&conn->rail->pool, segment);
}

/* A new segment has left. */
static void launched(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_engine_t *engine = conn->engine;

    segment->first_sent = btl_ib_engine_awake(engine);
    segment->last_sent = engine->now;
    segment->order = ++conn->order;
    segment->copies = 1;
    btl_ib_list_push_tail(&conn->sent, &segment->link);
    engine->count.sent_segments++;
    conn->probe_base = engine->now;
    conn->blocked_since = 0;
}

/* ---- limits ---- */

typedef enum verdict {
    GO,
    NO_CREDIT,
    NO_WINDOW,
    NO_DEPTH, /* a limit on all connections together */
    TOO_SOON, /* congestion control sets a pace */
} verdict_t;

/* Must a segment behind `ahead` others, which have not spent their time yet, wait for its own? */
static bool too_soon(const btl_ib_conn_t *conn, uint32_t ahead)
{
    const btl_ib_cc_t *cc = &conn->cc;

    if (cc->pace == 0) {
        return false;
    }
    uint64_t now = conn->engine->now * 1000;
    uint64_t at = conn->pace_at > now ? conn->pace_at : now;
    return at + (uint64_t) ahead * cc->pace > now + (uint64_t) cc->burst * cc->pace;
}

static verdict_t may_send(const btl_ib_conn_t *conn, uint32_t space)
{
    const btl_ib_engine_t *engine = conn->engine;
    const btl_ib_tx_space_t *tx = &conn->tx[space];
    const btl_ib_queue_t *queue = &conn->peer_queues->q[space];

    if (queue->type == BTL_IB_QUEUE_PER_PEER) {
        if (!btl_ib_seq_before(tx->window.next, tx->limit)) {
            return NO_CREDIT;
        }
    } else if (tx->in_flight >= queue->max_pending && tx->in_flight >= pending_max(conn, queue)) {
        return NO_WINDOW;
    }
    /* A SKIP may rest there for long, and does not count; there is one at most. */
    if (tx->window.next - tx->window.first >= engine->config.window_max + (conn->skips > 0)
        || conn->in_flight >= conn->cc.window) {
        return NO_WINDOW;
    }
    if (too_soon(conn, 0)) {
        return TOO_SOON;
    }
    if (engine->unacked >= engine->config.depth_total
        || engine->bytes_unacked >= engine->config.depth_bytes) {
        return NO_DEPTH;
    }
    return GO;
}

/* ---- pieces ---- */

static void queue_event(btl_ib_out_t *out)
{
    if (btl_ib_list_empty(&out->link)) {
        btl_ib_list_push_tail(&out->conn->engine->events, &out->link);
    }
}

void btl_ib_send_finish(btl_ib_out_t *out, int status)
{
    btl_ib_list_remove(&out->link);
    switch (out->kind) {
    case BTL_IB_OUT_STREAM:
        btl_ib_serve_end(BTL_IB_CONTAINER(out, btl_ib_stream_t, out));
        return;
    case BTL_IB_OUT_REPLIES:
        out->offset = out->size;
        return;
    case BTL_IB_OUT_PUT:
    case BTL_IB_OUT_REQUEST:
        btl_ib_op_leaves(BTL_IB_CONTAINER(out, btl_ib_op_t, out), status);
        break;
    default:
        break;
    }
    out->status = status;
    out->done_due = true;
    queue_event(out);
}

void btl_ib_send_queue(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t head)
{
    uint64_t rest = out->size - out->offset; /* of any size: with more added it might wrap */
    uint32_t size = rest < conn->datagram_max ? (uint32_t) rest : conn->datagram_max;

    size += head + btl_ib_send_overhead(conn);
    size = size < conn->datagram_max ? size : conn->datagram_max;
    uint32_t space = btl_ib_queues_channel(conn->peer_queues, size);
    btl_ib_list_push_tail(&conn->tx[space].pending, &out->link);
}

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
        btl_ib_cut_undo(segment);
        if (btl_ib_list_empty(&out->link)) {
            btl_ib_list_push_head(pending, &out->link);
        }
    }
    withdraw(conn, segment);
}

/* The last piece has left. What was copied whole is done with it. */
static void last_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied)
{
    switch (out->kind) {
    case BTL_IB_OUT_MESSAGE:
        conn->engine->count.sent_messages++;
        out->sent_due = true;
        if (copied) {
            btl_ib_send_finish(out, 0);
        } else {
            queue_event(out);
        }
        break;
    case BTL_IB_OUT_REQUEST:
        btl_ib_op_asked(BTL_IB_CONTAINER(out, btl_ib_op_t, out));
        break;
    case BTL_IB_OUT_STREAM:
        btl_ib_send_finish(out, 0);
        break;
    default:
        break;
    }
}

/* The messages in a BUNDLE, which is a copy of them, have left. */
static void bundle_left(btl_ib_conn_t *conn, const btl_ib_segment_t *segment,
                        btl_ib_list_t *bundled)
{
    conn->engine->count.sent_bundles++;
    for (uint32_t n = segment->bundled; n > 0; n--) {
        last_left(conn, BTL_IB_CONTAINER(btl_ib_list_pop(bundled), btl_ib_out_t, link), true);
    }
}

static void piece_left(btl_ib_conn_t *conn, btl_ib_segment_t *segment, btl_ib_list_t *bundled)
{
    btl_ib_out_t *out = segment->out;

    launched(conn, segment);
    conn->engine->count.sent_bytes += segment->payload;
    if (segment->bundled > 0) {
        bundle_left(conn, segment, bundled);
        return;
    }
    btl_ib_cut_left(segment);
    if (segment->last) {
        last_left(conn, out, segment->out == NULL);
    }
}

/* The next that may be cut in a channel, or NULL. */
static btl_ib_out_t *next_out(const btl_ib_tx_space_t *tx)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(&tx->pending)) != NULL) {
        btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
        if (out->kind != BTL_IB_OUT_STREAM
            || btl_ib_serve_find(BTL_IB_CONTAINER(out, btl_ib_stream_t, out))) {
            return out;
        }
    }
    return NULL;
}

/* Datagrams that one call of the transport can make use of. */
static int batch_of(const btl_ib_conn_t *conn)
{
    uint32_t batch = conn->rail->transport->attr.max_batch;

    return batch < BTL_IB_BATCH ? (int) batch : BTL_IB_BATCH;
}

/* What to cut next off what waits in a channel. */
typedef struct plan {
    uint32_t space; /* on which channel it travels */
    uint32_t count; /* messages to be bundled; if not several: the next piece of the first */
    uint32_t size;  /* what they take */
} plan_t;

/* Messages travel together on the smallest channel that holds them; if that is blocked, as many as their
 * own channel holds. */
static verdict_t make_plan(const btl_ib_conn_t *conn, uint32_t space, plan_t *plan)
{
    const btl_ib_list_t *pending = &conn->tx[space].pending;
    uint32_t overhead = btl_ib_send_overhead(conn);
    uint32_t room = conn->peer_queues->q[space].size;

    plan->count = btl_ib_list_first(pending) == btl_ib_list_last(pending)
                      ? 1
                      : btl_ib_cut_count(pending, conn->datagram_max - overhead, &plan->size);
    if (plan->count > 1) {
        plan->space = btl_ib_queues_channel(conn->peer_queues, plan->size + overhead);
        if (plan->space == space || may_send(conn, plan->space) == GO) {
            return may_send(conn, plan->space);
        }
        room = room < conn->datagram_max ? room : conn->datagram_max;
        plan->count = btl_ib_cut_count(pending, room - overhead, &plan->size);
    }
    plan->space = space;
    return may_send(conn, space);
}

/* NULL: there is no memory. */
static btl_ib_segment_t *cut_as_planned(btl_ib_conn_t *conn, btl_ib_tx_space_t *tx,
                                        btl_ib_out_t *out, const plan_t *plan,
                                        btl_ib_list_t *bundled)
{
    if (btl_ib_tx_window_reserve(&conn->tx[plan->space].window, &conn->engine->mem) != 0) {
        return NULL;
    }
    if (plan->count > 1) {
        return btl_ib_cut_bundle(conn, &tx->pending, plan->count, plan->size, bundled);
    }
    return btl_ib_cut(conn, out, plan->space);
}

/* Cut a batch off what waits in a channel. Returns what stopped it; *full: memory did. */
static verdict_t cut_batch(btl_ib_conn_t *conn, uint32_t space, batch_t *batch, bool *full)
{
    btl_ib_tx_space_t *tx = &conn->tx[space];
    int most = batch_of(conn);
    btl_ib_out_t *out;
    plan_t plan;

    batch->count = 0;
    while (batch->count < most && (out = next_out(tx)) != NULL) {
        verdict_t verdict = make_plan(conn, space, &plan);
        if (verdict != GO) {
            return verdict;
        }
        btl_ib_segment_t *segment = cut_as_planned(conn, tx, out, &plan, &batch->bundled);
        if (segment == NULL) {
            conn->engine->count.blocked_memory++;
            *full = true;
            return GO;
        }
        enlist(conn, segment, plan.space);
        batch->segments[batch->count++] = segment;
        if (segment->last) {
            btl_ib_list_remove(&out->link);
        }
    }
    return GO;
}

/* Bytes of one-sided operations have no end in sight: after each batch others have their turn. The
 * pieces of a message stay together, as its receiver's reassembly wants it. */
static void take_turns(btl_ib_tx_space_t *tx)
{
    btl_ib_list_t *first = btl_ib_list_first(&tx->pending);

    if (first != NULL && first != btl_ib_list_last(&tx->pending)) {
        const btl_ib_out_t *out = BTL_IB_CONTAINER(first, btl_ib_out_t, link);
        if ((out->kind == BTL_IB_OUT_PUT || out->kind == BTL_IB_OUT_STREAM) && out->offset > 0) {
            btl_ib_list_remove(first);
            btl_ib_list_push_tail(&tx->pending, first);
        }
    }
}

/* Send what waits in a channel. Returns what stopped it, GO if nothing is left; *full: the
 * transport or memory stopped it. */
static verdict_t push_space(btl_ib_conn_t *conn, uint32_t space, bool *full)
{
    btl_ib_tx_space_t *tx = &conn->tx[space];
    verdict_t verdict = GO;
    batch_t batch;

    btl_ib_list_init(&batch.bundled);
    while (verdict == GO && !*full && !btl_ib_list_empty(&tx->pending)) {
        verdict = cut_batch(conn, space, &batch, full);
        int taken = batch.count == 0 ? 0 : btl_ib_send_segments(conn, batch.segments, batch.count);
        while (batch.count > taken) {
            uncut(conn, &batch, &tx->pending);
            *full = true;
        }
        for (int i = 0; i < taken; i++) {
            piece_left(conn, batch.segments[i], &batch.bundled);
        }
        if (taken > 0) {
            btl_ib_conn_active(conn);
            take_turns(tx);
        }
    }
    return verdict;
}

/* A later copy of a segment has left; `probe`: to ask, not because it seemed lost. */
static void left_again(btl_ib_conn_t *conn, btl_ib_segment_t *segment, bool probe)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_list_remove(&segment->link);
    btl_ib_list_push_tail(&conn->sent, &segment->link);
    if (segment->lost) {
        segment->lost = false;
        in_flight(conn, segment, +1);
    }
    segment->last_sent = engine->now;
    segment->order = ++conn->order;
    segment->probe = probe;
    segment->copies++;
    spend_time(conn);
    engine->count.retransmits++;
    conn->probe_base = engine->now;
}

bool btl_ib_send_again(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint8_t flags)
{
    if (segment->busy) {
        return false;
    }
    segment->flags |= BTL_IB_FLAG_AGAIN | flags;
    if (btl_ib_send_segments(conn, &segment, 1) != 1) {
        return false;
    }
    left_again(conn, segment, flags & BTL_IB_FLAG_ACK_NOW);
    return true;
}

void btl_ib_send_lost(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    in_flight(conn, segment, -1);
    segment->lost = true;
    btl_ib_list_remove(&segment->link);
    btl_ib_list_push_tail(&conn->lost, &segment->link);
}

/* The next batch of what was lost, as far as the limits let it go. Returns what stopped it. */
static verdict_t gather_lost(btl_ib_conn_t *conn, btl_ib_segment_t **segments, int *count)
{
    btl_ib_list_t *item = btl_ib_list_first(&conn->lost);
    int batch = batch_of(conn);

    for (; item != NULL && *count < batch; item = btl_ib_list_next(&conn->lost, item)) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        if (conn->in_flight + (uint32_t) *count >= conn->cc.window) {
            return NO_WINDOW;
        }
        if (too_soon(conn, (uint32_t) *count)) {
            return TOO_SOON;
        }
        if (segment->busy) { /* its SENT event makes the connection ready again */
            return NO_WINDOW;
        }
        segment->flags |= BTL_IB_FLAG_AGAIN;
        segments[(*count)++] = segment;
    }
    return GO;
}

/* What was lost goes before anything new, within the window. */
static verdict_t push_lost(btl_ib_conn_t *conn, bool *full)
{
    btl_ib_segment_t *segments[BTL_IB_BATCH];
    verdict_t verdict = GO;

    while (verdict == GO && !*full && !btl_ib_list_empty(&conn->lost)) {
        int count = 0;
        verdict = gather_lost(conn, segments, &count);
        int taken = count == 0 ? 0 : btl_ib_send_segments(conn, segments, count);
        for (int i = 0; i < taken; i++) {
            left_again(conn, segments[i], false);
        }
        *full = taken < count;
    }
    return verdict;
}

/* Nothing is on its way whose acknowledgement would change that: no credit, or a SKIP that nobody
 * answers fills the window, and must not rest then. */
static bool is_stuck(const btl_ib_conn_t *conn, verdict_t verdict)
{
    return conn->in_flight == 0
           && (verdict == NO_CREDIT || (verdict == NO_WINDOW && btl_ib_conn_only_skips(conn)));
}

/* Wait for the right thing: the transport or memory (try again in the next turn), the other
 * connections, or an acknowledgement, which makes the connection ready again by itself. */
static void wait_for(btl_ib_conn_t *conn, verdict_t verdict, bool full)
{
    btl_ib_engine_t *engine = conn->engine;

    engine->count.blocked_credit += verdict == NO_CREDIT;
    engine->count.blocked_window += verdict == NO_WINDOW || verdict == NO_DEPTH;
    engine->count.blocked_pace += verdict == TOO_SOON;
    if (full) {
        btl_ib_conn_ready(conn);
    } else if (verdict == NO_DEPTH && btl_ib_list_empty(&conn->ready)) {
        btl_ib_list_push_tail(&engine->starved, &conn->ready);
    } else if (verdict == TOO_SOON) {
        /* When a whole burst may go, and not one by one. */
        btl_ib_hotel_check_in(&engine->hotel, &conn->pace_timer.guest, conn->pace_at / 1000 + 1);
    } else if (is_stuck(conn, verdict) && conn->blocked_since == 0) {
        conn->blocked_since = btl_ib_engine_awake(engine);
        conn->probe_base = engine->now;
    }
}

/* ---- waiting for company ---- */

/*
 * The first messages of a turn leave at once: they have nobody to wait for. Those that follow before
 * progress is called are a burst: they wait for that call, or until they are many, and leave together, in
 * few datagrams and one call of the transport. Where the one that waited was alone, as with blocking
 * sends, more may leave at once in the next turns.
 */
static bool waits_for_company(btl_ib_conn_t *conn)
{
    if (conn->turn != conn->engine->turns) {
        conn->turn = conn->engine->turns;
        conn->left_alone = 0;
    }
    return conn->left_alone >= (uint32_t) ALONE_LEAST << conn->lonely;
}

/* A message of `size` bytes was queued. Is it to wait for the next turn? */
static bool hold(btl_ib_conn_t *conn, uint64_t size)
{
    if (!waits_for_company(conn)) {
        conn->left_alone++;
        return false;
    }
    conn->held++;
    conn->held_bytes += size;
    if (conn->held >= HELD_MESSAGES
        || conn->held_bytes
               >= (uint64_t) btl_ib_max_u32(HELD_DATAGRAMS, conn->cc.train) * conn->datagram_max) {
        return false;
    }
    btl_ib_conn_ready(conn);
    return true;
}

/* Those that were held leave now. */
static void let_go(btl_ib_conn_t *conn)
{
    if (conn->held > 1) {
        conn->lonely = 0;
    } else if (conn->held == 1 && conn->lonely < LONELY_MAX) {
        conn->lonely++;
    }
    conn->held = 0;
    conn->held_bytes = 0;
}

bool btl_ib_send_pends(const btl_ib_conn_t *conn)
{
    for (uint32_t space = 0; space < conn->peer_queues->count; space++) {
        if (!btl_ib_list_empty(&conn->tx[space].pending)) {
            return true;
        }
    }
    return false;
}

static bool something_waits(const btl_ib_conn_t *conn)
{
    return btl_ib_send_pends(conn) || !btl_ib_list_empty(&conn->lost)
           || !btl_ib_list_empty(&conn->ops.waiting);
}

void btl_ib_send_push(btl_ib_conn_t *conn)
{
    bool full = false;

    if (!something_waits(conn)) { /* acknowledgements were taken in, and nothing follows */
        return;
    }
    verdict_t verdict = push_lost(conn, &full);
    let_go(conn);
    btl_ib_op_run(conn);

    if (verdict != GO || full) {
        wait_for(conn, verdict, full);
    }
    for (uint32_t space = 0;
         space < conn->peer_queues->count && !full && verdict != NO_DEPTH && verdict != TOO_SOON;
         space++) {
        if (!btl_ib_list_empty(&conn->tx[space].pending)) {
            verdict = push_space(conn, space, &full);
            if (verdict != GO || full) {
                wait_for(conn, verdict, full);
            }
        }
    }
    btl_ib_loss_arm(conn);
}

void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t space)
{
    btl_ib_tx_space_t *tx = &conn->tx[space];
    const btl_ib_queue_t *queue = &conn->peer_queues->q[space];
    uint32_t keep = btl_ib_credit_initial(queue, queue->init);
    uint32_t spare = tx->limit - tx->window.next;

    if (!btl_ib_seq_before(tx->window.next, tx->limit) || spare <= keep) {
        return;
    }
    uint32_t count = spare - keep;
    count = count < BTL_IB_SKIP_MAX ? count : BTL_IB_SKIP_MAX;
    btl_ib_segment_t *segment = btl_ib_send_prepare(conn, BTL_IB_TYPE_SKIP, sizeof(count));
    if (segment == NULL) {
        return;
    }
    if (btl_ib_tx_window_reserve(&tx->window, &conn->engine->mem) != 0) {
        btl_ib_pool_put(&conn->rail->pool, segment);
        return;
    }
    uint32_t wire = BTL_IB_LE32(count);
    memcpy(btl_ib_send_body(segment), &wire, sizeof(wire));
    btl_ib_tx_window_jump(&tx->window, (int32_t) count - 1);
    enlist(conn, segment, space);
    if (btl_ib_send_segments(conn, &segment, 1) == 1) {
        launched(conn, segment);
    } else {
        withdraw(conn, segment);
        btl_ib_tx_window_jump(&tx->window, 1 - (int32_t) count);
    }
    btl_ib_loss_arm(conn);
}

/* ---- the end of segments and messages ---- */

/* Take a segment off all accounts. Returns what it was a piece of, if that is finished with it. */
static btl_ib_out_t *forget(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_out_t *out = segment->out;

    keep(conn, segment, -1);
    if (!segment->lost) {
        in_flight(conn, segment, -1);
    }
    btl_ib_list_remove(&segment->link);
    settle(conn, segment);
    btl_ib_pool_put(&conn->rail->pool, segment);
    if (out == NULL || --out->pending > 0 || out->offset < out->size) {
        return NULL;
    }
    return out;
}

void btl_ib_send_acked(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_tx_window_clear(&conn->tx[segment->space].window, segment->seq);
    btl_ib_out_t *out = forget(conn, segment);
    if (out != NULL) {
        btl_ib_send_finish(out, 0);
    }
}

/* Its contents are not to be sent any more, but the peer waits for its sequence. */
static void make_void(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    if (!segment->lost) {
        btl_ib_send_lost(conn, segment);
    }
    keep(conn, segment, -1); /* what follows makes it shorter */
    settle(conn, segment);
    segment->type = BTL_IB_TYPE_VOID;
    segment->out = NULL;
    segment->outside = 0;
    segment->payload = 0;
    segment->size = (uint32_t) (btl_ib_send_body(segment) - segment->wire);
    keep(conn, segment, +1);
    conn->engine->count.voided++;
}

/* Make those segments void that are pieces of `out`, or answers if it is NULL. */
static void void_some(btl_ib_conn_t *conn, btl_ib_list_t *segments, const btl_ib_out_t *out)
{
    btl_ib_list_t *next;

    for (btl_ib_list_t *item = btl_ib_list_first(segments); item != NULL; item = next) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        bool answer = segment->type == BTL_IB_TYPE_GOT || segment->type == BTL_IB_TYPE_REPLY;
        next = btl_ib_list_next(segments, item);
        if (out != NULL ? segment->out == out : answer) {
            make_void(conn, segment);
        }
    }
}

void btl_ib_send_void(btl_ib_conn_t *conn, const btl_ib_out_t *out)
{
    void_some(conn, &conn->lost, out);
    void_some(conn, &conn->sent, out);
    btl_ib_conn_ready(conn);
}

static void own_some(btl_ib_list_t *segments, uint64_t region)
{
    for (btl_ib_list_t *item = btl_ib_list_first(segments); item != NULL;
         item = btl_ib_list_next(segments, item)) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        if (segment->region == region) {
            btl_ib_cut_own(segment);
        }
    }
}

void btl_ib_send_own(btl_ib_engine_t *engine, uint64_t region)
{
    for (btl_ib_list_t *item = btl_ib_list_first(&engine->conns); item != NULL;
         item = btl_ib_list_next(&engine->conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        own_some(&conn->sent, region);
        own_some(&conn->lost, region);
    }
}

/* A message that left may count as sent; of a PUT only an acknowledgement says that it is placed. */
static void give_back_segments(btl_ib_conn_t *conn, btl_ib_list_t *segments, int flight_status,
                               int status)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(segments)) != NULL) {
        btl_ib_out_t *out = forget(conn, BTL_IB_CONTAINER(item, btl_ib_segment_t, link));
        if (out != NULL) {
            btl_ib_send_finish(out, out->kind == BTL_IB_OUT_MESSAGE ? flight_status : status);
        }
    }
}

void btl_ib_send_give_back(btl_ib_conn_t *conn, int flight_status, int status)
{
    btl_ib_list_t *item;

    btl_ib_op_give_up(conn, status); /* before: else they would take the places that come free */
    give_back_segments(conn, &conn->sent, flight_status, status);
    give_back_segments(conn, &conn->lost, flight_status, status);
    for (uint32_t space = 0; space < conn->peer_queues->count; space++) {
        while ((item = btl_ib_list_first(&conn->tx[space].pending)) != NULL) {
            btl_ib_send_finish(BTL_IB_CONTAINER(item, btl_ib_out_t, link), status);
        }
    }
    btl_ib_op_give_up_answers(conn, status);
}

static void call_back(btl_ib_engine_t *engine, btl_ib_out_t *out)
{
    const btl_ib_engine_ops_t *ops = engine->ops;
    bool sent = out->sent_due;
    bool done = out->done_due;

    out->sent_due = false;
    out->done_due = false;
    if (out->kind != BTL_IB_OUT_MESSAGE) {
        ops->op_done(engine->ops_context, BTL_IB_CONTAINER(out, btl_ib_op_t, out), out->status);
        return;
    }
    btl_ib_msg_t *msg = BTL_IB_CONTAINER(out, btl_ib_msg_t, out);
    if (sent) {
        ops->on_sent(engine->ops_context, msg);
    }
    if (done) {
        ops->on_done(engine->ops_context, msg, out->status);
    }
}

void btl_ib_send_callbacks(btl_ib_engine_t *engine)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_pop(&engine->events)) != NULL) {
        engine->finished++;
        call_back(engine, BTL_IB_CONTAINER(item, btl_ib_out_t, link));
    }
}

/* ---- what callers use ---- */

void *btl_ib_sendi_begin(btl_ib_conn_t *conn, uint8_t tag, uint32_t size)
{
    if (waits_for_company(conn) || !btl_ib_conn_alive(conn) || conn->draining
        || size > btl_ib_conn_segment_max(conn) || size > conn->engine->config.eager_max) {
        return NULL;
    }
    uint32_t space = btl_ib_queues_channel(conn->peer_queues, btl_ib_send_overhead(conn) + size);
    btl_ib_tx_space_t *tx = &conn->tx[space];
    if (!btl_ib_list_empty(&tx->pending) || may_send(conn, space) != GO
        || btl_ib_tx_window_reserve(&tx->window, &conn->engine->mem) != 0) {
        return NULL;
    }
    btl_ib_segment_t *segment = btl_ib_send_prepare(conn, BTL_IB_TYPE_DATA, size);
    if (segment == NULL) {
        return NULL;
    }
    segment->tag = tag;
    segment->space = (uint8_t) space;
    segment->payload = size;
    conn->engine->reserved = segment;
    return btl_ib_send_body(segment);
}

void btl_ib_sendi_abort(btl_ib_conn_t *conn)
{
    btl_ib_pool_put(&conn->rail->pool, conn->engine->reserved);
    conn->engine->reserved = NULL;
}

int btl_ib_sendi_commit(btl_ib_conn_t *conn, uint64_t now)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_segment_t *segment = engine->reserved;

    engine->reserved = NULL;
    btl_ib_engine_clock(engine, now);
    enlist(conn, segment, segment->space);
    if (btl_ib_send_segments(conn, &segment, 1) != 1) {
        withdraw(conn, segment);
        return -EAGAIN;
    }
    engine->count.sent_messages++;
    engine->count.sent_bytes += segment->payload;
    conn->left_alone++;
    launched(conn, segment);
    btl_ib_conn_active(conn);
    btl_ib_loss_arm(conn);
    return 0;
}

int btl_ib_engine_send(btl_ib_conn_t *conn, btl_ib_msg_t *msg, uint64_t now)
{
    btl_ib_engine_t *engine = conn->engine;
    size_t size = msg->iov[0].iov_len + msg->iov[1].iov_len;

    if (!btl_ib_conn_alive(conn) || conn->draining) {
        return -EPIPE;
    }
    if (size > engine->config.eager_max) {
        return -EMSGSIZE;
    }
    const bool ordered = msg->ordered && size > 0; /* a chunk has bytes */
    void *body = ordered || waits_for_company(conn)
                     ? NULL
                     : btl_ib_sendi_begin(conn, msg->tag, (uint32_t) size);
    if (body != NULL) {
        for (int i = 0; i < 2; i++) {
            if (msg->iov[i].iov_len > 0) {
                memcpy(body, msg->iov[i].iov_base, msg->iov[i].iov_len);
                body = (uint8_t *) body + msg->iov[i].iov_len;
            }
        }
        if (btl_ib_sendi_commit(conn, now) == 0) {
            return 1;
        }
    }
    btl_ib_engine_clock(engine, now);
    msg->out = (btl_ib_out_t){.conn = conn, .size = size, .kind = BTL_IB_OUT_MESSAGE};
    msg->unit = 0;
    msg->ordered = ordered;
    btl_ib_list_init(&msg->out.link);
    /* All chunks use one channel, that of the largest. */
    btl_ib_send_queue(conn, &msg->out, ordered ? conn->datagram_max : 0);
    if (hold(conn, size)) {
        return 0;
    }
    engine->depth++;
    btl_ib_send_push(conn);
    btl_ib_send_callbacks(engine);
    btl_ib_engine_leave(engine);
    return 0;
}
