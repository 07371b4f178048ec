/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What Open MPI sees of one device.
 */

#include "btl_ib_endpoint.h"
#include "btl_ib_frag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int module_register_error(mca_btl_base_module_t *btl,
                                 mca_btl_base_module_error_cb_fn_t callback)
{
    ((btl_ib_module_t *) btl)->error_cb = callback;
    return OPAL_SUCCESS;
}

static void dump_endpoint(const btl_ib_endpoint_t *endpoint)
{
    char line[256] = "this process itself";

    if (NULL != endpoint->conn) {
        btl_ib_conn_format(endpoint->conn, btl_ib_now(), line, sizeof(line));
    }
    opal_output(0, "btl:ib: %s by rail %u (%s): %s",
                opal_process_name_print(endpoint->proc->proc_name), endpoint->module->rail,
                endpoint->module->name, line);
}

static void module_dump(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                        int verbose)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    btl_ib_endpoint_t *each;

    (void) verbose;
    btl_ib_lock();
    if (NULL != endpoint) {
        dump_endpoint(endpoint);
    } else {
        OPAL_LIST_FOREACH(each, &module->endpoints, btl_ib_endpoint_t)
        {
            dump_endpoint(each);
        }
    }
    btl_ib_unlock();
}

static int module_finalize(mca_btl_base_module_t *btl)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    btl_ib_endpoint_t *endpoint;
    btl_ib_endpoint_t *next;

    btl_ib_lock();
    OPAL_LIST_FOREACH_SAFE(endpoint, next, &module->endpoints, btl_ib_endpoint_t)
    {
        btl_ib_endpoint_remove(module, endpoint);
    }
    btl_ib_unlock();
    btl_ib_pins_fini(module);
    btl_ib_lock();
    component->modules[module->rail] = NULL;
    if (0 == --component->modules_in_use) {
        btl_ib_component_stop();
    }
    btl_ib_unlock();
    btl_ib_module_destroy(module);
    return OPAL_SUCCESS;
}

#ifdef BTL_IB_HAVE_FT_EVENT
static int module_ft_event(int state)
{
    (void) state;
    return OPAL_SUCCESS;
}
#endif

void btl_ib_module_functions(mca_btl_base_module_t *module)
{
    module->btl_component = &mca_btl_ib_component.super;
    module->btl_add_procs = btl_ib_add_procs;
    module->btl_del_procs = btl_ib_del_procs;
    module->btl_finalize = module_finalize;
    module->btl_alloc = btl_ib_alloc;
    module->btl_free = btl_ib_free;
    module->btl_prepare_src = btl_ib_prepare_src;
    module->btl_send = btl_ib_send;
    module->btl_sendi = btl_ib_sendi;
    module->btl_put = btl_ib_put;
    module->btl_get = btl_ib_get;
    module->btl_atomic_op = btl_ib_atomic_op;
    module->btl_atomic_fop = btl_ib_atomic_fop;
    module->btl_atomic_cswap = btl_ib_atomic_cswap;
    module->btl_register_mem = btl_ib_register_mem;
    module->btl_deregister_mem = btl_ib_deregister_mem;
    module->btl_flush = btl_ib_flush;
    module->btl_dump = module_dump;
    module->btl_register_error = module_register_error;
#ifdef BTL_IB_HAVE_FT_EVENT
    module->btl_ft_event = module_ft_event;
#endif
}

btl_ib_module_t *btl_ib_module_create(uint32_t rail, const char *name, uint32_t bandwidth)
{
    btl_ib_module_t *module = calloc(1, sizeof(*module));
    int rc;
    int rc_rdma;

    if (NULL == module) {
        return NULL;
    }
    module->super = mca_btl_ib_component.limits;
    /* A fact, not a choice. Open MPI has no name for it, so it could not print btl_ib_flags. */
    module->super.btl_flags |= BTL_IB_FLAGS_REMOTE_COMPLETION;
    module->super.btl_bandwidth = bandwidth;
    module->rail = rail;
    snprintf(module->name, sizeof(module->name), "%s", name);
    OBJ_CONSTRUCT(&module->endpoints, opal_list_t);
    rc = btl_ib_frag_lists_init(module);
    rc_rdma = btl_ib_rdma_init(module);
    if (OPAL_SUCCESS != rc || OPAL_SUCCESS != rc_rdma) {
        btl_ib_module_destroy(module);
        return NULL;
    }
    return module;
}

void btl_ib_module_destroy(btl_ib_module_t *module)
{
    btl_ib_pins_fini(module); /* if that did not come to finalize */
    btl_ib_frag_lists_fini(module);
    btl_ib_rdma_fini(module);
    OBJ_DESTRUCT(&module->endpoints);
    free(module);
}
