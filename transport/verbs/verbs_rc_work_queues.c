/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_work_queues.h"

#include "verbs_device.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

void btl_ib_rc_plan_send_depths(btl_ib_rc_port_t *port, const btl_ib_open_params_t *params,
                                uint32_t most)
{
    port->tx_depth = 0;
    /* For all channels: a peer may have more than the parameters name. */
    for (uint32_t i = 0; i < BTL_IB_RC_QUEUES_MAX; i++) {
        const uint32_t wanted = btl_ib_open_tx_depth(params, i, BTL_IB_RC_TX_DEPTH);
        const uint32_t depth = btl_ib_verbs_power_below(btl_ib_verbs_min(
            most, wanted < BTL_IB_RC_TX_DEPTH_MIN ? (uint32_t) BTL_IB_RC_TX_DEPTH_MIN : wanted));
        port->channel_tx_depth[i] = depth;
        port->tx_depth = depth > port->tx_depth ? depth : port->tx_depth;
    }
}

void btl_ib_rc_plan_bounces(btl_ib_rc_port_t *port, const btl_ib_open_rc_t *open)
{
    enum { BOUNCE_NUM = 16 };

    port->bounce_size = btl_ib_verbs_min(open->bounce_size, BTL_IB_BOUNCE_MAX);
    port->bounce_num = open->bounce_num != 0 ? open->bounce_num : BOUNCE_NUM;
    port->bounce_total = open->bounce_total;
}

/* ---- completion queues ---- */

void btl_ib_rc_cqs_close(btl_ib_rc_cqs_t *cqs)
{
    while (cqs->count > 0) {
        (void) ibv_destroy_cq(cqs->cq[--cqs->count].cq);
    }
    btl_ib_verbs_comp_close(&cqs->comp);
}

/* Makes a queue, of which a connection can reserve that many entries. Returns NULL, with errno,
 * after logging why. */
static btl_ib_rc_cq_t *cq_create(btl_ib_rc_cqs_t *cqs, uint32_t entries)
{
    const btl_ib_verbs_t *verbs = &cqs->port->verbs;
    const uint64_t most = (uint64_t) verbs->device.max_cqe;
    uint64_t size = (uint64_t) cqs->port->cq_num << cqs->count;
    btl_ib_rc_cq_t *cq = &cqs->cq[cqs->count];

    entries += cqs->shared_entries;
    size = size > most ? most : size;
    size = size < entries ? entries : size;
    if (cqs->count == BTL_IB_RC_CQ_MAX || size > most) {
        (void) btl_ib_verbs_failed(verbs, "completion queues", ENOSPC);
        return NULL;
    }
    cq->cq = ibv_create_cq(verbs->context, (int) size, NULL, cqs->comp.channel, 0);
    if (cq->cq == NULL) {
        (void) btl_ib_verbs_failed(verbs, "ibv_create_cq", errno);
        return NULL;
    }
    cq->free = (uint32_t) size - cqs->shared_entries;
    cq->leaving = 0;
    cqs->count++;
    return cq;
}

btl_ib_rc_cq_t *btl_ib_rc_cq_reserve(btl_ib_rc_cqs_t *cqs, uint32_t entries)
{
    uint32_t i = 0;

    while (i < cqs->count && cqs->cq[i].free < entries) {
        i++;
    }
    btl_ib_rc_cq_t *cq = i < cqs->count ? &cqs->cq[i] : cq_create(cqs, entries);
    if (cq != NULL) {
        cq->free -= entries;
    }
    return cq;
}

