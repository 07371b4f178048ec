/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Chooses which of several devices a process uses: by their distance from its processors
 * (btl_ib_locality), and at most so many (btl_ib_max_btls). No OPAL in here, so that it can be
 * tested by itself.
 *
 * Processes that talk to each other must have a network in common, and each chooses before it knows
 * of any other. So a device competes only with others on its network, and a limit takes devices
 * from the networks in turn.
 */

#ifndef BTL_IB_LOCALITY_H
#define BTL_IB_LOCALITY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct btl_ib_candidate {
    uint32_t distance;  /* from the processors of this process; 0: near, or not known */
    uint32_t network;   /* devices with equal numbers lead to the same network */
    uint32_t bandwidth; /* Mbit/s */
} btl_ib_candidate_t;

typedef struct btl_ib_locality_rule {
    bool ranked;       /* near devices come first; else distances are ignored */
    bool near_only;    /* farther devices are not used if a nearer one is no slower */
    uint32_t max;      /* at most this many devices are used; 0: any number */
    uint32_t position; /* of this process among those of its host, from 0 */
} btl_ib_locality_rule_t;

typedef enum btl_ib_locality_verdict {
    BTL_IB_LOCALITY_USED,
    BTL_IB_LOCALITY_FARTHER,  /* than `better` */
    BTL_IB_LOCALITY_OVER_MAX, /* there are enough without it */
} btl_ib_locality_verdict_t;

typedef struct btl_ib_locality_choice {
    uint32_t device; /* index of the candidate */
    uint32_t better; /* if FARTHER: index of a candidate that is nearer and no slower */
    btl_ib_locality_verdict_t verdict;
} btl_ib_locality_choice_t;

/*
 * Chooses among `count` candidates. `choices` gets each once: first those that are used, in order
 * of use, then the others, in the order in which they would be tried. If a limit leaves only some
 * of several equal devices, processes of a host take different ones. Returns how many are used: at
 * least one, if there is any.
 */
uint32_t btl_ib_locality_choose(const btl_ib_candidate_t *candidates, uint32_t count,
                                const btl_ib_locality_rule_t *rule,
                                btl_ib_locality_choice_t *choices);

/* ---- where devices are ---- */

/*
 * Finds by hwloc where devices are, and how far from the processors that this process is bound to.
 * Nothing is known if the component was built without hwloc.
 */

/* The distance of another processor's NUMA node, if the machine does not tell it: what firmware
 * usually says, with 10 for a node's own memory (ACPI, SLIT). */
#define BTL_IB_DISTANCE_REMOTE 20

/* All zero: nothing is known. */
typedef struct btl_ib_topology {
    void *tree;  /* hwloc_topology_t */
    void *bound; /* hwloc_bitmap_t: processors that this process may run on; NULL: any */
    bool own;    /* the tree was loaded here */
} btl_ib_topology_t;

/* Where a device is. */
typedef struct btl_ib_device_place {
    int node;          /* the system's number of its NUMA node; -1: unknown, or near to several */
    uint32_t distance; /* of that node from the nearest one of the process; 0: near, or not known */
} btl_ib_device_place_t;

/*
 * Opens the topology. `shared`: one that another library has loaded, and keeps (hwloc_topology_t;
 * NULL: none). It is used if it has devices, and all processors: without those that this process
 * may not use, every device would seem near. Otherwise loads one, which takes some milliseconds.
 * Returns NULL; or a literal that says why there is no topology.
 */
const char *btl_ib_topology_open(btl_ib_topology_t *topology, void *shared);
void btl_ib_topology_close(btl_ib_topology_t *topology);

/*
 * Finds the device `name`; or, if there is none, the network interface `interface` ("": none). A
 * suffix of `name` behind ':' (a port) or '-' (of libfabric's domains) is ignored.
 */
btl_ib_device_place_t btl_ib_topology_find(const btl_ib_topology_t *topology, const char *name,
                                           const char *interface);

#endif
