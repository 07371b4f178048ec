/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma_requests.h"

#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define SLOT_BITS 8
static_assert(1u << SLOT_BITS == BTL_IB_OPS_MAX, "an id names the slot of its operation");

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

/* Gives it a slot, and an id that none of our operations had recently. */
static void take_slot(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    btl_ib_op_ids_t *ids = &conn->engine->op_ids;
    btl_ib_ops_t *ops = &conn->ops;
    uint32_t slot = ops->free;

    ops->free = ops->slots[slot].next_free;
    ops->slots[slot].op = op;
    ops->running++;
    ids->running++;
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

static bool has_room(const btl_ib_engine_t *engine)
{
    const uint32_t total = engine->config.ops_total;

    return total == 0 || engine->op_ids.running < total;
}

bool btl_ib_op_run_or_wait(btl_ib_conn_t *conn, uint32_t running)
{
    if (running == 0 || has_room(conn->engine)) {
        return true;
    }
    if (btl_ib_list_empty(&conn->ops.turn)) {
        btl_ib_list_push_tail(&conn->engine->op_ids.peers, &conn->ops.turn);
    }
    return false;
}

/* Makes the connection ready that has waited longest. Each that is made ready calls it again, when
 * it has what it wants: so all come to use the room, and one operation that ends wakes one
 * connection, not all. */
void btl_ib_op_next_peer(btl_ib_engine_t *engine)
{
    btl_ib_conn_t *conn;

    while (has_room(engine)
           && (conn = BTL_IB_LIST_POP(btl_ib_conn_t, &engine->op_ids.peers, ops.turn)) != NULL) {
        btl_ib_conn_ready(conn);
        if (!conn->sched.starved) { /* else it is served later, with all that starve */
            break;
        }
    }
}

void btl_ib_op_give_slots(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_ops_t *ops = &conn->ops;

    if (btl_ib_list_empty(&ops->waiting)) { /* as it mostly is */
        return;
    }
    while (!btl_ib_list_empty(&ops->waiting) && ops->running < engine->config.ops_max) {
        if (!btl_ib_op_run_or_wait(conn, ops->running)) {
            return;
        }
        if (ops->slots == NULL && make_slots(conn) != 0) {
            engine->count.blocked_memory++;
            btl_ib_conn_ready(conn);
            return;
        }
        btl_ib_op_t *op = BTL_IB_LIST_POP(btl_ib_op_t, &ops->waiting, out.link);
        take_slot(conn, op);
        btl_ib_pending_add(conn, &op->out,
                           op->kind == BTL_IB_OP_PUT ? sizeof(btl_ib_wire_target_t) : 0);
    }
    btl_ib_op_next_peer(engine);
}

/* ---- what leaves of an operation ---- */

static inline btl_ib_op_t *op_of(btl_ib_out_t *out)
{
    return BTL_IB_CONTAINER(out, btl_ib_op_t, out);
}

/* Writes the target of a segment that begins at byte `offset` of the operation. */
static void write_target(const btl_ib_op_t *op, uint64_t offset, uint8_t *to)
{
    const btl_ib_wire_target_t target = {
        .region = BTL_IB_LE64(op->key.id),
        .secret = BTL_IB_LE64(op->key.secret),
        .offset = BTL_IB_LE64(op->offset + offset),
        .end = BTL_IB_LE64(op->offset + op->size),
        .operation = BTL_IB_LE32(op->id),
    };
    memcpy(to, &target, sizeof(target));
}

static void write_atomic(const btl_ib_op_t *op, uint8_t *to)
{
    const btl_ib_wire_atomic_t atomic = {
        .region = BTL_IB_LE64(op->key.id),
        .secret = BTL_IB_LE64(op->key.secret),
        .offset = BTL_IB_LE64(op->offset),
        .operand = BTL_IB_LE64(op->operand),
        .compare = BTL_IB_LE64(op->compare),
        .operation = BTL_IB_LE32(op->id),
        .code = (uint8_t) op->code,
        .type = (uint8_t) op->type,
    };
    memcpy(to, &atomic, sizeof(atomic));
}

/* Makes the next segments of a PUT. The last one asks for its acknowledgement, as only that says
 * that the bytes are placed. */
int btl_ib_put_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                        btl_ib_segment_t **segments, int most)
{
    const btl_ib_op_t *op = op_of(out);
    const struct iovec memory[2] = {{.iov_base = op->local, .iov_len = (size_t) out->size}};
    btl_ib_series_t series = {
        .piece = {.type = BTL_IB_TYPE_PUT, .head = sizeof(btl_ib_wire_target_t), .iov = memory},
        .unit = btl_ib_packetize_room(conn, channel, sizeof(btl_ib_wire_target_t)),
        .ask_ack = true,
    };
    uint64_t offset = out->offset;
    const int count = btl_ib_packetize_series(conn, out, channel, &series, segments, most);

    for (int i = 0; i < count; i++, offset += series.unit) {
        write_target(op, offset, btl_ib_packet_body(segments[i]));
    }
    return count;
}

int btl_ib_request_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                            btl_ib_segment_t **segments, int most)
{
    const btl_ib_op_t *op = op_of(out);
    const bool get = op->kind == BTL_IB_OP_GET;

    (void) channel;
    (void) most;
    segments[0] = btl_ib_packetize_plain(conn, out, get ? BTL_IB_TYPE_GET : BTL_IB_TYPE_ATOMIC,
                                         (uint32_t) out->size, false);
    if (segments[0] == NULL) {
        return 0;
    }
    if (get) {
        write_target(op, 0, btl_ib_packet_body(segments[0]));
    } else {
        write_atomic(op, btl_ib_packet_body(segments[0]));
    }
    return 1;
}

/* ---- what comes back: an acknowledgement, an answer, or neither ---- */

void btl_ib_op_asked(btl_ib_op_t *op)
{
    btl_ib_conn_t *conn = op->out.conn;

    op->asked = true;
    if (conn->ops.answers++ == 0) {
        conn->ops.answer_since = btl_ib_clock_awake(&conn->engine->clock);
    }
}

bool btl_ib_request_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied)
{
    (void) conn;
    (void) copied;
    btl_ib_op_asked(op_of(out));
    return false;
}

void btl_ib_op_not_asked(btl_ib_op_t *op)
{
    op->out.conn->ops.answers -= op->asked;
    op->asked = false;
}

bool btl_ib_op_ended(btl_ib_out_t *out, int status)
{
    btl_ib_op_t *op = op_of(out);
    btl_ib_conn_t *conn = out->conn;
    btl_ib_ops_t *ops = &conn->ops;

    conn->engine->count.failed_ops += status != 0;
    ops->count--;
    btl_ib_op_not_asked(op);
    if (op->id != 0) { /* it has a slot */
        const uint32_t slot = op->id & (BTL_IB_OPS_MAX - 1);
        ops->slots[slot] = (btl_ib_op_slot_t){.next_free = ops->free};
        ops->free = slot;
        ops->running--;
        conn->engine->op_ids.running--;
        op->id = 0;
        btl_ib_op_next_peer(conn->engine);
        if (!btl_ib_list_empty(&ops->waiting)) {
            btl_ib_conn_ready(conn);
        }
    }
    return true;
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
