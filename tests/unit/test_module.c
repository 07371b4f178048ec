/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What Open MPI is told of a device: sizes, limits and flags of the module that is made of it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lone_component.h"
#include "unit.h"

enum { KIB = 1 << 10, MIB = 1 << 20, SPEED = 12345 };

static btl_ib_component_t *const component = &mca_btl_ib_component;
static mca_btl_base_module_t *const limits = &mca_btl_ib_component.limits;
static btl_ib_transport_t transport;
static btl_ib_transport_ops_t ops;
static btl_ib_module_t *module;

/* A device that moves memory by itself, and takes any; its operations are not called here. */
static int set_up(void **state)
{
    static const btl_ib_rdma_ops_t rdma = {.start = NULL};
    btl_ib_engine_config_t config;

    memset(component, 0, sizeof(*component));
    btl_ib_engine_config_default(&config);
    assert_true(begin_component(0, &config));
    transport = wire_transport(0, 1024);
    ops = *transport.ops;
    ops.rdma = &rdma;
    transport.ops = &ops;
    transport.attr.rdma = true;
    transport.attr.rdma_max = 1 << 30;
    transport.attr.rdma_copied = 8 * KIB;
    transport.attr.gso_bytes = 65000;
    component->params.protection = "none";
    component->params.atomics = "auto";
    component->params.pin_max_region = (size_t) 1 << 46;
    component->params.put_bounce_cutover = component->params.get_bounce_cutover = 64 * KIB;
    component->params.free_list_max = -1;
    btl_ib_list_init(&component->registered.caches);
    limits->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT;
    limits->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_GLOB | MCA_BTL_ATOMIC_SUPPORTS_XOR;
    limits->btl_eager_limit = 1 * KIB;
    limits->btl_max_send_size = 64 * KIB;
    limits->btl_put_limit = limits->btl_get_limit = SIZE_MAX;
    limits->btl_put_local_registration_threshold = SIZE_MAX;
    limits->btl_get_local_registration_threshold = SIZE_MAX;
    return 0;
}

static int tear_down(void **state)
{
    btl_ib_module_destroy(module);
    btl_ib_engine_destroy(component->engine);
    return 0;
}

static const mca_btl_base_module_t *make(void)
{
    module = btl_ib_module_create(3, &transport, SPEED);
    assert_non_null(module);
    assert_int_equal(module->rail, 3);
    assert_string_equal(module->name, "memory");
    assert_int_equal(module->super.btl_bandwidth, SPEED);
    assert_int_equal(module->super.btl_flags, limits->btl_flags | BTL_IB_FLAGS_REMOTE_COMPLETION);
    assert_int_equal(module->super.btl_max_send_size, 64 * KIB);
    return &module->super;
}

static void make_again(void)
{
    btl_ib_module_destroy(module);
    (void) make();
}

#define MODULE_TEST(name) TEST_WITH(name, set_up, tear_down)

/* Processors move memory: of any size, and registered or not. */
MODULE_TEST(without_rdma)
{
    transport.attr.rdma = false;
    ops.rdma = NULL;
    const mca_btl_base_module_t *btl = make();
    assert_null(module->cache.rcache);
    assert_int_equal(btl->btl_eager_limit, BTL_IB_EAGER_BY_BURSTS);
    assert_int_equal(btl->btl_get_limit, SIZE_MAX);
    assert_int_equal(btl->btl_put_limit, SIZE_MAX);
    assert_int_equal(btl->btl_get_local_registration_threshold, SIZE_MAX);
    assert_int_equal(btl->btl_put_local_registration_threshold, SIZE_MAX);
    assert_int_equal(btl->btl_atomic_flags, limits->btl_atomic_flags);
    assert_false(module->device_atomics);
}

MODULE_TEST(by_device)
{
    component->params.put_bounce_cutover = 4 * KIB;
    const mca_btl_base_module_t *btl = make();
    assert_non_null(module->cache.rcache);
    assert_int_equal(btl->btl_eager_limit, BTL_IB_EAGER_BY_DEVICE);
    assert_int_equal(btl->btl_get_limit, 1 << 30);
    assert_int_equal(btl->btl_put_limit, 1 << 30);
    assert_int_equal(btl->btl_put_local_registration_threshold, 4 * KIB);
    assert_int_equal(btl->btl_get_local_registration_threshold, 8 * KIB);
}

