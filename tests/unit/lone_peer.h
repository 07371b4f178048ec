/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A component without a runtime, with a rail, and one other process, of which it knows what that
 * published. Included by one source of a test. */

#ifndef LONE_PEER_H
#define LONE_PEER_H

#include "lone_component.h"
#include "unit.h"

enum { SELF = 0, PEER = 1, TAG = 77 };

static btl_ib_transport_t transport;
static btl_ib_queue_table_t queues; /* of both */
static btl_ib_module_t *module;
static btl_ib_modex_t *published; /* by the peer */
static opal_proc_t *proc;

static inline void begin_lone_component(void)
{
    module = begin_on_rail(SELF, &transport, &queues);
    assert_non_null(module);
    mca_btl_ib_component.self = new_process(SELF, &queues);
    published = new_process(PEER, &queues);
    assert_non_null(mca_btl_ib_component.self);
    assert_non_null(published);
    proc = OBJ_NEW(opal_proc_t);
    proc->proc_name = name_of(PEER);
}

/* As Open MPI does; what the peer published is known, as if the runtime had been asked. */
static inline btl_ib_endpoint_t *add_peer(void)
{
    btl_ib_endpoint_t *endpoint = NULL;

    btl_ib_modex_keep(&mca_btl_ib_component.known, btl_ib_name_pack(name_of(PEER)), published);
    module->super.btl_add_procs(&module->super, 1, &proc, &endpoint, NULL);
    assert_non_null(endpoint);
    return endpoint;
}

static inline void delete_peer(btl_ib_endpoint_t *endpoint)
{
    module->super.btl_del_procs(&module->super, 1, &proc, &endpoint);
}

/* Sends it a message of a few bytes. */
static inline void send_short(btl_ib_endpoint_t *endpoint)
{
    uint32_t header = 0;

    assert_int_equal(module->super.btl_sendi(&module->super, endpoint, NULL, &header,
                                             sizeof(header), 0, 0, 0, TAG, NULL),
                     OPAL_SUCCESS);
}

#endif
