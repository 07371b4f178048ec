/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_completion.h"

#include "btl_ib_state.h"
#include "btl_ib_packet.h"
#include "btl_ib_rma_replies.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_trace.h"
#include "btl_ib_zcopy.h"

static void queue_event(btl_ib_out_t *out)
{
    if (btl_ib_list_empty(&out->link)) {
        btl_ib_list_push_tail(&out->conn->engine->events, &out->link);
        btl_ib_work_note(&out->conn->engine->work);
    }
}

void btl_ib_out_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied)
{
    switch (out->kind) {
    case BTL_IB_OUT_MESSAGE:
        conn->engine->count.sent_messages++;
        if (copied) {
            out->sent_due = true;
            btl_ib_completion_add(out, 0);
        } else if (!btl_ib_zcopy_left(conn, btl_ib_msg_of(out))) {
            btl_ib_completion_sent(out);
        }
        break;
    case BTL_IB_OUT_REQUEST:
        btl_ib_op_asked(BTL_IB_CONTAINER(out, btl_ib_op_t, out));
        break;
    case BTL_IB_OUT_STREAM:
        btl_ib_completion_add(out, 0);
        break;
    default:
        break;
    }
}

void btl_ib_completion_sent(btl_ib_out_t *out)
{
    out->sent_due = true;
    queue_event(out);
}

void btl_ib_out_left_bundled(btl_ib_conn_t *conn, btl_ib_list_t *bundled, uint32_t count)
{
    btl_ib_engine_t *engine = conn->engine;

    engine->count.sent_bundles++;
    engine->count.sent_messages += count;
    btl_ib_list_t *const first = btl_ib_list_first(bundled);
    btl_ib_list_t *last = bundled;
    for (; count > 0; count--) {
        last = last->next;
        btl_ib_out_t *out = BTL_IB_CONTAINER(last, btl_ib_out_t, link);
        (void) btl_ib_zcopy_end(engine, btl_ib_msg_of(out));
        out->sent_due = true;
        out->done_due = true;
        out->status = 0;
    }
    btl_ib_list_move_tail(&engine->events, first, last);
    btl_ib_work_note(&engine->work);
}

void btl_ib_completion_add(btl_ib_out_t *out, int status)
{
    btl_ib_list_remove(&out->link);
    switch (out->kind) {
    case BTL_IB_OUT_STREAM:
    case BTL_IB_OUT_REPLIES:
        btl_ib_replies_end(out);
        return;
    case BTL_IB_OUT_PUT:
    case BTL_IB_OUT_REQUEST:
    case BTL_IB_OUT_OFFLOAD:
        btl_ib_op_leaves(BTL_IB_CONTAINER(out, btl_ib_op_t, out), status);
        break;
    case BTL_IB_OUT_MESSAGE:
        if (btl_ib_zcopy_end(out->conn->engine, btl_ib_msg_of(out)) && status == 0) {
            out->sent_due = true;
        }
        break;
    }
    out->status = status;
    out->done_due = true;
    queue_event(out);
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
