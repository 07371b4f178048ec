/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_credit.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

enum {
    SLOTS_SHARE = 2, /* the word is due when 1/2 of the ring's slots are newly freed */
};

static_assert(sizeof(btl_ib_rc_credit_line_t) == BTL_IB_VERBS_LINE, "a cache line of its own");
static_assert(offsetof(btl_ib_rc_credit_word_t, zero) == BTL_IB_RC_CREDIT_BYTES, "as written");

int btl_ib_rc_credit_init(btl_ib_rc_credit_t *credit, btl_ib_rc_sq_t *sq,
                          const btl_ib_verbs_t *verbs, void *line, uint32_t lkey, uint32_t depth,
                          uint32_t window, bool rdma)
{
    const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
                            | (rdma ? IBV_ACCESS_REMOTE_READ : 0); /* the peer flushes its writes */

    credit->sq = sq;
    credit->line = line;
    credit->lkey = lkey;
    credit->depth = depth;
    credit->window = window > 0 ? window : 1;
    credit->mr = ibv_reg_mr(verbs->pd, &credit->line->in, BTL_IB_RC_CREDIT_BYTES, access);
    return credit->mr != NULL ? 0 : btl_ib_verbs_failed(verbs, "ibv_reg_mr", errno);
}

/* True if the peer waits for the word, or enough has changed since the last one. */
static bool credit_is_due(const btl_ib_rc_credit_t *credit)
{
    const uint32_t buffers = credit->reposted - credit->reposted_told;
    const uint32_t slots = credit->freed - credit->freed_told;

    return buffers >= credit->window || (buffers > 0 && btl_ib_rc_credit_peer_is_out(credit))
           || (slots > 0 && slots >= credit->slots / SLOTS_SHARE)
           || credit->eager_on != credit->eager_on_told;
}

void btl_ib_rc_credit_fill_write(btl_ib_rc_credit_t *credit, struct ibv_send_wr *wr,
                                 struct ibv_sge *sge)
{
    *sge = (struct ibv_sge){
        .addr = (uintptr_t) &credit->line->out,
        .length = BTL_IB_RC_CREDIT_BYTES,
        .lkey = credit->lkey,
    };
    *wr = (struct ibv_send_wr){
        .sg_list = sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = credit->sq->inline_size >= sge->length ? IBV_SEND_INLINE : 0u,
        .wr.rdma = {.remote_addr = credit->remote, .rkey = credit->remote_key},
    };
    credit->line->out = (btl_ib_rc_credit_word_t){
        .reposted = htobe32(credit->reposted),
        .eager_freed = htobe32(credit->freed),
        .eager_on = htobe32(credit->eager_on),
    };
}

int btl_ib_rc_credit_tell(btl_ib_rc_credit_t *credit)
{
    btl_ib_rc_sq_t *sq = credit->sq;
    const bool off = credit->eager_on_told && !credit->eager_on;
    struct ibv_send_wr wr;
    struct ibv_sge sge;

    if (btl_ib_verbs_send_ring_room(&sq->ring) == 0) {
        return 0;
    }
    btl_ib_rc_credit_fill_write(credit, &wr, &sge);
    wr.send_flags |= off ? IBV_SEND_SIGNALED : 0u;
    const int error = btl_ib_rc_sq_post_own(sq, &wr);
    if (error == 0) {
        credit->reposted_told = credit->reposted;
        credit->freed_told = credit->freed;
        credit->eager_on_told = credit->eager_on;
        credit->eager_off_sent = off ? sq->ring.posted : credit->eager_off_sent;
    }
    return error;
}

void btl_ib_rc_credit_update(btl_ib_rc_credit_t *credit)
{
    if (credit->open && credit_is_due(credit)) {
        (void) btl_ib_rc_credit_tell(credit);
    }
}

void btl_ib_rc_credit_set_eager(btl_ib_rc_credit_t *credit, uint32_t slots, uint32_t freed, bool on)
{
    if (credit->eager_on && !on) { /* known at once, unless a word said "on": see tell() */
        credit->eager_off_sent = credit->sq->ring.completed;
    }
    credit->slots = slots;
    credit->freed = freed;
    credit->eager_on = on;
}

bool btl_ib_rc_credit_eager_off_known(const btl_ib_rc_credit_t *credit)
{
    return !credit->eager_on_told
           && (int32_t) (credit->sq->ring.completed - credit->eager_off_sent) >= 0;
}
