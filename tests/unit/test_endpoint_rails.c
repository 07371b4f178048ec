/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component without a runtime: which rails lead to a process, which processes cannot be
 * reached, and what is told then. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lone_peer.h"
#include "told.h"

static btl_ib_transport_t second_transport;
static btl_ib_module_t *second;
static btl_ib_params_t *params = &mca_btl_ib_component.params;

/* ---- a process that has two rails, as we have ---- */

static int set_up(void **state)
{
    static char here[] = "here";
    btl_ib_component_t *component = &mca_btl_ib_component;

    begin_lone_component();
    second = begin_rail(&second_transport, &queues);
    assert_non_null(second);
    snprintf(module->name, sizeof(module->name), "first");
    snprintf(second->name, sizeof(second->name), "second");
    component->self->rails[1] = component->self->rails[0];
    component->self->rails[1].ip[0] = 11;
    component->self->rail_count = 2;
    published->rails[1] = published->rails[0];
    published->rails[1].ip[0] = 11;
    published->rail_count = 2;
    snprintf(published->host, sizeof(published->host), "there");
    params->atomics = "auto";
    component->limits.btl_eager_limit = 100;
    component->limits.btl_max_send_size = 200;
    btl_ib_peer_reports_init(&component->reports, SELF, params, &component->limits,
                             component->self);
    opal_process_info.my_local_rank = 0;
    opal_process_info.nodename = here;
    return 0;
}

/* Adds it to both rails, as Open MPI does; NULL: that rail does not reach it. */
static void add_to_both(btl_ib_endpoint_t *endpoints[2])
{
    const uint64_t name = btl_ib_name_pack(name_of(PEER));

    btl_ib_modex_forget(&mca_btl_ib_component.known, name);
    begin_told();
    for (int i = 0; i < 2; i++) {
        mca_btl_base_module_t *btl = i == 0 ? &module->super : &second->super;

        endpoints[i] = NULL;
        btl_ib_modex_keep(&mca_btl_ib_component.known, name, published);
        btl->btl_add_procs(btl, 1, &proc, &endpoints[i], NULL);
    }
    end_told();
}

static void delete_from_both(btl_ib_endpoint_t *endpoints[2])
{
    params->drain_ms = 0;
    module->super.btl_del_procs(&module->super, 1, &proc, &endpoints[0]);
    second->super.btl_del_procs(&second->super, 1, &proc, &endpoints[1]);
    assert_null(btl_ib_endpoint_next(NULL));
}

/* It is added to no rail, and these lines tell why: once. */
static void expect_unreachable(const char *line, const char *other_line)
{
    btl_ib_endpoint_t *endpoints[2];

    mca_btl_ib_component.reports.mismatches = 0;
    for (int i = 0; i < 2; i++) {
        add_to_both(endpoints);
        assert_null(endpoints[0]);
        assert_null(endpoints[1]);
        if (i == 0) {
            expect_told(line);
            expect_told(other_line);
        } else {
            assert_string_equal(told, "");
        }
    }
}

/* ---- which rails ---- */

/* Each rail of ours leads to the peer's in its network; fragments take the first. */
TEST(both_rails)
{
    btl_ib_endpoint_t *endpoints[2];

    add_to_both(endpoints);
    assert_string_equal(told, "");
    for (uint32_t i = 0; i < 2; i++) {
        assert_non_null(endpoints[i]);
        assert_int_equal(endpoints[i]->rails, 2);
        assert_int_equal(endpoints[i]->remote_rail, i);
        assert_int_equal(endpoints[i]->first_rail, 0);
        assert_int_equal(endpoints[i]->first_remote, 0);
        assert_int_equal(btl_ib_conn_rail(endpoints[i]->conn), i);
        assert_ptr_equal(btl_ib_endpoint_for_fragments(endpoints[i]), endpoints[0]);
        assert_ptr_equal(
            btl_ib_endpoint_find(i == 0 ? module : second, btl_ib_name_pack(name_of(PEER))),
            endpoints[i]);
    }
    assert_ptr_equal(btl_ib_endpoint_next(NULL), endpoints[0]);
    assert_ptr_equal(btl_ib_endpoint_next(endpoints[0]), endpoints[1]);
    assert_null(btl_ib_endpoint_next(endpoints[1]));
    endpoints[0]->closing = true;
    assert_ptr_equal(btl_ib_endpoint_for_fragments(endpoints[1]), endpoints[1]);
    assert_null(btl_ib_endpoint_find(module, btl_ib_name_pack(name_of(PEER))));
    endpoints[0]->closing = false;
    delete_from_both(endpoints);
}

