/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component without a runtime: endpoints that are deleted and added again, and messages whose
 * module is finalized. A transport takes all and brings nothing. */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_modex.h"
#include "memory_transport.h"
#include "opal/mca/btl/base/base.h"

enum { SELF = 0, PEER = 1, TAG = 77 };

static btl_ib_transport_t transport;
static btl_ib_module_t *module;
static btl_ib_modex_t *published; /* by the peer */
static opal_proc_t *proc;
static int received;

static int wire_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    (void) t;
    (void) batch;
    (void) error;
    return n;
}

static int wire_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    (void) t;
    (void) now;
    (void) events;
    (void) max;
    return 0;
}

static void wire_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    (void) t;
    (void) buffers;
    (void) n;
}

static opal_process_name_t name_of(uint32_t index)
{
    return (opal_process_name_t){.jobid = 1, .vpid = index};
}

static btl_ib_modex_t *new_modex(uint32_t index, const btl_ib_queue_table_t *queues)
{
    btl_ib_modex_t *modex = calloc(1, sizeof(*modex));

    assert_non_null(modex);
    modex->version = BTL_IB_MODEX_VERSION;
    modex->oldest = BTL_IB_MODEX_OLDEST;
    modex->wire = btl_ib_versions_here();
    modex->message_max = 65536;
    modex->rail_count = 1;
    modex->secret.k[0] = index + 1;
    modex->where = (btl_ib_host_t){.machine = 1 + index, .network = 1};
    btl_ib_modex_rail_t *rail = &modex->rails[0];
    snprintf(rail->transport, sizeof(rail->transport), "udp");
    rail->address_len = sizeof(index);
    memcpy(rail->address, &index, sizeof(index));
    rail->family = 4;
    rail->prefix_bits = 8;
    rail->ip[0] = 10;
    rail->ip[3] = (uint8_t) index;
    rail->max_datagram = DATAGRAM;
    rail->bandwidth = 10000;
    rail->queues = *queues;
    return modex;
}

static void make_engine(btl_ib_component_t *component)
{
    btl_ib_engine_config_t config;

    btl_ib_engine_config_default(&config);
    config.name = btl_ib_name_pack(name_of(SELF));
    config.secret.k[0] = SELF + 1;
    component->engine = btl_ib_engine_create(&config, &btl_ib_engine_ops, component);
    assert_non_null(component->engine);
}

static int set_up(void **state)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_queue_table_t queues;
    btl_ib_queues_error_t error;

    (void) state;
    OBJ_CONSTRUCT(&mca_btl_base_modules_initialized, opal_list_t);
    OBJ_CONSTRUCT(&component->known, opal_hash_table_t);
    OBJ_CONSTRUCT(&component->hosts, opal_hash_table_t);
    assert_int_equal(opal_hash_table_init(&component->known, 64), OPAL_SUCCESS);
    assert_int_equal(opal_hash_table_init(&component->hosts, 64), OPAL_SUCCESS);
    btl_ib_list_init(&component->gone);
    btl_ib_list_init(&component->callbacks.ready);
    btl_ib_poll_throttle_init(&component->throttle);
    btl_ib_progress_thread_init(&component->progress_thread,
                                &(btl_ib_progress_thread_config_t){
                                    .lock = &component->lock, .throttle = &component->throttle});
    assert_int_equal(btl_ib_queues_parse("P,256,256,128,32:S,1472,1024,512,64", &queues, &error),
                     0);
    component->name = name_of(SELF);
    component->osc.chosen = true;
    (void) btl_ib_biased_lock_init(&component->lock, false);
    make_engine(component);
    transport = wire_transport(SELF, 1024);
    assert_int_equal(btl_ib_engine_add_rail(component->engine, &transport, &queues), 0);
    module = calloc(1, sizeof(*module));
    assert_non_null(module);
    btl_ib_module_functions(&module->super);
    OBJ_CONSTRUCT(&module->endpoints.all, opal_list_t);
    component->modules[0] = module;
    component->module_count = 1;
    component->self = new_modex(SELF, &queues);
    published = new_modex(PEER, &queues);
    proc = OBJ_NEW(opal_proc_t);
    proc->proc_name = name_of(PEER);
    return 0;
}

