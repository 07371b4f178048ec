/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What is chosen for a device before it is opened: its wire, and how many receive buffers it
 * has. */

#ifndef BTL_IB_DEVICE_CHOICE_H
#define BTL_IB_DEVICE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_receive_queues.h"
#include "transport.h"

/* ---- wire ---- */

/*
 * Which wire of a transport that has two (btl_ib_wire): rc, whose connections cost queue pairs and
 * memory for each peer, or ud; and whether peers share receive queues there. No OPAL in here, so
 * that it can be tested by itself.
 *
 * Processes that are to talk to each other must choose alike, and each chooses before it hears of
 * any other. So what counts is what they have in common: parameters, the number of slots of the
 * runtime, and the kind of device; not how many processes a host runs.
 */

#define BTL_IB_WIRE_TRIES 3

/* One look at the devices. */
typedef struct btl_ib_wire_try {
    const char *wire; /* "rc" or "ud" */
    bool sized;       /* only devices that have connections for all processes */
} btl_ib_wire_try_t;

/*
 * What to look for, one after the other until there is a device. `wire` is btl_ib_wire: "auto",
 * "ud" or "rc". `processes`: slots of the runtime, 0 if not known. `rc_max_peers`: rc is for at
 * most so many of them. Returns how many of `tries` are set, at least 1.
 */
int btl_ib_wire_plan(const char *wire, uint32_t processes, uint32_t rc_max_peers,
                     btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES]);

/*
 * Are `connections_max` connections of a device (0: it needs none) enough for so many processes
 * with so many queues, and so many rails over each port? At worst all of them are on one host, and
 * each talks to each, itself included, over each queue, and by one more connection for operations
 * on memory, of each rail.
 */
bool btl_ib_wire_suffices(uint32_t connections_max, uint32_t processes, uint32_t queues,
                          uint32_t rails);

/* Shall the default queues be those that all peers share? From `srq_min_peers` processes on, 0:
 * never. */
bool btl_ib_wire_shares(uint32_t processes, uint32_t srq_min_peers);

/* ---- receive buffers ---- */

/* How many receive buffers a transport is to post for the queues of a device. */

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
