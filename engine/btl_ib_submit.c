/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_submit.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_coalesce.h"
#include "btl_ib_completion.h"
#include "btl_ib_rma_offload.h"
#include "btl_ib_deferred_free.h"
#include "btl_ib_send_limits.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_predict.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_packet.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_batch.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"
#include "btl_ib_transmit.h"
#include "btl_ib_validation.h"
#include "btl_ib_zcopy.h"

#include <errno.h>
#include <string.h>

/* Writes to the trace what stopped a channel. */
static void trace_stop(const btl_ib_conn_t *conn, uint32_t channel, btl_ib_verdict_t verdict)
{
    static const btl_ib_trace_cause_t causes[] = {
        [BTL_IB_GO] = BTL_IB_CAUSE_full,          [BTL_IB_NO_CREDIT] = BTL_IB_CAUSE_credit,
        [BTL_IB_NO_WINDOW] = BTL_IB_CAUSE_window, [BTL_IB_NO_SHARE] = BTL_IB_CAUSE_share,
        [BTL_IB_NO_DEPTH] = BTL_IB_CAUSE_depth,   [BTL_IB_TOO_SOON] = BTL_IB_CAUSE_pace,
        [BTL_IB_NO_ANSWER] = BTL_IB_CAUSE_answer,
    };

    btl_ib_trace(conn, BTL_IB_TRACE_blocked, causes[verdict], NULL, channel);
}

/* Counts what stopped a channel of a rail. */
static void count_stop(btl_ib_channel_counters_t *count, btl_ib_verdict_t verdict)
{
    count->blocked_credit += verdict == BTL_IB_NO_CREDIT;
    count->blocked_window += verdict == BTL_IB_NO_WINDOW || verdict == BTL_IB_NO_DEPTH;
}

/*
 * Sends what the limits allow of all that waits in a connection. The command channel goes before
 * all others, because what repeats bulk must not delay it: first what it lost, then what it has
 * new, then what the data channels lost, then what each of them has new. A full transport ends it,
 * unless each channel has a send queue: that of one may stay full for as long as there is more for
 * it, and those behind it would never send. `bursts`: of what was never sent only whole GSO bursts.
 */
static void flush_channels(btl_ib_conn_t *conn, bool bursts)
{
    enum { LOST_COMMANDS, COMMANDS, LOST_DATA, DATA };
    const uint32_t steps = DATA + conn->peer_queues->count - 1;
    bool more = true;

    btl_ib_op_give_slots(conn);
    for (uint32_t step = LOST_COMMANDS; step < steps && more; step++) {
        const bool again = step == LOST_COMMANDS || step == LOST_DATA;
        uint32_t channel = step < DATA ? 0 : step - DATA + 1;
        btl_ib_verdict_t verdict;
        bool full = false;
        if (btl_ib_list_empty(again ? &conn->sentmap.lost : &conn->tx[channel].submit.pending)) {
            continue;
        }
        if (again) {
            verdict = btl_ib_batch_resend(conn, step == LOST_COMMANDS, &full);
            channel = step == LOST_COMMANDS ? 0 : BTL_IB_TRACE_NO_CHANNEL;
        } else {
            verdict = btl_ib_batch_push(conn, channel, bursts, &full);
        }
        if (verdict != BTL_IB_GO || full) {
            if (verdict == BTL_IB_NO_WINDOW && step >= LOST_DATA
                && conn->incast.segments < conn->cc.window) {
                verdict = BTL_IB_NO_SHARE;
            }
            if (!again) {
                count_stop(&conn->rail->channels[channel], verdict);
            }
            trace_stop(conn, channel, verdict);
            btl_ib_send_limits_wait(conn, verdict, full);
        }
        more =
            verdict != BTL_IB_TOO_SOON && (!full || conn->route.via->transport->attr.send_queues);
    }
    btl_ib_loss_set_timer(conn);
}

/* Sends a new segment by itself. False if it cannot leave now: then it is taken back. */
static inline bool send_new(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint32_t channel)
{
    btl_ib_loss_sending(conn, segment);
    btl_ib_sentmap_enter(conn, &segment, 1, channel);
    if (!btl_ib_transmit_one(conn, segment)) {
        btl_ib_sentmap_withdraw(conn, segment);
        return false;
    }
    (void) btl_ib_sentmap_left(conn, &segment, 1);
    btl_ib_loss_sent(&conn->loss, conn->engine->clock.now);
    return true;
}