/* As Open MPI does; what the process published is known, as if the runtime had been asked. */
static btl_ib_endpoint_t *add_process(void)
{
    btl_ib_endpoint_t *endpoint = NULL;

    btl_ib_modex_keep(&mca_btl_ib_component.known, btl_ib_name_pack(name_of(PEER)), published);
    module->super.btl_add_procs(&module->super, 1, &proc, &endpoint, NULL);
    assert_non_null(endpoint);
    return endpoint;
}

static void delete_process(btl_ib_endpoint_t *endpoint)
{
    module->super.btl_del_procs(&module->super, 1, &proc, &endpoint);
}

static void added_twice(void **state)
{
    btl_ib_endpoint_t *endpoint = add_process();

    (void) state;
    assert_ptr_equal(add_process(), endpoint);
    delete_process(endpoint);
    assert_null(btl_ib_endpoint_next(NULL));
}

static void *delete_in_thread(void *endpoint)
{
    delete_process(endpoint);
    return NULL;
}

static void wait_for_drain(const btl_ib_endpoint_t *endpoint)
{
    for (bool closing = false; !closing;) {
        btl_ib_lock();
        closing = endpoint->closing;
        btl_ib_unlock();
    }
}

/* del_procs drains the connection, which takes all of its time as nobody acknowledges, and gives up
 * the lock meanwhile. Who adds the process then gets another endpoint, which stays when the first
 * one is gone. */
static void added_while_it_is_deleted(void **state)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_endpoint_t *leaving = add_process();
    uint32_t header = 0;
    pthread_t thread;

    (void) state;
    assert_int_equal(module->super.btl_sendi(&module->super, leaving, NULL, &header, sizeof(header),
                                             0, 0, 0, TAG, NULL),
                     OPAL_SUCCESS);
    OBJ_RETAIN(leaving); /* to look at it */
    assert_int_equal(pthread_create(&thread, NULL, delete_in_thread, leaving), 0);
    wait_for_drain(leaving);
    btl_ib_endpoint_t *endpoint = add_process();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_not_equal(endpoint, leaving);
    assert_true(leaving->closed);
    OBJ_RELEASE(leaving);
    btl_ib_lock();
    assert_ptr_equal(btl_ib_endpoint_find(module, btl_ib_name_pack(name_of(PEER))), endpoint);
    assert_ptr_equal(btl_ib_conn_user(endpoint->conn), endpoint);
    btl_ib_unlock();
    assert_ptr_equal(add_process(), endpoint);
    delete_process(endpoint);
    assert_null(btl_ib_endpoint_next(NULL));
    assert_int_equal(opal_hash_table_get_size(&component->hosts), 0);
    assert_int_equal(opal_hash_table_get_size(&component->known), 0);
}

#if OPAL_MAJOR_VERSION >= 5
static void receive(mca_btl_base_module_t *btl, const mca_btl_base_receive_descriptor_t *descriptor)
{
    (void) btl;
    (void) descriptor;
    received++;
}
#else
static void receive(mca_btl_base_module_t *btl, mca_btl_base_tag_t tag,
                    mca_btl_base_descriptor_t *descriptor, void *data)
{
    (void) btl;
    (void) tag;
    (void) descriptor;
    (void) data;
    received++;
}
#endif

/* A message that was kept is delivered when its receiver is gone: to nobody. */
static void nobody_is_there(void **state)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_endpoint_t *endpoint = add_process();
    uint32_t data[4] = {0};

    (void) state;
    btl_ib_lock();
    mca_btl_base_active_message_trigger[TAG].cbfunc = receive;
    btl_ib_engine_ops.deliver(component, endpoint->conn, TAG, data, sizeof(data));
    assert_int_equal(received, 1);
    mca_btl_base_active_message_trigger[TAG].cbfunc = NULL;
    btl_ib_engine_ops.deliver(component, endpoint->conn, TAG, data, sizeof(data));
    mca_btl_base_active_message_trigger[TAG].cbfunc = receive;
    component->modules[0] = NULL;
    btl_ib_engine_ops.deliver(component, endpoint->conn, TAG, data, sizeof(data));
    assert_int_equal(received, 1);
    component->modules[0] = module;
    btl_ib_unlock();
    delete_process(endpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_twice),
        cmocka_unit_test(added_while_it_is_deleted),
        cmocka_unit_test(nobody_is_there),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