int btl_ib_rc_cqs_arm(btl_ib_rc_cqs_t *cqs)
{
    (void) btl_ib_verbs_comp_read(&cqs->comp);
    for (uint32_t i = 0; i < cqs->count; i++) {
        if (ibv_req_notify_cq(cqs->cq[i].cq, 0) != 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < cqs->count && cqs->wc_count == 0; i++) {
        (void) btl_ib_rc_cqs_read(cqs, &cqs->cq[i]);
    }
    return cqs->wc_count == 0 ? cqs->comp.fd : -1;
}

bool btl_ib_rc_cqs_has(const btl_ib_rc_cqs_t *cqs, const struct ibv_cq *cq)
{
    uint32_t i = 0;

    while (i < cqs->count && cqs->cq[i].cq != cq) {
        i++;
    }
    return i < cqs->count;
}

/* ---- receive queues ---- */

enum {
    EMPTY = 1
}; /* `limit` of a queue that does not grow: the device reports that none is left */

/* Adds idle buffers in `memory`, from number `first` on. `id` is that of buffer 0. */
static void rx_add_buffers(btl_ib_rc_rx_t *rx, uint32_t first, uint32_t count, uint8_t *memory,
                           uint32_t key, uint64_t id)
{
    const uint32_t stride = btl_ib_rc_rx_stride(rx->size);

    for (uint32_t i = 0; i < count; i++) {
        btl_ib_verbs_rx_pool_add(&rx->pool, &rx->buffer[first + i], id + first + i,
                                 memory + (size_t) i * stride, rx->size, key);
    }
}

static int rx_init(btl_ib_rc_rx_t *rx, void *owner, uint32_t count, uint32_t size, uint32_t low)
{
    btl_ib_verbs_rx_pool_init(&rx->pool, owner);
    rx->buffer = calloc(count, sizeof(*rx->buffer));
    rx->count = rx->buffer != NULL ? count : 0;
    rx->size = size;
    rx->low = low;
    return rx->buffer != NULL ? 0 : -ENOMEM;
}

int btl_ib_rc_rx_make(btl_ib_rc_rx_t *rx, void *owner, uint32_t count, uint32_t size, uint32_t low,
                      uint8_t *memory, uint32_t key, uint64_t id)
{
    const int error = rx_init(rx, owner, count, size, low);

    if (error == 0) {
        rx_add_buffers(rx, 0, count, memory, key, id);
    }
    return error;
}

/* ---- posting ---- */

/* Posts idle buffers if it is time to, and counts them in `queue` (NULL: nowhere). Returns how
 * many, or a negative errno. */
static int rx_post(btl_ib_rc_rxq_t *queue, btl_ib_rc_rx_t *rx)
{
    const uint32_t idle = rx->pool.idle_count;

    if (!btl_ib_rc_rx_is_low(rx)) {
        return 0;
    }
    const int error = btl_ib_verbs_rx_pool_post(&rx->pool);
    if (error != 0) {
        return -error;
    }
    if (queue != NULL) {
        queue->refills++;
        queue->refilled += idle;
    }
    return (int) idle;
}

int btl_ib_rc_rxqs_post_own(btl_ib_rc_rxqs_t *rxqs, uint8_t channel, btl_ib_rc_rx_t *rx)
{
    return rx_post(channel < rxqs->count ? &rxqs->queue[channel] : NULL, rx);
}

/* Asks the device to report when fewer than `limit` buffers are posted, unless it was asked
 * already, or would report at once. A device that refuses is not asked again. */
static void rxq_arm(btl_ib_rc_rxq_t *queue)
{
    struct ibv_srq_attr attr = {.srq_limit = queue->limit};

    if (queue->limit > 0 && !queue->armed && queue->rx.pool.posted >= queue->limit) {
        queue->armed = ibv_modify_srq(queue->rx.pool.srq, &attr, IBV_SRQ_LIMIT) == 0;
        queue->limit = queue->armed ? queue->limit : 0;
    }
}

static void rxq_stop_growing(btl_ib_rc_rxq_t *queue)
{
    queue->full = true;
    queue->limit = queue->limit > 0 ? EMPTY : 0;
}

int btl_ib_rc_rxqs_post_shared(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_rx_pool_t *pool)
{
    uint32_t i = 0;

    while (&rxqs->queue[i].rx.pool != pool) {
        i++;
    }
    const int posted = pool->srq != NULL ? rx_post(&rxqs->queue[i], &rxqs->queue[i].rx) : 0;
    if (posted > 0) {
        rxqs->queue[i].refused_since = 0;
        rxq_arm(&rxqs->queue[i]);
    } else if (posted == -ENOMEM) {
        rxqs->unposted = true;
        return 0;
    }
    return posted;
}

bool btl_ib_rc_rxqs_note_refused(btl_ib_rc_rxqs_t *rxqs, uint64_t now)
{
    bool lasts = false;

    for (uint32_t i = 0; i < rxqs->count; i++) {
        btl_ib_rc_rxq_t *queue = &rxqs->queue[i];
        if (!queue->shared || queue->rx.pool.posted > 0 || queue->rx.pool.idle_count == 0) {
            queue->refused_since = 0; /* it receives, or will when buffers are given back */
            continue;
        }
        queue->refused_since = queue->refused_since == 0 ? now : queue->refused_since;
        lasts = lasts || now - queue->refused_since >= BTL_IB_VERBS_SHORTAGE_MAX;
    }
    return lasts;
}

/* ---- shared queues ---- */

/* Makes `more` buffers. The low watermark grows in proportion, but is at least `limit`: else the
 * device would report only because idle buffers were not posted. Returns 0 or a negative errno. */
static int rxq_make_buffers(btl_ib_rc_rxq_t *queue, uint32_t number, const btl_ib_verbs_t *verbs,
                            uint32_t more)
{
    const size_t bytes = (size_t) more * btl_ib_rc_rx_stride(queue->size);

    if (queue->slabs == BTL_IB_RC_SLABS_MAX) {
        return -ENOMEM;
    }
    struct ibv_mr *mr = btl_ib_verbs_slab_alloc(verbs, bytes, 0);
    if (mr == NULL) {
        return -errno;
    }
    queue->slab[queue->slabs++] = mr;
    rx_add_buffers(&queue->rx, queue->made, more, mr->addr, mr->lkey,
                   btl_ib_rc_wr_id_shared(number));
    queue->made += more;
    const uint32_t low = (uint32_t) ((uint64_t) queue->low * queue->made / queue->num);
    queue->rx.low = btl_ib_verbs_min(low < queue->limit ? queue->limit : low, queue->made - 1);
    return 0;
}

/* Posts new buffers, with all others that are idle, and arms the device. Returns 0 or a negative
 * errno. */
static int rxq_post_made(btl_ib_rc_rxq_t *queue, const btl_ib_verbs_t *verbs)
{
    const int error = btl_ib_verbs_rx_pool_post(&queue->rx.pool);

    if (queue->made == queue->num) {
        rxq_stop_growing(queue);
    }
    if (error != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_post_srq_recv", error);
    }
    rxq_arm(queue);
    return 0;
}

static int rxq_open_shared(btl_ib_rc_rxqs_t *rxqs, uint32_t number, const btl_ib_verbs_t *verbs,
                           uint32_t init)
{
    btl_ib_rc_rxq_t *queue = &rxqs->queue[number];
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = queue->num, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(verbs->pd, &attr);
    int error;

    if (srq == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_create_srq", errno);
    }
    error = rx_init(&queue->rx, NULL, queue->num, queue->size, 0);
    btl_ib_verbs_rx_pool_attach(&queue->rx.pool, NULL, srq);
    error = error != 0 ? error : rxq_make_buffers(queue, number, verbs, init);
    error = error != 0 ? error : rxq_post_made(queue, verbs);
    if (error == 0 && !queue->full && !queue->armed) {
        BTL_IB_VERBS_LOG(verbs, 1,
                         "%s: the device does not tell when queue %u runs low: it has "
                         "all its buffers at once",
                         verbs->base.name, number + 1);
        error = rxq_make_buffers(queue, number, verbs, queue->num - queue->made);
        error = error != 0 ? error : rxq_post_made(queue, verbs);
    }
    return error;
}

void btl_ib_rc_plan_rxqs(btl_ib_rc_rxqs_t *rxqs, const btl_ib_open_params_t *open)
{
    rxqs->count = open->queue_count;
    for (uint32_t i = 0; i < open->queue_count; i++) {
        rxqs->queue[i].size = open->queue[i].size;
        rxqs->queue[i].shared = open->queue[i].shared;
    }
}

uint32_t btl_ib_rc_rxqs_find(const btl_ib_rc_rxqs_t *rxqs, const struct ibv_srq *srq)
{
    uint32_t i = 0;

    while (i < rxqs->count && rxqs->queue[i].rx.pool.srq != srq) {
        i++;
    }
    return i;
}

int btl_ib_rc_rxqs_ran_low(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_t *verbs,
                           const struct ibv_srq *srq)
{
    const uint32_t number = btl_ib_rc_rxqs_find(rxqs, srq);
    btl_ib_rc_rxq_t *queue = &rxqs->queue[number];

    if (number == rxqs->count || queue->limit == 0) {
        return 0;
    }
    queue->armed = false;
    if (queue->full) { /* the report says that none is left */
        if (queue->emptied++ == 0) {
            BTL_IB_VERBS_LOG(verbs, 1,
                             "%s: queue %u, of all peers, had none of its %u buffers left: what "
                             "comes then is refused (RNR) and sent again. More of them (num in "
                             "btl_ib_receive_queues), or less on the way from each peer "
                             "(max_pending_sends), would help",
                             verbs->base.name, number + 1, queue->made);
        }
        return 0;
    }
    queue->doubled++;
    if (rxq_make_buffers(queue, number, verbs,
                         btl_ib_verbs_min(queue->made, queue->num - queue->made))
        != 0) { /* the queue goes on with those that it has */
        rxq_stop_growing(queue);
        return 0;
    }
    const int error = rxq_post_made(queue, verbs);
    rxqs->unposted = rxqs->unposted || error == -ENOMEM;
    return error == -ENOMEM ? 0 : error;
}

/* ---- opening and closing receive queues ---- */

/* Returns how many buffers a shared queue has at first. */
static uint32_t rxq_begins_with(const btl_ib_open_queue_t *wanted)
{
    return wanted->init > 0 && wanted->init < wanted->num && wanted->limit > 0 ? wanted->init
                                                                               : wanted->num;
}

/* Chooses how many buffers one queue has, and when they are posted. Returns 0, or -EINVAL after
 * logging why. */
static int rxq_plan(btl_ib_rc_rxqs_t *rxqs, uint32_t number, const btl_ib_rc_port_t *port,
                    const btl_ib_open_queue_t *wanted)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    const uint32_t most =
        (uint32_t) (wanted->shared ? verbs->device.max_srq_wr : verbs->device.max_qp_wr);
    const uint64_t extra = wanted->shared ? 0 : btl_ib_rc_rx_own(wanted) - wanted->num;
    const uint64_t num = wanted->num + extra;
    const uint32_t low = wanted->low > 0 ? wanted->low : wanted->num / 2;

    if (wanted->shared && port->iwarp) {
        BTL_IB_VERBS_LOG(verbs, 1,
                         "%s: queue %u is shared (S), and an iWARP connection ends when no buffer "
                         "is left: only queues of each peer (P) are safe",
                         verbs->base.name, number + 1);
        return -EINVAL;
    }
    if (num > most) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: queue %u has %u buffers, the device takes %u",
                         verbs->base.name, number + 1, wanted->num + wanted->reserve, most);
        return -EINVAL;
    }
    rxqs->queue[number] = (btl_ib_rc_rxq_t){
        .size = wanted->size,
        .num = (uint32_t) num,
        .low = (uint32_t) (btl_ib_verbs_min(low, wanted->num - 1) + extra),
        .window = wanted->window > 0 ? wanted->window : low / 2,
        .reserve = wanted->shared ? 0 : wanted->reserve,
        .shared = wanted->shared,
        .limit = rxq_begins_with(wanted) < wanted->num ? wanted->limit : EMPTY,
    };
    return 0;
}

