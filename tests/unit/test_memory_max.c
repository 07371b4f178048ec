/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Receive queues for a limit on memory: which ones take over, over which transport. */

#include <string.h>

#include "opal/runtime/opal.h"
#include "btl_ib_device_plan.h"
#include "unit.h"

enum { PEERS = 511, MIB = 1 << 20 };

static btl_ib_params_t params = {
    .cc = "auto",
    .protection = "none",
    .ordering = "strict",
    .channels = "auto",
    .cq = "shared",
    .udp_gso = "auto",
    .depth_peer = 16384,
    .depth_total = 24576,
    .depth_bytes = 32 << 20,
    .credit_pool = 4096,
    .am_credits_slack = -1,
    .qps_per_port = 1,
};
static mca_btl_base_module_t limits = {
    .btl_eager_limit = 65 << 10,
    .btl_max_send_size = 64 << 10,
};
static const btl_ib_process_sizes_t sizes = {
    .params = &params,
    .limits = &limits,
    .fragment = 512,
};

static btl_ib_transport_attr_t rc = {
    .max_datagram = 1 << 20,
    .registered_page = 4096,
    .reliable = true,
    .rdma = true,
    .shared_max = 4096,
};
static const btl_ib_transport_attr_t ud = {.max_datagram = 4096, .registered_page = 4096};
static const btl_ib_transport_attr_t udp = {.max_datagram = 1472};

static const btl_ib_transport_type_t *type_of(const char *name, const char *wire)
{
    const btl_ib_transport_type_t *const *type = btl_ib_transport_types;

    while (strcmp((*type)->name, name) != 0 || (wire != NULL && strcmp((*type)->wire, wire) != 0)) {
        ++type;
    }
    return *type;
}

static void plan_for(const char *spec, const btl_ib_transport_attr_t *attr,
                     btl_ib_device_plan_t *plan)
{
    btl_ib_queues_error_t error;
    btl_ib_queue_table_t table;

    assert_int_equal(btl_ib_queues_parse(spec, &table, &error), 0);
    btl_ib_device_plan_for(&params, attr, &table, 0, plan);
}

static uint64_t takes(const btl_ib_transport_type_t *type, const btl_ib_device_plan_t *plan)
{
    btl_ib_memory_estimate_t estimate = {.count = 0};

    btl_ib_device_memory_estimate(&sizes, type, plan, PEERS, &estimate);
    return estimate.all[BTL_IB_ESTIMATE_PROCESS].held;
}

/* Fragments lie in whole cache lines: of such sizes nothing is added. */
TEST(fragments)
{
    const btl_ib_transport_type_t *type = type_of("udp", NULL);
    btl_ib_memory_estimate_t estimate = {.count = 0};
    btl_ib_device_plan_t plan;
    uint64_t held = 0;

    plan_for("P,256,128:S,1472,256", &udp, &plan);
    params.free_list_num = 10;
    for (size_t odd = 0; odd < 2; odd++) {
        const btl_ib_process_sizes_t some = {
            .params = &params, .limits = &limits, .fragment = 512 + odd};
        const uint64_t line = (uint64_t) opal_cache_line_size;

        estimate = (btl_ib_memory_estimate_t){.count = 0};
        btl_ib_device_memory_estimate(&some, type, &plan, PEERS, &estimate);
        held = 0;
        for (uint32_t i = 0; i < estimate.count; i++) {
            if (strcmp(estimate.part[i].what, "fragments, 10 of each size") == 0) {
                held = estimate.part[i].bytes.held;
            }
        }
        assert_int_equal(512 % line, 0);
        assert_int_equal(held,
                         10 * (3 * (512 + odd * line) + BTL_IB_EAGER_BY_DATAGRAMS + (64 << 10)));
    }
    params.free_list_num = 0;
}

static int query_too_small(const btl_ib_device_t *device, uint32_t mtu,
                           btl_ib_transport_attr_t *attr)
{
    *attr = (btl_ib_transport_attr_t){.max_datagram = BTL_IB_QUEUE_SIZE_MIN - 1};
    return 0;
}

/* An interface with an MTU of 100: within the host datagrams take the loopback device. */
static int query_too_small_outside(const btl_ib_device_t *device, uint32_t mtu,
                                   btl_ib_transport_attr_t *attr)
{
    *attr = (btl_ib_transport_attr_t){.max_datagram = 15936, .max_off_host = 72};
    return 0;
}

