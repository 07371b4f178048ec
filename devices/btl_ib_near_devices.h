/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The devices that are near to this process, of those that could be used. */

#ifndef BTL_IB_NEAR_DEVICES_H
#define BTL_IB_NEAR_DEVICES_H

#include "btl_ib_params.h"
#include "btl_ib_rejected_devices.h"
#include "btl_ib_topology.h"
#include "transport.h"

/* So many devices have a rail from the beginning, at most: further places are for more devices, and
 * for other addresses, which stand by. */
#define BTL_IB_FIRST_RAILS_MAX 16

typedef struct btl_ib_near_devices {
    const btl_ib_params_t *params;
    btl_ib_rejected_devices_t *rejected; /* those that are not used are added */
    btl_ib_topology_t topology;
    bool looked; /* for the topology, once it was wanted */
} btl_ib_near_devices_t;

void btl_ib_near_devices_init(btl_ib_near_devices_t *near, const btl_ib_params_t *params,
                              btl_ib_rejected_devices_t *rejected);
void btl_ib_near_devices_fini(btl_ib_near_devices_t *near);

/* Put those of `list` that are to be used to its front, in order, and the others behind them, as
 * btl_ib_locality and btl_ib_max_btls say. Returns how many are used. */
int btl_ib_near_devices_choose(btl_ib_near_devices_t *near, btl_ib_device_t *list, int count);

/* The NUMA node of a device; -1: unknown, or near to several. */
int btl_ib_near_devices_node(btl_ib_near_devices_t *near, const btl_ib_device_t *device);

#endif