enum { FLOW_CHECK_BYTES = 8 }; /* behind the header: only what has some is not sent again */

/* Sends a VOID of `size` bytes as a datagram on `channel`, zeros behind its header. NULL: it cannot
 * leave now, for want of what `verdict` names, or of memory, or of room in the transport. */
static btl_ib_segment_t *send_void(btl_ib_conn_t *conn, uint32_t size, uint32_t channel,
                                   btl_ib_verdict_t verdict)
{
    const uint32_t pad = size - btl_ib_packet_overhead(conn);
    const bool room =
        verdict == BTL_IB_GO
        && btl_ib_tx_window_reserve(&conn->tx[channel].sentmap.window, 1, &conn->engine->mem) == 0;
    btl_ib_segment_t *segment = room ? btl_ib_packet_make(conn, BTL_IB_TYPE_VOID, pad) : NULL;

    if (segment != NULL) {
        memset(btl_ib_packet_body(segment), 0, pad);
        segment->flags |= BTL_IB_FLAG_ACK_NOW;
    }
    if (segment == NULL || !send_new(conn, segment, channel)) {
        return NULL;
    }
    btl_ib_loss_set_timer(conn);
    return segment;
}

/* Sends a check of the flow that was left: a VOID, by that flow. If it cannot leave now, the next
 * echo tries again. */
static void send_flow_check(btl_ib_conn_t *conn)
{
    const uint32_t size = btl_ib_packet_overhead(conn) + FLOW_CHECK_BYTES;
    const uint32_t channel = btl_ib_queues_channel(conn->peer_queues, size);

    if (conn->draining || !conn->identity.peer_knows) {
        return;
    }
    const uint8_t present = btl_ib_flow_lend(&conn->flow, conn->flow.left);
    const btl_ib_segment_t *check =
        send_void(conn, size, channel, btl_ib_send_limits_check(conn, channel));
    btl_ib_flow_give_back(&conn->flow, present);
    if (check != NULL) {
        btl_ib_flow_check_left(conn, check);
    }
}

/* Sends a probe of the path MTU. If it cannot leave now, it is made again later; that of a check,
 * which no traffic may follow, waits for what stopped it. */
static void send_mtu_probe(btl_ib_conn_t *conn, uint32_t size)
{
    const uint32_t channel = btl_ib_queues_channel(conn->peer_queues, size);
    const btl_ib_verdict_t verdict = btl_ib_send_limits_check(conn, channel);
    const btl_ib_segment_t *segment = send_void(conn, size, channel, verdict);

    if (segment == NULL && conn->pmtud.checking) {
        btl_ib_send_limits_wait(conn, verdict, verdict == BTL_IB_GO);
        btl_ib_loss_set_timer(conn);
    } else if (segment != NULL && size > btl_ib_packet_overhead(conn)) {
        btl_ib_pmtud_probe_left(conn, segment);
    }
}

void btl_ib_conn_check_path(btl_ib_conn_t *conn, uint64_t now)
{
    btl_ib_account(conn->engine);
    btl_ib_clock_set(&conn->engine->clock, now);
    btl_ib_pmtud_check(conn);
    btl_ib_idle_active(&conn->idle, conn, conn->engine->clock.now);
}

void btl_ib_flush(btl_ib_conn_t *conn)
{
    if (!btl_ib_list_empty(&conn->offload.waiting)) {
        btl_ib_offload_push(conn);
    }
    if (btl_ib_pending_mtu_search(conn)) {
        const uint32_t size = btl_ib_pmtud_next_probe(conn);
        if (size > 0) {
            send_mtu_probe(conn, size);
        }
    }
    if (conn->flow.to_check) {
        send_flow_check(conn);
    }
    /* also if all of it left in full bursts already: what waits for the rest waits no longer */
    btl_ib_coalesce_release(&conn->coalesce, conn->engine->clock.now);
    /* else this was called for acknowledgements, and nothing follows from them */
    if (btl_ib_pending_work(conn)) {
        flush_channels(conn, false);
    }
}