int btl_ib_rc_rxqs_open(btl_ib_rc_rxqs_t *rxqs, const btl_ib_rc_port_t *port,
                        const btl_ib_open_params_t *params)
{
    const btl_ib_open_queue_t only = {
        .size = params->rx_size != 0 ? params->rx_size : port->verbs.base.attr.max_datagram,
        .num = params->rx_depth,
    };
    const btl_ib_open_queue_t *wanted = params->queue_count > 0 ? params->queue : &only;
    int error = 0;

    rxqs->count = params->queue_count > 0 ? params->queue_count : 1;
    for (uint32_t i = 0; i < rxqs->count && error == 0; i++) {
        error = rxq_plan(rxqs, i, port, &wanted[i]);
        rxqs->any_shared = rxqs->any_shared || rxqs->queue[i].shared;
    }
    for (uint32_t i = 0; i < rxqs->count && error == 0; i++) {
        error = rxqs->queue[i].shared
                    ? rxq_open_shared(rxqs, i, &port->verbs, rxq_begins_with(&wanted[i]))
                    : 0;
    }
    return error;
}

uint64_t btl_ib_rc_rxqs_emptied(const btl_ib_rc_rxqs_t *rxqs)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < rxqs->count; i++) {
        sum += rxqs->queue[i].emptied;
    }
    return sum;
}

