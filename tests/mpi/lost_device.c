/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A device that fails while MPI_Finalize takes leave of the last peers, when there is no module of
 * it any more: that is said as always, and the process ends as always. Looks into the component,
 * which is built of the same headers.
 */

#include "component.h"

int main(int argc, char **argv)
{
    static btl_ib_transport_ops_t ops;

    begin(&argc, &argv, "lost_device");
    btl_ib_component_t *component = find_component();
    btl_ib_module_t *module = component->modules[0];
    btl_ib_rail_t *rail = component->engine->rails[0];

    component->modules[0] = NULL; /* as module_finalize() does, before the engine ends */
    ops = *rail->transport->ops;
    ops.poll = poll_failed;
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
