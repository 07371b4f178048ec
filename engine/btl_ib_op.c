/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations, the initiator's side. An operation waits for a place among those that run
 * (config.ops_max of them), then its bytes or its request go out like a message. A PUT is over with
 * the acknowledgement of its last segment; GET and ATOMIC with their answer.
 */

#include "btl_ib_prefetch.h"
#include "btl_ib_tx.h"

#include <errno.h>
#include <string.h>

#define SLOT_BITS 8
static_assert(BTL_IB_OPS_MAX == 1u << SLOT_BITS, "an id names the slot of its operation");

/* ---- places ---- */

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

/* The running operation of that id, which may be any number; NULL if there is none. */
static btl_ib_op_t *find(const btl_ib_conn_t *conn, uint32_t id)
{
    uint32_t slot = id & (BTL_IB_OPS_MAX - 1);

    if (conn->ops.slots == NULL || slot >= conn->engine->config.ops_max) {
        return NULL;
    }
    btl_ib_op_t *op = conn->ops.slots[slot].op;
    return op != NULL && op->id == id ? op : NULL;
}

/* Give it a place and an id that no operation of ours had for long. */
static void take_slot(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_ops_t *ops = &conn->ops;
    uint32_t slot = ops->free;

    ops->free = ops->slots[slot].next_free;
    ops->slots[slot].op = op;
    ops->running++;
    /* Of the engine: an answer to a connection that was destroyed must not fit an operation of the next
     * one with the same peer. */
    if (++engine->op_generation >> (32 - SLOT_BITS) != 0) {
        engine->op_generation = 1; /* no id is 0 */
    }
    op->id = engine->op_generation << SLOT_BITS | slot;
}

static void release_slot(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    btl_ib_ops_t *ops = &conn->ops;
    uint32_t slot = op->id & (BTL_IB_OPS_MAX - 1);

    ops->slots[slot].op = NULL;
    ops->slots[slot].next_free = ops->free;
    ops->free = slot;
    ops->running--;
    op->id = 0;
}

/* ---- beginning ---- */

/* Do so many bytes from there on, which may be before the region, end where an offset can be? */
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

static void count_start(btl_ib_counters_t *count, const btl_ib_op_t *op)
{
    count->started_puts += op->kind == BTL_IB_OP_PUT;
    count->started_gets += op->kind == BTL_IB_OP_GET;
    count->started_atomics += op->kind == BTL_IB_OP_ATOMIC;
}

static uint32_t request_size(const btl_ib_op_t *op)
{
    return op->kind == BTL_IB_OP_GET ? (uint32_t) sizeof(btl_ib_wire_target_t)
                                     : (uint32_t) sizeof(btl_ib_wire_atomic_t);
}

static void begin_direct(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_engine_enter(engine);
    btl_ib_direct_begin(conn, op);
    btl_ib_send_callbacks(engine);
    btl_ib_engine_leave(engine);
}

/* It waits for its turn to go as segments. */
static void queue(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    const bool put = op->kind == BTL_IB_OP_PUT;

    op->got = 0;
    op->out = (btl_ib_out_t){
        .conn = conn,
        .size = put ? op->size : request_size(op),
        .kind = put ? BTL_IB_OUT_PUT : BTL_IB_OUT_REQUEST,
    };
    btl_ib_list_init(&op->out.link);
    btl_ib_list_push_tail(&conn->ops.waiting, &op->out.link);
}

void btl_ib_op_emulate(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    queue(conn, op);
    btl_ib_conn_ready(conn);
}

static int admit(const btl_ib_conn_t *conn, const btl_ib_op_t *op, bool direct)
{
    if (!btl_ib_conn_alive(conn) || conn->draining) {
        return -EPIPE;
    }
    if (!is_valid(op)) {
        return -EINVAL;
    }
    return direct && !btl_ib_direct_possible(conn, op) ? -EOPNOTSUPP : 0;
}

int btl_ib_op_start(btl_ib_conn_t *conn, btl_ib_op_t *op, uint64_t now)
{
    btl_ib_engine_t *engine = conn->engine;
    const bool direct = btl_ib_direct_wanted(conn, op);
    const int rc = admit(conn, op, direct);

    if (rc != 0) {
        return rc;
    }
    btl_ib_clock_set(&engine->clock, now);
    op->id = 0;
    op->asked = false;
    conn->ops.count++;
    count_start(&engine->count, op);
    if (direct) {
        begin_direct(conn, op);
        return 0;
    }
    queue(conn, op);
    if (!btl_ib_coalesce_waits(&conn->coalesce, conn->engine->clock.turns)) {
        btl_ib_coalesce_left(&conn->coalesce, conn->engine->clock.now);
    } else if (btl_ib_coalesce_hold(conn, op->out.size)) {
        return 0;
    } else {
        btl_ib_coalesce_joins(&conn->coalesce);
    }
    btl_ib_engine_enter(engine);
    btl_ib_send_push(conn);
    btl_ib_send_callbacks(engine);
    btl_ib_engine_leave(engine);
    return 0;
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
        btl_ib_op_t *op = BTL_IB_CONTAINER(btl_ib_list_pop(&ops->waiting), btl_ib_op_t, out.link);
        bool put = op->out.kind == BTL_IB_OUT_PUT;
        take_slot(conn, op);
        btl_ib_send_queue(conn, &op->out, put ? sizeof(btl_ib_wire_target_t) : 0);
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

/* ---- end ---- */

void btl_ib_op_leaves(btl_ib_op_t *op, int status)
{
    btl_ib_conn_t *conn = op->out.conn;

    conn->engine->count.failed_ops += status != 0;
    conn->ops.count--;
    btl_ib_op_not_asked(op);
    if (op->id != 0) {
        release_slot(conn, op);
        if (!btl_ib_list_empty(&conn->ops.waiting)) {
            btl_ib_conn_ready(conn);
        }
    }
}

void btl_ib_op_give_up(btl_ib_conn_t *conn, int status)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(&conn->ops.waiting)) != NULL) {
        btl_ib_send_finish(BTL_IB_CONTAINER(item, btl_ib_out_t, link), status);
    }
}

