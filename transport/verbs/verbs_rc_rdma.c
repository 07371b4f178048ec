/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_rdma.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    BOUNCE_LEAST = 64 * BTL_IB_VERBS_LINE, /* bytes of a ring: for 64 atomics */
};

btl_ib_rc_rdma_t *btl_ib_rc_rdma_new(btl_ib_rc_sq_t *sq, btl_ib_rc_credit_t *credit, uint32_t depth)
{
    btl_ib_rc_rdma_t *rdma = calloc(1, sizeof(*rdma));

    if (rdma == NULL) {
        return NULL;
    }
    rdma->sq = sq;
    rdma->credit = credit;
    rdma->op = calloc(depth, sizeof(*rdma->op));
    if (rdma->op == NULL) {
        free(rdma);
        return NULL;
    }
    return rdma;
}

void btl_ib_rc_rdma_free(btl_ib_rc_rdma_t *rdma)
{
    if (rdma != NULL) {
        free(rdma->op);
        free(rdma);
    }
}

static btl_ib_rc_op_t *op_at(const btl_ib_rc_rdma_t *rdma, uint32_t number)
{
    return &rdma->op[number & (rdma->sq->ring.depth - 1)];
}

uint32_t btl_ib_rc_rdma_bounce_bytes(uint32_t size, uint32_t num, uint64_t left)
{
    uint32_t bytes = BOUNCE_LEAST;

    while (bytes < num * size && bytes * UINT64_C(2) <= left) {
        bytes *= 2;
    }
    return bytes;
}

/* ---- completion ---- */

void btl_ib_rc_rdma_complete(btl_ib_rc_rdma_t *rdma, uint32_t completed, int error)
{
    for (uint32_t i = rdma->sq->ring.completed; i != completed; i++) {
        btl_ib_rc_op_t *op = op_at(rdma, i);
        op->error = op->error != 0 ? op->error : error;
        rdma->reads -= op->reads;
        if (op->bounce_size > 0) {
            if (op->sink != NULL && op->error == 0) {
                memcpy(op->sink, rdma->bounce + op->bounce, op->bounce_size);
            }
            rdma->freed = op->taken;
        }
    }
}

/* Returns the errno that the status of an operation's completion stands for. IBV_WC_LOC_QP_OP_ERR
 * says nothing about the operation: devices report it when they cannot send, because the port is
 * down, or because iWARP's other side has ended the connection. */
static int op_error(enum ibv_wc_status status)
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

void btl_ib_rc_rdma_failed(btl_ib_rc_rdma_t *rdma, uint32_t number, enum ibv_wc_status status)
{
    const btl_ib_verbs_send_ring_t *ring = &rdma->sq->ring;

    if (number - ring->completed < ring->posted - ring->completed) {
        op_at(rdma, number)->error = op_error(status);
    }
}

/* ---- posting ---- */

/* Notes an operation that was posted. Flushes make no event. */
static void op_note(btl_ib_rc_rdma_t *rdma, const btl_ib_rc_op_t *op, bool event)
{
    btl_ib_rc_op_t *noted = op_at(rdma, rdma->sq->ring.posted);

    *noted = *op;
    btl_ib_verbs_send_ring_post(&rdma->sq->ring, event ? noted : NULL);
    rdma->reads += op->reads;
}

static const btl_ib_rc_op_t flush_op = {.reads = true, .size = sizeof(uint32_t)};

static void flush_fill(const btl_ib_rc_rdma_t *rdma, uint32_t number, struct ibv_send_wr *wr,
                       struct ibv_sge *sge)
{
    const btl_ib_rc_credit_t *credit = rdma->credit;

    *sge = (struct ibv_sge){
        .addr = (uintptr_t) &credit->line->flush,
        .length = sizeof(credit->line->flush),
        .lkey = credit->lkey,
    };
    *wr = (struct ibv_send_wr){
        .wr_id = btl_ib_rc_sq_id(rdma->sq, number),
        .sg_list = sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = credit->remote, .rkey = credit->remote_key},
    };
}

