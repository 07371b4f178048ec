/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_sq.h"

enum {
    SIGNALS = 4,   /* in one round of a ring, at least */
    HELD_MAX = 64, /* pieces of memory held by sends that no signaled one follows */
};

bool btl_ib_rc_sq_init(btl_ib_rc_sq_t *sq, btl_ib_rc_sqs_t *all, uint32_t depth, uint64_t id)
{
    sq->all = all;
    sq->id = id;
    return btl_ib_verbs_send_ring_init(&sq->ring, depth);
}

/* Note a request that was posted. */
static void note(btl_ib_rc_sq_t *sq, const struct ibv_send_wr *wr, void *context)
{
    const bool signaled = (wr->send_flags & IBV_SEND_SIGNALED) != 0;

    btl_ib_verbs_send_ring_post(&sq->ring, context, signaled);
    if (signaled) {
        btl_ib_rc_sq_close(sq);
    } else if (context != NULL) {
        sq->held++;
        sq->all->held++;
    }
}

int btl_ib_rc_sq_post_own(btl_ib_rc_sq_t *sq, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    wr->wr_id = btl_ib_rc_sq_id(sq, sq->ring.posted);
    if (sq->ring.unsignaled + 1 >= sq->ring.depth / SIGNALS) {
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    const int error = ibv_post_send(sq->qp, wr, &bad);
    if (error == 0) {
        note(sq, wr, NULL);
    }
    return error;
}

struct ibv_send_wr *btl_ib_rc_sq_fill(btl_ib_rc_sq_t *sq, int i, const btl_ib_tx_t *tx)
{
    struct ibv_send_wr *wr = &sq->all->wr[i];
    const struct ibv_mr *mr = tx->mem;

    sq->all->sge[i] = (struct ibv_sge){
        .addr = (uintptr_t) tx->iov[0].iov_base,
        .length = tx->size,
        .lkey = mr != NULL ? mr->lkey : 0, /* what goes inline needs none */
    };
    wr->wr_id = btl_ib_rc_sq_id(sq, sq->ring.posted + (uint32_t) i);
    wr->sg_list = &sq->all->sge[i];
    wr->num_sge = 1;
    wr->opcode = IBV_WR_SEND;
    wr->send_flags = tx->size <= sq->inline_size ? IBV_SEND_INLINE : 0;
    return wr;
}

/* Link the batch, and choose which requests are signaled. */
static void finish_batch(btl_ib_rc_sq_t *sq, int n)
{
    struct ibv_send_wr *wr = sq->all->wr;
    uint32_t unsignaled = sq->ring.unsignaled;
    uint32_t held = sq->all->held;

    for (int i = 0; i < n; i++) {
        wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
        held += (wr[i].send_flags & IBV_SEND_INLINE) == 0;
        if (++unsignaled >= sq->ring.depth / SIGNALS || (i == n - 1 && held > HELD_MAX)) {
            wr[i].send_flags |= IBV_SEND_SIGNALED;
            unsignaled = 0;
        }
    }
}

int btl_ib_rc_sq_post_batch(btl_ib_rc_sq_t *sq, const btl_ib_tx_t *txs, int n, int *error)
{
    const struct ibv_send_wr *wr = sq->all->wr;
    struct ibv_send_wr *bad = NULL;

    finish_batch(sq, n);
    *error = ibv_post_send(sq->qp, sq->all->wr, &bad);
    const int taken = *error == 0 ? n : bad != NULL ? (int) (bad - wr) : 0;
    for (int i = 0; i < taken; i++) {
        note(sq, &wr[i], txs[i].size <= sq->inline_size ? NULL : txs[i].context);
    }
    return taken;
}
