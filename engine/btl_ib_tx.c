/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Messages -> segments, and which may leave when. btl_ib_datagram.c sends them. */

#include "btl_ib_state.h"

#include <errno.h>
#include <string.h>

enum {
    PENDING_TIME = 50, /* us */
    WINDOW_SMALL = 16, /* segments: a receiver would hold its acknowledgement back for so many */
};

/* ---- accounts ---- */

static void in_flight(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, int sign)
{
    uint64_t bytes = segment->size + segment->outside;

    if (segment->type == BTL_IB_TYPE_SKIP) { /* may rest for long; must not hold anything up */
        return;
    }
    conn->in_flight += (uint32_t) sign;
    conn->tx[segment->space].in_flight += (uint32_t) sign;
    conn->engine->in_flight += (uint32_t) sign;
    conn->engine->bytes_in_flight += sign > 0 ? bytes : -bytes;
}

/* One segment more has had its time, were it sent without bursts. */
static void spend_time(btl_ib_conn_t *conn)
{
    uint64_t now = conn->engine->now * 1000;

    if (conn->cc.pace != 0) {
        conn->pace_at = (conn->pace_at > now ? conn->pace_at : now) + conn->cc.pace;
    }
}

/* After a silence that is longer than a timeout what was known of the path is old. */
static void notice_silence(btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;
    uint64_t timeout = btl_ib_rtt_timeout(&conn->rtt, engine->config.rto_initial);

    timeout = timeout > engine->config.rto_min ? timeout : engine->config.rto_min;
    if (conn->in_flight == 0 && engine->now > conn->probe_base + timeout) {
        conn->cc.ops->restart(&conn->cc);
    }
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
    conn->unacked++;
    conn->skips += segment->type == BTL_IB_TYPE_SKIP;
    in_flight(conn, segment, +1);
    spend_time(conn);
    if (conn->in_flight >= conn->cc.window && conn->cc.window < WINDOW_SMALL) {
        segment->flags |= BTL_IB_FLAG_ACK_NOW; /* nothing more can go before its acknowledgement */
    }
}

static void withdraw(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    conn->unacked--;
    conn->skips -= segment->type == BTL_IB_TYPE_SKIP;
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

    segment->first_sent = engine->awake;
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

/* Must the next segment wait for its time? */
static bool too_soon(const btl_ib_conn_t *conn)
{
    const btl_ib_cc_t *cc = &conn->cc;

    if (conn->in_flight == 0 && cc->burst != 0) {
        return false; /* the pace may be one of long ago: only an answer can tell a better one */
    }
    return cc->pace != 0
           && conn->pace_at > conn->engine->now * 1000 + (uint64_t) cc->burst * cc->pace;
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
    } else if (tx->in_flight >= pending_max(conn, queue)) {
        return NO_WINDOW;
    }
    /* A SKIP may rest there for long, and does not count; there is one at most. */
    if (tx->window.next - tx->window.first >= engine->config.window_max + (conn->skips > 0)
        || conn->in_flight >= conn->cc.window) {
        return NO_WINDOW;
    }
    if (too_soon(conn)) {
        return TOO_SOON;
    }
    if (engine->in_flight >= engine->config.depth_total
        || engine->bytes_in_flight >= engine->config.depth_bytes) {
        return NO_DEPTH;
    }
    return GO;
}

/* ---- messages ---- */

static void copy_out(const btl_ib_msg_t *msg, uint32_t offset, uint32_t size, uint8_t *to)
{
    for (int i = 0; i < 2 && size > 0; i++) {
        size_t len = msg->iov[i].iov_len;
        if (offset >= len) {
            offset -= (uint32_t) len;
            continue;
        }
        uint32_t part = (uint32_t) (len - offset < size ? len - offset : size);
        memcpy(to, (const uint8_t *) msg->iov[i].iov_base + offset, part);
        to += part;
        size -= part;
        offset = 0;
    }
}