int btl_ib_rc_rdma_flush(btl_ib_rc_rdma_t *rdma)
{
    struct ibv_send_wr wr, *bad;
    struct ibv_sge sge;

    if (!rdma->unflushed || rdma->reads >= rdma->reads_max) {
        return 0;
    }
    flush_fill(rdma, rdma->sq->ring.posted, &wr, &sge);
    const int error = ibv_post_send(rdma->sq->qp, &wr, &bad);
    if (error == 0) {
        rdma->unflushed = false;
        op_note(rdma, &flush_op, false);
    }
    return error;
}

btl_ib_rc_under_way_t btl_ib_rc_rdma_under_way(const btl_ib_rc_rdma_t *rdma)
{
    const btl_ib_verbs_send_ring_t *ring = &rdma->sq->ring;
    btl_ib_rc_under_way_t found = {.count = 0};

    for (uint32_t i = ring->completed; i != ring->posted; i++) {
        const btl_ib_rc_op_t *op = op_at(rdma, i);
        found.count += op->size > 0;
        found.bytes += op->size;
    }
    return found;
}

/* Posts a request that is no operation on the engine's memory. Returns 0 or an errno. */
static int post_without_event(btl_ib_rc_rdma_t *rdma, struct ibv_send_wr *wr)
{
    static const btl_ib_rc_op_t none = {.reads = false};
    struct ibv_send_wr *bad;

    wr->wr_id = btl_ib_rc_sq_id(rdma->sq, rdma->sq->ring.posted);
    const int error = ibv_post_send(rdma->sq->qp, wr, &bad);
    if (error == 0) {
        op_note(rdma, &none, false);
    }
    return error;
}

/* Posts the write unsignaled: over iWARP it would complete before reads that were posted
 * earlier. */
int btl_ib_rc_rdma_rouse(btl_ib_rc_rdma_t *rdma)
{
    struct ibv_send_wr wr;
    struct ibv_sge sge;

    if (btl_ib_verbs_send_ring_room(&rdma->sq->ring) == 0) {
        return 0;
    }
    btl_ib_rc_credit_fill_write(rdma->credit, &wr, &sge);
    return post_without_event(rdma, &wr);
}

/* Posts a control message, which is signaled only if no read is under way: over iWARP it would
 * complete before reads that were posted earlier. */
int btl_ib_rc_rdma_post_control(btl_ib_rc_rdma_t *rdma, struct ibv_send_wr *wr)
{
    if (btl_ib_verbs_send_ring_room(&rdma->sq->ring) == 0) {
        return ENOMEM;
    }
    wr->send_flags |= btl_ib_rc_rdma_under_way(rdma).count == 0 ? IBV_SEND_SIGNALED : 0u;
    return post_without_event(rdma, wr);
}

static bool work_is_read(const btl_ib_rdma_work_t *work)
{
    return work->kind != BTL_IB_RDMA_WRITE;
}

static bool work_is_atomic(const btl_ib_rdma_work_t *work)
{
    return work->kind == BTL_IB_RDMA_ADD || work->kind == BTL_IB_RDMA_CSWAP;
}

static bool work_is_inline(const btl_ib_rc_rdma_t *rdma, const btl_ib_rdma_work_t *work)
{
    return work->kind == BTL_IB_RDMA_WRITE && work->size <= rdma->sq->inline_size;
}

/* Takes a bounce buffer, of whole cache lines, as atomics need it aligned to 8. Returns its offset
 * in the ring, or -1 if the ring has no room. */
static int64_t bounce_take(btl_ib_rc_rdma_t *rdma, uint32_t size)
{
    const uint32_t wanted = (size + BTL_IB_VERBS_LINE - 1) / BTL_IB_VERBS_LINE * BTL_IB_VERBS_LINE;
    const uint32_t at = rdma->taken & (rdma->bounce_bytes - 1);
    const uint32_t skipped = at + wanted > rdma->bounce_bytes ? rdma->bounce_bytes - at : 0;

    if (rdma->taken - rdma->freed + skipped + wanted > rdma->bounce_bytes) {
        return -1;
    }
    rdma->taken += skipped + wanted;
    return skipped > 0 ? 0 : at;
}

/* Fills in the local end: the caller's memory, or a bounce buffer. Returns false if the ring of
 * bounce buffers has no room. */