uint32_t btl_ib_rc_rxqs_shared(const btl_ib_rc_rxqs_t *rxqs)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < rxqs->count; i++) {
        sum += rxqs->queue[i].shared ? rxqs->queue[i].num : 0;
    }
    return sum;
}

uint32_t btl_ib_rc_rxqs_depth(const btl_ib_rc_rxqs_t *rxqs, uint32_t size)
{
    uint32_t i = 0;

    while (i + 1 < rxqs->count && rxqs->queue[i].size < size) {
        i++;
    }
    return rxqs->queue[i].shared ? rxqs->queue[i].num : UINT32_MAX;
}

void btl_ib_rc_rxqs_stop(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_t *verbs)
{
    for (uint32_t i = 0; i < rxqs->count; i++) {
        const btl_ib_rc_rxq_t *queue = &rxqs->queue[i];
        btl_ib_verbs_rx_pool_t *pool = &rxqs->queue[i].rx.pool;
        if (queue->refills > 0 || pool->srq != NULL) {
            BTL_IB_VERBS_LOG(verbs, 10,
                             "%s: queue %u (%s): %u buffers, posted again %" PRIu64 " by %" PRIu64
                             " calls, doubled %u times, empty %" PRIu64 " times",
                             verbs->base.name, i + 1, queue->shared ? "S" : "P",
                             queue->shared ? queue->made : queue->num, queue->refilled,
                             queue->refills, queue->doubled, queue->emptied);
            rxqs->queue[i].refills = 0;
            rxqs->queue[i].doubled = 0;
        }
        if (pool->srq != NULL) {
            (void) ibv_destroy_srq(pool->srq);
            btl_ib_verbs_rx_pool_attach(pool, NULL, NULL);
        }
    }
}

