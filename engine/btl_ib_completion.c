/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_completion.h"

#include "btl_ib_out_message.h"
#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
#include "btl_ib_rma_replies.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_state.h"

/* A kind of what is sent in pieces. */
typedef struct btl_ib_out_ops {
    /* Makes segments of its next bytes, as btl_ib_out_segments(); there is a place for one. */
    int (*next_segments)(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                         btl_ib_segment_t **segments, int most);
    /* Notes that its last segment left, as btl_ib_out_left(). Returns whether it is over; if not,
     * sets sent_due once its memory is free. NULL: nothing follows. */
    bool (*left)(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied);
    /* Notes that it is over with `status`, and on no list. Returns whether its user is told. */
    bool (*ended)(btl_ib_out_t *out, int status);
} btl_ib_out_ops_t;

/* A message that is a copy, and a stream, whose segments hold its region, are over when they have
 * left. All others are over when they are acknowledged or answered. Each may fail before. */
static const btl_ib_out_ops_t out_ops[] = {
    [BTL_IB_OUT_MESSAGE] = {btl_ib_message_segments, btl_ib_message_left, btl_ib_message_ended},
    [BTL_IB_OUT_PUT] = {btl_ib_put_segments, NULL, btl_ib_op_ended},
    [BTL_IB_OUT_REQUEST] = {btl_ib_request_segments, btl_ib_request_left, btl_ib_op_ended},
    [BTL_IB_OUT_OFFLOAD] = {NULL, NULL, btl_ib_op_ended},
    [BTL_IB_OUT_STREAM] = {btl_ib_stream_segments, btl_ib_stream_left, btl_ib_stream_ended},
    [BTL_IB_OUT_REPLIES] = {btl_ib_replies_segments, NULL, btl_ib_replies_ended},
};

static void queue_event(btl_ib_out_t *out)
{
    if (btl_ib_list_empty(&out->link)) {
        btl_ib_list_push_tail(&out->conn->engine->events, &out->link);
        btl_ib_work_note(&out->conn->engine->work);
    }
}

int btl_ib_out_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                        btl_ib_segment_t **segments, int most)
{
    return btl_ib_packetize_reserve(conn, channel, 1)
               ? out_ops[out->kind].next_segments(conn, out, channel, segments, most)
               : 0;
}

void btl_ib_out_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied)
{
    const btl_ib_out_ops_t *ops = &out_ops[out->kind];

    if (ops->left == NULL) {
        return;
    }
    if (ops->left(conn, out, copied)) {
        btl_ib_completion_add(out, 0);
    } else if (out->sent_due) {
        queue_event(out);
    }
}

void btl_ib_completion_sent(btl_ib_out_t *out)
{
    out->sent_due = true;
    queue_event(out);
}

void btl_ib_completion_add(btl_ib_out_t *out, int status)
{
    btl_ib_list_remove(&out->link);
    if (out_ops[out->kind].ended(out, status)) {
        out->status = status;
        out->done_due = true;
        queue_event(out);
    }
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
    btl_ib_msg_t *msg = btl_ib_msg_of(out);
    if (sent) {
        ops->on_sent(engine->ops_context, msg);
    }
    if (done) {
        ops->on_done(engine->ops_context, msg, out->status);
    }
}

void btl_ib_completion_callbacks(btl_ib_engine_t *engine)
{
    while (!btl_ib_list_empty(&engine->events)) {
        btl_ib_list_t *item = engine->events.next;
        btl_ib_list_remove(item);
        engine->completion.finished++;
        call_back(engine, BTL_IB_CONTAINER(item, btl_ib_out_t, link));
    }
}
