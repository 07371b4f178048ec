/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Where devices are, and how far from the processors that this process is bound to, by hwloc. Where
 * the component was built without it nothing is known. No OPAL in here, so that it can be tested by
 * itself.
 */

#ifndef BTL_IB_TOPOLOGY_H
#define BTL_IB_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

/* NUMA nodes of another processor, where the machine does not tell their distance: what firmware
 * says as a rule, with 10 for a node's own memory (ACPI, SLIT). */
#define BTL_IB_DISTANCE_REMOTE 20

/* All zero: nothing is known. */
typedef struct btl_ib_topology {
    void *tree;  /* hwloc_topology_t */
    void *bound; /* hwloc_bitmap_t: processors that this process may run on; NULL: any */
    bool own;    /* the tree was loaded here */
} btl_ib_topology_t;

/* Where a device is. */
typedef struct btl_ib_device_place {
    int node;          /* the NUMA node, as the system numbers it; -1: unknown, or of several */
    uint32_t distance; /* of its NUMA node from the nearest of the process; 0: it is near, or
                        * nobody knows */
} btl_ib_device_place_t;

/*
 * `shared`: a topology of somebody else's (hwloc_topology_t; NULL: none), which stays his. It is
 * used if it has devices, and all processors: what is not allowed to this process is
 * needed, too, to tell what is far. Else one is loaded, which takes some milliseconds. Returns why
 * there is none (a literal), or NULL.
 */
const char *btl_ib_topology_open(btl_ib_topology_t *topology, void *shared);
void btl_ib_topology_close(btl_ib_topology_t *topology);

/*
 * Where is the device `name`, or, if there is none of that name, the network interface `interface`
 * ("": none)? A suffix behind ':' (a port) or '-' (of libfabric's domains) does not count.
 */
btl_ib_device_place_t btl_ib_topology_find(const btl_ib_topology_t *topology, const char *name,
                                           const char *interface);

#endif
