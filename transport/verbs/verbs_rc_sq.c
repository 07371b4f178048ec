/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_sq.h"

#include "verbs_device.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

/* ---- send queue ---- */

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

/* ---- credits ---- */

enum {
    SLOTS_SHARE = 2, /* of slots of the ring that are free again: the peer is told */
};

static_assert(sizeof(btl_ib_rc_credit_line_t) == BTL_IB_VERBS_LINE, "a cache line of its own");
static_assert(offsetof(btl_ib_rc_credit_word_t, zero) == BTL_IB_RC_CREDIT_BYTES, "as written");

int btl_ib_rc_credit_init(btl_ib_rc_credit_t *credit, btl_ib_rc_sq_t *sq,
                          const btl_ib_verbs_t *verbs, void *line, uint32_t lkey, uint32_t depth,
                          uint32_t window, bool rdma)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
                       | (rdma ? IBV_ACCESS_REMOTE_READ : 0); /* the peer flushes its writes */

    credit->sq = sq;
    credit->line = line;
    credit->lkey = lkey;
    credit->depth = depth;
    credit->window = window > 0 ? window : 1;
    credit->mr = ibv_reg_mr(verbs->pd, &credit->line->in, BTL_IB_RC_CREDIT_BYTES, access);
    return credit->mr != NULL ? 0 : btl_ib_verbs_failed(verbs, "ibv_reg_mr", errno);
}

void btl_ib_rc_credit_release(btl_ib_rc_credit_t *credit)
{
    if (credit->mr != NULL) {
        (void) ibv_dereg_mr(credit->mr);
        credit->mr = NULL;
    }
}

uint32_t btl_ib_rc_credit_available(const btl_ib_rc_credit_t *credit)
{
    const uint32_t room = btl_ib_verbs_send_ring_room(&credit->sq->ring);
    const uint32_t places = room > BTL_IB_RC_SEND_RESERVED ? room - BTL_IB_RC_SEND_RESERVED : 0;

    if (credit->peer_depth == 0) {
        return places;
    }
    const uint32_t reposted = btl_ib_rc_credit_told(&credit->line->in.reposted);
    const uint32_t left = credit->peer_depth + reposted - credit->used;
    /* More than it ever had: the word is nonsense. */
    return btl_ib_verbs_min(places, left <= credit->peer_depth ? left : 0);
}

static bool is_due(const btl_ib_rc_credit_t *credit)
{
    const uint32_t buffers = credit->reposted - credit->reposted_told;
    const uint32_t slots = credit->freed - credit->freed_told;

    return buffers >= credit->window || (buffers > 0 && btl_ib_rc_credit_peer_is_out(credit))
           || (slots > 0 && slots >= credit->slots / SLOTS_SHARE)
           || credit->eager_on != credit->eager_on_told;
}

void btl_ib_rc_credit_update(btl_ib_rc_credit_t *credit)
{
    btl_ib_rc_sq_t *sq = credit->sq;

    if (!credit->open || !is_due(credit) || btl_ib_verbs_send_ring_room(&sq->ring) == 0) {
        return;
    }
    const bool off = credit->eager_on_told && !credit->eager_on;
    struct ibv_sge sge = {
        .addr = (uintptr_t) &credit->line->out,
        .length = BTL_IB_RC_CREDIT_BYTES,
        .lkey = credit->lkey,
    };
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags =
            (sq->inline_size >= sge.length ? IBV_SEND_INLINE : 0u) | (off ? IBV_SEND_SIGNALED : 0u),
        .wr.rdma = {.remote_addr = credit->remote, .rkey = credit->remote_key},
    };
    credit->line->out = (btl_ib_rc_credit_word_t){
        .reposted = htobe32(credit->reposted),
        .eager_freed = htobe32(credit->freed),
        .eager_on = htobe32(credit->eager_on),
    };
    if (btl_ib_rc_sq_post_own(sq, &wr) != 0) {
        return;
    }
    credit->reposted_told = credit->reposted;
    credit->freed_told = credit->freed;
    credit->eager_on_told = credit->eager_on;
    credit->eager_off_sent = off ? sq->ring.posted : credit->eager_off_sent;
}
