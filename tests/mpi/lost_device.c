/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A device that fails while MPI_Finalize takes leave of the last peers, when there is no module of
 * it any more: that is said as always, and the process ends as always. Looks into the component,
 * which is built of the same headers.
 */

#include "opal_config.h"

#define btl_ib_free btl_ib_mem_free /* the engine's, which is static; the component has one, too */
#include "btl_ib_state.h"
#undef btl_ib_free
#include "btl_ib.h"

#include "common.h"

#include "opal/mca/btl/base/base.h"

/* The component that this process runs, whose symbols are hidden. */
static btl_ib_component_t *find_component(void)
{
    mca_btl_base_selected_module_t *item;

    OPAL_LIST_FOREACH(item, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        mca_btl_base_component_t *component = item->btl_module->btl_component;

        if (0 == strcmp("ib", component->btl_version.mca_component_name)) {
            return (btl_ib_component_t *) component;
        }
    }
    fail("there is no module of ib");
    return NULL;
}

static int fails(btl_ib_transport_t *transport, btl_ib_event_t *events, int max)
{
    (void) transport;
    if (max < 1) {
        return 0;
    }
    events[0] =
        (btl_ib_event_t){.type = BTL_IB_EVENT_FAILED, .from = BTL_IB_ADDR_UNKNOWN, .error = ENODEV};
    return 1;
}

int main(int argc, char **argv)
{
    static btl_ib_transport_ops_t ops;

    begin(&argc, &argv, "lost_device");
    btl_ib_component_t *component = find_component();
    btl_ib_module_t *module = component->modules[0];
    btl_ib_rail_t *rail = component->engine->rails[0];

    component->modules[0] = NULL; /* as module_finalize() does, before the engine ends */
    ops = *rail->transport->ops;
    ops.poll = fails;
    rail->transport->ops = &ops;
    for (int i = 0; i < 100000 && !rail->health.reported; i++) {
        component->super.btl_progress();
    }
    component->modules[0] = module;
    if (!rail->health.reported) {
        fail("the failure of a device was not seen");
    }
    finish();
    return 0;
}