void btl_ib_op_give_up_answers(btl_ib_conn_t *conn, int status)
{
    for (uint32_t i = 0; conn->ops.answers > 0 && i < conn->engine->config.ops_max; i++) {
        btl_ib_op_t *op = conn->ops.slots[i].op;
        if (op != NULL && op->asked) {
            btl_ib_send_finish(&op->out, status);
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

/* ---- answers ---- */

void btl_ib_op_answered(btl_ib_conn_t *conn)
{
    conn->ops.answer_since = conn->engine->clock.awake;
    if (btl_ib_conn_only_skips(conn)) {
        btl_ib_recovery_begin_row(&conn->recovery);
        conn->recovery.probe_base = conn->engine->clock.now;
    }
}

void btl_ib_op_recv_got(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_op_t *op = find(conn, view->op.id);

    if (op == NULL) { /* refused in the middle: its last pieces come behind the refusal */
        engine->count.stale_answers++;
        btl_ib_recv_take_in(conn, view);
        return;
    }
    if (op->kind != BTL_IB_OP_GET || !op->asked || view->op.offset > op->size
        || view->size > op->size - view->op.offset || view->size > op->size - op->got) {
        engine->count.dropped_op++;
        return;
    }
    uint8_t *to = (uint8_t *) op->local + view->op.offset;
    memcpy(to, view->payload, view->size);
    btl_ib_prefetch_target(to, op->size - view->op.offset, view->size);
    op->got += view->size;
    btl_ib_recv_take_in(conn, view);
    btl_ib_op_answered(conn);
    if (op->got == op->size) {
        btl_ib_send_finish(&op->out, 0);
    }
}

void btl_ib_op_recv_refused(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_op_t *op = find(conn, view->op.id);

    conn->engine->count.received_refusals++;
    if (op == NULL || op->kind != BTL_IB_OP_PUT) {
        conn->engine->count.stale_answers++;
        return;
    }
    btl_ib_send_void(conn, &op->out);
    btl_ib_send_finish(&op->out, -EACCES);
}

/* Is it an answer that such an operation can get? A GET is only answered so if it brings nothing. */
static bool is_answer(const btl_ib_op_t *op, const btl_ib_reply_t *reply)
{
    return op != NULL && op->asked
           && (reply->status == BTL_IB_REPLY_REFUSED || op->kind == BTL_IB_OP_ATOMIC
               || op->size == 0);
}

void btl_ib_op_recv_replies(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_reply_t reply;
    uint32_t offset = 0;

    btl_ib_recv_take_in(conn, view);
    while (btl_ib_wire_next_reply(view, &offset, &reply)) {
        btl_ib_op_t *op = find(conn, reply.id);
        if (!is_answer(op, &reply)) {
            conn->engine->count.stale_answers++;
            continue;
        }
        btl_ib_op_answered(conn);
        op->result = reply.result;
        btl_ib_send_finish(&op->out, reply.status == BTL_IB_REPLY_DONE ? 0 : -EACCES);
    }
}

/* ---- regions, and asking ---- */

int btl_ib_region_add(btl_ib_engine_t *engine, void *base, uint64_t size, uint32_t access,
                      btl_ib_region_key_t *key)
{
    return btl_ib_regions_add(&engine->regions, base, size, access, key);
}

void btl_ib_region_remove(btl_ib_engine_t *engine, const btl_ib_region_key_t *key)
{
    if (btl_ib_regions_lent(&engine->regions, key)) {
        btl_ib_send_own(engine, key->id);
    }
    btl_ib_regions_remove(&engine->regions, key);
}

void *btl_ib_region_find(btl_ib_engine_t *engine, const btl_ib_region_key_t *key, uint64_t offset,
                         uint64_t size, uint32_t access)
{
    uint8_t *memory;

    return btl_ib_region_allows(
               btl_ib_regions_check(&engine->regions, key, offset, size, access, &memory))
               ? memory
               : NULL;
}

uint32_t btl_ib_conn_ops(const btl_ib_conn_t *conn)
{
    return conn->ops.count;
}
