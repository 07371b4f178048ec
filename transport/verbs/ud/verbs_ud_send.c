/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The datagrams of a batch that leave by one queue pair are posted as one list: one doorbell. A
 * request completes with all before it, so only each SIGNAL-th asks for a completion, or the last
 * of a list that leaves more than half as many without.
 */

#include "verbs_ud_send.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "verbs_ud_rail.h"

enum { SIGNAL = 32 };

static_assert((uint32_t) SIGNAL * 4 <= 128, "a fourth of the smallest send queue");

static bool is_inline(const btl_ib_ud_t *ud, const btl_ib_tx_t *tx)
{
    return tx->size <= ud->port.verbs.base.attr.inline_size;
}

/* Make the work request of a datagram. */
static void fill(btl_ib_ud_t *ud, btl_ib_ud_qp_t *qp, const btl_ib_tx_t *tx, uint32_t number,
                 unsigned flags, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    const btl_ib_ud_peer_t *peer = &ud->peers.peer[tx->to];
    const struct ibv_mr *mr = tx->mem;

    *sge = (struct ibv_sge){
        .addr = (uintptr_t) tx->iov[0].iov_base,
        .length = tx->size,
        .lkey = mr != NULL ? mr->lkey : 0,
    };
    *wr = (struct ibv_send_wr){
        .wr_id = btl_ib_ud_qp_send_id(&ud->qps, qp, number),
        .next = wr + 1,
        .sg_list = sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = flags | (is_inline(ud, tx) ? IBV_SEND_INLINE : 0u),
        .wr.ud = {.ah = ud->peers.host[peer->host].ah,
                  .remote_qpn = peer->qpn[btl_ib_ud_qp_of(tx->channel, peer->count)],
                  .remote_qkey = peer->qkey},
    };
}

/* Post datagrams for one queue pair. Returns how many it took, and in *error why not more. */
static int post(btl_ib_ud_t *ud, uint32_t index, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_ud_qp_t *qp = &ud->qps.qp[index];
    const uint32_t room = btl_ib_verbs_send_ring_room(&qp->ring);
    const int count = (uint32_t) n < room ? n : (int) room;
    uint32_t unsignaled = qp->ring.unsignaled;
    struct ibv_send_wr *wr = ud->sending.wr;
    struct ibv_send_wr *bad = NULL;

    *error = EAGAIN;
    if (count == 0 || qp->broken) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        const bool last = i + 1 == count;
        unsignaled++;
        const bool signaled = unsignaled >= SIGNAL || (last && unsignaled > SIGNAL / 2);
        unsignaled = signaled ? 0 : unsignaled;
        fill(ud, qp, &batch[i], qp->ring.posted + (uint32_t) i, signaled ? IBV_SEND_SIGNALED : 0u,
             &wr[i], &ud->sending.sge[i]);
    }
    wr[count - 1].next = NULL;
    const int rc = ibv_post_send(qp->qp, wr, &bad);
    const int taken = rc == 0 ? count : bad != NULL ? (int) (bad - wr) : 0;
    for (int i = 0; i < taken; i++) {
        btl_ib_ud_peers_sent(&ud->peers, batch[i].to, index, qp->ring.posted);
        btl_ib_verbs_send_ring_post(&qp->ring, is_inline(ud, &batch[i]) ? NULL : batch[i].context,
                                    (wr[i].send_flags & IBV_SEND_SIGNALED) != 0);
    }
    *error = rc == 0 || rc == ENOMEM ? EAGAIN : rc;
    return taken;
}

int btl_ib_ud_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);
    int done = 0;

    while (done < n) {
        const uint32_t index = btl_ib_ud_qp_of(batch[done].channel, ud->qps.count);
        int count = 0;
        while (done + count < n && count < BTL_IB_UD_BATCH
               && btl_ib_ud_qp_of(batch[done + count].channel, ud->qps.count) == index
               && batch[done + count].size <= t->attr.max_datagram) {
            count++;
        }
        if (count == 0) {
            *error = EMSGSIZE;
            return done;
        }
        if (ud->state.error != 0 || ud->state.down) {
            *error = ENETDOWN;
            return done;
        }
        const int taken = post(ud, index, batch + done, count, error);
        done += taken;
        if (taken < count) {
            if (*error != EAGAIN) {
                btl_ib_ud_qps_log_error(&ud->qps, strerror(*error));
            }
            return done;
        }
    }
    return done;
}