/* What the user wrote is the most. */
MODULE_TEST(limits_of_the_user)
{
    limits->btl_get_limit = 5 * KIB;
    limits->btl_put_limit = 6 * KIB;
    component->params.eager_by_user = true;
    const mca_btl_base_module_t *btl = make();
    assert_int_equal(btl->btl_get_limit, 5 * KIB);
    assert_int_equal(btl->btl_put_limit, 6 * KIB);
    assert_int_equal(btl->btl_eager_limit, 1 * KIB);
}

/* What the device moves is not protected: then processors do it. */
MODULE_TEST(protected)
{
    component->params.protection = "crc32c";
    const mca_btl_base_module_t *btl = make();
    assert_null(module->cache.rcache);
    assert_int_equal(btl->btl_put_limit, SIZE_MAX);
    assert_int_equal(btl->btl_eager_limit, BTL_IB_EAGER_BY_BURSTS);
}

/* Where large regions are registered in pieces few operations are to lie on two of them. */
MODULE_TEST(pieces)
{
    static const struct {
        uint64_t region_max, rdma_max, expected;
    } rows[] = {
        {0, 1 << 30, 1 << 30},    {64 * MIB, 1 << 30, 1 * MIB},
        {MIB, 1 << 30, 64 * KIB}, {64 * MIB, 512 * KIB, 512 * KIB},
        {64 * MIB, MIB, MIB},
    };

    (void) make();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        component->params.pin_max_region =
            rows[i].region_max != 0 ? (size_t) rows[i].region_max : (size_t) 1 << 46;
        transport.attr.rdma_max = rows[i].rdma_max;
        make_again();
        assert_int_equal(module->super.btl_get_limit, rows[i].expected);
        assert_int_equal(module->super.btl_put_limit, rows[i].expected);
    }
}

/* Who changes words: devices where they are to, or where that is atomic for processors as well. */
MODULE_TEST(atomics)
{
    enum { NONE, DEVICE, GLOBAL };
    static const btl_ib_rdma_atomics_t kinds[] = {
        BTL_IB_RDMA_ATOMICS_NONE, BTL_IB_RDMA_ATOMICS_DEVICE, BTL_IB_RDMA_ATOMICS_GLOBAL};
    static const struct {
        const char *wanted;
        int kind;
        bool by_device;
    } rows[] = {
        {"auto", NONE, false},   {"auto", DEVICE, false},  {"auto", GLOBAL, true},
        {"device", NONE, false}, {"device", DEVICE, true}, {"device", GLOBAL, true},
        {"host", NONE, false},   {"host", DEVICE, false},  {"host", GLOBAL, false},
    };

    (void) make();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        uint32_t expected = limits->btl_atomic_flags;

        component->params.atomics = rows[i].wanted;
        transport.attr.rdma_atomics = kinds[rows[i].kind];
        make_again();
        assert_int_equal(module->device_atomics, rows[i].by_device);
        if (rows[i].by_device) {
            expected = BTL_IB_ATOMIC_FLAGS_DEVICE
                       | (rows[i].kind == GLOBAL ? MCA_BTL_ATOMIC_SUPPORTS_GLOB : 0);
        }
        assert_int_equal(module->super.btl_atomic_flags, expected);
    }
}

/* What Open MPI 4.1 forgets when it closes its components, and rcache/grdma's tables of an empty
 * cache, are not ours (LeakSanitizer asks this). */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:mca_base_component_repository_open\nleak:opal_hash_table_init2\n";
}

int main(int argc, char **argv)
{
    int failed;

    if (opal_init(&argc, &argv) != OPAL_SUCCESS
        || mca_base_framework_open(&opal_rcache_base_framework, 0) != OPAL_SUCCESS) {
        return 1;
    }
    failed = unit_run(NULL, NULL);
    (void) mca_base_framework_close(&opal_rcache_base_framework);
    (void) opal_finalize();
    return failed;
}
