/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_input.h"

#include "btl_ib_accept.h"
#include "btl_ib_ack_read.h"
#include "btl_ib_ack_write.h"
#include "btl_ib_burst.h"
#include "btl_ib_reasm.h"
#include "btl_ib_rma_initiator.h"
#include "btl_ib_flow.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_refragment.h"
#include "btl_ib_rnr_receiver.h"
#include "btl_ib_rnr_sender.h"
#include "btl_ib_state.h"
#include "btl_ib_rma_target.h"
#include "btl_ib_validation.h"

#include <string.h>

/* True if it is BTL_IB_WIRE_OK. Other results are counted. */
static bool check_form(btl_ib_counters_t *count, btl_ib_wire_error_t error)
{
    switch (error) {
    case BTL_IB_WIRE_OK:
        return true;
    case BTL_IB_WIRE_SHORT:
        count->dropped_short++;
        break;
    case BTL_IB_WIRE_VERSION_UNKNOWN:
        count->dropped_version++;
        break;
    case BTL_IB_WIRE_TYPE_UNKNOWN:
        count->dropped_type++;
        break;
    case BTL_IB_WIRE_CHUNK_WRONG:
        count->dropped_chunk++;
        break;
    case BTL_IB_WIRE_ACK_WRONG:
        count->dropped_ack++;
        break;
    case BTL_IB_WIRE_OP_WRONG:
        count->dropped_op++;
        break;
    default:
        count->dropped_length++;
        break;
    }
    return false;
}

bool btl_ib_input_check(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint32_t datagram)
{
    btl_ib_counters_t *count = &conn->engine->count;
    const btl_ib_queue_table_t *queues = &conn->rail->queues;

    if (view->channel >= queues->count || datagram > queues->q[view->channel].size) {
        count->dropped_channel++;
        return false;
    }
    if (view->tag > BTL_IB_TAG_MAX) {
        count->dropped_type++;
        return false;
    }
    const btl_ib_queue_t *queue = &queues->q[view->channel];
    const btl_ib_rx_channel_t *rx = &conn->rx[view->channel];
    bool beyond =
        queue->type == BTL_IB_QUEUE_PER_PEER && !btl_ib_seq_before(view->seq, rx->credit.limit);
    if (beyond
        || (view->seq != rx->window.next
            && btl_ib_rx_window_classify(&rx->window, view->seq) == BTL_IB_SEQ_OUTSIDE)) {
        count->dropped_sequence++;
        return false;
    }
    return true;
}

void btl_ib_input_burst(const btl_ib_conn_t *conn, btl_ib_arrival_t *arrival, uint32_t events)
{
    const uint8_t unusual = BTL_IB_FLAG_CONNECT | BTL_IB_FLAG_ACK_NOW | BTL_IB_FLAG_RETRANSMISSION;
    const btl_ib_view_t *view = &arrival->view;
    const btl_ib_rx_window_t *window = &conn->rx[view->channel].window;

    /* What was retransmitted, has a CONNECT block or asks for an acknowledgement is looked at by
     * itself. So is everything where a gap is open, a datagram has a trailer, or segments got RNR
     * or came in parts. */
    if ((view->flags & unusual) != 0 || window->above > 0 || view->seq != window->next
        || conn->engine->protection.ops->trailer > 0 || conn->rnr.any
        || !btl_ib_list_empty(&conn->input.parts)) {
        return;
    }
    if (conn->rail->queues.q[view->channel].type == BTL_IB_QUEUE_PER_PEER) {
        events = btl_ib_min_u32(events, conn->rx[view->channel].credit.limit - view->seq - 1);
    }
    btl_ib_burst_find(&arrival->view, arrival->event, events);
}

static void deliver_message(btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    btl_ib_engine_t *engine = conn->engine;

    if (conn->draining) {
        engine->count.undelivered++;
        return;
    }
    engine->count.received_messages++;
    btl_ib_ack_tx_delivered(&conn->ack, engine->clock.now);
    engine->ops->deliver(engine->ops_context, conn, tag, data, size);
}

/* Delivers the fragments that are complete and next in order. Returns how many. `busy` keeps calls
 * made from within a callback from delivering others meanwhile. */
static uint32_t deliver_fragments(btl_ib_conn_t *conn)
{
    btl_ib_reasm_t *whole;
    uint32_t count = 0;

    while ((whole = btl_ib_reasm_next(&conn->input.fragments)) != NULL) {
        btl_ib_reasm_set_busy(&conn->input.fragments, true);
        deliver_message(conn, whole->tag, whole->data, whole->total);
        btl_ib_reasm_set_busy(&conn->input.fragments, false);
        btl_ib_reasm_put(&conn->engine->reasm, whole);
        count++;
    }
    return count;
}