void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t channel)
{
    btl_ib_tx_channel_t *tx = &conn->tx[channel];
    const btl_ib_queue_t *queue = &conn->peer_queues->q[channel];
    uint32_t keep = btl_ib_credit_initial(queue, queue->init);
    uint32_t spare = tx->limit - tx->sentmap.window.next;

    if (!btl_ib_seq_before(tx->sentmap.window.next, tx->limit) || spare <= keep) {
        return;
    }
    uint32_t count = spare - keep;
    count = count < BTL_IB_SKIP_MAX ? count : BTL_IB_SKIP_MAX;
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_SKIP, sizeof(count));
    if (segment == NULL) {
        return;
    }
    if (btl_ib_tx_window_reserve(&tx->sentmap.window, 1, &conn->engine->mem) != 0) {
        btl_ib_pool_put(segment);
        return;
    }
    uint32_t wire = BTL_IB_LE32(count);
    memcpy(btl_ib_packet_body(segment), &wire, sizeof(wire));
    btl_ib_tx_window_jump(&tx->sentmap.window, (int32_t) count - 1);
    if (!send_new(conn, segment, channel)) {
        btl_ib_tx_window_jump(&tx->sentmap.window, 1 - (int32_t) count);
    }
    btl_ib_loss_set_timer(conn);
}

/* Returns where to write the payload of a message that leaves at once, or NULL if it cannot. Not
 * inlined: what declines a message at once needs no stack. */
__attribute__((noinline)) static void *reserve_segment(btl_ib_conn_t *conn, uint8_t tag,
                                                       uint32_t size)
{
    btl_ib_account(conn->engine);
    const bool connects = btl_ib_packet_says_connect(conn);
    const uint32_t whole = btl_ib_packet_overhead(conn) + size;

    if (whole > conn->pmtud.datagram_max) {
        return NULL;
    }
    const uint32_t channel = btl_ib_queues_channel(conn->peer_queues, whole);
    btl_ib_tx_channel_t *tx = &conn->tx[channel];
    if (!conn->validation.valid && btl_ib_validation_waits(conn)) {
        /* A message that is declined goes over another rail; nothing may ever be queued here that
         * would ask the peer. */
        if (btl_ib_validation_may_ask(&conn->validation, conn->engine->clock.now)) {
            btl_ib_validation_asked(&conn->validation, conn->engine->clock.now);
            btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
        }
        return NULL;
    }
    if (!btl_ib_list_empty(&tx->submit.pending)
        || btl_ib_send_limits_check(conn, channel) != BTL_IB_GO
        || btl_ib_tx_window_reserve(&tx->sentmap.window, 1, &conn->engine->mem) != 0) {
        return NULL;
    }
    btl_ib_segment_t *segment = connects ? btl_ib_packet_make(conn, BTL_IB_TYPE_DATA, size)
                                         : btl_ib_packet_make_whole(conn, BTL_IB_TYPE_DATA, whole);
    if (segment == NULL) {
        return NULL;
    }
    segment->tag = tag;
    segment->channel = (uint8_t) channel;
    segment->seq = 0; /* it gets a sequence when it is sent */
    segment->payload = size;
    conn->engine->reserved.segment = segment;
    return btl_ib_packet_body(segment);
}

void *btl_ib_sendi_begin(btl_ib_conn_t *conn, uint8_t tag, uint32_t size)
{
    if (btl_ib_coalesce_waits(&conn->coalesce, conn->engine->clock.turns)
        || !btl_ib_conn_alive(conn) || conn->draining || size > conn->engine->config.eager_max) {
        return NULL;
    }
    return reserve_segment(conn, tag, size);
}

void btl_ib_sendi_abort(btl_ib_conn_t *conn)
{
    btl_ib_pool_put(conn->engine->reserved.segment);
    conn->engine->reserved.segment = NULL;
}

