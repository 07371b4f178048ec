/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The send queue of a connection. Not each send asks for a completion: each fourth of the ring
 * does, so that places come free, and the last of a batch while sends whose end nobody would hear
 * of hold much memory of the engine's.
 */

#ifndef BTL_IB_VERBS_RC_SQ_H
#define BTL_IB_VERBS_RC_SQ_H

#include "verbs_rc_port.h"
#include "verbs_rc_wr_id.h"
#include "verbs_send_ring.h"

/* What all send queues of a transport have in common. */
typedef struct btl_ib_rc_sqs {
    uint32_t held; /* sends of the engine's memory that no signaled one follows */
    /* The batch that is being posted: */
    struct ibv_send_wr wr[BTL_IB_RC_BATCH];
    struct ibv_sge sge[BTL_IB_RC_BATCH];
} btl_ib_rc_sqs_t;

typedef struct btl_ib_rc_sq {
    btl_ib_rc_sqs_t *all;
    btl_ib_verbs_send_ring_t ring;
    struct ibv_qp *qp;
    uint64_t id;          /* upper half of the ids of its requests */
    uint32_t inline_size; /* bytes that a request can carry itself */
    uint32_t held;        /* its share of all->held */
} btl_ib_rc_sq_t;

/* Returns whether there was memory. */
bool btl_ib_rc_sq_init(btl_ib_rc_sq_t *sq, btl_ib_rc_sqs_t *all, uint32_t depth, uint64_t id);

static inline void btl_ib_rc_sq_attach(btl_ib_rc_sq_t *sq, struct ibv_qp *qp, uint32_t inline_size)
{
    sq->qp = qp;
    sq->inline_size = inline_size;
}

static inline uint64_t btl_ib_rc_sq_id(const btl_ib_rc_sq_t *sq, uint32_t number)
{
    return sq->id | (number & ~BTL_IB_RC_RECV);
}

/* The number that a completion is about. Of that in the id the uppermost bit is gone; less than a
 * ring is under way. */
static inline uint32_t btl_ib_rc_sq_number(const btl_ib_rc_sq_t *sq, uint64_t id)
{
    const uint32_t completed = sq->ring.completed;

    return completed + (((uint32_t) id - completed) & (BTL_IB_RC_RECV - 1));
}

/* Make request `i` of a batch of the datagram. Returns it. */
struct ibv_send_wr *btl_ib_rc_sq_fill(btl_ib_rc_sq_t *sq, int i, const btl_ib_tx_t *tx);

/* Post the first `n` requests of the batch, made of `txs`. Returns how many were taken; *error is 0
 * or an errno. */
int btl_ib_rc_sq_post_batch(btl_ib_rc_sq_t *sq, const btl_ib_tx_t *txs, int n, int *error);

/* Post a request of the transport's own, which makes no event. Returns 0 or an errno. */
int btl_ib_rc_sq_post_own(btl_ib_rc_sq_t *sq, struct ibv_send_wr *wr);

/* The queue is not used any more. */
static inline void btl_ib_rc_sq_close(btl_ib_rc_sq_t *sq)
{
    sq->all->held -= sq->held;
    sq->held = 0;
}

#endif
