/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_loopback.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_endpoint.h"

#define ONE_SIDED (MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS)

btl_ib_endpoint_t *btl_ib_self_endpoint(btl_ib_module_t *module, struct opal_proc_t *proc)
{
    btl_ib_endpoint_t *endpoint;

    if (NULL != module->self || 0 == (module->super.btl_flags & ONE_SIDED)) {
        return module->self;
    }
    endpoint = OBJ_NEW(btl_ib_endpoint_t);
    if (NULL == endpoint) {
        return NULL;
    }
    endpoint->module = module;
    endpoint->proc = proc;
    snprintf(endpoint->host, sizeof(endpoint->host), "%s", opal_process_info.nodename);
    snprintf(endpoint->address, sizeof(endpoint->address), "%s", "this process");
    opal_list_append(&module->endpoints, &endpoint->super);
    ++mca_btl_ib_component.endpoint_count;
    module->self = endpoint;
    return endpoint;
}

btl_ib_conn_t *btl_ib_self_conn(btl_ib_module_t *module)
{
    btl_ib_engine_t *engine = mca_btl_ib_component.engine;
    btl_ib_peer_info_t info;
    int rc;

    if (NULL == module->loop) {
        btl_ib_engine_rail_info(engine, module->rail, &info);
        rc = btl_ib_conn_create(engine, module->rail, &info, NULL, &module->loop);
        if (0 != rc) {
            BTL_IB_VERBOSE(1, "rail %u (%s) does not lead to this process itself: %s", module->rail,
                           module->name, strerror(-rc));
            module->loop = NULL;
        }
    }
    return module->loop;
}

void btl_ib_self_forget(const btl_ib_conn_t *conn)
{
    btl_ib_module_t *module = mca_btl_ib_component.modules[btl_ib_conn_rail(conn)];

    if (NULL != module && conn == module->loop) {
        module->loop = NULL;
    }
}

void btl_ib_self_leave(btl_ib_module_t *module)
{
    btl_ib_conn_t *conn = module->loop;

    module->self = NULL;
    module->loop = NULL;
    if (NULL != conn) {
        btl_ib_conn_destroy(conn, btl_ib_now());
    }
}

int btl_ib_self_send(btl_ib_frag_t *frag, mca_btl_base_tag_t tag)
{
    const bool owned = 0 != (frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    const bool quiet = owned && 0 == (frag->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK);

    if (tag >= MCA_BTL_TAG_MAX || NULL == mca_btl_base_active_message_trigger[tag].cbfunc) {
        BTL_IB_VERBOSE(1, "a message to this process itself has tag %u, for which nobody listens",
                       tag);
        return OPAL_ERR_UNREACH;
    }
    btl_ib_compat_deliver(&frag->endpoint->module->super, frag->endpoint, tag, frag->segments,
                          frag->base.des_segment_count);
    if (!quiet) {
        btl_ib_lock();
        btl_ib_frag_complete(frag, OPAL_SUCCESS);
        btl_ib_unlock();
    }
    if (owned) {
        btl_ib_frag_return(frag);
    }
    return quiet ? 1 : OPAL_SUCCESS;
}

/* Where the operation's key and offset point to, if it may do what it wants there; else NULL. */
static void *target_of(const btl_ib_op_t *op)
{
    static const uint32_t access[] = {
        [BTL_IB_OP_PUT] = BTL_IB_ACCESS_WRITE,
        [BTL_IB_OP_GET] = BTL_IB_ACCESS_READ,
        [BTL_IB_OP_ATOMIC] = BTL_IB_ACCESS_ATOMIC,
    };
    const uint64_t size = BTL_IB_OP_ATOMIC == op->kind ? btl_ib_atomic_size(op->type) : op->size;

    return btl_ib_region_find(mca_btl_ib_component.engine, &op->key, op->offset, size,
                              access[op->kind]);
}

int btl_ib_self_execute(btl_ib_op_t *op, void *here)
{
    if (NULL == here) {
        here = target_of(op);
    }
    if (NULL == here) {
        return -EACCES;
    }
    if (BTL_IB_OP_ATOMIC != op->kind && 0 == op->size) {
        return 0; /* there may be no memory */
    }
    switch (op->kind) {
    case BTL_IB_OP_PUT:
        memmove(here, op->local, (size_t) op->size);
        return 0;
    case BTL_IB_OP_GET:
        memmove(op->local, here, (size_t) op->size);
        return 0;
    default:
        return btl_ib_atomic_execute(here, op->code, op->type, op->operand, op->compare,
                                     &op->result);
    }
}
