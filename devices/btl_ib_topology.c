/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_topology.h"

#include <stddef.h>

#ifdef BTL_IB_HAVE_HWLOC

#include <string.h>

#include "btl_ib_hwloc.h"

/* ---- the tree ---- */

static bool is_network(const struct hwloc_obj *object)
{
    return object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK
           || object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
}

static bool has_devices(hwloc_topology_t tree)
{
    hwloc_obj_t object = NULL;

    do {
        object = hwloc_get_next_osdev(tree, object);
    } while (object != NULL && !is_network(object));
    return object != NULL;
}

/* Another version of hwloc may have made it. Where processors are left out, devices that are near
 * to those seem to be near to all. */
static bool is_complete(hwloc_topology_t tree)
{
    return hwloc_topology_abi_check(tree) == 0
           && hwloc_bitmap_isequal(hwloc_topology_get_topology_cpuset(tree),
                                   hwloc_topology_get_complete_cpuset(tree))
           && has_devices(tree);
}

static hwloc_topology_t load(void)
{
    hwloc_topology_t tree;

    if (hwloc_topology_init(&tree) != 0) {
        return NULL;
    }
    if (hwloc_topology_set_flags(tree, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0
        || hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0
        || hwloc_topology_load(tree) != 0) {
        hwloc_topology_destroy(tree);
        return NULL;
    }
    return tree;
}

const char *btl_ib_topology_open(btl_ib_topology_t *topology, void *shared)
{
    hwloc_bitmap_t bound;

    *topology = (btl_ib_topology_t){.tree = NULL};
    if (!btl_ib_hwloc_load(NULL, 0)) {
        return "hwloc cannot be loaded";
    }
    topology->tree = shared;
    if (shared == NULL || !is_complete(shared)) {
        topology->tree = load();
        topology->own = true;
    }
    if (topology->tree == NULL) {
        return "hwloc cannot read the topology of this host";
    }
    bound = hwloc_bitmap_alloc();
    if (bound == NULL || hwloc_get_cpubind(topology->tree, bound, HWLOC_CPUBIND_PROCESS) != 0) {
        hwloc_bitmap_free(bound);
        bound = NULL;
    }
    topology->bound = bound;
    return NULL;
}

void btl_ib_topology_close(btl_ib_topology_t *topology)
{
    if (topology->bound != NULL) {
        hwloc_bitmap_free(topology->bound);
    }
    if (topology->own && topology->tree != NULL) {
        hwloc_topology_destroy(topology->tree);
    }
    *topology = (btl_ib_topology_t){.tree = NULL};
}

/* ---- devices ---- */

static bool name_fits(const char *name, const char *object)
{
    const size_t len = strlen(object);

    return strncmp(name, object, len) == 0 && memchr(":-", name[len], sizeof(":-")) != NULL;
}

/* The object of a device. Of those whose names fit ("rdma0" and "rdma0-1") the longest. */
static hwloc_obj_t find(hwloc_topology_t tree, const char *name)
{
    hwloc_obj_t found = NULL;
    hwloc_obj_t object = NULL;

    while ((object = hwloc_get_next_osdev(tree, object)) != NULL) {
        if (is_network(object) && object->name != NULL && name_fits(name, object->name)
            && (found == NULL || strlen(object->name) > strlen(found->name))) {
            found = object;
        }
    }
    return found;
}

/* Between the nodes of two sets, the shortest way. */
static uint32_t between(hwloc_topology_t tree, hwloc_const_nodeset_t from, hwloc_const_nodeset_t to)
{
    struct hwloc_distances_s *matrix = NULL;
    unsigned count = 1;
    uint32_t shortest = UINT32_MAX;

    if (hwloc_distances_get_by_type(tree, HWLOC_OBJ_NUMANODE, &count, &matrix,
                                    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0)
            != 0
        || count == 0) {
        return BTL_IB_DISTANCE_REMOTE;
    }
    for (unsigned i = 0; i < matrix->nbobjs; ++i) {
        for (unsigned j = 0; j < matrix->nbobjs; ++j) {
            const uint64_t value = matrix->values[(size_t) i * matrix->nbobjs + j];

            if (hwloc_bitmap_isset(from, matrix->objs[i]->os_index)
                && hwloc_bitmap_isset(to, matrix->objs[j]->os_index) && value < shortest) {
                shortest = (uint32_t) value;
            }
        }
    }
    hwloc_distances_release(tree, matrix);
    return shortest == UINT32_MAX ? BTL_IB_DISTANCE_REMOTE : shortest;
}

/* How far from those of the processors `bound` are an object's nodes? */
static uint32_t distance(hwloc_topology_t tree, hwloc_const_bitmap_t bound, hwloc_obj_t object)
{
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
    uint32_t result = 0;

    if (nodes != NULL && hwloc_cpuset_to_nodeset(tree, bound, nodes) == 0
        && !hwloc_bitmap_intersects(nodes, object->nodeset)) {
        result = between(tree, nodes, object->nodeset);
    }
    hwloc_bitmap_free(nodes);
    return result;
}

btl_ib_device_place_t btl_ib_topology_find(const btl_ib_topology_t *topology, const char *name,
                                           const char *interface)
{
    btl_ib_device_place_t place = {.node = -1};
    hwloc_obj_t object;

    if (topology->tree == NULL) {
        return place;
    }
    object = find(topology->tree, name);
    if (object == NULL && interface[0] != '\0') {
        object = find(topology->tree, interface);
    }
    if (object == NULL) {
        return place;
    }
    object = hwloc_get_non_io_ancestor_obj(topology->tree, object);
    if (hwloc_bitmap_weight(object->nodeset) == 1) {
        place.node = hwloc_bitmap_first(object->nodeset);
    }
    if (topology->bound != NULL) {
        place.distance = distance(topology->tree, topology->bound, object);
    }
    return place;
}

#else

const char *btl_ib_topology_open(btl_ib_topology_t *topology, void *shared)
{
    (void) shared;
    *topology = (btl_ib_topology_t){.tree = NULL};
    return "ib was built without hwloc";
}

void btl_ib_topology_close(btl_ib_topology_t *topology)
{
    (void) topology;
}

btl_ib_device_place_t btl_ib_topology_find(const btl_ib_topology_t *topology, const char *name,
                                           const char *interface)
{
    (void) topology;
    (void) name;
    (void) interface;
    return (btl_ib_device_place_t){.node = -1};
}

#endif
