/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component without a runtime, over a transport that takes all and brings nothing: as far as
 * add_procs needs it. */

#ifndef LONE_COMPONENT_H
#define LONE_COMPONENT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_frag.h"
#include "btl_ib_modex.h"
#include "btl_ib_state.h"
#include "memory_transport.h"

#include "opal/mca/btl/base/base.h"

static int wire_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    return n;
}

static int wire_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    return 0;
}

static void wire_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
}

static opal_process_name_t name_of(uint32_t index)
{
    return (opal_process_name_t){.jobid = 1, .vpid = index};
}

/* What a process publishes that has so many rails, but for whose it is: the secret, the place, and
 * the addresses. NULL without memory. */
static btl_ib_modex_t *new_modex(uint32_t rails, const btl_ib_queue_table_t *queues)
{
    btl_ib_modex_t *modex = calloc(1, sizeof(*modex));

    if (modex == NULL) {
        return NULL;
    }
    modex->version = BTL_IB_MODEX_VERSION;
    modex->oldest = BTL_IB_MODEX_OLDEST;
    modex->wire = btl_ib_versions_here();
    modex->message_max = 65536;
    modex->rail_count = rails;
    for (uint32_t i = 0; i < rails; i++) {
        btl_ib_modex_rail_t *rail = &modex->rails[i];
        snprintf(rail->transport, sizeof(rail->transport), "udp");
        rail->address_len = sizeof(uint32_t);
        rail->family = 4;
        rail->prefix_bits = 8;
        rail->max_datagram = DATAGRAM;
        rail->bandwidth = 10000;
        rail->queues = *queues;
    }
    return modex;
}

/* What a process with one rail publishes, on a host of its own. NULL without memory. */
__attribute__((unused)) static btl_ib_modex_t *new_process(uint32_t index,
                                                           const btl_ib_queue_table_t *queues)
{
    btl_ib_modex_t *modex = new_modex(1, queues);

    if (modex == NULL) {
        return NULL;
    }
    modex->secret.k[0] = index + 1;
    modex->where = (btl_ib_host_t){.machine = 1 + index, .network = 1};
    memcpy(modex->rails[0].address, &index, sizeof(index));
    modex->rails[0].ip[0] = 10;
    modex->rails[0].ip[3] = (uint8_t) index;
    return modex;
}

/* Begin the component of that process; `config` says the rest of its engine. False: it cannot. */
static bool begin_component(uint32_t self, btl_ib_engine_config_t *config)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    OBJ_CONSTRUCT(&mca_btl_base_modules_initialized, opal_list_t);
    OBJ_CONSTRUCT(&component->known, opal_hash_table_t);
    OBJ_CONSTRUCT(&component->hosts, opal_hash_table_t);
    btl_ib_list_init(&component->gone);
    btl_ib_list_init(&component->callbacks.ready);
    btl_ib_poll_throttle_init(&component->throttle);
    btl_ib_progress_thread_init(&component->progress_thread, &(btl_ib_progress_thread_config_t){
                                                                 .lock = &component->lock,
                                                                 .throttle = &component->throttle,
                                                                 .yield = &component->poll_yield});
    config->name = btl_ib_name_pack(name_of(self));
    config->secret.k[0] = self + 1;
    component->name = name_of(self);
    component->osc.chosen = true;
    component->params.poll_burst = 64;
    component->params.drain_ms = 1000;
    component->params.free_list_num = 32;
    component->params.free_list_inc = 32;
    component->engine = btl_ib_engine_create(config, &btl_ib_engine_ops, component);
    (void) btl_ib_biased_lock_init(&component->lock, false);
    return component->engine != NULL && opal_hash_table_init(&component->known, 64) == OPAL_SUCCESS
           && opal_hash_table_init(&component->hosts, 64) == OPAL_SUCCESS;
}

/* The module of the next rail; `transport` becomes the engine's. NULL: there is none. */
static inline btl_ib_module_t *begin_rail(btl_ib_transport_t *transport,
                                          const btl_ib_queue_table_t *queues)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_module_t *module = calloc(1, sizeof(*module));

    *transport = wire_transport(0, 1024);
    if (module == NULL || btl_ib_engine_add_rail(component->engine, transport, queues) < 0) {
        free(module);
        return NULL;
    }
    module->rail = component->module_count;
    btl_ib_module_functions(&module->super);
    OBJ_CONSTRUCT(&module->endpoints.all, opal_list_t);
    component->modules[component->module_count++] = module;
    return module;
}

/* Begins the component of that process with one rail, which has two queues that are usual. NULL: it
 * cannot. */
static inline btl_ib_module_t *begin_on_rail(uint32_t self, btl_ib_transport_t *transport,
                                             btl_ib_queue_table_t *queues)
{
    btl_ib_engine_config_t config;
    btl_ib_queues_error_t error;

    btl_ib_engine_config_default(&config);
    if (!begin_component(self, &config)
        || btl_ib_queues_parse("P,256,256,128,32:S,1472,1024,512,64", queues, &error) != 0) {
        return NULL;
    }
    return begin_rail(transport, queues);
}

/* The peer of a connection answers now. */
static inline void peer_answers(btl_ib_conn_t *conn)
{
    btl_ib_validation_answered(&conn->validation, conn->engine->clock.now);
}

/* Time passes, in us, and nothing happens. */
static inline void time_passes(uint64_t time)
{
    mca_btl_ib_component.engine->clock.now += time;
}

#endif
