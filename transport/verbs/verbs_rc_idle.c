/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_idle.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

/* Kinds of control messages. */
enum {
    ASK = 1, /* may this connection be closed? */
    AGREE,   /* yes: I send no more data on it */
    DECLINE, /* no */
    RESUME,  /* I sent something since I asked: the connection stays */
};

enum {
    AGREES_PART = 2, /* a side agrees if it was silent for at least 1/2 of its time */
};

/* A control message as it travels. */
typedef struct control {
    uint8_t what;
    uint8_t zero[3];
    uint32_t number; /* of the question, big-endian */
} control_t;

static_assert(sizeof(control_t) == BTL_IB_RC_CONTROL_BYTES, "as drawn");

/* Returns a number that changes with each datagram and operation, sent or received. */
static uint32_t conn_traffic(const btl_ib_rc_conn_t *conn)
{
    return conn->credit.used + conn->eager_tx.used + conn->received
           + (conn->eager != NULL ? conn->eager->taken : 0)
           + (conn->rdma != NULL ? conn->sq.ring.posted : 0);
}

/* True if nothing went by a connection since the last look, and nothing of it is in use. */
static bool conn_is_quiet(const btl_ib_rc_conn_t *conn)
{
    return conn_traffic(conn) == conn->idle.from && conn->held == 0
           && (conn->rdma == NULL || btl_ib_rc_rdma_under_way(conn->rdma).count == 0);
}

/* Returns where a control message is sent from. Messages with the same place are never on their way
 * at once. */
static void *control_place(const btl_ib_rc_conn_t *conn, uint8_t what)
{
    enum { QUESTION, ANSWER, REPLY };

    return conn->credit.line->control[what == ASK ? QUESTION : what == RESUME ? REPLY : ANSWER];
}

/* Sends a control message, which does not count as traffic. Returns whether it was sent; if not the
 * connection may be gone. */
static bool control_send(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, uint8_t what, uint32_t number)
{
    void *at = control_place(conn, what);
    const control_t control = {.what = what, .number = htobe32(number)};
    struct ibv_sge sge = {
        .addr = (uintptr_t) at, .length = sizeof(control), .lkey = conn->credit.lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = conn->sq.inline_size >= sizeof(control) ? IBV_SEND_INLINE : 0u,
    };
    const uint32_t before = conn_traffic(conn);

    /* A connection for operations on memory has enough buffers (CONTROL_BUFFERS) without
     * credits. */
    if (conn->rdma == NULL && btl_ib_rc_credit_available(&conn->credit, 0) == 0) {
        return false;
    }
    memcpy(at, &control, sizeof(control));
    const int error = conn->rdma != NULL ? btl_ib_rc_rdma_post_control(conn->rdma, &wr)
                                         : btl_ib_rc_sq_post_own(&conn->sq, &wr);
    if (error != 0) {
        if (!btl_ib_verbs_is_shortage(error)) {
            btl_ib_rc_cm_broke(rc, conn, strerror(error));
        }
        return false;
    }
    conn->credit.used++;
    conn->idle.from += conn_traffic(conn) - before;
    return true;
}

/* Answers the peer's question. Returns true if the connection goes on as before; false if it is
 * AGREED now, or the answer could not be sent. To agree takes a longer silence than a moment's, as
 * the peer may ask while this side works on its memory (verbs_rc_idle.h). */
static bool conn_answer(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    const uint32_t least = rc->port.idle * BTL_IB_RC_LOOKS / AGREES_PART;
    const bool ready = conn->idle.looks >= least && conn_is_quiet(conn);

    if (!control_send(rc, conn, ready ? AGREE : DECLINE, conn->idle.owed)) {
        return false;
    }
    conn->idle.owed = 0;
    if (ready) {
        conn->stage = BTL_IB_RC_AGREED; /* no data is sent on it any more */
    }
    return !ready;
}

/* Answers the peer's AGREE with RESUME: the connection stays. Returns whether that was sent. */
static bool conn_send_resume(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    if (!control_send(rc, conn, RESUME, conn->idle.unwanted)) {
        return false;
    }
    conn->idle.unwanted = 0;
    return true;
}

uint32_t btl_ib_rc_idle_look(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, bool may_ask)
{
    const uint32_t after = rc->port.idle * BTL_IB_RC_LOOKS;
    btl_ib_rc_idle_t *idle = &conn->idle;

    if ((idle->unwanted != 0 && !conn_send_resume(rc, conn))
        || (idle->owed != 0 && !conn_answer(rc, conn))) {
        return 0;
    }
    if (!conn_is_quiet(conn)) {
        idle->from = conn_traffic(conn);
        idle->looks = 0;
        idle->asked_at = 0;
        idle->spoilt = true;
        return 0;
    }
    idle->looks++;
    if (!may_ask || after == 0 || idle->asked != 0 || idle->looks - idle->asked_at < after
        || (conn->channel == 0 && !rc->port.idle_first)) {
        return 0;
    }
    idle->asked_at = idle->looks;
    idle->questions += idle->questions == UINT32_MAX ? 2 : 1; /* 0 is none */
    if (!control_send(rc, conn, ASK, idle->questions)) {
        return 0;
    }
    idle->asked = idle->questions;
    idle->spoilt = false;
    return 1;
}

/* Handles the peer's AGREE to question `number`: closes the connection, or resumes it. */
static void conn_agreed(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, uint32_t number)
{
    const bool ours = conn->idle.asked == number && number != 0;

    if (ours && !conn->idle.spoilt && conn_is_quiet(conn)) {
        btl_ib_rc_cm_close_idle(rc, conn);
        return;
    }
    conn->idle.asked = ours ? 0 : conn->idle.asked;
    conn->idle.unwanted = number;
    (void) conn_send_resume(rc, conn);
}

void btl_ib_rc_idle_received(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes)
{
    control_t control;

    memcpy(&control, bytes, sizeof(control));
    const uint32_t number = be32toh(control.number);
    if (control.what == AGREE) {
        conn_agreed(rc, conn, number);
        return;
    }
    if (conn->stage == BTL_IB_RC_AGREED) {
        btl_ib_rc_cm_resume(conn);
    }
    if (control.what == ASK) {
        conn->idle.owed = number;
        (void) conn_answer(rc, conn);
    } else if (control.what == DECLINE && conn->idle.asked == number) {
        conn->idle.asked = 0;
    }
}
