/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma_offload.h"

#include "btl_ib_completion.h"
#include "btl_ib_loss.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"

#include <errno.h>
#include <string.h>

/* us of clock.awake: for how long the transport may take nothing (its connection is not
 * established) before operations that need not be offloaded are emulated. */
enum { PATIENCE = 1000 * 1000 };

static const btl_ib_rdma_ops_t *device_of(const btl_ib_conn_t *conn)
{
    return conn->rail->transport->ops->rdma;
}

/* ---- selection ---- */

bool btl_ib_offload_possible(const btl_ib_conn_t *conn, const btl_ib_op_t *op)
{
    const btl_ib_transport_attr_t *attr = &conn->rail->transport->attr;

    /* True if the peer's device knows the region, and this connection leads to it. Data moved by
     * devices have no protection trailer: with protection nothing is offloaded. */
    if (device_of(conn) == NULL || !op->place.known || op->place.rail != conn->identity.remote_rail
        || conn->engine->protection.kind != BTL_IB_PROTECTION_NONE) {
        return false;
    }
    if (op->kind == BTL_IB_OP_ATOMIC) { /* devices have two of them, on words of 8 bytes */
        return op->by_device && attr->rdma_atomics != BTL_IB_RDMA_ATOMICS_NONE
               && op->type == BTL_IB_ATOMIC_INT64
               && (op->code == BTL_IB_ATOMIC_ADD || op->code == BTL_IB_ATOMIC_CSWAP);
    }
    return op->size > 0 && op->size <= attr->rdma_max
           && (op->mem != NULL || op->size <= attr->rdma_copied);
}

bool btl_ib_offload_wanted(const btl_ib_conn_t *conn, const btl_ib_op_t *op)
{
    if (op->kind == BTL_IB_OP_ATOMIC) {
        return op->by_device;
    }
    return btl_ib_route_is_own(conn) && btl_ib_rail_usable(conn->rail)
           && btl_ib_offload_possible(conn, op);
}

/* ---- start ---- */

static int hand_over(const btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    const bool atomic = op->kind == BTL_IB_OP_ATOMIC;
    const btl_ib_rdma_work_t work = {
        .to = conn->route.address,
        .kind = op->kind == BTL_IB_OP_PUT       ? BTL_IB_RDMA_WRITE
                : op->kind == BTL_IB_OP_GET     ? BTL_IB_RDMA_READ
                : op->code == BTL_IB_ATOMIC_ADD ? BTL_IB_RDMA_ADD
                                                : BTL_IB_RDMA_CSWAP,
        .local = atomic ? &op->result : op->local,
        .mem = atomic ? NULL : op->mem,
        .remote = op->place.address + op->offset, /* if it wraps, the device rejects it */
        .key = op->place.key,
        .size = atomic ? sizeof(op->result) : op->size,
        .operand = op->operand,
        .compare = op->compare,
        .context = op,
    };

    if (conn->rail->health.failed || conn->route.address == BTL_IB_ADDR_UNKNOWN) {
        return -ENETDOWN;
    }
    if (conn->rail->health.down) { /* it may come back, and atomics have no alternative */
        return -EAGAIN;
    }
    return device_of(conn)->start(conn->rail->transport, &work);
}

/* Counts the operation as asked: from now on the peer's silence is noticed. */
static void expect_answer(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    if (op->asked || conn->identity.name == conn->engine->config.name) {
        return;
    }
    if (conn->ops.answers == 0) {
        btl_ib_loss_answered(conn);
    }
    btl_ib_op_asked(op);
    btl_ib_loss_set_timer(conn);
}

/* Emulates an operation, which is on no list, as the device does not execute it, for the reason
 * `error`. */
static void fall_back(btl_ib_conn_t *conn, btl_ib_op_t *op, int error)
{
    btl_ib_op_not_asked(op);
    conn->engine->count.offload_returned++;
    BTL_IB_LOG(conn->engine, 10, "peer %u.%u: %s does not bring an operation to an end: %s",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->rail->transport->name, strerror(error));
    if (op->kind == BTL_IB_OP_ATOMIC) {
        btl_ib_completion_add(&op->out, -EPIPE);
    } else {
        btl_ib_op_queue(conn, op);
        btl_ib_conn_ready(conn);
    }
}

/* True if the transport has taken nothing for `patience` us. */
static bool is_late(const btl_ib_conn_t *conn, uint64_t patience)
{
    return conn->offload.count == 0
           && btl_ib_clock_awake(&conn->engine->clock) - conn->offload.moved_at > patience;
}

/* True if an operation that was not taken, for the reason `rc`, is to be tried again. A peer
 * that computes is slow to connect. An ATOMIC has no alternative: it waits as long as for an
 * answer, unless the peer is known to be reachable over another rail only. */
static bool comes_again(const btl_ib_conn_t *conn, const btl_ib_op_t *op, int rc)
{
    const uint64_t limit = conn->engine->config.silence_limit;

    if (op->kind != BTL_IB_OP_ATOMIC) {
        return rc == -EAGAIN;
    }
    return (rc == -EAGAIN || (rc == -EHOSTUNREACH && btl_ib_route_is_own(conn)))
           && (limit == 0 || !is_late(conn, limit));
}