/* Send a piece of a message from where it is. */
static void refer(btl_ib_segment_t *segment, const btl_ib_msg_t *msg, uint32_t offset,
                  uint32_t size)
{
    int n = 0;

    segment->outside = size;
    segment->iov[1].iov_len = 0;
    for (int i = 0; i < 2 && size > 0; i++) {
        size_t len = msg->iov[i].iov_len;
        if (offset >= len) {
            offset -= (uint32_t) len;
            continue;
        }
        uint32_t part = (uint32_t) (len - offset < size ? len - offset : size);
        segment->iov[n].iov_base = (uint8_t *) msg->iov[i].iov_base + offset;
        segment->iov[n++].iov_len = part;
        size -= part;
        offset = 0;
    }
}

static void queue_event(btl_ib_msg_t *msg)
{
    if (btl_ib_list_empty(&msg->link)) {
        btl_ib_list_push_tail(&msg->conn->engine->events, &msg->link);
    }
}

static void finish(btl_ib_msg_t *msg, int status)
{
    btl_ib_list_remove(&msg->link);
    msg->status = status;
    msg->done_due = true;
    queue_event(msg);
}

/* Memory that the transport would still read after send() must be ours; a guard wants all of a
 * datagram in one piece. */
static bool can_refer(const btl_ib_conn_t *conn, uint32_t size)
{
    const btl_ib_transport_attr_t *attr = &conn->rail->transport->attr;
    return size <= attr->inline_size && attr->max_iov >= 3 && !attr->needs_registration
           && conn->engine->guard.ops->trailer == 0;
}

static btl_ib_segment_t *next_chunk(btl_ib_conn_t *conn, btl_ib_msg_t *msg)
{
    if (msg->unit == 0) {
        msg->unit = btl_ib_conn_segment_max(conn) - (uint32_t) sizeof(btl_ib_wire_chunk_t);
        msg->id = conn->next_fragment++;
    }
    uint32_t rest = msg->size - msg->offset;
    uint32_t size = rest < msg->unit ? rest : msg->unit;
    btl_ib_wire_chunk_t chunk = {
        .fragment = BTL_IB_LE32(msg->id),
        .total = BTL_IB_LE32(msg->size),
        .index = BTL_IB_LE16(msg->offset / msg->unit),
        .unit = BTL_IB_LE16(msg->unit),
    };
    bool outside = can_refer(conn, btl_ib_send_overhead(conn) + (uint32_t) sizeof(chunk) + size);
    btl_ib_segment_t *segment = btl_ib_send_prepare(
        conn, BTL_IB_TYPE_CHUNK, (uint32_t) sizeof(chunk) + (outside ? 0 : size));
    if (segment == NULL) {
        return NULL;
    }
    uint8_t *body = btl_ib_send_body(segment);
    memcpy(body, &chunk, sizeof(chunk));
    if (outside) {
        refer(segment, msg, msg->offset, size);
    } else {
        copy_out(msg, msg->offset, size, body + sizeof(chunk));
    }
    segment->payload = size;
    msg->pending++;
    return segment;
}

/* Cut the next piece off a message: all of it if it fits a segment, else a chunk. */
static btl_ib_segment_t *next_piece(btl_ib_conn_t *conn, btl_ib_msg_t *msg)
{
    btl_ib_segment_t *segment;

    if (msg->unit == 0 && msg->size <= btl_ib_conn_segment_max(conn)) {
        segment = btl_ib_send_prepare(conn, BTL_IB_TYPE_DATA, msg->size);
        if (segment != NULL) {
            copy_out(msg, 0, msg->size, btl_ib_send_body(segment));
            segment->payload = msg->size;
        }
    } else {
        segment = next_chunk(conn, msg);
    }
    if (segment == NULL) {
        return NULL;
    }
    segment->msg = msg;
    segment->tag = msg->tag;
    msg->offset += segment->payload;
    segment->last = msg->offset == msg->size;
    if (segment->last && msg->want_ack_now) {
        segment->flags |= BTL_IB_FLAG_ACK_NOW;
    }
    return segment;
}

/* A piece could not leave: as if it had never been cut. */
static void uncut(btl_ib_conn_t *conn, btl_ib_segment_t *segment, btl_ib_list_t *pending)
{
    btl_ib_msg_t *msg = segment->msg;

    msg->offset -= segment->payload;
    msg->pending -= segment->type == BTL_IB_TYPE_CHUNK;
    if (btl_ib_list_empty(&msg->link)) {
        btl_ib_list_push_head(pending, &msg->link);
    }
    withdraw(conn, segment);
}

