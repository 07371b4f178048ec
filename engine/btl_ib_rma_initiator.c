/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma_initiator.h"

#include "btl_ib_accept.h"
#include "btl_ib_burst.h"
#include "btl_ib_completion.h"
#include "btl_ib_deferred_free.h"
#include "btl_ib_loss.h"
#include "btl_ib_predict.h"
#include "btl_ib_rma_offload.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"

#include <errno.h>

/* ---- start ---- */

/* True if offset + size is at most 2^63 - 1. The offset may be before the region (negative). */
static bool has_end(uint64_t offset, uint64_t size)
{
    return size <= (uint64_t) INT64_MAX - offset;
}

static bool is_valid(const btl_ib_op_t *op)
{
    if (op->kind == BTL_IB_OP_ATOMIC) {
        return btl_ib_atomic_supported(op->code, op->type)
               && has_end(op->offset, btl_ib_atomic_size(op->type));
    }
    return (op->kind == BTL_IB_OP_PUT || op->kind == BTL_IB_OP_GET) && has_end(op->offset, op->size)
           && op->size <= UINTPTR_MAX - (uintptr_t) op->local
           && (op->local != NULL || op->size == 0);
}

int btl_ib_op_start(btl_ib_conn_t *conn, btl_ib_op_t *op, uint64_t now)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_account(engine);
    const bool offload = btl_ib_offload_wanted(conn, op);
    if (!btl_ib_conn_alive(conn) || conn->draining) {
        return -EPIPE;
    }
    if (!is_valid(op)) {
        return -EINVAL;
    }
    if (offload && !btl_ib_offload_possible(conn, op)) {
        return -EOPNOTSUPP;
    }
    btl_ib_clock_set(&engine->clock, now);
    op->id = 0;
    op->asked = false;
    conn->ops.count++;
    engine->count.started_puts += op->kind == BTL_IB_OP_PUT;
    engine->count.started_gets += op->kind == BTL_IB_OP_GET;
    engine->count.started_atomics += op->kind == BTL_IB_OP_ATOMIC;
    if (!offload) {
        btl_ib_op_queue(conn, op);
        if (btl_ib_submit_hold(conn, op->out.size)) {
            return 0;
        }
    }
    btl_ib_engine_enter(engine);
    if (offload) {
        btl_ib_offload_begin(conn, op);
    } else {
        btl_ib_flush(conn);
    }
    btl_ib_submit_end(engine);
    return 0;
}

/* ---- answers ---- */

void btl_ib_op_recv_got(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_op_t *op = btl_ib_op_find(conn, view->op.id);
    const uint64_t bytes = btl_ib_burst_bytes(view);

    if (op == NULL) { /* rejected midway: its last pieces come after the rejection */
        engine->count.stale_answers += btl_ib_burst_count(view);
        btl_ib_accept(conn, view);
        return;
    }
    if (op->kind != BTL_IB_OP_GET || !op->asked || view->op.offset > op->size
        || bytes > op->size - view->op.offset || bytes > op->size - op->got) {
        engine->count.dropped_op += btl_ib_burst_count(view);
        return;
    }
    engine->count.copied_in += btl_ib_burst_place(view, (uint8_t *) op->local + view->op.offset);
    op->got += (uint32_t) bytes;
    btl_ib_accept(conn, view);
    btl_ib_loss_answered(conn);
    if (op->got == op->size) {
        btl_ib_completion_add(&op->out, 0);
    }
}

void btl_ib_op_recv_rejected(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_op_t *op = btl_ib_op_find(conn, view->op.id);

    conn->engine->count.received_rejections++;
    if (op == NULL || op->kind != BTL_IB_OP_PUT) {
        conn->engine->count.stale_answers++;
        return;
    }
    btl_ib_sentmap_void(conn, &op->out);
    btl_ib_completion_add(&op->out, -EACCES);
}

/* True if such an operation can get this answer. A GET gets a reply only if it was rejected or
 * empty. */
static bool is_answer(const btl_ib_op_t *op, const btl_ib_reply_t *reply)
{
    return op != NULL && op->asked
           && (reply->status == BTL_IB_REPLY_REJECTED || op->kind == BTL_IB_OP_ATOMIC
               || op->size == 0);
}

void btl_ib_op_recv_replies(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_reply_t reply;
    uint32_t offset = 0;

    btl_ib_accept(conn, view);
    while (btl_ib_wire_next_reply(view, &offset, &reply)) {
        btl_ib_op_t *op = btl_ib_op_find(conn, reply.id);
        if (!is_answer(op, &reply)) {
            conn->engine->count.stale_answers++;
            continue;
        }
        btl_ib_loss_answered(conn);
        op->result = reply.result;
        btl_ib_completion_add(&op->out, reply.status == BTL_IB_REPLY_DONE ? 0 : -EACCES);
    }
}
