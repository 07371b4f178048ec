/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which of several devices a process uses: where they are, how far from its processors
 * (btl_ib_locality), and how many (btl_ib_max_btls). No OPAL in here, so that it can be tested by
 * itself.
 *
 * Processes that are to talk to each other must have a network in common, and each chooses before
 * it hears of any other. So devices compete only with others on their network, and a limit is spent
 * on networks by turns.
 */

#ifndef BTL_IB_LOCALITY_H
#define BTL_IB_LOCALITY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct btl_ib_candidate {
    uint32_t distance;  /* 0: near, or nobody knows */
    uint32_t network;   /* equal: they lead to the same */
    uint32_t bandwidth; /* Mbit/s */
} btl_ib_candidate_t;

typedef struct btl_ib_locality_rule {
    bool ranked;       /* near devices come first; else distances do not count */
    bool near_only;    /* and farther ones are not used where a near one does as well */
    uint32_t max;      /* devices that are used at most, 0: any number */
    uint32_t position; /* of this process among those of its host, from 0 */
} btl_ib_locality_rule_t;

typedef enum btl_ib_locality_verdict {
    BTL_IB_LOCALITY_USED,
    BTL_IB_LOCALITY_FARTHER,  /* than `better` */
    BTL_IB_LOCALITY_OVER_MAX, /* there are enough without it */
} btl_ib_locality_verdict_t;

typedef struct btl_ib_locality_choice {
    uint32_t device; /* its place among the candidates */
    uint32_t better; /* the place of one that is nearer and no slower */
    btl_ib_locality_verdict_t verdict;
} btl_ib_locality_choice_t;

/*
 * Chooses among `count` candidates: `choices` has each once, those that are used first and in the
 * order in which they are to be, the others in the order in which they would be tried. Of devices
 * that are alike, as many as the limit leaves, processes of a host take different ones. Returns how
 * many are used: at least one, if there is any.
 */
uint32_t btl_ib_locality_choose(const btl_ib_candidate_t *candidates, uint32_t count,
                                const btl_ib_locality_rule_t *rule,
                                btl_ib_locality_choice_t *choices);

/* ---- where devices are ---- */

/*
 * Where devices are, and how far from the processors that this process is bound to, by hwloc. Where
 * the component was built without it nothing is known.
 */

/* NUMA nodes of another processor, where the machine does not tell their distance: what firmware
 * says as a rule, with 10 for a node's own memory (ACPI, SLIT). */
#define BTL_IB_DISTANCE_REMOTE 20

/* All zero: nothing is known. */
typedef struct btl_ib_topology {
    void *tree;  /* hwloc_topology_t */
    void *bound; /* hwloc_bitmap_t: processors that this process may run on; NULL: any */
    bool own;    /* the tree was loaded here */
} btl_ib_topology_t;

/* The place of a device. */
typedef struct btl_ib_device_place {
    int node;          /* the NUMA node, as the system numbers it; -1: unknown, or of several */
    uint32_t distance; /* of its NUMA node from the nearest of the process; 0: it is near, or
                        * nobody knows */
} btl_ib_device_place_t;

/*
 * Opens the topology. `shared`: one that another library loaded and keeps (hwloc_topology_t; NULL:
 * none). It is used if it has devices, and all processors: what is not allowed to this process is
 * needed, too, to tell what is far. Else one is loaded, which takes some milliseconds. Returns why
 * there is none (a literal), or NULL.
 */
const char *btl_ib_topology_open(btl_ib_topology_t *topology, void *shared);
void btl_ib_topology_close(btl_ib_topology_t *topology);

/*
 * Finds the device `name`, or, if there is none of that name, the network interface `interface`
 * ("": none). A suffix behind ':' (a port) or '-' (of libfabric's domains) does not count.
 */
btl_ib_device_place_t btl_ib_topology_find(const btl_ib_topology_t *topology, const char *name,
                                           const char *interface);

#endif