/* A piece has left. With its last the message counts as sent; if it was copied, also as done. */
static void piece_left(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_msg_t *msg = segment->msg;

    launched(conn, segment);
    conn->engine->count.sent_bytes += segment->payload;
    if (!segment->last) {
        return;
    }
    conn->engine->count.sent_messages++;
    msg->sent_due = true;
    if (segment->type == BTL_IB_TYPE_DATA) {
        segment->msg = NULL;
        finish(msg, 0);
    } else {
        queue_event(msg);
    }
}

/* Cut a batch off what waits in a channel. Returns what stopped it; *full: memory did. */
static verdict_t cut_batch(btl_ib_conn_t *conn, uint32_t space, btl_ib_segment_t **segments,
                           int *count, bool *full)
{
    btl_ib_tx_space_t *tx = &conn->tx[space];

    int batch = (int) conn->rail->transport->attr.max_batch;

    batch = batch < BTL_IB_BATCH ? batch : BTL_IB_BATCH;
    while (*count < batch && !btl_ib_list_empty(&tx->pending)) {
        verdict_t verdict = may_send(conn, space);
        if (verdict != GO) {
            return verdict;
        }
        btl_ib_msg_t *msg = BTL_IB_CONTAINER(btl_ib_list_first(&tx->pending), btl_ib_msg_t, link);
        btl_ib_segment_t *segment = NULL;
        if (btl_ib_tx_window_reserve(&tx->window, &conn->engine->mem) == 0) {
            segment = next_piece(conn, msg);
        }
        if (segment == NULL) {
            conn->engine->count.blocked_memory++;
            *full = true;
            return GO;
        }
        enlist(conn, segment, space);
        segments[(*count)++] = segment;
        if (segment->last) {
            btl_ib_list_remove(&msg->link);
        }
    }
    return GO;
}

/* Send what waits in a channel. Returns what stopped it, GO if nothing is left; *full: the
 * transport or memory stopped it. */
static verdict_t push_space(btl_ib_conn_t *conn, uint32_t space, bool *full)
{
    btl_ib_tx_space_t *tx = &conn->tx[space];
    btl_ib_segment_t *segments[BTL_IB_BATCH];
    verdict_t verdict = GO;

    while (verdict == GO && !*full && !btl_ib_list_empty(&tx->pending)) {
        int count = 0;
        verdict = cut_batch(conn, space, segments, &count, full);
        int taken = count == 0 ? 0 : btl_ib_send_segments(conn, segments, count);
        for (int i = count - 1; i >= taken; i--) {
            uncut(conn, segments[i], &tx->pending);
            *full = true;
        }
        for (int i = 0; i < taken; i++) {
            piece_left(conn, segments[i]);
        }
        if (taken > 0) {
            btl_ib_conn_active(conn);
        }
    }
    return verdict;
}

bool btl_ib_send_again(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint8_t flags)
{
    btl_ib_engine_t *engine = conn->engine;

    if (segment->busy) {
        return false;
    }
    segment->flags |= BTL_IB_FLAG_AGAIN | flags;
    if (btl_ib_send_segments(conn, &segment, 1) != 1) {
        return false;
    }
    btl_ib_list_remove(&segment->link);
    btl_ib_list_push_tail(&conn->sent, &segment->link);
    if (segment->lost) {
        segment->lost = false;
        in_flight(conn, segment, +1);
    }
    segment->last_sent = engine->now;
    segment->order = ++conn->order;
    segment->probe = flags & BTL_IB_FLAG_ACK_NOW;
    segment->copies++;
    spend_time(conn);
    engine->count.retransmits++;
    conn->probe_base = engine->now;
    return true;
}

void btl_ib_send_lost(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    in_flight(conn, segment, -1);
    segment->lost = true;
    btl_ib_list_remove(&segment->link);
    btl_ib_list_push_tail(&conn->lost, &segment->link);
}

/* What was lost goes before anything new, within the window. */
static verdict_t push_lost(btl_ib_conn_t *conn, bool *full)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(&conn->lost)) != NULL) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        if (conn->in_flight >= conn->cc.window) {
            return NO_WINDOW;
        }
        if (too_soon(conn)) {
            return TOO_SOON;
        }
        if (segment->busy) { /* its SENT event makes the connection ready again */
            return NO_WINDOW;
        }
        if (!btl_ib_send_again(conn, segment, 0)) {
            *full = true;
            return GO;
        }
    }
    return GO;
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
    } else if (verdict == NO_CREDIT && conn->in_flight == 0 && conn->blocked_since == 0) {
        conn->blocked_since = engine->awake;
        conn->probe_base = engine->now;
    }
}

