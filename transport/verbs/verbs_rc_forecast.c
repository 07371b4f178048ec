/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_forecast.h"

#include "verbs_rc_cm.h"

#include <stdlib.h>

/* Adds what the connections of so many peers for one queue take. */
static void estimate_own(const btl_ib_open_queue_t *queue, const btl_ib_rc_eagers_t *eagers,
                         uint32_t number, uint32_t depth, uint32_t peers,
                         btl_ib_memory_estimate_t *estimate)
{
    const uint32_t count = queue->shared ? 0 : (uint32_t) btl_ib_rc_rx_own(queue);
    const uint64_t mapped = btl_ib_estimate_pages(
        btl_ib_rc_conn_mapped(eagers, (uint8_t) number, count, queue->size), btl_ib_verbs_page());
    const uint64_t each = mapped + btl_ib_rc_conn_heap(depth, count);

    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, peers * each, 0,
                        "queue %u: connections, %u buffers of %u bytes", number + 1, count,
                        queue->size);
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_DEVICE,
                        2 * (uint64_t) BTL_IB_VERBS_LINE * peers * (depth + count), 0,
                        "queue %u: queue pairs, completions", number + 1);
}

/* Adds what a queue that all peers share takes. */
static void estimate_shared(const btl_ib_open_queue_t *queue, uint32_t number,
                            btl_ib_memory_estimate_t *estimate)
{
    const bool grows = queue->init > 0 && queue->init < queue->num && queue->limit > 0;
    const uint64_t stride = btl_ib_rc_rx_stride(queue->size);
    const uint64_t requests = queue->num * sizeof(btl_ib_verbs_rx_buffer_t);

    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        requests + (grows ? queue->init : queue->num) * stride,
                        requests + queue->num * stride, "queue %u: shared buffers of %u bytes",
                        number + 1, queue->size);
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_DEVICE,
                        2 * (uint64_t) BTL_IB_VERBS_LINE * queue->num, 0,
                        "queue %u: shared receive queue", number + 1);
}

void btl_ib_rc_memory_estimate(const btl_ib_open_params_t *open,
                               const btl_ib_transport_attr_t *attr, uint32_t peers,
                               btl_ib_memory_estimate_t *estimate)
{
    struct {
        btl_ib_rc_port_t port;
        btl_ib_rc_eagers_t eagers;
        btl_ib_rc_rxqs_t rxqs;
    } *rc = calloc(1, sizeof(*rc)); /* not on a stack that may be short */
    const uint32_t rdma_peers = btl_ib_rc_conns_at_once(&open->rc, BTL_IB_RC_RDMA_CHANNEL, peers);
    uint64_t channels = 0;

    if (rc == NULL) {
        return;
    }
    rc->port.verbs.base.attr.inline_size = btl_ib_verbs_inline_wanted(open);
    btl_ib_rc_plan_bounces(&rc->port, &open->rc);
    btl_ib_rc_plan_send_depths(&rc->port, open,
                               attr->queue_max > 0 ? attr->queue_max : (uint32_t) INT32_MAX);
    btl_ib_rc_plan_rxqs(&rc->rxqs, open);
    btl_ib_rc_eagers_plan(&rc->eagers, &rc->port, &rc->rxqs, &open->rc);
    const bool copies = peers > 0 && rc->eagers.peers > 0;
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        sizeof(btl_ib_rc_t) + (copies ? btl_ib_rc_eagers_copied(&rc->eagers) : 0),
                        0, "transport");
    for (uint32_t i = 0; i < open->queue_count; i++) {
        if (open->queue[i].shared) {
            estimate_shared(&open->queue[i], i, estimate);
        }
        const uint32_t connected = btl_ib_rc_conns_at_once(&open->rc, i, peers);
        estimate_own(&open->queue[i], &rc->eagers, i, rc->port.channel_tx_depth[i], connected,
                     estimate);
        channels += connected;
    }
    btl_ib_estimate_queues(estimate, channels + (attr->rdma ? rdma_peers : 0), 0);
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        peers * sizeof(btl_ib_rc_peer_t)
                            + btl_ib_addr_table_places(peers) * 2 * sizeof(void *)
                            + btl_ib_rc_conns_slots(channels),
                        0, "peers");
    if (attr->rdma) {
        btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, 0,
                            btl_ib_rc_conns_rdma_bytes(&rc->port, rdma_peers),
                            "connections for operations on memory");
    }
    free(rc);
}
