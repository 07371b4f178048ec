/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma_ops.h"

#include "btl_ib_sched.h"
#include "btl_ib_engine_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define SLOT_BITS 8
static_assert(1u << SLOT_BITS == BTL_IB_OPS_MAX, "an id names the slot of its operation");

void btl_ib_op_slots_init(btl_ib_conn_t *conn)
{
    btl_ib_list_init(&conn->ops.waiting);
}

void btl_ib_op_begin(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    btl_ib_counters_t *count = &conn->engine->count;

    op->id = 0;
    op->asked = false;
    conn->ops.count++;
    count->started_puts += op->kind == BTL_IB_OP_PUT;
    count->started_gets += op->kind == BTL_IB_OP_GET;
    count->started_atomics += op->kind == BTL_IB_OP_ATOMIC;
}

static int make_slots(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    uint32_t count = engine->config.ops_max;
    btl_ib_op_slot_t *slots = btl_ib_zalloc(&engine->mem, count * sizeof(*slots));

    if (slots == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        slots[i].next_free = i + 1;
    }
    conn->ops.slots = slots;
    conn->ops.free = 0;
    return 0;
}

btl_ib_op_t *btl_ib_op_find(const btl_ib_conn_t *conn, uint32_t id)
{
    uint32_t slot = id & (BTL_IB_OPS_MAX - 1);

    if (conn->ops.slots == NULL || slot >= conn->engine->config.ops_max) {
        return NULL;
    }
    btl_ib_op_t *op = conn->ops.slots[slot].op;
    return op != NULL && op->id == id ? op : NULL;
}

/* Give it a slot, and an id that none of our operations had recently. */
static void take_slot(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    btl_ib_op_ids_t *ids = &conn->engine->op_ids;
    btl_ib_ops_t *ops = &conn->ops;
    uint32_t slot = ops->free;

    ops->free = ops->slots[slot].next_free;
    ops->slots[slot].op = op;
    ops->running++;
    if (++ids->generation >> (32 - SLOT_BITS) != 0) {
        ids->generation = 1; /* no id is 0 */
    }
    op->id = ids->generation << SLOT_BITS | slot;
}

void btl_ib_op_queue(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    const bool put = op->kind == BTL_IB_OP_PUT;
    const uint64_t request =
        op->kind == BTL_IB_OP_GET ? sizeof(btl_ib_wire_target_t) : sizeof(btl_ib_wire_atomic_t);

    op->got = 0;
    op->out = (btl_ib_out_t){
        .conn = conn,
        .size = put ? op->size : request,
        .kind = put ? BTL_IB_OUT_PUT : BTL_IB_OUT_REQUEST,
    };
    btl_ib_list_init(&op->out.link);
    btl_ib_list_push_tail(&conn->ops.waiting, &op->out.link);
}

void btl_ib_op_run(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_ops_t *ops = &conn->ops;

    while (!btl_ib_list_empty(&ops->waiting) && ops->running < engine->config.ops_max) {
        if (ops->slots == NULL && make_slots(conn) != 0) {
            engine->count.blocked_memory++;
            btl_ib_conn_ready(conn);
            return;
        }
        btl_ib_op_t *op = BTL_IB_LIST_POP(btl_ib_op_t, &ops->waiting, out.link);
        bool put = op->out.kind == BTL_IB_OUT_PUT;
        take_slot(conn, op);
        btl_ib_pending_add(conn, &op->out, put ? sizeof(btl_ib_wire_target_t) : 0);
    }
}

void btl_ib_op_asked(btl_ib_op_t *op)
{
    btl_ib_conn_t *conn = op->out.conn;

    op->asked = true;
    if (conn->ops.answers++ == 0) {
        conn->ops.answer_since = btl_ib_clock_awake(&conn->engine->clock);
    }
}

void btl_ib_op_not_asked(btl_ib_op_t *op)
{
    op->out.conn->ops.answers -= op->asked;
    op->asked = false;
}

void btl_ib_op_leaves(btl_ib_op_t *op, int status)
{
    btl_ib_conn_t *conn = op->out.conn;
    btl_ib_ops_t *ops = &conn->ops;

    conn->engine->count.failed_ops += status != 0;
    ops->count--;
    btl_ib_op_not_asked(op);
    if (op->id != 0) { /* it has a slot */
        const uint32_t slot = op->id & (BTL_IB_OPS_MAX - 1);
        ops->slots[slot] = (btl_ib_op_slot_t){.next_free = ops->free};
        ops->free = slot;
        ops->running--;
        op->id = 0;
        if (!btl_ib_list_empty(&ops->waiting)) {
            btl_ib_conn_ready(conn);
        }
    }
}

void btl_ib_op_shrink(btl_ib_conn_t *conn)
{
    if (conn->ops.running == 0) {
        btl_ib_free(&conn->engine->mem, conn->ops.slots);
        conn->ops.slots = NULL;
    }
}

void btl_ib_op_answered(btl_ib_conn_t *conn)
{
    conn->ops.answer_since = conn->engine->clock.awake;
}