/* Its rails are in the other order. */
TEST(crossed)
{
    btl_ib_endpoint_t *endpoints[2];
    const btl_ib_modex_rail_t first = published->rails[0];

    published->rails[0] = published->rails[1];
    published->rails[1] = first;
    add_to_both(endpoints);
    assert_int_equal(endpoints[0]->remote_rail, 1);
    assert_int_equal(endpoints[1]->remote_rail, 0);
    assert_int_equal(endpoints[1]->first_rail, 0);
    assert_int_equal(endpoints[1]->first_remote, 1);
    delete_from_both(endpoints);
    published->rails[1] = published->rails[0];
    published->rails[0] = first;
}

/* It has one rail, which our first fits by its network: the other one does not reach it. */
TEST(one_rail)
{
    btl_ib_endpoint_t *endpoints[2];

    published->rail_count = 1;
    add_to_both(endpoints);
    assert_string_equal(told, "");
    assert_non_null(endpoints[0]);
    assert_null(endpoints[1]);
    assert_int_equal(endpoints[0]->rails, 1);
    delete_from_both(endpoints);
    published->rail_count = 2;
}

/* A process that may send first is expected at each rail; when it is added it has these
 * connections. */
TEST(expected)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const opal_process_name_t name = name_of(PEER);
    const uint64_t packed = btl_ib_name_pack(name);
    btl_ib_endpoint_t *endpoints[2];
    const btl_ib_conn_t *conns[2];

    btl_ib_lock();
    published->message_max++;
    btl_ib_endpoint_expect(&name, published);
    assert_null(btl_ib_conn_find(component->engine, 0, packed, 0));
    published->message_max--;
    for (int again = 0; again < 2; again++) {
        btl_ib_endpoint_expect(&name, published);
        for (uint32_t i = 0; i < 2; i++) {
            conns[i] = btl_ib_conn_find(component->engine, i, packed, i);
            assert_non_null(conns[i]);
            assert_null(btl_ib_conn_user(conns[i]));
            assert_null(btl_ib_conn_find(component->engine, i, packed, 1 - i));
        }
    }
    btl_ib_unlock();
    add_to_both(endpoints);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ptr_equal(endpoints[i]->conn, conns[i]);
        assert_ptr_equal(btl_ib_conn_user(conns[i]), endpoints[i]);
    }
    delete_from_both(endpoints);
}

/* ---- long operations ---- */

enum { PART = 128 << 10 }; /* bytes of a part, at least */

static void ignore_end(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                       void *local_address, mca_btl_base_registration_handle_t *local_handle,
                       void *context, void *cbdata, int status)
{
}

/* Into how many parts a get of `size` bytes is divided, for rails of such bandwidths. */
static uint64_t parts_of_get(size_t size, uint32_t first, uint32_t other, bool other_leaves)
{
    static uint8_t memory[4 * PART];
    const btl_ib_counters_t *counters = btl_ib_engine_counters(mca_btl_ib_component.engine);
    const uint64_t before = counters->started_gets;
    mca_btl_base_module_t *btl = &module->super;
    mca_btl_base_registration_handle_t *handle;
    btl_ib_endpoint_t *endpoints[2];

    assert_true(size <= sizeof(memory));
    assert_int_equal(btl_ib_rdma_init(module), OPAL_SUCCESS);
    assert_int_equal(btl_ib_rdma_init(second), OPAL_SUCCESS);
    assert_int_equal(btl_ib_register_init(module), OPAL_SUCCESS);
    btl->btl_get_limit = SIZE_MAX;
    btl->btl_bandwidth = first;
    second->super.btl_bandwidth = other;
    add_to_both(endpoints);
    for (int i = 0; i < 2; i++) {
        peer_answers(endpoints[i]->conn);
    }
    endpoints[1]->closing = other_leaves;
    handle = btl->btl_register_mem(btl, endpoints[0], memory, size, MCA_BTL_REG_FLAG_ACCESS_ANY);
    assert_non_null(handle);
    assert_int_equal(btl->btl_get(btl, endpoints[0], memory, (uintptr_t) memory, handle, handle,
                                  size, 0, 0, ignore_end, NULL, NULL),
                     OPAL_SUCCESS);
    assert_int_equal(btl->btl_deregister_mem(btl, handle), OPAL_SUCCESS);
    delete_from_both(endpoints);
    OBJ_DESTRUCT(&module->memory);
    OBJ_DESTRUCT(&module->rdma.ops);
    OBJ_DESTRUCT(&second->rdma.ops);
    return counters->started_gets - before;
}

