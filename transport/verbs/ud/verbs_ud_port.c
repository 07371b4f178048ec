/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_ud_port.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "verbs_comp_channel.h"
#include "verbs_devices.h"
#include "verbs_diagnostics.h"

/* ---- opening ---- */

static struct ibv_context *open_by_name(const char *name)
{
    int count = 0;
    struct ibv_device **all = ibv_get_device_list(&count);
    struct ibv_context *context = NULL;

    errno = ENODEV;
    for (int i = 0; i < count; i++) {
        if (strcmp(ibv_get_device_name(all[i]), name) == 0) {
            context = ibv_open_device(all[i]);
            break;
        }
    }
    const int error = errno;
    if (all != NULL) {
        ibv_free_device_list(all);
    }
    errno = error;
    return context;
}

/* Find the place of a partition in the port's table. A full membership is preferred: limited
 * members reach only full ones. */
static int find_pkey(btl_ib_verbs_t *verbs, uint16_t wanted)
{
    __be16 entry;
    bool found = false;
    char text[16];

    for (int i = 0; i < verbs->port_attr.pkey_tbl_len; i++) {
        if (ibv_query_pkey(verbs->context, verbs->port, i, &entry) != 0) {
            continue;
        }
        const uint16_t pkey = be16toh(entry);
        const bool fits =
            (pkey & BTL_IB_VERBS_PKEY_NUMBER) != 0
            && (wanted == 0
                || (pkey & BTL_IB_VERBS_PKEY_NUMBER) == (wanted & BTL_IB_VERBS_PKEY_NUMBER));
        if (fits
            && (!found
                || (pkey & BTL_IB_VERBS_PKEY_FULL && !(verbs->pkey & BTL_IB_VERBS_PKEY_FULL)
                    && wanted != 0))) {
            verbs->pkey_index = (uint16_t) i;
            verbs->pkey = pkey;
            found = true;
        }
    }
    if (!found) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: port %u is in no partition 0x%x (btl_ib_pkey)",
                         verbs->base.name, verbs->port, wanted);
        snprintf(text, sizeof(text), "0x%04x", wanted);
        btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_PARTITION, verbs->base.name, text);
    }
    return found ? 0 : -ENOENT;
}

int btl_ib_ud_port_open(btl_ib_verbs_t *verbs, const btl_ib_device_t *device,
                        const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_device_t *handle = device->handle;
    int rc;

    verbs->log = params->log;
    verbs->port = handle->port;
    verbs->gid = handle->gid;
    snprintf(verbs->base.name, sizeof(verbs->base.name), "verbs/%.4s:%.52s", device->provider,
             device->name);
    verbs->context = open_by_name(handle->name);
    if (verbs->context == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_open_device", errno);
    }
    if ((rc = btl_ib_verbs_nonblocking(verbs, verbs->context->async_fd)) != 0) {
        return rc;
    }
    if ((rc = ibv_query_device(verbs->context, &verbs->device)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_device", rc);
    }
    if ((rc = ibv_query_port(verbs->context, verbs->port, &verbs->port_attr)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_port", rc);
    }
    verbs->pd = ibv_alloc_pd(verbs->context);
    if (verbs->pd == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_alloc_pd", errno);
    }
    verbs->service_level = params->service_level;
    verbs->traffic_class = params->traffic_class;
    return find_pkey(verbs, params->pkey);
}

void btl_ib_ud_port_close(btl_ib_verbs_t *verbs)
{
    if (verbs->pd != NULL) {
        (void) ibv_dealloc_pd(verbs->pd);
    }
    if (verbs->context != NULL) {
        (void) ibv_close_device(verbs->context);
    }
}

/* ---- events ---- */

/* Is the address that peers know still ours? Returns 0 or an errno. */
static int check_address(const btl_ib_verbs_t *verbs)
{
    struct ibv_port_attr attr;
    union ibv_gid gid;

    if (ibv_query_gid(verbs->context, verbs->port, (int) verbs->gid.index, &gid) != 0
        || memcmp(&gid, &verbs->gid.gid, sizeof(gid)) != 0) {
        return EADDRNOTAVAIL;
    }
    const bool same_lid = btl_ib_verbs_ethernet(verbs)
                          || (ibv_query_port(verbs->context, verbs->port, &attr) == 0
                              && attr.lid == verbs->port_attr.lid);
    return same_lid ? 0 : EADDRNOTAVAIL;
}

static int check_partition(const btl_ib_verbs_t *verbs)
{
    __be16 pkey;

    return ibv_query_pkey(verbs->context, verbs->port, verbs->pkey_index, &pkey) == 0
                   && be16toh(pkey) == verbs->pkey
               ? 0
               : EPERM;
}

/* The errno that an event means for the port, 0: it goes on. What happens to a queue pair because
 * of a peer shows in its completions. */
static int error_of(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        return ENETDOWN;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
        return btl_ib_verbs_port_up(verbs) ? check_address(verbs) : ENETDOWN;
    case IBV_EVENT_PKEY_CHANGE:
        return btl_ib_verbs_port_up(verbs) ? check_partition(verbs) : ENETDOWN;
    case IBV_EVENT_DEVICE_FATAL:
        return ENODEV;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_SRQ_ERR:
        return EIO;
    default:
        return 0;
    }
}

/* Returns the errno of the first event that has one; those behind it stay for the next time. */
static int read_events(const btl_ib_verbs_t *verbs)
{
    struct ibv_async_event event;
    int error = 0;

    while (error == 0 && ibv_get_async_event(verbs->context, &event) == 0) {
        if (btl_ib_verbs_event_is_ours(verbs, &event)) {
            error = error_of(verbs, &event);
            btl_ib_verbs_event_log(verbs, &event, error);
        }
        ibv_ack_async_event(&event);
    }
    return error;
}

void btl_ib_ud_port_fail(const btl_ib_verbs_t *verbs, btl_ib_verbs_state_t *state, const char *what,
                         int error)
{
    error = error != 0 ? error : EIO;
    if (state->error == 0) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: %s: %s", verbs->base.name, what, strerror(error));
        btl_ib_verbs_state_fail(state, error);
    }
}

void btl_ib_ud_port_events(const btl_ib_verbs_t *verbs, btl_ib_verbs_state_t *state)
{
    if (state->error != 0) {
        return;
    }
    const int error = read_events(verbs);
    const bool for_good = error == ENODEV || error == EIO;
    if (for_good || (error != 0 && error != ENETDOWN && !state->down)) {
        btl_ib_ud_port_fail(verbs, state, "the device failed", error);
    } else if (error != 0) { /* a changed address may come back with the port */
        btl_ib_verbs_state_set_down(state, true);
    } else if (state->down) {
        btl_ib_verbs_state_set_down(state, !btl_ib_verbs_port_up(verbs) || check_address(verbs) != 0
                                               || check_partition(verbs) != 0);
    }
}
