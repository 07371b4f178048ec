/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Operations on memory of the device that is none: as unkind as real ones may be. Bytes written
 * over iWARP, or to memory that may be filled in any order, are not there before something is read
 * over the same queue pair, whatever completed; and more reads at once than were agreed upon fail
 * the test.
 */

#include <stdlib.h>
#include <string.h>

#include "fake_rdma_state.h"
#include "unit.h"

/* Found as functions of a preloaded library are (btl_ib_library.h). */
#pragma GCC visibility push(default)

enum {
    WORD = 12, /* bytes: what transports poll is there some day, though no queue pair reads it */
};

static bool is_read(const struct ibv_send_wr *wr)
{
    return wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_SEND;
}

static bool is_atomic(const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* A copy, with the bytes as they are now. */
static fake_op_t *copy(const struct ibv_send_wr *wr, uint32_t number)
{
    fake_op_t *op = calloc(1, sizeof(*op));

    op->wr = *wr;
    op->number = number;
    if (wr->num_sge > 0) {
        op->sge = *wr->sg_list;
        op->wr.sg_list = &op->sge;
    }
    if (!is_read(wr) && wr->num_sge > 0) {
        op->bytes = malloc(op->sge.length);
        memcpy(op->bytes, (void *) (uintptr_t) op->sge.addr, op->sge.length);
        op->sge.addr = (uintptr_t) op->bytes;
    }
    return op;
}

static void append(fake_op_t **list, fake_op_t *op)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    *list = op;
}

bool fake_rdma_hold(fake_qp_t *qp, const struct ibv_send_wr *wr, uint32_t number)
{
    while (fake.unseen != 0 && number == fake.unseen && fake_rdma_next_op(qp)) {
    }
    if (qp->held == NULL && number >= fake.unseen
        && (!fake.hold_ops || wr->opcode == IBV_WR_SEND)) {
        return false;
    }
    qp->reads += is_read(wr);
    assert_true(qp->reads <= qp->reads_max);
    append(&qp->held, copy(wr, number));
    return true;
}

static void free_first(fake_op_t **list)
{
    fake_op_t *op = *list;

    *list = op->next;
    free(op->bytes);
    free(op);
}

void fake_rdma_drop_ops(fake_qp_t *qp)
{
    while (qp->held != NULL) {
        free_first(&qp->held);
    }
    while (qp->unplaced != NULL) {
        free_first(&qp->unplaced);
    }
    qp->reads = 0;
}

bool fake_rdma_next_op(fake_qp_t *qp)
{
    fake_op_t *op = qp->held;

    if (op == NULL) {
        return false;
    }
    qp->held = op->next;
    qp->reads -= is_read(&op->wr);
    fake_rdma_execute(qp, &op->wr, op->number);
    free_first(&op);
    return true;
}

static void place(fake_qp_t *qp)
{
    while (qp->unplaced != NULL) {
        const fake_op_t *op = qp->unplaced;
        if (fake_rdma_mr(op->wr.wr.rdma.rkey) != NULL) { /* else nobody looks any more */
            memcpy((void *) (uintptr_t) op->wr.wr.rdma.remote_addr, op->bytes, op->sge.length);
        }
        free_first(&qp->unplaced);
    }
}

static bool may(const fake_qp_t *qp, const struct ibv_send_wr *wr, const fake_mr_t *mr)
{
    const int right = is_atomic(wr) ? IBV_ACCESS_REMOTE_ATOMIC
                      : is_read(wr) ? IBV_ACCESS_REMOTE_READ
                                    : IBV_ACCESS_REMOTE_WRITE;
    const uint64_t at = is_atomic(wr) ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;

    return mr != NULL && mr->mr.pd == qp->peer->qp.pd && (mr->access & right) != 0
           && at >= (uintptr_t) mr->mr.addr
           && at + wr->sg_list->length <= (uintptr_t) mr->mr.addr + mr->mr.length;
}

static void write_to(fake_qp_t *qp, const struct ibv_send_wr *wr, const fake_mr_t *mr)
{
    fake.writes++;
    append(&qp->unplaced, copy(wr, 0));
    if ((!fake.iwarp && (mr->access & IBV_ACCESS_RELAXED_ORDERING) == 0) || mr->mr.length == WORD) {
        place(qp);
    }
}

static void read_from(fake_qp_t *qp, const struct ibv_send_wr *wr)
{
    fake.read++;
    place(qp);
    memcpy((void *) (uintptr_t) wr->sg_list->addr, (void *) (uintptr_t) wr->wr.rdma.remote_addr,
           wr->sg_list->length);
}

static void change(const struct ibv_send_wr *wr)
{
    uint64_t *word = (uint64_t *) (uintptr_t) wr->wr.atomic.remote_addr;
    uint64_t *old = (uint64_t *) (uintptr_t) wr->sg_list->addr;

    assert_false(fake.iwarp);
    assert_int_equal(wr->sg_list->length, sizeof(*word));
    *old = *word;
    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        *word += wr->wr.atomic.compare_add;
    } else if (*word == wr->wr.atomic.compare_add) {
        *word = wr->wr.atomic.swap;
    }
}

enum ibv_wc_status fake_rdma_operate(fake_qp_t *qp, const struct ibv_send_wr *wr)
{
    const fake_mr_t *mr = fake_rdma_mr(is_atomic(wr) ? wr->wr.atomic.rkey : wr->wr.rdma.rkey);

    assert_int_equal(wr->num_sge, 1);
    assert_true(!is_read(wr) || qp->reads_max > 0);
    if (!may(qp, wr, mr)) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (is_atomic(wr)) {
        change(wr);
    } else if (is_read(wr)) {
        read_from(qp, wr);
    } else {
        write_to(qp, wr, mr);
    }
    return IBV_WC_SUCCESS;
}