static bool op_fill_local(btl_ib_rc_rdma_t *rdma, const btl_ib_rdma_work_t *work,
                          btl_ib_rc_op_t *op, struct ibv_sge *sge)
{
    const struct ibv_mr *mr = work_is_atomic(work) ? NULL : work->mem;
    const uint32_t size = (uint32_t) work->size;

    *sge = (struct ibv_sge){.addr = (uintptr_t) work->local, .length = size};
    if (work_is_inline(rdma, work)) {
        return true;
    }
    if (mr != NULL) {
        sge->lkey = mr->lkey;
        return true;
    }
    const int64_t at = bounce_take(rdma, size);
    if (at < 0) {
        return false;
    }
    op->bounce = (uint32_t) at;
    op->bounce_size = size;
    op->taken = rdma->taken;
    if (work_is_read(work)) {
        op->sink = work->local;
    } else {
        memcpy(rdma->bounce + at, work->local, size);
    }
    sge->addr = (uintptr_t) rdma->bounce + (uint64_t) at;
    sge->lkey = rdma->lkey;
    return true;
}

static void op_fill(const btl_ib_rc_rdma_t *rdma, const btl_ib_rdma_work_t *work,
                    struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    *wr = (struct ibv_send_wr){
        .wr_id = btl_ib_rc_sq_id(rdma->sq, rdma->sq->ring.posted),
        .sg_list = sge,
        .num_sge = 1,
        .send_flags = work_is_inline(rdma, work) ? IBV_SEND_INLINE : 0,
    };
    if (!work_is_atomic(work)) {
        wr->opcode = work_is_read(work) ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
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

int btl_ib_rc_rdma_post(btl_ib_rc_rdma_t *rdma, const btl_ib_rdma_work_t *work, int *broken)
{
    const bool reads = work_is_read(work);
    const bool flush = !reads && rdma->flushes;
    const bool flush_now = flush && rdma->reads < rdma->reads_max;
    const uint32_t taken = rdma->taken;
    btl_ib_rc_op_t op = {.context = work->context, .reads = reads, .size = work->size};
    struct ibv_send_wr wr[2], *bad = NULL;
    struct ibv_sge sge[2];

    *broken = 0;
    if ((rdma->reads_max == 0 && (reads || flush))
        || (work->mem == NULL && work->size > rdma->bounce_bytes / 2
            && !work_is_inline(rdma, work))) {
        return -EOPNOTSUPP;
    }
    if (btl_ib_verbs_send_ring_room(&rdma->sq->ring) < BTL_IB_RC_SEND_RESERVED
        || (reads && rdma->reads >= rdma->reads_max) || !op_fill_local(rdma, work, &op, &sge[0])) {
        return -EAGAIN;
    }
    op_fill(rdma, work, &wr[0], &sge[0]);
    wr[0].send_flags |= flush ? 0 : IBV_SEND_SIGNALED;
    if (flush_now) {
        flush_fill(rdma, rdma->sq->ring.posted + 1, &wr[1], &sge[1]);
        wr[0].next = &wr[1];
    }
    const int error = ibv_post_send(rdma->sq->qp, wr, &bad);
    if (error != 0 && bad != &wr[1]) { /* none of it was begun */
        rdma->taken = taken;
        *broken = error == ENOMEM ? 0 : error;
        return error == ENOMEM ? -EAGAIN : -EIO;
    }
    op_note(rdma, &op, true);
    rdma->unflushed = flush ? !flush_now : rdma->unflushed;
    if (flush_now && error == 0) {
        op_note(rdma, &flush_op, false);
    }
    *broken = error;
    return 0;
}

void btl_ib_rc_rdma_count(btl_ib_rc_moved_t *moved, const btl_ib_rdma_work_t *work)
{
    const bool write = work->kind == BTL_IB_RDMA_WRITE;
    const bool read = work->kind == BTL_IB_RDMA_READ;

    moved->writes += write && work->mem != NULL;
    moved->writes_copied += write && work->mem == NULL;
    moved->reads += read && work->mem != NULL;
    moved->reads_copied += read && work->mem == NULL;
}

void btl_ib_rc_rdma_log(const btl_ib_rc_moved_t *moved, const btl_ib_verbs_t *verbs)
{
    BTL_IB_VERBS_LOG(verbs, 10,
                     "%s: operations by the device: puts: %" PRIu64 " in place, %" PRIu64
                     " copied; gets: %" PRIu64 " in place, %" PRIu64 " copied",
                     verbs->base.name, moved->writes, moved->writes_copied, moved->reads,
                     moved->reads_copied);
}