/* Has the next progress call deliver the connection's complete fragments. */
static void deliver_later(btl_ib_conn_t *conn)
{
    if (btl_ib_list_empty(&conn->input.whole)) {
        btl_ib_list_push_tail(&conn->engine->whole, &conn->input.whole);
        btl_ib_work_note(&conn->engine->work);
    }
}

void btl_ib_input_init(btl_ib_conn_t *conn)
{
    btl_ib_reasm_peer_init(&conn->input.fragments);
    btl_ib_list_init(&conn->input.parts);
    btl_ib_list_init(&conn->input.whole);
}

void btl_ib_input_end(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_refragment_drop(&conn->input.parts, &engine->mem);
    btl_ib_reasm_end(&engine->reasm, &conn->input.fragments);
    if (!btl_ib_list_empty(&conn->input.fragments.of_ended)) { /* acknowledged already */
        deliver_later(conn);
    }
}

void btl_ib_input_drop(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_backlog_drop(&engine->backlog, conn);
    btl_ib_reasm_drop(&engine->reasm, &conn->input.fragments);
    btl_ib_list_remove(&conn->input.whole);
}

void btl_ib_input_shrink(btl_ib_conn_t *conn)
{
    btl_ib_refragment_drop(&conn->input.parts, &conn->engine->mem);
    btl_ib_rx_window_shrink(&conn->input.fragments.finished, &conn->engine->mem);
}

uint32_t btl_ib_input_stored(btl_ib_engine_t *engine)
{
    btl_ib_backlog_entry_t *stored;
    btl_ib_conn_t *conn;
    uint32_t count = 0;

    while ((stored = btl_ib_backlog_pop(&engine->backlog)) != NULL) {
        deliver_message(stored->conn, stored->tag, stored->data, stored->size);
        btl_ib_backlog_put(&engine->backlog, stored);
        count++;
    }
    while ((conn = BTL_IB_LIST_POP(btl_ib_conn_t, &engine->whole, input.whole)) != NULL) {
        count += deliver_fragments(conn);
    }
    return count;
}

/* Checks that a receiver is registered for this tag. If not, the peer is told when there is one. */
static bool check_receiver(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint8_t tag)
{
    btl_ib_engine_t *engine = conn->engine;

    if (engine->ops->deliverable(engine->ops_context, conn, tag)) {
        return true;
    }
    engine->count.rnr_tag++;
    btl_ib_ack_tx_no_tag(&conn->ack);
    btl_ib_rnr_note(conn, view, tag, BTL_IB_RNR_TAG);
    BTL_IB_LOG(engine, 10, "peer %u.%u: nobody listens to tag %u yet",
               BTL_IB_NAME_ARGS(conn->identity.name), tag);
    return false;
}

/* Checks that receivers are registered for all messages of a segment. */
static bool check_receivers(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_bundled_t message;
    uint32_t offset = 0;

    if (conn->draining) {
        return true;
    }
    if (view->type == BTL_IB_TYPE_DATA || view->type == BTL_IB_TYPE_CHUNK
        || (view->type == BTL_IB_TYPE_BUNDLE && view->tag == view->lowest)) { /* as most are */
        return check_receiver(conn, view, view->tag);
    }
    if (view->type == BTL_IB_TYPE_BUNDLE) {
        uint32_t before = UINT32_MAX;
        while (btl_ib_wire_next_message(view, &offset, &message)) {
            if (message.tag != before && !check_receiver(conn, view, message.tag)) {
                return false;
            }
            before = message.tag;
        }
    }
    return true;
}

/* ---- one function for each kind of segment. False: it got RNR, and comes again ---- */

/* Finds the only message of DATA, or the next of a BUNDLE. Returns false at the end. */
static bool next_message(const btl_ib_view_t *view, uint32_t *offset, btl_ib_bundled_t *message)
{
    if (view->type == BTL_IB_TYPE_BUNDLE) {
        return btl_ib_wire_next_message(view, offset, message);
    }
    if (*offset > 0) {
        return false;
    }
    *offset = 1;
    *message = (btl_ib_bundled_t){.data = view->payload, .size = view->size, .tag = view->tag};
    return true;
}

/* Keeps the messages of a segment in the backlog, all or none, as asynchronous progress runs no
 * callbacks. */
