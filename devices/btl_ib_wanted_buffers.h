/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How many receive buffers a transport is to post for the queues of a device. */

#ifndef BTL_IB_WANTED_BUFFERS_H
#define BTL_IB_WANTED_BUFFERS_H

#include "btl_ib_queues.h"
#include "transport.h"

/* Of btl_ib_open_params_t. */
typedef struct btl_ib_wanted_buffers {
    uint32_t rx_depth;
    btl_ib_open_queue_t queue[BTL_IB_OPEN_QUEUES_MAX];
} btl_ib_wanted_buffers_t;

/* As many as the queues say, or each queue its share of `rx_depth` if that is not 0. Where a device
 * has one pool for all peers, each adds to a queue of type P what a new one may send:
 * `credit_init`, 0: the least that the engine grants; but no more than the queue's num. */
btl_ib_wanted_buffers_t btl_ib_wanted_buffers(const btl_ib_queue_table_t *table, uint32_t rx_depth,
                                              uint32_t credit_init);

#endif
