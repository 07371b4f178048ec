/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Where devices are, by the topologies in topology/. */

#include <stdio.h>
#include <stdlib.h>

#include <hwloc.h>

#include "btl_ib_locality.h"
#include "unit.h"

/* Read a topology, as if this process were bound to some processors ("0-1"; NULL: to all, which is
 * what hwloc says of other machines; "": nobody knows). */
static btl_ib_topology_t read_topology(const char *file, const char *bound)
{
    btl_ib_topology_t topology;
    char path[512];

    snprintf(path, sizeof(path), BTL_IB_TOPOLOGIES "/%s.xml", file);
    assert_int_equal(setenv("HWLOC_XMLFILE", path, 1), 0);
    assert_null(btl_ib_topology_open(&topology, NULL));
    assert_true(topology.own);
    if (bound != NULL) {
        hwloc_bitmap_free(topology.bound);
        topology.bound = NULL;
    }
    if (bound != NULL && bound[0] != '\0') {
        topology.bound = hwloc_bitmap_alloc();
        assert_int_equal(hwloc_bitmap_list_sscanf(topology.bound, bound), 0);
    }
    return topology;
}

static void expect(const btl_ib_topology_t *topology, const char *name, const char *interface,
                   int node, uint32_t distance)
{
    const btl_ib_device_place_t place = btl_ib_topology_find(topology, name, interface);

    assert_int_equal(place.node, node);
    assert_int_equal(place.distance, distance);
}

TEST(test_sockets)
{
    btl_ib_topology_t topology = read_topology("two_sockets", "0-1");

    expect(&topology, "mlx5_0", "ens1", 0, 0);
    expect(&topology, "mlx5_1", "ens2", 1, 21);
    expect(&topology, "mlx5_1:2", "", 1, 21);    /* a port */
    expect(&topology, "mlx5_1-dgrm", "", 1, 21); /* a domain of libfabric */
    expect(&topology, "mlx5_10", "", -1, 0);     /* another device, of which nothing is known */
    expect(&topology, "rxe0", "ens2", 1, 21);    /* by software over an interface */
    expect(&topology, "ens2", "ens2", 1, 21);    /* udp */
    expect(&topology, "lo", "lo", -1, 0);
    btl_ib_topology_close(&topology);
    btl_ib_topology_close(&topology);

    topology = read_topology("two_sockets", "3");
    expect(&topology, "mlx5_0", "", 0, 21);
    expect(&topology, "mlx5_1", "", 1, 0);
    btl_ib_topology_close(&topology);
}

/* A process that may run on both sockets, or is bound nowhere, has all devices near. */
TEST(test_unbound)
{
    static const char *const bounds[] = {"1-2", "0-3", "", NULL};

    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); ++i) {
        btl_ib_topology_t topology = read_topology("two_sockets", bounds[i]);

        expect(&topology, "mlx5_0", "", 0, 0);
        expect(&topology, "mlx5_1", "", 1, 0);
        btl_ib_topology_close(&topology);
    }
}

TEST(test_cards)
{
    btl_ib_topology_t topology = read_topology("several_cards", "2");

    expect(&topology, "mlx5_0", "", 0, BTL_IB_DISTANCE_REMOTE);
    expect(&topology, "mlx5_1", "", 0, BTL_IB_DISTANCE_REMOTE);
    expect(&topology, "mlx5_2", "", 1, 0);
    expect(&topology, "rdma3", "", 1, 0);
    expect(&topology, "rdma3-dgrm", "", 1, 0);
    expect(&topology, "rdma3-9-dgrm", "", 0, BTL_IB_DISTANCE_REMOTE); /* of two the longer name */
    btl_ib_topology_close(&topology);
}

TEST(test_nothing_known)
{
    btl_ib_topology_t topology = read_topology("no_pci", "2");

    expect(&topology, "mlx5_0", "ens1", -1, 0);
    btl_ib_topology_close(&topology);
    topology = (btl_ib_topology_t){.tree = NULL};
    expect(&topology, "mlx5_0", "ens1", -1, 0);
    setenv("HWLOC_XMLFILE", "/proc/none", 1);
    setenv("HWLOC_COMPONENTS", "xml,stop", 1);
    assert_string_equal(btl_ib_topology_open(&topology, NULL),
                        "hwloc cannot read the topology of this host");
    expect(&topology, "mlx5_0", "ens1", -1, 0);
    btl_ib_topology_close(&topology);
    unsetenv("HWLOC_COMPONENTS");
}

/* A card of a socket whose processors are not allowed to this job is far all the same. */
TEST(test_limited)
{
    btl_ib_topology_t topology = read_topology("limited", "0-1");

    expect(&topology, "mlx5_0", "", 0, 0);
    expect(&topology, "mlx5_1", "", 1, 21);
    btl_ib_topology_close(&topology);
}

TEST(test_root)
{
    btl_ib_topology_t topology = read_topology("root", "2");

    expect(&topology, "ens3", "ens3", -1, 0);
    expect(&topology, "veth0", "veth0", -1, 0);
    btl_ib_topology_close(&topology);
}

static hwloc_topology_t of_open_mpi(const char *file, bool devices)
{
    hwloc_topology_t tree;
    char path[512];

    snprintf(path, sizeof(path), BTL_IB_TOPOLOGIES "/%s.xml", file);
    assert_int_equal(hwloc_topology_init(&tree), 0);
    assert_int_equal(hwloc_topology_set_xml(tree, path), 0);
    if (devices) {
        hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    }
    assert_int_equal(hwloc_topology_load(tree), 0);
    return tree;
}

/* What Open MPI has loaded is used if it has devices and all processors. */
TEST(test_shared)
{
    static const struct {
        const char *file;
        bool devices;
        bool own;
    } cases[] = {
        {"two_sockets", true, false},
        {"two_sockets", false, true},
        {"no_pci", true, true},
        {"limited", true, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        hwloc_topology_t tree = of_open_mpi(cases[i].file, cases[i].devices);
        btl_ib_topology_t topology;

        setenv("HWLOC_XMLFILE", BTL_IB_TOPOLOGIES "/two_sockets.xml", 1);
        assert_null(btl_ib_topology_open(&topology, tree));
        assert_int_equal(topology.own, cases[i].own);
        expect(&topology, "mlx5_1", "", 1, 0);
        btl_ib_topology_close(&topology);
        hwloc_topology_destroy(tree); /* whose it is */
    }
}

UNIT_MAIN(NULL, NULL)
