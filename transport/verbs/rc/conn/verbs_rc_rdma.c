/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Operations on memory: writes, reads and atomics that the device does. They have a link of their own, so that bulk does
 * not stand before messages: its pipe has no receive buffers but the one for the message that opens it.
 *
 * Each operation completes by itself, and all before it with it, as a queue pair works in order. What is written over
 * iWARP is not yet at its place when the write completes (RFC 5040, 5.5: that says only that the local memory is free
 * again), nor is what goes to memory that the device may fill in any order: there a read of the peer's word follows, and
 * when it is back the writes before it are placed. Reads and atomics are bounded by what the peer serves at once; where
 * that is used up the read comes as soon as another one is over, for all writes until then ("unconfirmed").
 *
 * Short operations need no registered memory: a ring of bytes behind the word is written from, or read to, and is free
 * again in the order of posting.
 */

#include "verbs_rc_rail.h"

#include <errno.h>
#include <string.h>

enum {
    ALIGN = 64,     /* of pieces of the ring of bytes; atomics want 8 */
    WORD_SINK = 32, /* where in a pipe's memory the peer's word is read to */
    ATOMIC = 8,     /* bytes */
    /* Bytes that Linux's soft-iWARP may copy into the packet's header, at most (32), and some more; its smallest page. */
    SHORT_READ = 64,
    PAGE = 4096,
};

/* ---- memory ---- */

static int expose(btl_ib_transport_t *t, void *base, size_t size, unsigned access, void **handle,
                  uint32_t *key)
{
    const btl_ib_rc_t *rc = btl_ib_rc_of(t);
    /* Memory that the process itself may only read can be a source, and be read by peers. Rights of peers to change it demand
     * that of the device (ibv_reg_mr(3)). */
    const unsigned changes = BTL_IB_RDMA_READ_INTO | BTL_IB_RDMA_MAY_WRITE | BTL_IB_RDMA_MAY_ATOMIC;
    unsigned flags = access == 0 || (access & changes) != 0 ? IBV_ACCESS_LOCAL_WRITE : 0;

    if ((access & BTL_IB_RDMA_MAY_ATOMIC) != 0
        && t->attr.rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE) {
        return -EOPNOTSUPP;
    }
    /* What iWARP reads is written by the other side, as far as rights go (RFC 5040, 3.2). */
    const bool sink = rc->iwarp && (access == 0 || (access & BTL_IB_RDMA_READ_INTO) != 0);
    if ((access & BTL_IB_RDMA_MAY_WRITE) != 0 || sink) {
        flags |= IBV_ACCESS_REMOTE_WRITE;
    }
    if ((access & BTL_IB_RDMA_MAY_READ) != 0) {
        flags |= IBV_ACCESS_REMOTE_READ;
    }
    if ((access & BTL_IB_RDMA_MAY_ATOMIC) != 0) {
        flags |= IBV_ACCESS_REMOTE_ATOMIC;
    } else if (rc->relaxed) {
        flags |= IBV_ACCESS_RELAXED_ORDERING;
    }
    struct ibv_mr *mr = ibv_reg_mr(rc->verbs.pd, base, size, flags);
    if (mr == NULL) { /* there is another way for it, so nobody is to be troubled */
        const int error = errno;
        BTL_IB_VERBS_LOG(&rc->verbs, 10, "%s: %zu bytes cannot be registered: %s", t->name, size,
                         strerror(error));
        return -error;
    }
    *handle = mr;
    *key = mr->rkey;
    return 0;
}

/* ---- the ring of bytes ---- */

/* Take a piece. Returns where it begins, or -1 if there is none. */
static int64_t take_piece(btl_ib_rc_rdma_t *rdma, uint32_t size)
{
    const uint32_t wanted = (size + ALIGN - 1) / ALIGN * ALIGN;
    const uint32_t at = rdma->taken % BTL_IB_RC_PIECES;
    const uint32_t skipped = at + wanted > BTL_IB_RC_PIECES ? BTL_IB_RC_PIECES - at : 0;

    if (rdma->taken - rdma->freed + skipped + wanted > BTL_IB_RC_PIECES) {
        return -1;
    }
    rdma->taken += skipped + wanted;
    return skipped > 0 ? 0 : at;
}

