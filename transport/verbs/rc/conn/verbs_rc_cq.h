/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Completion queues of an RC transport, and sleeping on them. A queue that overflows ends all
 * connections that use it, so each connection reserves as many entries as it can ever fill. Not all
 * devices can resize one (siw cannot): there are several, each twice as large as the one before, so
 * that thousands of peers need few to be polled.
 */

#ifndef BTL_IB_VERBS_RC_CQ_H
#define BTL_IB_VERBS_RC_CQ_H

#include "verbs_comp_channel.h"
#include "verbs_rc_port.h"

enum { BTL_IB_RC_CQ_MAX = 24 };

typedef struct btl_ib_rc_cq {
    struct ibv_cq *cq;
    uint32_t free;    /* entries that no connection can fill */
    uint32_t leaving; /* of closed connections: free once all that is in it was read */
} btl_ib_rc_cq_t;

typedef struct btl_ib_rc_cqs {
    const btl_ib_rc_port_t *port;
    btl_ib_verbs_comp_t comp;
    btl_ib_rc_cq_t cq[BTL_IB_RC_CQ_MAX];
    uint32_t count;
    uint32_t first;          /* entries of the first one, or what a connection needs */
    uint32_t shared_entries; /* that any queue may get for shared receive queues */
    /* Completions that were read and go before all that the queues have: */
    struct ibv_wc saved[BTL_IB_RC_BATCH];
    uint32_t saved_first;
    uint32_t saved_count;
    int saved_fd; /* eventfd: readable while there are some */
} btl_ib_rc_cqs_t;

/* The first queue has `first` entries at least, 0: the default; `other_fd` is a descriptor to sleep
 * on as well. Returns 0 or a negative errno after logging why;
 * close follows in either case. */
int btl_ib_rc_cqs_open(btl_ib_rc_cqs_t *cqs, const btl_ib_rc_port_t *port, uint32_t first,
                       int other_fd);
void btl_ib_rc_cqs_close(btl_ib_rc_cqs_t *cqs);

/* Shared receive queues of that many buffers in all are about to be used. Call this before the
 * first reservation. */
static inline void btl_ib_rc_cqs_set_shared(btl_ib_rc_cqs_t *cqs, uint32_t entries)
{
    cqs->shared_entries = entries;
}

/* Reserve entries of one queue. Returns NULL after logging why. */
btl_ib_rc_cq_t *btl_ib_rc_cq_reserve(btl_ib_rc_cqs_t *cqs, uint32_t entries);

/* A queue pair is destroyed. Its entries are free once the queue was found empty. */
static inline void btl_ib_rc_cq_release(btl_ib_rc_cq_t *cq, uint32_t entries)
{
    cq->leaving += entries;
}

static inline void btl_ib_rc_cq_found_empty(btl_ib_rc_cq_t *cq)
{
    cq->free += cq->leaving;
    cq->leaving = 0;
}

/* Keep completions for the next poll. There are none yet. */
void btl_ib_rc_cqs_save(btl_ib_rc_cqs_t *cqs, const struct ibv_wc *wc, int count);

/* The first of the saved ones were handled. */
void btl_ib_rc_cqs_saved_done(btl_ib_rc_cqs_t *cqs, int count);

/* Make the descriptor readable with the next completion, and read what came before that. Returns
 * it, -1 if that cannot be done. */
int btl_ib_rc_cqs_arm(btl_ib_rc_cqs_t *cqs);

bool btl_ib_rc_cqs_has(const btl_ib_rc_cqs_t *cqs, const struct ibv_cq *cq);

#endif