int btl_ib_sendi_commit(btl_ib_conn_t *conn, uint64_t now)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_segment_t *segment = engine->reserved.segment;

    engine->reserved.segment = NULL;
    btl_ib_clock_set(&engine->clock, now);
    if (!send_new(conn, segment, segment->channel)) {
        return -EAGAIN;
    }
    engine->count.sent_messages++;
    engine->count.sent_bytes += segment->payload;
    conn->count.sent_bytes += segment->payload;
    btl_ib_coalesce_at_once(&conn->coalesce, engine->clock.turns, engine->clock.now);
    btl_ib_idle_active(&conn->idle, conn, conn->engine->clock.now);
    /* what is alone in flight was not overtaken */
    if (conn->sentmap.unacked > 1
        || !btl_ib_loss_timer_is_set(&conn->loss, conn->route.via->transport->attr.reliable,
                                     engine->config.rto_max)) {
        btl_ib_loss_set_timer(conn);
    }
    return 0;
}

/* Lets it wait in its channel. All of its chunks use one channel: that of the largest. */
static void queue_message(btl_ib_conn_t *conn, btl_ib_msg_t *msg, size_t size)
{
    msg->out = (btl_ib_out_t){.conn = conn, .size = size, .kind = BTL_IB_OUT_MESSAGE};
    msg->unit = 0;
    msg->refers = false;
    btl_ib_zcopy_begin(conn->engine, msg);
    if (size == 0) { /* a chunk has at least one byte */
        msg->ordered = false;
    }
    btl_ib_list_init(&msg->out.link);
    btl_ib_pending_add(conn, &msg->out, msg->ordered ? conn->pmtud.datagram_max : 0);
}

static size_t message_size(const btl_ib_msg_t *msg)
{
    return msg->iov[0].iov_len + msg->iov[1].iov_len;
}

/* Holds `size` bytes until the next turn. False: there are many now, and all are to leave. */
static inline bool coalesce_hold(btl_ib_conn_t *conn, uint64_t size)
{
    const uint64_t most = (uint64_t) btl_ib_max_u32(BTL_IB_HELD_DATAGRAMS, conn->cc.gso_segments)
                          * conn->pmtud.datagram_max;

    if (!btl_ib_coalesce_hold(&conn->coalesce, size, most)) {
        return false;
    }
    if (conn->coalesce.held == 1) {
        btl_ib_conn_ready(conn);
    }
    return true;
}

/* Lets a message wait for others to travel with. False: there are many now, and all are to
 * leave. */
static inline bool coalesce_message(btl_ib_conn_t *conn, btl_ib_msg_t *msg, size_t size)
{
    if (!coalesce_hold(conn, size)) {
        return false;
    }
    queue_message(conn, msg, size);
    return true;
}

bool btl_ib_submit_hold(btl_ib_conn_t *conn, uint64_t size)
{
    const btl_ib_engine_t *engine = conn->engine;

    if (!btl_ib_coalesce_waits(&conn->coalesce, engine->clock.turns)) {
        btl_ib_coalesce_at_once(&conn->coalesce, engine->clock.turns, engine->clock.now);
        return false;
    }
    if (!coalesce_hold(conn, size)) {
        conn->coalesce.held++; /* it is too much to be held: it leaves now, with all that was */
        return false;
    }
    return true;
}

bool btl_ib_engine_join(btl_ib_conn_t *conn, btl_ib_msg_t *msg)
{
    const size_t size = message_size(msg);

    /* send_accounted() for the first of a callback: here it would need a stack for all others */
    return !btl_ib_has_unaccounted(conn->engine)
           && btl_ib_coalesce_waits(&conn->coalesce, conn->engine->clock.turns)
           && btl_ib_conn_alive(conn) && !conn->draining && size <= conn->engine->config.eager_max
           && coalesce_message(conn, msg, size);
}

void btl_ib_submit_end(btl_ib_engine_t *engine)
{
    if (engine->deferred_free.depth == 1) {
        btl_ib_completion_callbacks(engine);
    }
    btl_ib_engine_leave(engine);
}

/* Sends a message now, if nothing prevents it; with what was held, of which there is too much by
 * now, or by itself. Returns as btl_ib_engine_send(). Not inlined: what is held needs no stack. */