/* ---- the end of operations ---- */

static btl_ib_rc_op_t *op_at(const btl_ib_rc_pipe_t *pipe, uint32_t number)
{
    return &pipe->rdma->op[number & (pipe->ring_size - 1)];
}

/* What one leaves behind, now that the device is done with it. */
static void settle(btl_ib_rc_pipe_t *pipe, btl_ib_rc_op_t *op)
{
    btl_ib_rc_rdma_t *rdma = pipe->rdma;

    rdma->reads -= op->reads;
    if (op->piece_size == 0) {
        return;
    }
    if (op->sink != NULL && op->error == 0) {
        memcpy(op->sink, rdma->pieces + op->piece, op->piece_size);
    }
    rdma->freed = op->taken;
}

void btl_ib_rc_rdma_over(btl_ib_rc_pipe_t *pipe, uint32_t completed, int error)
{
    for (uint32_t i = pipe->completed; i != completed; i++) {
        btl_ib_rc_op_t *op = op_at(pipe, i);
        op->error = op->error != 0 ? op->error : error;
        settle(pipe, op);
    }
    btl_ib_rc_sent(pipe, completed);
}

/* The errno of an operation that failed by itself. IBV_WC_LOC_QP_OP_ERR is said by devices that could not send, be it that
 * the port is down or that iWARP's other side has ended the connection: it says nothing about the operation. */
static int error_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
        return EACCES;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
        return EIO;
    default:
        return EPIPE;
    }
}

void btl_ib_rc_rdma_failed(btl_ib_rc_pipe_t *pipe, uint32_t number, enum ibv_wc_status status)
{
    if (number - pipe->completed < pipe->posted - pipe->completed) {
        op_at(pipe, number)->error = error_of(status);
    }
}

/* Nobody is told of those that were not told of yet. */
static void silence(btl_ib_rc_pipe_t *pipe)
{
    for (uint32_t i = pipe->emitted; i != pipe->posted; i++) {
        pipe->ring[i & (pipe->ring_size - 1)] = NULL;
    }
    btl_ib_rc_sent(pipe, pipe->completed);
}

void btl_ib_rc_rdma_cancel(btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_pipe_t *pipe = peer->link[BTL_IB_RC_RDMA].pipe;

    if (pipe != NULL && pipe->stage == BTL_IB_RC_OPEN) {
        btl_ib_rc_pipe_close(pipe);
    }
    for (pipe = rc->closed; pipe != NULL; pipe = pipe->next_closed) {
        if (pipe->rdma != NULL && pipe->rdma->cookie == peer->name.cookie) {
            silence(pipe);
        }
    }
}

static void cancel(btl_ib_transport_t *t, btl_ib_addr_t to)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    btl_ib_rc_rdma_cancel(rc, rc->peers.peer[to]);
}

/* ---- posting ---- */

/* Note what was posted. */
static void note(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_op_t *op)
{
    btl_ib_rc_op_t *noted = op_at(pipe, pipe->posted);

    *noted = *op;
    pipe->ring[pipe->posted & (pipe->ring_size - 1)] = op->told ? noted : NULL;
    pipe->posted++;
    pipe->rdma->reads += op->reads;
}

/* A read of the peer's word: when it is back the writes before it are placed. */
static void fill_confirm(const btl_ib_rc_pipe_t *pipe, uint32_t number, struct ibv_send_wr *wr,
                         struct ibv_sge *sge)
{
    *sge = (struct ibv_sge){
        .addr = (uintptr_t) pipe->memory + WORD_SINK,
        .length = sizeof(uint32_t),
        .lkey = pipe->mr->lkey,
    };
    *wr = (struct ibv_send_wr){
        .wr_id = btl_ib_rc_pipe_id(pipe, number & ~BTL_IB_RC_RECV),
        .sg_list = sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = pipe->peer_word, .rkey = pipe->peer_word_key},
    };
}