/* By the bandwidths of rails, where each gets enough to be worth it. */
TEST(long_gets_are_divided)
{
    assert_int_equal(parts_of_get(2 * PART, 100, 100, false), 2);
    assert_int_equal(parts_of_get(2 * PART - 1, 100, 100, false), 1);
    assert_int_equal(parts_of_get(4 * PART, 300, 100, false), 2);
    assert_int_equal(parts_of_get(4 * PART - 1, 300, 100, false), 1);
    assert_int_equal(parts_of_get(4 * PART - 1, 100, 300, false), 2);
    assert_int_equal(parts_of_get(4 * PART, 90, 310, false), 1); /* too little is left */
    assert_int_equal(parts_of_get(4 * PART, 100, 100, true), 1);
}

/* ---- processes that cannot be reached ---- */

TEST(versions_differ)
{
    const btl_ib_versions_t wire = published->wire;

    published->wire.oldest = published->wire.newest = (uint8_t) (wire.newest + 1);
    expect_unreachable("do not understand each other", "Other process: rank 1 on host there\n");
    published->wire = wire;
}

TEST(limits_differ)
{
    published->message_max = 5000 + BTL_IB_HEADER_ROOM;
    expect_unreachable("Its limits:    btl_ib_eager_limit 100, btl_ib_max_send_size 200 bytes;\n"
                       "                 the larger one, btl_ib_max_send_size, is what counts\n",
                       "Other process: rank 1 on host there\n"
                       "  Its limits:    the larger of the two is 5000 bytes\n");
    mca_btl_ib_component.limits.btl_eager_limit = 200;
    published->message_max = BTL_IB_HEADER_ROOM - 1;
    expect_unreachable("the larger one, btl_ib_eager_limit, is what counts",
                       "the larger of the two is 0 bytes");
    published->message_max = mca_btl_ib_component.self->message_max;
}

TEST(protection_differs)
{
    published->protection = BTL_IB_PROTECTION_CRC32C;
    expect_unreachable("This process:  rank 0 on host here: btl_ib_protection none\n",
                       "Other process: rank 1 on host there: btl_ib_protection crc32c\n");
    published->protection = BTL_IB_PROTECTION_NONE;
}

TEST(no_common_network)
{
    const btl_ib_modex_rail_t first = published->rails[0];

    published->rail_count = 1;
    snprintf(published->rails[0].transport, sizeof(first.transport), "ofi");
    expect_unreachable("Its devices:    udp (10.0.0.0), udp (11.0.0.0)\n",
                       "Other process:  rank 1 on host there\n"
                       "  Its devices:    ofi (10.0.0.1)\n");
    published->rails[0] = first;
    published->rail_count = 2;
}

/* Of two rails one may agree. */
TEST(atomics_differ)
{
    btl_ib_endpoint_t *endpoints[2];

    published->rails[0].atomics = BTL_IB_ATOMICS_DEVICE;
    mca_btl_ib_component.reports.mismatches = 0;
    add_to_both(endpoints);
    assert_null(endpoints[0]);
    assert_non_null(endpoints[1]);
    assert_int_equal(endpoints[1]->rails, 1);
    assert_int_equal(endpoints[1]->first_rail, 1);
    assert_int_equal(endpoints[1]->first_remote, 1);
    expect_told("  Device:         first\n"
                "  Words by:       processors (btl_ib_atomics auto; default: auto)\n");
    expect_told("  Words by:       devices only\n");
    delete_from_both(endpoints);
    published->rails[1].atomics = BTL_IB_ATOMICS_GLOBAL;
    expect_unreachable("Two processes would have the words of windows changed",
                       "Other process:  rank 1 on host there\n");
    published->rails[0].atomics = published->rails[1].atomics = BTL_IB_ATOMICS_PROCESSOR;
}

