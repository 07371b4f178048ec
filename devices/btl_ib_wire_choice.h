/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which wire of a transport that has two (btl_ib_wire): rc, whose connections cost queue pairs and memory for each
 * peer, or ud. No OPAL in here, so that it can be tested by itself.
 *
 * Processes that are to talk to each other must choose alike, and each chooses before it hears of any other. So what
 * counts is what they have in common: parameters, the number of places of the runtime, and the kind of device. How
 * many processes a host runs is not among them.
 */

#ifndef BTL_IB_WIRES_H
#define BTL_IB_WIRES_H

#include <stdbool.h>
#include <stdint.h>

#define BTL_IB_WIRES_TRIES 3

/* One look at the devices. */
typedef struct btl_ib_wires_try {
    const char *wire; /* "rc" or "ud" */
    bool sized;       /* only devices that have connections for all processes */
} btl_ib_wires_try_t;

/*
 * What to look for, one after the other until there is a device. `wire` is btl_ib_wire, "auto", "ud" or "rc";
 * `processes` the places of the runtime, 0: not known; `rc_max_peers` how many of them rc is for. Returns how many of
 * `tries` are set, at least 1.
 */
int btl_ib_wires_plan(const char *wire, uint32_t processes, uint32_t rc_max_peers,
                      btl_ib_wires_try_t tries[BTL_IB_WIRES_TRIES]);

/*
 * Does a device with room for `connections_max` connections (0: it needs none) have those that so many processes with
 * so many queues may need of it? At worst all of them are on one host, and each speaks to each, itself included, over
 * each queue, and by one connection more for operations on memory.
 */
bool btl_ib_wires_suffices(uint32_t connections_max, uint32_t processes, uint32_t queues);

#endif
