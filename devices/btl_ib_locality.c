/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_locality.h"

#include "btl_ib_library.h"

#include <stddef.h>
#include <string.h>

/* Data that the steps share. */
typedef struct choosing {
    const btl_ib_candidate_t *candidates;
    const btl_ib_locality_rule_t *rule;
    btl_ib_locality_choice_t *choices; /* choices[i] is about candidate i, until they are sorted */
    uint32_t count;
} choosing_t;

static uint32_t distance(const choosing_t *all, uint32_t i)
{
    return all->rule->ranked ? all->candidates[i].distance : 0;
}

static bool same_network(const choosing_t *all, uint32_t a, uint32_t b)
{
    return all->candidates[a].network == all->candidates[b].network;
}

/* Leaves out devices that are farther than another one on their network that is no slower. */
static void leave_out_farther(choosing_t *all)
{
    for (uint32_t i = 0; i < all->count; ++i) {
        for (uint32_t j = 0; j < all->count; ++j) {
            const uint32_t best = all->choices[i].better;

            if (same_network(all, i, j) && distance(all, j) < distance(all, best)
                && all->candidates[j].bandwidth >= all->candidates[i].bandwidth) {
                all->choices[i].verdict = BTL_IB_LOCALITY_FARTHER;
                all->choices[i].better = j;
            }
        }
    }
}

/* True if a device counts for the limit, within it or over it: it is not FARTHER. */
static bool competes(const choosing_t *all, uint32_t i)
{
    return all->choices[i].verdict != BTL_IB_LOCALITY_FARTHER;
}

static bool are_alike(const choosing_t *all, uint32_t a, uint32_t b)
{
    return same_network(all, a, b) && distance(all, a) == distance(all, b)
           && all->candidates[a].bandwidth == all->candidates[b].bandwidth;
}

/* Returns the place of a device among those that are alike. Each process of a host begins to count
 * at another one. Runtimes number processes socket by socket, or by turns over the sockets: in the
 * second case plain numbers would give all processes of a socket the same one of two devices. */
static uint32_t turn_among_alike(const choosing_t *all, uint32_t device)
{
    const uint32_t position = all->rule->position;
    uint32_t before = 0;
    uint32_t size = 0;

    for (uint32_t i = 0; i < all->count; ++i) {
        if (are_alike(all, i, device)) {
            before += i < device;
            ++size;
        }
    }
    return (before + size - (position + position / size) % size) % size;
}

/* True if, of one network, `a` is taken before `b`. */
static bool comes_first(const choosing_t *all, uint32_t a, uint32_t b)
{
    const btl_ib_candidate_t *first = &all->candidates[a];
    const btl_ib_candidate_t *second = &all->candidates[b];

    if (distance(all, a) != distance(all, b)) {
        return distance(all, a) < distance(all, b);
    }
    if (first->bandwidth != second->bandwidth) {
        return first->bandwidth > second->bandwidth;
    }
    return turn_among_alike(all, a) < turn_among_alike(all, b);
}

/* Returns how many devices of the same network are taken before a device. */
static uint32_t turn_of(const choosing_t *all, uint32_t device)
{
    uint32_t turn = 0;

    for (uint32_t i = 0; i < all->count; ++i) {
        turn += i != device && competes(all, i) && same_network(all, i, device)
                && comes_first(all, i, device);
    }
    return turn;
}

/* Returns how many devices are taken before a device: the first ones of all networks, in the order
 * in which networks were found, come before all second ones, and so on. */
static uint32_t place_of(const choosing_t *all, uint32_t device)
{
    const uint32_t turn = turn_of(all, device);
    uint32_t place = 0;

    for (uint32_t i = 0; i < all->count; ++i) {
        uint32_t other;

        if (i == device || !competes(all, i)) {
            continue;
        }
        other = turn_of(all, i);
        place += other < turn
                 || (other == turn && all->candidates[i].network < all->candidates[device].network);
    }
    return place;
}