/* ---- our replies to operations of the peer ---- */

enum { REPLY_BYTES = sizeof(btl_ib_wire_reply_t) };

void btl_ib_answers_init(btl_ib_conn_t *conn)
{
    conn->answers.out.conn = conn;
    conn->answers.out.kind = BTL_IB_OUT_REPLIES;
    btl_ib_list_init(&conn->answers.out.link);
}

/* Replies and streams not packetized completely. */
static uint64_t due(const btl_ib_answers_t *answers)
{
    return (answers->out.size - answers->out.offset) / REPLY_BYTES + answers->streams;
}

bool btl_ib_answers_reserve(btl_ib_conn_t *conn)
{
    btl_ib_answers_t *answers = &conn->answers;
    btl_ib_engine_t *engine = conn->engine;

    if (due(answers) >= BTL_IB_OPS_MAX) {
        engine->count.rnr_operations++;
        return false;
    }
    if (answers->replies == NULL) {
        answers->replies = btl_ib_zalloc(&engine->mem, BTL_IB_OPS_MAX * sizeof(*answers->replies));
    }
    if (answers->replies == NULL) {
        engine->count.rnr_memory++;
        return false;
    }
    return true;
}

void btl_ib_answers_reply(btl_ib_conn_t *conn, uint32_t id, uint32_t status, uint64_t result)
{
    btl_ib_answers_t *answers = &conn->answers;
    uint64_t at = answers->out.size / REPLY_BYTES % BTL_IB_OPS_MAX;

    answers->replies[at] = (btl_ib_wire_reply_t){
        .result = BTL_IB_LE64(result),
        .operation = BTL_IB_LE32(id),
        .status = BTL_IB_LE32(status),
    };
    answers->out.size += REPLY_BYTES;
    if (btl_ib_list_empty(&answers->out.link)) {
        btl_ib_pending_add(conn, &answers->out, 0);
    }
    btl_ib_conn_ready(conn);
}

btl_ib_stream_t *btl_ib_answers_stream(btl_ib_conn_t *conn, const btl_ib_view_t *get,
                                       const btl_ib_region_key_t *key, uint64_t offset)
{
    btl_ib_stream_t *stream = btl_ib_zalloc(&conn->engine->mem, sizeof(*stream));

    if (stream == NULL) {
        conn->engine->count.rnr_memory++;
        btl_ib_answers_shrink(conn); /* nothing was begun: an idle connection keeps no replies */
        return NULL;
    }
    stream->id = get->op.id;
    stream->key = *key;
    stream->offset = offset;
    stream->out = (btl_ib_out_t){
        .conn = conn,
        .size = get->op.end - get->op.offset,
        .kind = BTL_IB_OUT_STREAM,
    };
    btl_ib_list_init(&stream->out.link);
    return stream;
}

void btl_ib_answers_begin(btl_ib_stream_t *stream)
{
    btl_ib_conn_t *conn = stream->out.conn;

    conn->answers.streams++;
    btl_ib_pending_add(conn, &stream->out, sizeof(btl_ib_wire_got_t));
    btl_ib_conn_ready(conn);
}

bool btl_ib_answers_find_or_reject(btl_ib_stream_t *stream)
{
    btl_ib_conn_t *conn = stream->out.conn;
    btl_ib_engine_t *engine = conn->engine;
    const btl_ib_region_result_t result =
        btl_ib_regions_check(&engine->regions, &stream->key, stream->offset, stream->out.size,
                             BTL_IB_ACCESS_READ, &stream->memory);

    if (btl_ib_region_judge(&engine->count, result)) {
        return true;
    }
    const uint32_t id = stream->id;
    btl_ib_list_remove(&stream->out.link);
    btl_ib_answers_end(&stream->out);
    btl_ib_answers_reply(conn, id, BTL_IB_REPLY_REJECTED, 0);
    return false;
}

void btl_ib_answers_write(const btl_ib_conn_t *conn, uint8_t *to, uint32_t size)
{
    const btl_ib_answers_t *answers = &conn->answers;
    uint64_t at = answers->out.offset / REPLY_BYTES;

    for (uint32_t done = 0; done < size; done += REPLY_BYTES, at++) {
        memcpy(to + done, &answers->replies[at % BTL_IB_OPS_MAX], REPLY_BYTES);
    }
}

void btl_ib_answers_end(btl_ib_out_t *out)
{
    btl_ib_conn_t *conn = out->conn;

    if (out->kind == BTL_IB_OUT_REPLIES) {
        out->offset = out->size;
    } else {
        conn->answers.streams--;
        btl_ib_free(&conn->engine->mem, BTL_IB_CONTAINER(out, btl_ib_stream_t, out));
    }
}

void btl_ib_answers_shrink(btl_ib_conn_t *conn)
{
    if (due(&conn->answers) == 0) {
        btl_ib_free(&conn->engine->mem, conn->answers.replies);
        conn->answers.replies = NULL;
    }
}