static bool keep_messages(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_bundled_t message;
    btl_ib_backlog_t kept;
    uint32_t offset = 0;

    btl_ib_backlog_init(&kept, &engine->mem, engine->backlog.bytes_max - engine->backlog.bytes);
    while (next_message(view, &offset, &message)) {
        btl_ib_backlog_entry_t *stored = btl_ib_backlog_get(&kept, conn, message.tag, message.size);
        if (stored == NULL) {
            btl_ib_backlog_fini(&kept);
            engine->count.rnr_backlog++;
            btl_ib_rnr_note(conn, view, view->tag, BTL_IB_RNR_BACKLOG);
            return false;
        }
        memcpy(stored->data, message.data, message.size);
        btl_ib_backlog_add(&kept, stored);
    }
    btl_ib_accept(conn, view);
    btl_ib_backlog_take_over(&engine->backlog, &kept);
    btl_ib_work_note(&engine->work);
    return true;
}

/* Delivers the messages of DATA or a BUNDLE, which were all checked. A callback may end the
 * connection: then the rest is dropped. A CLOSE taken in by a callback ends only the incarnation
 * that promised it. */
static bool recv_messages(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_bundled_t message;
    uint32_t offset = 0;

    if (conn->engine->turn.async && !conn->draining) {
        return keep_messages(conn, view);
    }
    btl_ib_accept(conn, view);
    if (view->type == BTL_IB_TYPE_DATA) {
        deliver_message(conn, view->tag, view->payload, view->size);
        return true;
    }
    while (btl_ib_conn_alive(conn) && btl_ib_wire_next_message(view, &offset, &message)) {
        deliver_message(conn, message.tag, message.data, message.size);
    }
    return true;
}

static bool recv_chunk(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    const btl_ib_reasm_result_t result =
        btl_ib_reasm_add(&engine->reasm, &conn->input.fragments, view);

    if (result == BTL_IB_REASM_WRONG) {
        engine->count.dropped_chunk += btl_ib_burst_count(view);
        return true;
    }
    if (result == BTL_IB_REASM_RNR) {
        engine->count.rnr_reassembly++;
        if (!btl_ib_reasm_room(&engine->reasm, &conn->input.fragments, view->chunk.fragment)) {
            btl_ib_rnr_note(conn, view, view->tag, BTL_IB_RNR_BUFFER);
        }
        return false;
    }
    engine->count.copied_in += btl_ib_burst_bytes(view);
    btl_ib_accept(conn, view);
    if (result == BTL_IB_REASM_COMPLETE) {
        if (engine->turn.async) {
            deliver_later(conn);
        } else {
            (void) deliver_fragments(conn);
        }
    }
    return true;
}

static void recv_sequenced(btl_ib_conn_t *conn, btl_ib_view_t *view);

/* Processes the body of a segment of which all parts arrived; the last was `part`. */
static void recv_whole(btl_ib_conn_t *conn, const btl_ib_view_t *part, btl_ib_refragment_t *whole)
{
    btl_ib_counters_t *count = &conn->engine->count;
    btl_ib_view_t view = *part;

    view.type = whole->type;
    view.tag = whole->tag;
    view.payload = whole->data;
    view.size = whole->total;
    if (!check_form(count, btl_ib_wire_parse_whole(&view))) {
        return;
    }
    if (view.tag > BTL_IB_TAG_MAX) {
        count->dropped_type++;
    } else {
        recv_sequenced(conn, &view);
    }
}

/* Stores a part of a segment. What is left to come counts as RNR: a peer that asks must learn that
 * we live. */
static bool recv_part(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const btl_ib_mem_t *mem = &conn->engine->mem;
    btl_ib_counters_t *count = &conn->engine->count;
    btl_ib_refragment_t *whole;

    if (view->part.total + sizeof(btl_ib_wire_header_t)
        > conn->rail->queues.q[view->channel].size) {
        count->dropped_channel++;
        return true;
    }
    switch (btl_ib_refragment_add(&conn->input.parts, mem, view, &whole)) {
    case BTL_IB_PARTS_COMPLETE:
        recv_whole(conn, view, whole);
        btl_ib_free(mem, whole);
        return true;
    case BTL_IB_PARTS_KEPT_IT:
        /* If the rest is lost, the sender must not believe that this copy got RNR. */
        count->received_parts++;
        if (conn->rnr.any) {
            btl_ib_rnr_here(conn, view);
        }
        break;
    case BTL_IB_PARTS_RNR:
        count->rnr_reassembly++;
        break;
    }
    return false;
}