/* Keeps as many devices as btl_ib_max_btls allows. */
static void leave_out_over_max(choosing_t *all)
{
    for (uint32_t i = 0; i < all->count; ++i) {
        if (competes(all, i) && place_of(all, i) >= all->rule->max) {
            all->choices[i].verdict = BTL_IB_LOCALITY_OVER_MAX;
        }
    }
}

/* Sorts used devices before others, and near before far; equal ones stay in order. */
static void sort_choices(choosing_t *all)
{
    for (uint32_t i = 1; i < all->count; ++i) {
        const btl_ib_locality_choice_t choice = all->choices[i];
        const bool used = choice.verdict == BTL_IB_LOCALITY_USED;
        uint32_t place = i;

        while (place > 0) {
            const btl_ib_locality_choice_t *before = &all->choices[place - 1];
            const bool before_used = before->verdict == BTL_IB_LOCALITY_USED;

            if (before_used != used
                    ? before_used
                    : distance(all, before->device) <= distance(all, choice.device)) {
                break;
            }
            all->choices[place] = *before;
            --place;
        }
        all->choices[place] = choice;
    }
}

uint32_t btl_ib_locality_choose(const btl_ib_candidate_t *candidates, uint32_t count,
                                const btl_ib_locality_rule_t *rule,
                                btl_ib_locality_choice_t *choices)
{
    choosing_t all = {candidates, rule, choices, count};
    uint32_t used = 0;

    for (uint32_t i = 0; i < count; ++i) {
        choices[i] = (btl_ib_locality_choice_t){.device = i, .better = i};
    }
    if (rule->near_only) {
        leave_out_farther(&all);
    }
    if (rule->max != 0) {
        leave_out_over_max(&all);
    }
    sort_choices(&all);
    while (used < count && choices[used].verdict == BTL_IB_LOCALITY_USED) {
        ++used;
    }
    return used;
}

/* ---- where devices are ---- */

#ifdef BTL_IB_HAVE_HWLOC

/* hwloc, loaded when it is needed. */

#define BTL_IB_HWLOC_CALLS(X)                                                                      \
    X(hwloc_bitmap_t, hwloc_bitmap_alloc, (void), ())                                              \
    X(int, hwloc_bitmap_first, (hwloc_const_bitmap_t bitmap), (bitmap))                            \
    X(void, hwloc_bitmap_free, (hwloc_bitmap_t bitmap), (bitmap))                                  \
    X(int, hwloc_bitmap_intersects, (hwloc_const_bitmap_t bitmap1, hwloc_const_bitmap_t bitmap2),  \
      (bitmap1, bitmap2))                                                                          \
    X(int, hwloc_bitmap_isequal, (hwloc_const_bitmap_t bitmap1, hwloc_const_bitmap_t bitmap2),     \
      (bitmap1, bitmap2))                                                                          \
    X(int, hwloc_bitmap_isset, (hwloc_const_bitmap_t bitmap, unsigned id), (bitmap, id))           \
    X(int, hwloc_bitmap_set, (hwloc_bitmap_t bitmap, unsigned id), (bitmap, id))                   \
    X(int, hwloc_bitmap_weight, (hwloc_const_bitmap_t bitmap), (bitmap))                           \
    X(void, hwloc_bitmap_zero, (hwloc_bitmap_t bitmap), (bitmap))                                  \
    X(int, hwloc_distances_get_by_type,                                                            \
      (hwloc_topology_t topology, hwloc_obj_type_t type, unsigned *nr,                             \
       struct hwloc_distances_s **distances, unsigned long kind, unsigned long flags),             \
      (topology, type, nr, distances, kind, flags))                                                \
    X(void, hwloc_distances_release,                                                               \
      (hwloc_topology_t topology, struct hwloc_distances_s * distances), (topology, distances))    \
    X(int, hwloc_get_cpubind, (hwloc_topology_t topology, hwloc_cpuset_t set, int flags),          \
      (topology, set, flags))                                                                      \
    X(hwloc_obj_t, hwloc_get_obj_by_depth, (hwloc_topology_t topology, int depth, unsigned idx),   \
      (topology, depth, idx))                                                                      \
    X(int, hwloc_get_type_depth, (hwloc_topology_t topology, hwloc_obj_type_t type),               \
      (topology, type))                                                                            \
    X(int, hwloc_topology_abi_check, (hwloc_topology_t topology), (topology))                      \
    X(void, hwloc_topology_destroy, (hwloc_topology_t topology), (topology))                       \
    X(hwloc_const_cpuset_t, hwloc_topology_get_complete_cpuset, (hwloc_topology_t topology),       \
      (topology))                                                                                  \
    X(hwloc_const_cpuset_t, hwloc_topology_get_topology_cpuset, (hwloc_topology_t topology),       \
      (topology))                                                                                  \
    X(int, hwloc_topology_init, (hwloc_topology_t * topologyp), (topologyp))                       \
    X(int, hwloc_topology_load, (hwloc_topology_t topology), (topology))                           \
    X(int, hwloc_topology_set_flags, (hwloc_topology_t topology, unsigned long flags),             \
      (topology, flags))                                                                           \
    X(int, hwloc_topology_set_io_types_filter,                                                     \
      (hwloc_topology_t topology, enum hwloc_type_filter_e filter), (topology, filter))