static const btl_ib_rc_op_t confirming = {.reads = 1};

void btl_ib_rc_rdma_confirm(btl_ib_rc_pipe_t *pipe)
{
    struct ibv_send_wr wr, *bad;
    struct ibv_sge sge;

    if (!pipe->rdma->unconfirmed || pipe->rdma->reads >= pipe->rdma->reads_max) {
        return;
    }
    fill_confirm(pipe, pipe->posted, &wr, &sge);
    const int error = ibv_post_send(pipe->qp, &wr, &bad);
    if (error != 0) {
        btl_ib_rc_cm_broke(pipe, strerror(error));
        return;
    }
    pipe->rdma->unconfirmed = false;
    note(pipe, &confirming);
}

static bool is_read(const btl_ib_rdma_work_t *work)
{
    return work->kind != BTL_IB_RDMA_WRITE;
}

static bool is_atomic(const btl_ib_rdma_work_t *work)
{
    return work->kind == BTL_IB_RDMA_ADD || work->kind == BTL_IB_RDMA_CSWAP;
}

static bool goes_inline(const btl_ib_rc_t *rc, const btl_ib_rdma_work_t *work)
{
    return work->kind == BTL_IB_RDMA_WRITE && work->size <= rc->verbs.base.attr.inline_size;
}

/* The local end: where the caller has it, or in the ring of bytes. Returns whether there was room. */
static bool fill_local(btl_ib_rc_pipe_t *pipe, const btl_ib_rdma_work_t *work, btl_ib_rc_op_t *op,
                       struct ibv_sge *sge)
{
    btl_ib_rc_rdma_t *rdma = pipe->rdma;
    const struct ibv_mr *mr = is_atomic(work) ? NULL : work->mem;
    const uint32_t size = (uint32_t) work->size;

    *sge = (struct ibv_sge){.addr = (uintptr_t) work->local, .length = size};
    if (goes_inline(pipe->rc, work)) {
        return true;
    }
    if (mr != NULL) {
        sge->lkey = mr->lkey;
        return true;
    }
    const int64_t at = take_piece(rdma, size);
    if (at < 0) {
        return false;
    }
    op->piece = (uint32_t) at;
    op->piece_size = size;
    op->taken = rdma->taken;
    op->sink = is_read(work) ? work->local : NULL;
    if (!is_read(work)) {
        memcpy(rdma->pieces + at, work->local, size);
    }
    sge->addr = (uintptr_t) rdma->pieces + (uint64_t) at;
    sge->lkey = pipe->mr->lkey;
    return true;
}

static void fill(const btl_ib_rc_pipe_t *pipe, const btl_ib_rdma_work_t *work,
                 struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    *wr = (struct ibv_send_wr){
        .wr_id = btl_ib_rc_pipe_id(pipe, pipe->posted & ~BTL_IB_RC_RECV),
        .sg_list = sge,
        .num_sge = 1,
        .send_flags = goes_inline(pipe->rc, work) ? IBV_SEND_INLINE : 0,
    };
    if (!is_atomic(work)) {
        wr->opcode = is_read(work) ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
        wr->wr.rdma.remote_addr = work->remote;
        wr->wr.rdma.rkey = work->key;
        return;
    }
    const bool add = work->kind == BTL_IB_RDMA_ADD;
    wr->opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
    wr->wr.atomic.remote_addr = work->remote;
    wr->wr.atomic.rkey = work->key;
    wr->wr.atomic.compare_add = add ? work->operand : work->compare;
    wr->wr.atomic.swap = work->operand;
}

