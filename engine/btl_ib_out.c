/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How messages, operations and answers end: what becomes of them when their last piece has left, or is
 * acknowledged, and the callbacks that say so. */

#include "btl_ib_tx.h"

static void queue_event(btl_ib_out_t *out)
{
    if (btl_ib_list_empty(&out->link)) {
        btl_ib_list_push_tail(&out->conn->engine->events, &out->link);
    }
}

void btl_ib_out_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied)
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

void btl_ib_out_left_bundled(btl_ib_conn_t *conn, btl_ib_list_t *bundled, uint32_t count)
{
    btl_ib_engine_t *engine = conn->engine;

    engine->count.sent_bundles++;
    engine->count.sent_messages += count;
    for (; count > 0; count--) {
        btl_ib_list_t *item = btl_ib_list_pop(bundled);
        btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
        out->sent_due = true;
        out->done_due = true;
        out->status = 0;
        btl_ib_list_push_tail(&engine->events, item);
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
    case BTL_IB_OUT_DIRECT:
        btl_ib_op_leaves(BTL_IB_CONTAINER(out, btl_ib_op_t, out), status);
        break;
    default:
        break;
    }
    out->status = status;
    out->done_due = true;
    queue_event(out);
}

/* A message that left may count as sent; of a PUT only an acknowledgement says that it is placed. */
static void give_back_segments(btl_ib_conn_t *conn, btl_ib_list_t *segments, int flight_status,
                               int status)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(segments)) != NULL) {
        btl_ib_out_t *out = btl_ib_flight_end(conn, BTL_IB_CONTAINER(item, btl_ib_segment_t, link));
        if (out != NULL) {
            btl_ib_send_finish(out, out->kind == BTL_IB_OUT_MESSAGE ? flight_status : status);
        }
    }
}

void btl_ib_send_give_back(btl_ib_conn_t *conn, int flight_status, int status)
{
    btl_ib_list_t *item;

    btl_ib_direct_give_up(conn, status);
    btl_ib_op_give_up(conn, status); /* before: else they would take the places that come free */
    for (int i = 0; i < BTL_IB_RACKS; i++) {
        give_back_segments(conn, &conn->sentmap.sent[i], flight_status, status);
    }
    give_back_segments(conn, &conn->sentmap.lost, flight_status, status);
    give_back_segments(conn, &conn->sentmap.deferred, flight_status, status);
    for (uint32_t space = 0; space < conn->peer_queues->count; space++) {
        while ((item = btl_ib_list_first(&conn->tx[space].submit.pending)) != NULL) {
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
