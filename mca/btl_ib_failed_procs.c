/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_failed_procs.h"

#include <stdlib.h>

#include "btl_ib_endpoint.h"

/* Names that there is room for at first. */
#define FIRST_ROOM 16

void btl_ib_ended_added(btl_ib_ended_t *ended, uint64_t name)
{
    for (uint32_t i = 0; i < ended->count; ++i) {
        if (ended->names[i] == name) {
            ended->done = i < ended->done ? i : ended->done;
            return;
        }
    }
}

/* The endpoint of a module for `name`, if its connection lives; or NULL. */
static btl_ib_endpoint_t *living(btl_ib_module_t *module, uint64_t name)
{
    btl_ib_endpoint_t *each;

    OPAL_LIST_FOREACH(each, &module->endpoints, btl_ib_endpoint_t)
    {
        if (btl_ib_name_pack(each->proc->proc_name) == name) {
            return NULL == each->conn || each->closing || btl_ib_conn_is_dead(each->conn) ? NULL
                                                                                          : each;
        }
    }
    return NULL;
}

/* All connections with `name` are dead. */
static void end_one(const btl_ib_component_t *component, uint64_t name)
{
    for (uint32_t i = 0; i < component->module_count; ++i) {
        btl_ib_module_t *module = component->modules[i]; /* a callback may have finalized it */
        btl_ib_endpoint_t *endpoint = NULL != module ? living(module, name) : NULL;

        if (NULL != endpoint) {
            btl_ib_conn_kill(endpoint->conn, BTL_IB_DEATH_ENDED);
        }
    }
}

/* Returns false if there is no memory for it. */
static bool remember(btl_ib_ended_t *ended, uint64_t name)
{
    if (ended->count == ended->room) {
        const uint32_t room = 0 == ended->room ? FIRST_ROOM : 2 * ended->room;
        uint64_t *names = realloc(ended->names, room * sizeof(*names));

        if (NULL == names) {
            return false;
        }
        ended->names = names;
        ended->room = room;
    }
    ended->names[ended->count++] = name;
    return true;
}

void btl_ib_ended_report(uint64_t now)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_ended_t *ended = &component->ended;
    opal_process_name_t name;

    if (component->draining > 0 || now - component->drain_ended <= BTL_IB_DRAIN_GAP) {
        return;
    }
    while (btl_ib_compat_ends_next(&name)) {
        BTL_IB_VERBOSE(1, "the runtime says that %s failed", opal_process_name_print(name));
        if (name.jobid != component->name.jobid) {
            continue; /* 6.0 says so of processes of connected jobs that ended well, too */
        }
        if (!remember(ended, btl_ib_name_pack(name))) {
            end_one(component, btl_ib_name_pack(name));
        }
    }
    while (ended->done < ended->count) {
        end_one(component, ended->names[ended->done++]);
    }
}

void btl_ib_ended_fini(btl_ib_ended_t *ended)
{
    free(ended->names);
    *ended = (btl_ib_ended_t){0};
}
