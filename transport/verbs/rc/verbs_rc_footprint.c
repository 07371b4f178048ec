/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_footprint.h"

#include <stdlib.h>

#include "addr_table.h"
#include "footprint.h"
#include "verbs_memory.h"
#include "verbs_open.h"
#include "verbs_rc_rail.h"

/* What each peer's connection for one queue takes. */
static void add_own(const btl_ib_open_queue_t *queue, const btl_ib_rc_eagers_t *eagers,
                    uint32_t number, uint32_t depth, uint32_t peers,
                    btl_ib_footprint_t *footprint)
{
    const uint32_t count = queue->shared ? 0 : (uint32_t) btl_ib_rc_rx_own(queue);
    const uint64_t mapped = btl_ib_footprint_pages(
        btl_ib_rc_conn_mapped(eagers, (uint8_t) number, count, queue->size), btl_ib_verbs_page());
    const uint64_t each = mapped + btl_ib_rc_conn_heap(depth, count);

    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS, peers * each, 0,
                         "queue %u: connections, %u buffers of %u bytes", number + 1, count,
                         queue->size);
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_DEVICE,
                         2 * (uint64_t) BTL_IB_VERBS_LINE * peers * (depth + count), 0,
                         "queue %u: queue pairs, completions", number + 1);
}

/* What a queue that all peers share takes. */
static void add_shared(const btl_ib_open_queue_t *queue, uint32_t number,
                       btl_ib_footprint_t *footprint)
{
    const bool grows = queue->init > 0 && queue->init < queue->num && queue->limit > 0;
    const uint64_t stride = btl_ib_rc_rx_stride(queue->size);
    const uint64_t requests = queue->num * sizeof(btl_ib_verbs_rx_buffer_t);

    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS,
                         requests + (grows ? queue->init : queue->num) * stride,
                         requests + queue->num * stride, "queue %u: shared buffers of %u bytes",
                         number + 1, queue->size);
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_DEVICE,
                         2 * (uint64_t) BTL_IB_VERBS_LINE * queue->num, 0,
                         "queue %u: shared receive queue", number + 1);
}

void btl_ib_rc_footprint(const btl_ib_open_params_t *open, const btl_ib_transport_attr_t *attr,
                         uint32_t peers, btl_ib_footprint_t *footprint)
{
    struct {
        btl_ib_rc_port_t port;
        btl_ib_rc_eagers_t eagers;
    } *rc = calloc(1, sizeof(*rc)); /* not on a stack that may be short */
    const btl_ib_rc_rxq_t first = {.size = open->queue[0].size, .shared = open->queue[0].shared};
    const uint64_t channels = (uint64_t) peers * open->queue_count;

    if (rc == NULL) {
        return;
    }
    rc->port.verbs.base.attr.inline_size = btl_ib_verbs_inline_wanted(open);
    rc->port.tx_depth =
        btl_ib_rc_send_depth(open, attr->queue_max > 0 ? attr->queue_max : INT32_MAX);
    btl_ib_rc_eagers_plan(&rc->eagers, &rc->port, &first, &open->rc);
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS, sizeof(btl_ib_rc_t), 0, "transport");
    for (uint32_t i = 0; i < open->queue_count; i++) {
        if (open->queue[i].shared) {
            add_shared(&open->queue[i], i, footprint);
        }
        add_own(&open->queue[i], &rc->eagers, i, rc->port.tx_depth, peers, footprint);
    }
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS,
                         peers * sizeof(btl_ib_rc_peer_t)
                             + btl_ib_addr_table_places(peers) * 2 * sizeof(void *)
                             + btl_ib_rc_conns_slots(channels),
                         0, "peers");
    if (attr->rdma) {
        btl_ib_footprint_add(
            footprint, BTL_IB_FOOTPRINT_PROCESS, 0,
            peers * btl_ib_rc_conn_rdma_bytes(rc->port.tx_depth, open->rc.bounce_size),
            "connections for operations on memory");
    }
    free(rc);
}