/* Emulates what can be emulated, as the transport takes nothing. */
static void fall_back_waiting(btl_ib_conn_t *conn)
{
    btl_ib_list_t waiting;
    btl_ib_op_t *op;

    btl_ib_list_init(&waiting);
    btl_ib_list_splice_tail(&waiting, &conn->offload.waiting);
    while ((op = BTL_IB_LIST_POP(btl_ib_op_t, &waiting, out.link)) != NULL) {
        if (op->kind == BTL_IB_OP_ATOMIC) {
            btl_ib_list_push_tail(&conn->offload.waiting, &op->out.link);
        } else {
            fall_back(conn, op, ETIMEDOUT);
        }
    }
}

void btl_ib_offload_push(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_op_t *op;
    int rc = 0;

    while (rc == 0
           && (op = BTL_IB_LIST_FIRST(btl_ib_op_t, &conn->offload.waiting, out.link)) != NULL
           && conn->offload.count < engine->config.ops_max) {
        if (!btl_ib_op_run_or_wait(conn, conn->offload.count)) {
            break;
        }
        rc = hand_over(conn, op);
        if (comes_again(conn, op, rc)) {
            expect_answer(conn, op);
            break;
        }
        btl_ib_list_remove(&op->out.link);
        if (rc == 0) {
            btl_ib_list_push_tail(&conn->offload.running, &op->out.link);
            conn->offload.count++;
            engine->op_ids.running++;
            conn->offload.moved_at = btl_ib_clock_awake(&conn->engine->clock);
            expect_answer(conn, op);
        } else {
            fall_back(conn, op, -rc);
            rc = 0;
        }
    }
    if (rc != 0) {
        conn->engine->count.blocked_transport++;
        if (rc == -EHOSTUNREACH || is_late(conn, PATIENCE)) {
            fall_back_waiting(conn);
        }
        btl_ib_conn_ready(conn);
    }
    btl_ib_op_next_peer(engine);
}

void btl_ib_offload_begin(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    op->out = (btl_ib_out_t){.conn = conn, .kind = BTL_IB_OUT_OFFLOAD};
    btl_ib_list_init(&op->out.link);
    /* A device rejects a misaligned word, too, but breaks its connection. */
    if (op->kind == BTL_IB_OP_ATOMIC
        && (op->place.address + op->offset) % sizeof(op->result) != 0) {
        btl_ib_completion_add(&op->out, -EACCES);
        return;
    }
    if (btl_ib_list_empty(&conn->offload.waiting) && conn->offload.count == 0) {
        conn->offload.moved_at = btl_ib_clock_awake(&conn->engine->clock);
    }
    btl_ib_idle_active(&conn->idle, conn, conn->engine->clock.now);
    btl_ib_list_push_tail(&conn->offload.waiting, &op->out.link);
    btl_ib_offload_push(conn);
}

/* ---- completion ---- */

/* Takes it off the accounts of the device. */
static void leave_device(btl_ib_conn_t *conn, btl_ib_op_t *op)
{
    btl_ib_list_remove(&op->out.link);
    conn->offload.count--;
    conn->engine->op_ids.running--;
    btl_ib_op_next_peer(conn->engine);
}

void btl_ib_offload_event(const btl_ib_event_t *event)
{
    btl_ib_op_t *op = event->context;
    btl_ib_conn_t *conn = op->out.conn;
    btl_ib_counters_t *count = &conn->engine->count;

    leave_device(conn, op);
    conn->offload.moved_at = conn->engine->clock.awake;
    btl_ib_loss_answered(conn);
    if (!btl_ib_list_empty(&conn->offload.waiting)) {
        btl_ib_conn_ready(conn);
    }
    if (event->error == 0) {
        count->offload_puts += op->kind == BTL_IB_OP_PUT;
        count->offload_gets += op->kind == BTL_IB_OP_GET;
        count->offload_atomics += op->kind == BTL_IB_OP_ATOMIC;
        btl_ib_completion_add(&op->out, 0);
    } else if (event->error == EACCES) {
        btl_ib_completion_add(&op->out, -EACCES);
    } else {
        fall_back(conn, op, event->error);
    }
}

/* Has the device use no memory of our operations, and report nothing of them, from now on. */
static void revoke_from_device(const btl_ib_conn_t *conn)
{
    if (conn->offload.count > 0) {
        device_of(conn)->cancel(conn->rail->transport, conn->route.address);
    }
}

void btl_ib_offload_give_up(btl_ib_conn_t *conn, int status)
{
    btl_ib_op_t *op;

    revoke_from_device(conn);
    while ((op = BTL_IB_LIST_FIRST(btl_ib_op_t, &conn->offload.running, out.link)) != NULL) {
        leave_device(conn, op);
        btl_ib_completion_add(&op->out, status);
    }
    while ((op = BTL_IB_LIST_FIRST(btl_ib_op_t, &conn->offload.waiting, out.link)) != NULL) {
        btl_ib_completion_add(&op->out, status);
    }
}

void btl_ib_offload_device_failed(btl_ib_conn_t *conn, int error)
{
    btl_ib_op_t *op;

    revoke_from_device(conn);
    while ((op = BTL_IB_LIST_FIRST(btl_ib_op_t, &conn->offload.running, out.link)) != NULL) {
        leave_device(conn, op);
        fall_back(conn, op, error);
    }
    while ((op = BTL_IB_LIST_POP(btl_ib_op_t, &conn->offload.waiting, out.link)) != NULL) {
        fall_back(conn, op, error);
    }
}
