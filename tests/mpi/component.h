/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * For programs that look into the component that runs in this process, whose symbols are hidden:
 * they are built of the same headers. Includes opal_config.h first.
 */

#ifndef BTL_IB_TESTS_COMPONENT_H
#define BTL_IB_TESTS_COMPONENT_H

#include "opal_config.h"

#define btl_ib_free btl_ib_mem_free /* the engine's, which is static; the component has one, too */
#include "btl_ib_state.h"
#undef btl_ib_free
#include "btl_ib.h"

#include "common.h"

#include "opal/mca/btl/base/base.h"

#include <errno.h>

static btl_ib_component_t *find_component(void)
{
    mca_btl_base_selected_module_t *item;

    OPAL_LIST_FOREACH(item, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        mca_btl_base_component_t *component = item->btl_module->btl_component;

        if (strcmp("ib", component->btl_version.mca_component_name) == 0) {
            return (btl_ib_component_t *) component;
        }
    }
    fail("there is no module of ib");
    return NULL;
}

/* As a transport's poll(): its device failed. */
__attribute__((unused)) static int poll_failed(btl_ib_transport_t *transport, uint64_t now,
                                               btl_ib_event_t *events, int max)
{
    (void) transport;
    (void) now;
    if (max < 1) {
        return 0;
    }
    events[0] =
        (btl_ib_event_t){.type = BTL_IB_EVENT_FAILED, .from = BTL_IB_ADDR_UNKNOWN, .error = ENODEV};
    return 1;
}

#endif