BTL_IB_HWLOC_CALLS(BTL_IB_LIBRARY_RENAME)

#include <hwloc.h>

static struct {
    BTL_IB_HWLOC_CALLS(BTL_IB_LIBRARY_POINTER)
} calls;

static const char *const names[] = {BTL_IB_HWLOC_CALLS(BTL_IB_LIBRARY_NAME)};

#define PACKAGE "Debian: libhwloc15, Fedora: hwloc-libs"

static btl_ib_library_t library = {
    .file = BTL_IB_HWLOC_FILE,
    .package = PACKAGE,
    .names = names,
    .count = sizeof(names) / sizeof(names[0]),
    .calls = &calls,
};

BTL_IB_HWLOC_CALLS(BTL_IB_LIBRARY_CALL)

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

/* True if a topology can be used: this version of hwloc made it, and nothing is left out. (If it
 * lacked processors, a device that is near to those would seem near to all.) */
static bool is_complete(hwloc_topology_t tree)
{
    return hwloc_topology_abi_check(tree) == 0
           && hwloc_bitmap_isequal(hwloc_topology_get_topology_cpuset(tree),
                                   hwloc_topology_get_complete_cpuset(tree))
           && has_devices(tree);
}

static hwloc_topology_t load_tree(void)
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
    if (!btl_ib_library_load(&library, NULL, 0)) {
        return BTL_IB_HWLOC_FILE " cannot be loaded (" PACKAGE ")";
    }
    topology->tree = shared;
    if (shared == NULL || !is_complete(shared)) {
        topology->tree = load_tree();
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

/* Returns the object of a device. If several names fit ("rdma0" and "rdma0-1"), the longest
 * counts. */
static hwloc_obj_t find_object(hwloc_topology_t tree, const char *name)
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

/* Returns the shortest distance between a node of one set and a node of the other. */
static uint32_t shortest_way(hwloc_topology_t tree, hwloc_const_nodeset_t from,
                             hwloc_const_nodeset_t to)
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

/* Returns how far an object's nodes are from those of the processors `bound`. */
static uint32_t distance_of(hwloc_topology_t tree, hwloc_const_bitmap_t bound, hwloc_obj_t object)
{
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
    uint32_t result = 0;

    if (nodes != NULL && hwloc_cpuset_to_nodeset(tree, bound, nodes) == 0
        && !hwloc_bitmap_intersects(nodes, object->nodeset)) {
        result = shortest_way(tree, nodes, object->nodeset);
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
    object = find_object(topology->tree, name);
    if (object == NULL && interface[0] != '\0') {
        object = find_object(topology->tree, interface);
    }
    if (object == NULL) {
        return place;
    }
    object = hwloc_get_non_io_ancestor_obj(topology->tree, object);
    if (hwloc_bitmap_weight(object->nodeset) == 1) {
        place.node = hwloc_bitmap_first(object->nodeset);
    }
    if (topology->bound != NULL) {
        place.distance = distance_of(topology->tree, topology->bound, object);
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
