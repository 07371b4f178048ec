/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Completion queues of transport "verbs", wire RC. One that overflows ends all pipes that use it, so each pipe
 * has as many entries of one as it can ever fill. Not all devices can make one larger (siw cannot): there are
 * several, each twice as large as the one before, so that even thousands of peers need few to be looked at.
 */

#include "verbs_rc_rail.h"

#include <errno.h>

enum {
    FIRST_ENTRIES = 4096,
};

static btl_ib_rc_cq_t *make(btl_ib_rc_t *rc, uint32_t entries)
{
    const uint64_t most = (uint64_t) rc->verbs.device.max_cqe;
    uint64_t size = (uint64_t) FIRST_ENTRIES << rc->cqs;
    btl_ib_rc_cq_t *cq = &rc->cq[rc->cqs];

    entries += rc->srq_entries;
    size = size > most ? most : size;
    size = size < entries ? entries : size;
    if (rc->cqs == BTL_IB_RC_CQ_MAX || size > most) {
        (void) btl_ib_verbs_failed(&rc->verbs, "completion queues", ENOSPC);
        return NULL;
    }
    cq->cq = ibv_create_cq(rc->verbs.context, (int) size, NULL, rc->bell, 0);
    if (cq->cq == NULL) {
        (void) btl_ib_verbs_failed(&rc->verbs, "ibv_create_cq", errno);
        return NULL;
    }
    cq->room = (uint32_t) size - rc->srq_entries;
    cq->leaving = 0;
    rc->cqs++;
    return cq;
}

btl_ib_rc_cq_t *btl_ib_rc_cq_take(btl_ib_rc_t *rc, uint32_t entries)
{
    btl_ib_rc_cq_t *cq = NULL;

    for (uint32_t i = 0; i < rc->cqs && cq == NULL; i++) {
        cq = rc->cq[i].room >= entries ? &rc->cq[i] : NULL;
    }
    cq = cq != NULL ? cq : make(rc, entries);
    if (cq != NULL) {
        cq->room -= entries;
    }
    return cq;
}

void btl_ib_rc_cqs_free(btl_ib_rc_t *rc)
{
    while (rc->cqs > 0) {
        (void) ibv_destroy_cq(rc->cq[--rc->cqs].cq);
    }
}
