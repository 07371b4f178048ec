/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_rx.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs_diagnostics.h"
#include "verbs_memory.h"
#include "verbs_rc_wr_id.h"

int btl_ib_rc_rx_make(btl_ib_rc_rx_t *rx, void *owner, uint32_t count, uint32_t size, uint32_t lazy,
                      uint8_t *memory, uint32_t key, uint64_t id)
{
    const uint32_t stride = btl_ib_rc_rx_stride(size);

    btl_ib_verbs_rx_pool_init(&rx->pool, owner, lazy);
    rx->buffer = calloc(count, sizeof(*rx->buffer));
    if (rx->buffer == NULL) {
        return -ENOMEM;
    }
    rx->count = count;
    rx->size = size;
    for (uint32_t i = 0; i < count; i++) {
        btl_ib_verbs_rx_pool_add(&rx->pool, &rx->buffer[i], id + i, memory + (size_t) i * stride,
                                 size, key);
    }
    return 0;
}

static int open_shared(btl_ib_rc_rxqs_t *rxqs, uint32_t number, const btl_ib_verbs_t *verbs)
{
    btl_ib_rc_rxq_t *queue = &rxqs->queue[number];
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = queue->num, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(verbs->pd, &attr);

    if (srq == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_create_srq", errno);
    }
    queue->memory = btl_ib_verbs_slab_alloc(
        verbs, (size_t) queue->num * btl_ib_rc_rx_stride(queue->size), 0, &queue->mr);
    if (queue->memory == NULL
        || btl_ib_rc_rx_make(&queue->rx, NULL, queue->num, queue->size, 0, queue->memory,
                             queue->mr->lkey, btl_ib_rc_wr_id_shared(number))
               != 0) {
        (void) ibv_destroy_srq(srq);
        return -ENOMEM;
    }
    btl_ib_verbs_rx_pool_attach(&queue->rx.pool, NULL, srq);
    const int error = btl_ib_verbs_rx_pool_post(&queue->rx.pool);
    return error == 0 ? 0 : btl_ib_verbs_failed(verbs, "posting receive buffers", error);
}

/* Size one queue. Returns 0 or -EINVAL. */
static int plan(btl_ib_rc_rxqs_t *rxqs, uint32_t number, const btl_ib_rc_port_t *port,
                const btl_ib_open_queue_t *wanted)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    const uint32_t limit =
        (uint32_t) (wanted->shared ? verbs->device.max_srq_wr : verbs->device.max_qp_wr);
    /* One more for the message that opens a connection. */
    const uint64_t num = (uint64_t) wanted->num + wanted->reserve + 1;

    if (wanted->shared && port->iwarp) {
        BTL_IB_VERBS_LOG(verbs, 1,
                         "%s: queue %u is shared (S), and an iWARP connection ends when no buffer "
                         "is left: only queues of each peer (P) are safe",
                         verbs->base.name, number + 1);
        return -EINVAL;
    }
    if (num > limit) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: queue %u has %u buffers, the device takes %u",
                         verbs->base.name, number + 1, wanted->num + wanted->reserve, limit);
        return -EINVAL;
    }
    rxqs->queue[number] =
        (btl_ib_rc_rxq_t){.size = wanted->size, .num = (uint32_t) num, .shared = wanted->shared};
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
        error = plan(rxqs, i, port, &wanted[i]);
    }
    for (uint32_t i = 0; i < rxqs->count && error == 0; i++) {
        error = rxqs->queue[i].shared ? open_shared(rxqs, i, &port->verbs) : 0;
    }
    return error;
}

void btl_ib_rc_rxqs_stop(btl_ib_rc_rxqs_t *rxqs)
{
    for (uint32_t i = 0; i < rxqs->count; i++) {
        btl_ib_verbs_rx_pool_t *pool = &rxqs->queue[i].rx.pool;
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
        if (rxqs->queue[i].memory != NULL) {
            btl_ib_verbs_slab_free(rxqs->queue[i].memory, rxqs->queue[i].mr);
        }
    }
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

bool btl_ib_rc_rxqs_has(const btl_ib_rc_rxqs_t *rxqs, const struct ibv_srq *srq)
{
    uint32_t i = 0;

    while (i < rxqs->count && rxqs->queue[i].rx.pool.srq != srq) {
        i++;
    }
    return i < rxqs->count;
}
