/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_admission.h"

#include "btl_ib_state.h"

enum {
    SECOND = 1000 * 1000, /* us */
    RESPONSES = 8,        /* responses for each lookup that is allowed: they cost less */
    LOOKUPS = 8, /* lookups for each one of a path: what has no path may come without end */
};

static void begin_second(btl_ib_engine_t *engine)
{
    btl_ib_admission_t *admission = &engine->admission;

    if (engine->clock.now - admission->lookups_at >= SECOND) {
        admission->lookups_at = engine->clock.now;
        admission->lookups = 0;
        admission->responses = 0;
        admission->paths = 0;
    }
}

bool btl_ib_admission_take_lookup(btl_ib_engine_t *engine, bool known)
{
    btl_ib_admission_t *admission = &engine->admission;
    const uint32_t most = engine->config.passive_max;

    if (known || admission->passive < most) {
        begin_second(engine);
        return !admission->closed && admission->lookups++ < engine->config.lookups_max;
    }
    if (!admission->told_passive) {
        admission->told_passive = true;
        BTL_IB_LOG(engine, 0,
                   "%u processes that this one never sent to have sent to it; "
                   "further ones wait until there are fewer",
                   most);
    }
    return false;
}

bool btl_ib_admission_take_path_lookup(btl_ib_engine_t *engine)
{
    begin_second(engine);
    return engine->admission.paths++ < btl_ib_max_u32(engine->config.lookups_max / LOOKUPS, 1)
           && btl_ib_admission_take_lookup(engine, false);
}

bool btl_ib_admission_take_response(btl_ib_engine_t *engine)
{
    begin_second(engine);
    return engine->admission.responses++ / RESPONSES < engine->config.lookups_max;
}
