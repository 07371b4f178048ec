/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* hwloc, loaded when it is needed. */

#ifndef BTL_IB_HWLOC_H
#define BTL_IB_HWLOC_H

#include "btl_ib_library.h"

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

/* See btl_ib_library_load(). */
bool btl_ib_hwloc_load(char *why, size_t len);

#endif
