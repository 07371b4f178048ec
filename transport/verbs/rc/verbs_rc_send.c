/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_send.h"

#include <errno.h>
#include <string.h>

#include "verbs_rc_cm_connect.h"
#include "verbs_rc_cm_lifecycle.h"
#include "verbs_rc_rail.h"

/* Post datagrams that there is room for, by send or eager RDMA. Returns how many were taken; *error
 * is 0 or an errno. */
static int post(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const btl_ib_tx_t *batch, int n,
                int *error)
{
    bool by_eager[BTL_IB_RC_EAGER_BATCH] = {false};
    uint32_t eager = 0;

    for (int i = 0; i < n; i++) {
        struct ibv_send_wr *wr = btl_ib_rc_sq_fill(&conn->sq, i, &batch[i]);
        if (n <= BTL_IB_RC_EAGER_BATCH
            && btl_ib_rc_eager_fits(&conn->eager_tx, &conn->credit, batch[i].size, eager)) {
            btl_ib_rc_eager_fill(&conn->eager_tx, &batch[i], conn->eager_tx.used + eager,
                                 conn->credit.used + (uint32_t) i - eager, rc->sending.staged[i],
                                 wr);
            by_eager[i] = true;
            eager++;
        }
    }
    const int taken = btl_ib_rc_sq_post_batch(&conn->sq, batch, n, error);
    if (taken < n) {
        eager = 0;
        for (int i = 0; i < taken && i < BTL_IB_RC_EAGER_BATCH; i++) {
            eager += by_eager[i];
        }
    }
    btl_ib_rc_eager_tx_use(&conn->eager_tx, eager);
    btl_ib_rc_credit_use(&conn->credit, (uint32_t) taken - eager);
    return taken;
}

/* Send what goes to one queue of one peer. Returns how many were taken; *error says why not
 * more. */
static int send_run(btl_ib_rc_t *rc, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_rc_conn_t *conn = btl_ib_rc_cm_conn(rc, batch->to, batch->channel, error);

    if (conn == NULL) {
        return 0;
    }
    const uint32_t most =
        btl_ib_verbs_min(btl_ib_rc_credit_available(&conn->credit), BTL_IB_RC_BATCH);
    const int wanted = (int) btl_ib_verbs_min(most, (uint32_t) n);
    int failed = 0;
    const int taken = wanted > 0 ? post(rc, conn, batch, wanted, &failed) : 0;
    if (failed != 0 && failed != ENOMEM && failed != EAGAIN) { /* ENOMEM: the queue is full */
        btl_ib_rc_cm_broke(rc, conn, strerror(failed));
    }
    *error = EAGAIN;
    return taken;
}

int btl_ib_rc_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    int done = 0;

    if (rc->state.error != 0 || rc->state.down) {
        *error = ENETDOWN;
        return 0;
    }
    while (done < n) {
        const btl_ib_tx_t *first = &batch[done];
        int run = 1;
        while (done + run < n && first[run].to == first->to
               && first[run].channel == first->channel) {
            run++;
        }
        const int taken = send_run(rc, first, run, error);
        done += taken;
        if (taken < run) {
            break;
        }
    }
    return done;
}