/* ---- processes of the same host ---- */

/* Adds it, verbose. Returns whether shared memory is told of. */
static bool is_told_of_shared_memory(uint16_t flags)
{
    const int output = opal_btl_base_framework.framework_output;
    btl_ib_endpoint_t *endpoints[2];

    opal_btl_base_framework.framework_output = opal_output_open(NULL);
    opal_output_set_verbosity(opal_btl_base_framework.framework_output, 1);
    proc->proc_flags = flags;
    add_to_both(endpoints);
    proc->proc_flags = 0;
    opal_output_close(opal_btl_base_framework.framework_output);
    opal_btl_base_framework.framework_output = output;
    assert_non_null(endpoints[0]);
    delete_from_both(endpoints);
    return strstr(told, "no BTL for shared memory is selected") != NULL;
}

/* Once, and only where no BTL for shared memory is selected that comes before ib. */
TEST(shared_memory_is_faster)
{
    mca_btl_base_component_t component = {0};
    mca_btl_base_module_t shared = {.btl_component = &component, .btl_exclusivity = 1};
    mca_btl_base_selected_module_t *selected = OBJ_NEW(mca_btl_base_selected_module_t);
    bool *told_once = &mca_btl_ib_component.local.reported;

    snprintf(component.btl_version.mca_component_name,
             sizeof(component.btl_version.mca_component_name), "%s", BTL_IB_SHARED_MEMORY);
    selected->btl_component = &component;
    selected->btl_module = &shared;
    assert_false(is_told_of_shared_memory(OPAL_PROC_ON_CLUSTER));
    assert_false(*told_once);
    assert_true(is_told_of_shared_memory(OPAL_PROC_ON_CLUSTER | OPAL_PROC_ON_NODE));
    assert_false(is_told_of_shared_memory(OPAL_PROC_ON_CLUSTER | OPAL_PROC_ON_NODE));
    *told_once = false;
    opal_list_append(&mca_btl_base_modules_initialized, &selected->super);
    module->super.btl_exclusivity = second->super.btl_exclusivity = 1;
    assert_false(is_told_of_shared_memory(OPAL_PROC_ON_CLUSTER | OPAL_PROC_ON_NODE));
    shared.btl_exclusivity = 0; /* ib is taken before it */
    assert_true(is_told_of_shared_memory(OPAL_PROC_ON_CLUSTER | OPAL_PROC_ON_NODE));
    opal_list_remove_item(&mca_btl_base_modules_initialized, &selected->super);
    OBJ_RELEASE(selected);
    module->super.btl_exclusivity = second->super.btl_exclusivity = 0;
}

/* ---- ourselves ---- */

/* This process is reached by one-sided operations only, and once by each rail. */
TEST(own_process)
{
    btl_ib_endpoint_t *endpoint;

    btl_ib_lock();
    module->super.btl_flags = MCA_BTL_FLAGS_SEND;
    assert_null(btl_ib_endpoint_self(module, proc));
    module->super.btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT;
    endpoint = btl_ib_endpoint_self(module, proc);
    assert_non_null(endpoint);
    assert_ptr_equal(btl_ib_endpoint_self(module, proc), endpoint);
    assert_ptr_equal(btl_ib_endpoint_next(NULL), endpoint);
    assert_string_equal(endpoint->address, "this process");
    assert_string_equal(endpoint->host, "here");
    btl_ib_endpoint_close(endpoint);
    assert_null(btl_ib_endpoint_next(NULL));
    assert_null(module->endpoints.self);
    btl_ib_endpoint_remove(endpoint);
    btl_ib_unlock();
}

UNIT_MAIN(set_up, NULL)