void btl_ib_send_push(btl_ib_conn_t *conn)
{
    bool full = false;
    verdict_t verdict = push_lost(conn, &full);

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
    uint32_t keep = conn->peer_queues->q[space].init;
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

/* Take a segment off all accounts. Returns its message if that is finished with it. */
static btl_ib_msg_t *forget(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_msg_t *msg = segment->msg;

    conn->unacked--;
    conn->skips -= segment->type == BTL_IB_TYPE_SKIP;
    if (!segment->lost) {
        in_flight(conn, segment, -1);
    }
    btl_ib_list_remove(&segment->link);
    btl_ib_pool_put(&conn->rail->pool, segment);
    if (msg == NULL || --msg->pending > 0 || msg->offset < msg->size) {
        return NULL;
    }
    return msg;
}

void btl_ib_send_acked(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_tx_window_clear(&conn->tx[segment->space].window, segment->seq);
    btl_ib_msg_t *msg = forget(conn, segment);
    if (msg != NULL) {
        finish(msg, 0);
    }
}

static void give_back_segments(btl_ib_conn_t *conn, btl_ib_list_t *segments, int status)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(segments)) != NULL) {
        btl_ib_msg_t *msg = forget(conn, BTL_IB_CONTAINER(item, btl_ib_segment_t, link));
        if (msg != NULL) {
            finish(msg, status);
        }
    }
}

void btl_ib_send_give_back(btl_ib_conn_t *conn, int flight_status, int status)
{
    btl_ib_list_t *item;

    give_back_segments(conn, &conn->sent, flight_status);
    give_back_segments(conn, &conn->lost, flight_status);
    for (uint32_t space = 0; space < conn->peer_queues->count; space++) {
        while ((item = btl_ib_list_first(&conn->tx[space].pending)) != NULL) {
            finish(BTL_IB_CONTAINER(item, btl_ib_msg_t, link), status);
        }
    }
}

void btl_ib_send_callbacks(btl_ib_engine_t *engine)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_pop(&engine->events)) != NULL) {
        btl_ib_msg_t *msg = BTL_IB_CONTAINER(item, btl_ib_msg_t, link);
        bool sent = msg->sent_due;
        bool done = msg->done_due;
        engine->finished++;
        msg->sent_due = false;
        msg->done_due = false;
        if (sent) {
            engine->ops->on_sent(engine->ops_context, msg);
        }
        if (done) {
            engine->ops->on_done(engine->ops_context, msg, msg->status);
        }
    }
}

/* ---- what callers use ---- */

void *btl_ib_sendi_begin(btl_ib_conn_t *conn, uint8_t tag, uint32_t size)
{
    if (!btl_ib_conn_alive(conn) || conn->draining || size > btl_ib_conn_segment_max(conn)
        || size > conn->engine->config.eager_max) {
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
    msg->size = (uint32_t) size;
    void *body = btl_ib_sendi_begin(conn, msg->tag, msg->size);
    if (body != NULL) {
        copy_out(msg, 0, msg->size, body);
        if (btl_ib_sendi_commit(conn, now) == 0) {
            return 1;
        }
    }
    btl_ib_engine_clock(engine, now);
    btl_ib_list_init(&msg->link);
    msg->conn = conn;
    msg->offset = 0;
    msg->pending = 0;
    msg->unit = 0;
    msg->sent_due = false;
    msg->done_due = false;
    uint32_t largest = btl_ib_conn_segment_max(conn);
    uint32_t space =
        btl_ib_queues_channel(conn->peer_queues, btl_ib_send_overhead(conn)
                                                     + (msg->size < largest ? msg->size : largest));
    btl_ib_list_push_tail(&conn->tx[space].pending, &msg->link);
    engine->depth++;
    btl_ib_send_push(conn);
    btl_ib_send_callbacks(engine);
    btl_ib_engine_leave(engine);
    return 0;
}