/* Takes in a segment of a type that needs memory or a receiver here. */
static bool recv_body(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (conn->rnr.any) {
        btl_ib_rnr_here(conn, view);
    }
    if (!check_receivers(conn, view) || !btl_ib_accept_room(conn, view)) {
        return false;
    }
    switch (view->type) {
    case BTL_IB_TYPE_DATA:
    case BTL_IB_TYPE_BUNDLE:
        return recv_messages(conn, view);
    case BTL_IB_TYPE_CHUNK:
        return recv_chunk(conn, view);
    /* Requests for our regions are served while draining, too. */
    case BTL_IB_TYPE_PUT:
        return btl_ib_target_put(conn, view);
    case BTL_IB_TYPE_GET:
        return btl_ib_target_get(conn, view);
    case BTL_IB_TYPE_ATOMIC:
        return btl_ib_target_atomic(conn, view);
    case BTL_IB_TYPE_SKIP:
        btl_ib_accept_skip(conn, view);
        break;
    case BTL_IB_TYPE_GOT:
        btl_ib_op_recv_got(conn, view);
        break;
    case BTL_IB_TYPE_REPLY:
        btl_ib_op_recv_replies(conn, view);
        break;
    default: /* VOID */
        btl_ib_pmtud_received(conn, view);
        btl_ib_accept(conn, view);
        break;
    }
    return true;
}

/* Receives a sequenced segment. Of a burst that gets RNR only the first segment does: the others
 * are looked at one by one. */
static void recv_sequenced(btl_ib_conn_t *conn, btl_ib_view_t *view)
{
    if (btl_ib_rx_window_classify(&conn->rx[view->channel].window, view->seq) != BTL_IB_SEQ_NEW) {
        conn->engine->count.dropped_duplicate++;
        conn->count.dropped_duplicate++;
        btl_ib_ack_tx_duplicate(conn, view);
        if (view->flags & BTL_IB_FLAG_ACK_NOW) {
            btl_ib_flow_asked(conn, view);
        }
        return;
    }
    const bool accepted =
        view->type == BTL_IB_TYPE_PART ? recv_part(conn, view) : recv_body(conn, view);
    /* A segment that got RNR is not acknowledged, but a peer that asks must learn that we live, and
     * perhaps why. */
    if (!accepted) {
        btl_ib_burst_none(&view->more);
    }
    if (!accepted && (view->flags & BTL_IB_FLAG_ACK_NOW)) {
        btl_ib_ack_tx_set_pending(conn, view->channel, true);
    }
}

bool btl_ib_input_parse(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival)
{
    return check_form(&engine->count,
                      btl_ib_wire_parse(arrival->data, arrival->size, &arrival->view));
}

bool btl_ib_input_look_at(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival)
{
    const btl_ib_protection_t *protection = &engine->protection;

    if (!protection->ops->keyed) {
        return (protection->ops->trailer == 0
                || btl_ib_protection_open(protection, NULL, NULL, arrival->data, arrival->size))
               && btl_ib_input_parse(engine, arrival);
    }
    return check_form(&engine->count,
                      btl_ib_wire_peek(arrival->data, arrival->size, &arrival->view));
}

bool btl_ib_input_take(btl_ib_conn_t *conn, btl_ib_view_t *view, bool new_acks)
{
    const btl_ib_engine_t *engine = conn->engine;

    if (conn->validation.route_refused != 0 || conn->validation.refused_at != 0) {
        btl_ib_validation_echoed(conn, view);
    }
    btl_ib_loss_datagram_received(conn, view->flags, view->stamp, view->echo, view->hold,
                                  view->poll_gap);
    btl_ib_ack_tx_heard(&conn->ack, view->stamp, engine->clock.now, engine->turn.poll_gap);
    if (new_acks) {
        btl_ib_ack_received(conn, view);
        if (view->flags & BTL_IB_FLAG_READY) {
            btl_ib_rnr_sender_ready(conn, view);
        }
    }
    btl_ib_loss_timer_by_sample(conn);
    switch (view->type) {
    case BTL_IB_TYPE_ACK:
        conn->engine->count.received_acks++;
        if (view->flags & BTL_IB_FLAG_ACK_NOW) {
            btl_ib_flow_asked(conn, view);
            for (uint32_t channel = 0; channel < conn->rail->queues.count; channel++) {
                btl_ib_ack_tx_set_pending(conn, channel, true);
            }
        }
        break;
    case BTL_IB_TYPE_REJECTED:
        btl_ib_op_recv_rejected(conn, view);
        break;
    case BTL_IB_TYPE_CLOSE:
        return true;
    default:
        recv_sequenced(conn, view);
        break;
    }
    return false;
}
