/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Datagrams -> work requests. A row for one queue pair is linked and posted by one call: one doorbell. A request
 * completes with all before it, so only some ask for a completion (selective signalling): each `SIGNAL`th, or the
 * last of a row that leaves more than half as many without.
 */

#include "verbs_ud_rail.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { SIGNAL = 32 };

static_assert((uint32_t) SIGNAL * 4 <= 128, "a fourth of the smallest send queue");

static uint64_t id_of(const btl_ib_ud_t *ud, const btl_ib_ud_queue_t *queue)
{
    return (uint64_t) queue->posted << 32 | (uint64_t) (queue - ud->queue) << 1 | 1;
}

/* Which queue pair a datagram leaves by, and arrives at. */
static uint32_t which(uint32_t channel, uint32_t count)
{
    return channel < count ? channel : count - 1;
}

/* Make the request of a datagram. */
static void fill(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue, const btl_ib_tx_t *tx, int i, bool last)
{
    const btl_ib_ud_peer_t *peer = &ud->peers.peer[tx->to];
    btl_ib_ud_host_t *host = &ud->peers.host[peer->host];
    const struct ibv_mr *mr = tx->mem;
    const bool copied = tx->size <= ud->verbs.base.attr.inline_size;

    queue->unsignaled++;
    const bool signaled = queue->unsignaled >= SIGNAL || (last && queue->unsignaled > SIGNAL / 2);
    ud->sge[i] = (struct ibv_sge){
        .addr = (uintptr_t) tx->iov[0].iov_base,
        .length = tx->size,
        .lkey = mr != NULL ? mr->lkey : 0,
    };
    ud->wr[i] = (struct ibv_send_wr){
        .wr_id = id_of(ud, queue),
        .next = last ? NULL : &ud->wr[i + 1],
        .sg_list = &ud->sge[i],
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = (signaled ? IBV_SEND_SIGNALED : 0u) | (copied ? IBV_SEND_INLINE : 0u),
        .wr.ud = {.ah = host->ah,
                  .remote_qpn = peer->qpn[which(tx->channel, peer->count)],
                  .remote_qkey = peer->qkey},
    };
    queue->sent[queue->posted & (queue->tx_depth - 1)] = copied ? NULL : tx->context;
    host->last[queue - ud->queue] = queue->posted;
    queue->posted++;
    queue->unsignaled = signaled ? 0 : queue->unsignaled;
}

/* A row that was taken in part only: the rest was never posted. `unsignaled`: as it was before the row. */
static void take_back(const btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue, int count, int taken,
                      uint32_t unsignaled)
{
    queue->posted -= (uint32_t) (count - taken);
    for (int i = 0; i < taken; i++) {
        unsignaled = ud->wr[i].send_flags & IBV_SEND_SIGNALED ? 0 : unsignaled + 1;
    }
    queue->unsignaled = unsignaled;
}

/* Post datagrams for one queue pair. Returns how many it took, and why not more. */
static int post(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue, const btl_ib_tx_t *batch, int n,
                int *error)
{
    const uint32_t room = queue->tx_depth - (queue->posted - queue->reported);
    const int count = (uint32_t) n < room ? n : (int) room;
    const uint32_t unsignaled = queue->unsignaled;
    struct ibv_send_wr *bad = NULL;

    *error = EAGAIN;
    if (count == 0 || queue->broken) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        fill(ud, queue, &batch[i], i, i + 1 == count);
    }
    const int rc = ibv_post_send(queue->qp, ud->wr, &bad);
    if (rc == 0) {
        return count;
    }
    const int taken = bad != NULL ? (int) (bad - ud->wr) : 0;
    take_back(ud, queue, count, taken, unsignaled);
    *error = rc == ENOMEM ? EAGAIN : rc;
    return taken;
}

/* Those that go out by the same queue pair, and may. */
static int row(const btl_ib_ud_t *ud, const btl_ib_tx_t *batch, int n, uint32_t queue)
{
    int i = 0;

    while (i < n && i < BTL_IB_UD_BATCH && which(batch[i].channel, ud->queue_count) == queue
           && batch[i].size <= ud->verbs.base.attr.max_datagram) {
        i++;
    }
    return i;
}

static void tell(btl_ib_ud_t *ud, int error)
{
    if (error != EAGAIN && !ud->told_error) {
        ud->told_error = true;
        BTL_IB_VERBS_LOG(&ud->verbs, 1, "%s: a send failed: %s", ud->verbs.base.name,
                         strerror(error));
    }
}

int btl_ib_ud_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);
    int done = 0;

    while (done < n) {
        const uint32_t to = which(batch[done].channel, ud->queue_count);
        const int count = row(ud, batch + done, n - done, to);
        if (count == 0) {
            *error = EMSGSIZE;
            return done;
        }
        if (ud->dead || ud->down) {
            *error = ENETDOWN;
            return done;
        }
        const int taken = post(ud, &ud->queue[to], batch + done, count, error);
        done += taken;
        if (taken < count) {
            tell(ud, *error);
            return done;
        }
    }
    return done;
}

/* ---- what becomes of them ---- */

void btl_ib_ud_send_completed(btl_ib_ud_t *ud, const struct ibv_wc *wc)
{
    btl_ib_ud_queue_t *queue = &ud->queue[(uint32_t) wc->wr_id >> 1];

    const uint32_t completed = (uint32_t) (wc->wr_id >> 32) + 1;

    if ((int32_t) (completed - queue->completed) > 0) { /* else of before it was made anew */
        queue->completed = completed;
    }
    if (wc->status != IBV_WC_SUCCESS) {
        queue->broken = true;
        ud->unasked = BTL_IB_UD_ASK; /* the device may know more */
        if (wc->status != IBV_WC_WR_FLUSH_ERR && !ud->told_error) {
            ud->told_error = true;
            BTL_IB_VERBS_LOG(&ud->verbs, 1, "%s: a send failed: %s (vendor's code 0x%x)",
                             ud->verbs.base.name, ibv_wc_status_str(wc->status), wc->vendor_err);
        }
    }
}

/* A queue pair that failed, once the device is done with it. */
static void set_right(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue)
{
    int rc = 0;

    if (queue->flushed && queue->posted_buffers == 0) {
        rc = btl_ib_ud_queue_revive(ud, queue);
    } else if (!queue->flushed && queue->completed == queue->posted) {
        rc = btl_ib_ud_queue_mend(ud, queue);
    }
    if (rc != 0) {
        btl_ib_ud_fail(ud, "a queue pair that failed cannot be used again", -rc);
    }
}

int btl_ib_ud_sent(btl_ib_ud_t *ud, btl_ib_event_t *events, int max)
{
    int n = 0;

    for (uint32_t i = 0; i < ud->queue_count; i++) {
        btl_ib_ud_queue_t *queue = &ud->queue[i];
        while (queue->reported != queue->completed && n < max) {
            void *context = queue->sent[queue->reported++ & (queue->tx_depth - 1)];
            if (context != NULL) {
                events[n++] = (btl_ib_event_t){
                    .type = BTL_IB_EVENT_SENT, .from = BTL_IB_ADDR_UNKNOWN, .context = context};
            }
        }
        if (queue->broken && !ud->dead) {
            set_right(ud, queue);
        }
    }
    return n;
}