/* Post one, and the read that confirms it if it needs that and may be read now. Returns 0 or a negative errno. */
static int post(btl_ib_rc_pipe_t *pipe, const btl_ib_rdma_work_t *work)
{
    btl_ib_rc_rdma_t *rdma = pipe->rdma;
    const uint32_t taken = rdma->taken;
    const bool confirm = !is_read(work) && rdma->confirms;
    const bool now = confirm && rdma->reads < rdma->reads_max;
    btl_ib_rc_op_t op = {.context = work->context, .told = true, .reads = is_read(work)};
    struct ibv_send_wr wr[2], *bad = NULL;
    struct ibv_sge sge[2];

    if (!fill_local(pipe, work, &op, &sge[0])) {
        return -EAGAIN;
    }
    fill(pipe, work, &wr[0], &sge[0]);
    wr[0].send_flags |= confirm ? 0 : IBV_SEND_SIGNALED;
    if (now) {
        fill_confirm(pipe, pipe->posted + 1, &wr[1], &sge[1]);
        wr[0].next = &wr[1];
    }
    const int error = ibv_post_send(pipe->qp, wr, &bad);
    if (error != 0 && bad != &wr[1]) { /* none of it was begun */
        rdma->taken = taken;
        if (error != ENOMEM) {
            btl_ib_rc_cm_broke(pipe, strerror(error));
        }
        return error == ENOMEM ? -EAGAIN : -EIO;
    }
    note(pipe, &op);
    rdma->unconfirmed = confirm ? !now : rdma->unconfirmed;
    if (error != 0) {
        btl_ib_rc_cm_broke(pipe, strerror(error));
    } else if (now) {
        note(pipe, &confirming);
    }
    return 0;
}

static bool has_room(const btl_ib_rc_pipe_t *pipe)
{
    return pipe->posted - pipe->emitted + BTL_IB_RC_CONTROL <= pipe->ring_size;
}

static int check(const btl_ib_rc_t *rc, const btl_ib_rdma_work_t *work)
{
    const btl_ib_transport_attr_t *attr = &rc->verbs.base.attr;

    if (is_atomic(work)) {
        if (attr->rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE) {
            return -EOPNOTSUPP;
        }
        return work->size == ATOMIC && work->remote % ATOMIC == 0 ? 0 : -EINVAL;
    }
    const uint64_t most = work->mem != NULL ? attr->rdma_max : attr->rdma_copied;
    return work->size > 0 && work->size <= most ? 0 : -EINVAL;
}

/* Soft-iWARP answers a short read of what lies on two pages with wrong bytes: its siw_try_1seg() takes what lies on the
 * second for the length of what lies on the first (Linux 6.1). Few reads are such, so no other iWARP device is told from it. */
static bool comes_mangled(const btl_ib_rc_t *rc, const btl_ib_rdma_work_t *work)
{
    return rc->iwarp && work->kind == BTL_IB_RDMA_READ && work->size <= SHORT_READ
           && work->remote % PAGE + work->size > PAGE;
}

static int start(btl_ib_transport_t *t, const btl_ib_rdma_work_t *work)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    int error = check(rc, work);

    if (error != 0 || rc->failed != 0 || rc->down) {
        return error != 0 ? error : -ENETDOWN;
    }
    if (comes_mangled(rc, work)) {
        return -EOPNOTSUPP;
    }
    btl_ib_rc_pipe_t *pipe =
        btl_ib_rc_cm_pipe(rc, rc->peers.peer[work->to], BTL_IB_RC_RDMA, &error);
    if (pipe == NULL) {
        return -error;
    }
    const btl_ib_rc_rdma_t *rdma = pipe->rdma;
    if (rdma->reads_max == 0 && (is_read(work) || rdma->confirms)) {
        return -EOPNOTSUPP;
    }
    if (!has_room(pipe) || (is_read(work) && rdma->reads >= rdma->reads_max)) {
        return -EAGAIN;
    }
    return post(pipe, work);
}

const btl_ib_rdma_ops_t btl_ib_rc_rdma_ops = {
    .expose = expose,
    .withdraw = btl_ib_verbs_mem_deregister,
    .start = start,
    .cancel = cancel,
};