/* A device without room for any queue is not opened, and it is said why. */
TEST(too_small)
{
    const btl_ib_transport_type_t type = {.name = "udp", .query = query_too_small};
    const btl_ib_device_wishes_t wishes = {.params = &params};
    const btl_ib_device_t device = {.name = "eth0"};
    btl_ib_device_plan_t plan;

    assert_false(btl_ib_device_plan(&wishes, &type, &device, 0, &plan));
    assert_non_null(strstr(plan.why_not, "a datagram carries 103 bytes"));
    const btl_ib_transport_type_t outside = {.name = "udp", .query = query_too_small_outside};
    assert_false(btl_ib_device_plan(&wishes, &outside, &device, 0, &plan));
    assert_non_null(strstr(plan.why_not, "a datagram carries 72 bytes"));
}

/* Over connections each peer has queues of its own, which shared ones replace; what the user wrote
 * is kept in size and number. */
TEST(connections)
{
    const btl_ib_transport_type_t *type = type_of("verbs", "rc");
    btl_ib_memory_max_info_t info;
    btl_ib_device_plan_t plan;

    plan_for("P,256,128:P,65536,64", &rc, &plan);
    const uint64_t wanted = takes(type, &plan);
    assert_true(wanted > UINT64_C(2000) * MIB);
    info = btl_ib_memory_max_fit(&sizes, type, PEERS, 300 * MIB, &plan);
    assert_int_equal(info.wanted, wanted);
    assert_null(info.spec);
    assert_true(info.taken <= 300 * MIB && takes(type, &plan) <= info.taken);
    assert_int_equal(plan.queues.q[0].type, BTL_IB_QUEUE_PER_PEER);
    assert_int_equal(plan.queues.q[1].type, BTL_IB_QUEUE_SHARED);
    assert_int_equal(plan.queues.q[1].size, 65536);
    assert_int_equal(plan.queues.q[1].num, 64);
    assert_true(plan.open.queue[1].shared && !plan.open.queue[0].shared);
}

/* What fits stays as it is. */
TEST(enough)
{
    const btl_ib_transport_type_t *type = type_of("verbs", "rc");
    btl_ib_memory_max_info_t info;
    btl_ib_device_plan_t plan, before;

    plan_for("P,256,128:P,65536,64", &rc, &plan);
    before = plan;
    info = btl_ib_memory_max_fit(&sizes, type, PEERS, takes(type, &plan), &plan);
    assert_int_equal(info.taken, info.wanted);
    assert_memory_equal(&plan.queues, &before.queues, sizeof(plan.queues));
    assert_memory_equal(&plan.open, &before.open, sizeof(plan.open));
}

/* A device without shared queues (iWARP) has fewer buffers at most, and the least of all if none
 * fit. */
TEST(not_shared)
{
    const btl_ib_transport_type_t *type = type_of("verbs", "rc");
    btl_ib_memory_max_info_t info;
    btl_ib_device_plan_t plan;

    rc.shared_max = 0;
    plan_for("P,256,128:P,65536,64", &rc, &plan);
    info = btl_ib_memory_max_fit(&sizes, type, PEERS, MIB, &plan);
    rc.shared_max = 4096;
    assert_true(info.taken > MIB && info.taken < info.wanted);
    assert_string_equal(info.spec, type->default_queues);
    for (uint32_t i = 0; i < plan.queues.count; ++i) {
        assert_int_equal(plan.queues.q[i].type, BTL_IB_QUEUE_PER_PEER);
    }
}

/* Over datagrams one pool serves all: what each peer adds to it goes. */
TEST(datagrams)
{
    const btl_ib_transport_type_t *type = type_of("verbs", "ud");
    btl_ib_memory_max_info_t info;
    btl_ib_device_plan_t plan;

    plan_for("P,256,512:P,4096,512", &ud, &plan);
    const uint64_t wanted = takes(type, &plan);
    info = btl_ib_memory_max_fit(&sizes, type, PEERS, wanted / 2, &plan);
    assert_true(info.taken <= wanted / 2 && takes(type, &plan) <= info.taken);
    assert_int_equal(plan.queues.q[1].type, BTL_IB_QUEUE_SHARED);
}

/* Over udp receive buffers are the kernel's: no queues take less of the process. */
TEST(sockets)
{
    const btl_ib_transport_type_t *type = type_of("udp", NULL);
    btl_ib_memory_max_info_t info;
    btl_ib_device_plan_t plan;

    plan_for(type->default_queues, &udp, &plan);
    info = btl_ib_memory_max_fit(&sizes, type, PEERS, 1, &plan);
    assert_int_equal(info.taken, info.wanted);
    assert_null(info.spec);
    assert_int_equal(plan.queues.q[1].type, BTL_IB_QUEUE_PER_PEER);
}

/* Lets plans ask Open MPI for its parameters (mpi_yield_when_idle). */
static int begin(void **state)
{
    (void) state;
    return opal_init_util(NULL, NULL) == OPAL_SUCCESS ? 0 : -1;
}

UNIT_MAIN(begin, NULL)