__attribute__((noinline)) static int send_message(btl_ib_conn_t *conn, btl_ib_msg_t *msg,
                                                  size_t size, bool held)
{
    btl_ib_engine_t *engine = conn->engine;
    bool bursts = false; /* send only what fills whole GSO bursts */

    if (held) {
        conn->coalesce.held++;
        bursts = btl_ib_coalesce_fills_burst(conn, size);
    } else {
        uint8_t *body =
            msg->ordered && size > 0 ? NULL : reserve_segment(conn, msg->tag, (uint32_t) size);
        if (body != NULL) {
            btl_ib_packet_copy_message(msg, body);
            if (btl_ib_sendi_commit(conn, engine->clock.now) == 0) {
                return 1;
            }
        }
        btl_ib_coalesce_at_once(&conn->coalesce, engine->clock.turns, engine->clock.now);
    }
    queue_message(conn, msg, size);
    btl_ib_engine_enter(engine);
    if (bursts) {
        const uint64_t before = engine->count.sent_bytes;
        flush_channels(conn, true);
        btl_ib_coalesce_bursts_left(conn, size, engine->count.sent_bytes - before);
    } else {
        btl_ib_flush(conn);
    }
    btl_ib_submit_end(engine);
    return 0;
}

/* Sends from within a callback. Not inlined: the call keeps its arguments on the stack, and what is
 * held needs none. */
__attribute__((noinline)) static int send_accounted(btl_ib_conn_t *conn, btl_ib_msg_t *msg,
                                                    uint64_t now)
{
    btl_ib_account(conn->engine);
    return btl_ib_engine_send(conn, msg, now);
}

int btl_ib_engine_send(btl_ib_conn_t *conn, btl_ib_msg_t *msg, uint64_t now)
{
    btl_ib_engine_t *engine = conn->engine;
    const size_t size = message_size(msg);

    if (btl_ib_has_unaccounted(engine)) {
        return send_accounted(conn, msg, now);
    }
    if (!btl_ib_conn_alive(conn) || conn->draining) {
        return -EPIPE;
    }
    if (size > engine->config.eager_max) {
        return -EMSGSIZE;
    }
    btl_ib_clock_set(&engine->clock, now);
    const bool held = btl_ib_coalesce_waits(&conn->coalesce, engine->clock.turns);
    return held && coalesce_message(conn, msg, size) ? 0 : send_message(conn, msg, size, held);
}

/* Gives back what segments carried. A message that left may count as sent. Of a PUT only an
 * acknowledgement says that it is placed. */
static void give_back_segments(btl_ib_conn_t *conn, btl_ib_list_t *segments, int left_status,
                               int status)
{
    btl_ib_segment_t *segment;

    while ((segment = BTL_IB_LIST_FIRST(btl_ib_segment_t, segments, link)) != NULL) {
        btl_ib_out_t *out = btl_ib_sentmap_end(conn, segment);
        if (out != NULL) {
            btl_ib_completion_add(out, out->kind == BTL_IB_OUT_MESSAGE ? left_status : status);
        }
    }
}

void btl_ib_send_give_back(btl_ib_conn_t *conn, int left_status, int status)
{
    btl_ib_out_t *out;

    btl_ib_list_remove(&conn->ops.turn); /* places that become free are for others */
    btl_ib_offload_give_up(conn, status);
    /* first: else they would take the places that become free */
    while ((out = BTL_IB_LIST_FIRST(btl_ib_out_t, &conn->ops.waiting, link)) != NULL) {
        btl_ib_completion_add(out, status);
    }
    for (int i = 0; i < btl_ib_sent_lists(conn); i++) {
        give_back_segments(conn, btl_ib_sent_list(conn, i), left_status, status);
    }
    give_back_segments(conn, &conn->sentmap.lost, left_status, status);
    give_back_segments(conn, &conn->sentmap.deferred, left_status, status);
    for (uint32_t channel = 0; channel < conn->peer_queues->count; channel++) {
        btl_ib_list_t *pending = &conn->tx[channel].submit.pending;
        while ((out = BTL_IB_LIST_FIRST(btl_ib_out_t, pending, link)) != NULL) {
            btl_ib_completion_add(out, status);
        }
    }
    for (uint32_t i = 0; conn->ops.answers > 0 && i < conn->engine->config.ops_max; i++) {
        btl_ib_op_t *op = conn->ops.slots[i].op;
        if (op != NULL && op->asked) {
            btl_ib_completion_add(&op->out, status);
        }
    }
}

void btl_ib_submit_init(btl_ib_conn_t *conn)
{
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        btl_ib_list_init(&conn->tx[i].submit.pending);
    }
}
