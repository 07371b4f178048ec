/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_reopen.h"

#include <stdlib.h>
#include <string.h>

#include "btl_ib_device_plan.h"
#include "btl_ib_help.h"
#include "net_interfaces.h"

/* us between two looks: a look takes 0.1 to 1 ms, with libfabric more. */
#define PAUSE_FIRST 1000000
#define PAUSE_MAX   16000000
/* A device that fails that often is left alone. */
#define TIMES_MAX 64

void btl_ib_reopen_init(btl_ib_reopen_t *reopen, const btl_ib_open_request_t *request,
                        btl_ib_opened_device_t *opened, uint32_t count)
{
    *reopen = (btl_ib_reopen_t){
        .due = UINT64_MAX,
        .params = request->params,
        .engine = request->engine,
        .log = request->log,
        .count = count,
        .opened = opened,
    };
}

void btl_ib_reopen_fini(btl_ib_reopen_t *reopen)
{
    free(reopen->opened);
    *reopen = (btl_ib_reopen_t){.due = UINT64_MAX};
}

void btl_ib_reopen_begin(btl_ib_reopen_t *reopen, uint64_t now)
{
    reopen->pause = PAUSE_FIRST;
    reopen->due = now + PAUSE_FIRST;
}

/* Is it the same, at the address that its peers' networks lead to? */
static bool is_same(const btl_ib_device_t *a, const btl_ib_device_t *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->provider, b->provider) == 0
           && strcmp(a->interface, b->interface) == 0 && a->port == b->port
           && a->ip.ss_family == b->ip.ss_family
           && (a->ip.ss_family == AF_UNSPEC
               || btl_ib_ip_same((const struct sockaddr *) &a->ip,
                                 (const struct sockaddr *) &b->ip));
}

/* Returns NULL if the device is not there, or cannot be opened. */
static btl_ib_transport_t *open_again(const btl_ib_reopen_t *reopen,
                                      const btl_ib_opened_device_t *rail)
{
    const btl_ib_params_t *params = reopen->params;
    const btl_ib_search_t wanted = {.provider = params->ofi_provider,
                                    .fork_safe = params->fork_safe,
                                    .gid_index = params->gid_index};
    btl_ib_transport_t *transport = NULL;
    btl_ib_device_t *list = NULL;
    const int count = rail->type->devices(&wanted, &list);
    btl_ib_open_params_t open;
    int i = 0;

    while (i < count && !is_same(&list[i], &rail->device)) {
        ++i;
    }
    if (i < count) {
        int rc;

        btl_ib_device_plan_open(params, &rail->queues, &open);
        open.log = btl_ib_log_table(reopen->log);
        rc = rail->type->open(&list[i], &open, &transport);
        BTL_IB_VERBOSE(10, "device %s is there again: %s", rail->device.name,
                       rc == 0 ? "opened" : strerror(-rc));
    }
    if (count >= 0) {
        rail->type->devices_free(list, count);
    }
    return transport;
}

/* Returns whether the rail has another transport now. */
static bool try_rail(btl_ib_reopen_t *reopen, uint32_t i, uint64_t now)
{
    btl_ib_transport_t *transport = open_again(reopen, &reopen->opened[i]);
    int rc;

    if (transport == NULL) {
        return false;
    }
    ++reopen->times[i];
    rc = btl_ib_engine_replace(reopen->engine, i, transport, now);
    if (rc != 0) {
        BTL_IB_VERBOSE(1, "device %s is there again, but cannot be used as before: %s",
                       reopen->opened[i].device.name, strerror(-rc));
        transport->ops->close(transport);
    } else if (reopen->times[i] == TIMES_MAX) {
        BTL_IB_VERBOSE(1, "device %s failed %d times: the next time it is not opened again",
                       reopen->opened[i].device.name, TIMES_MAX);
    }
    return rc == 0;
}

uint32_t btl_ib_reopen_look(btl_ib_reopen_t *reopen, uint64_t now)
{
    uint32_t replaced = 0;
    bool in_vain = false;
    bool waits = false; /* for its transport, or the end of a callback: that costs nothing */

    for (uint32_t i = 0; i < reopen->count; ++i) {
        const btl_ib_rail_state_t state = btl_ib_engine_rail_state(reopen->engine, i);

        if (state == BTL_IB_RAIL_WORKS || reopen->times[i] == TIMES_MAX) {
            continue;
        }
        if (state != BTL_IB_RAIL_LOST) {
            waits = true;
        } else if (try_rail(reopen, i, now)) {
            replaced |= UINT32_C(1) << i;
        } else {
            in_vain = true;
        }
    }
    if (in_vain && reopen->pause < PAUSE_MAX) {
        reopen->pause *= 2;
    }
    reopen->due = in_vain || waits ? now + reopen->pause : UINT64_MAX;
    return replaced;
}
