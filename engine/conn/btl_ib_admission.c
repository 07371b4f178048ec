/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_admission.h"

#include "btl_ib_min.h"

#include <string.h>

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

bool btl_ib_admission_looks_up(btl_ib_engine_t *engine, bool known)
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
                   "%u processes that this one never sent to have sent to it (btl_ib_passive_max); "
                   "further ones wait until there are fewer",
                   most);
    }
    return false;
}

bool btl_ib_admission_looks_for_path(btl_ib_engine_t *engine)
{
    begin_second(engine);
    return engine->admission.paths++ < btl_ib_max_u32(engine->config.lookups_max / LOOKUPS, 1)
           && btl_ib_admission_looks_up(engine, false);
}

bool btl_ib_admission_responds(btl_ib_engine_t *engine)
{
    begin_second(engine);
    return engine->admission.responses++ / RESPONSES < engine->config.lookups_max;
}

/* Is a copy of it kept? Copies that are encrypted differ, so more than one of them is kept. */
static bool is_kept(const btl_ib_backlog_t *unidentified, const btl_ib_arrival_t *arrival)
{
    const btl_ib_wire_header_t *header = (const btl_ib_wire_header_t *) (void *) arrival->data;

    BTL_IB_LIST_FOREACH (const btl_ib_backlog_entry_t, stored, &unidentified->messages, link) {
        const btl_ib_wire_header_t *kept =
            (const btl_ib_wire_header_t *) (const void *) stored->data;
        if (kept->token == header->token && kept->seq == header->seq
            && kept->version_type == header->version_type && kept->spaces == header->spaces) {
            return true;
        }
    }
    return false;
}

bool btl_ib_admission_keep(btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_backlog_t *unidentified = &engine->unidentified;
    const uint32_t size = arrival->size + engine->guard.ops->trailer;
    btl_ib_backlog_entry_t *stored =
        is_kept(unidentified, arrival)
            ? NULL
            : btl_ib_backlog_get(unidentified, NULL, (uint8_t) rail->index, size);

    if (stored == NULL) {
        engine->count.dropped_lookup++;
        return btl_ib_admission_responds(engine);
    }
    memcpy(stored->data, arrival->data, size);
    btl_ib_backlog_add(unidentified, stored);
    engine->count.received_unidentified++;
    return true; /* a first contact is answered, whatever the limit */
}