void btl_ib_rc_rxqs_free(btl_ib_rc_rxqs_t *rxqs)
{
    for (uint32_t i = 0; i < rxqs->count; i++) {
        free(rxqs->queue[i].rx.buffer);
        while (rxqs->queue[i].slabs > 0) {
            btl_ib_verbs_slab_free(rxqs->queue[i].slab[--rxqs->queue[i].slabs]);
        }
    }
}

/* ---- send queue ---- */

enum { HELD_MAX = 64 }; /* sends that may hold memory of the engine; the next batch ends them */

void btl_ib_rc_sq_close(btl_ib_rc_sq_t *sq)
{
    sq->all->held -= sq->held;
    sq->held = 0;
}

/* Notes a request that was posted. */
static inline void sq_note(btl_ib_rc_sq_t *sq, const struct ibv_send_wr *wr, void *context)
{
    btl_ib_verbs_send_ring_post(&sq->ring, context);
    if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) {
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
    wr->send_flags |= btl_ib_rc_sq_signaled(sq, sq->ring.posted);
    const int error = ibv_post_send(sq->qp, wr, &bad);
    if (error == 0) {
        sq_note(sq, wr, NULL);
    }
    return error;
}

int btl_ib_rc_sq_post_batch(btl_ib_rc_sq_t *sq, const btl_ib_tx_t *txs, int n, int *error)
{
    struct ibv_send_wr *wr = sq->all->wr;
    struct ibv_send_wr *bad = NULL;

    wr[n - 1].next = NULL;
    wr[n - 1].send_flags |= sq->all->held > HELD_MAX ? IBV_SEND_SIGNALED : 0u;
    *error = ibv_post_send(sq->qp, wr, &bad);
    const int taken = *error == 0 ? n : bad != NULL ? (int) (bad - wr) : 0;
    for (int i = 0; i < taken; i++) {
        sq_note(sq, &wr[i], txs[i].size <= sq->inline_size ? NULL : txs[i].context);
    }
    return taken;
}
