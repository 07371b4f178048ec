/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_ud_port.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_device.h"
#include "verbs_open.h"

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
static int find_pkey(btl_ib_ud_port_t *port, uint16_t wanted)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    __be16 entry;
    bool found = false;
    char text[16];

    for (int i = 0; i < verbs->port_attr.pkey_tbl_len; i++) {
        if (ibv_query_pkey(verbs->context, verbs->port, i, &entry) != 0) {
            continue;
        }
        const uint16_t pkey = be16toh(entry);
        const uint16_t number = pkey & BTL_IB_UD_PKEY_NUMBER;
        const bool better =
            wanted != 0 && (pkey & ~port->pkey & BTL_IB_UD_PKEY_FULL) != 0; /* than one found */
        if (number != 0 && (wanted == 0 || number == (wanted & BTL_IB_UD_PKEY_NUMBER))
            && (!found || better)) {
            port->pkey_index = (uint16_t) i;
            port->pkey = pkey;
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

int btl_ib_ud_port_open(btl_ib_ud_port_t *port, const btl_ib_device_t *device,
                        const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_device_t *handle = device->handle;
    struct ibv_context *context = open_by_name(handle->name);

    if (context == NULL) {
        return btl_ib_verbs_failed(&port->verbs, "ibv_open_device", errno);
    }
    const int error = btl_ib_verbs_open(&port->verbs, context, handle->port, params->mtu);
    if (error != 0) {
        return error;
    }
    port->gid = handle->gid;
    port->service_level = params->service_level;
    port->traffic_class = params->traffic_class;
    return find_pkey(port, params->pkey);
}

void btl_ib_ud_port_close(btl_ib_ud_port_t *port)
{
    btl_ib_verbs_close(&port->verbs);
    if (port->verbs.context != NULL) {
        (void) ibv_close_device(port->verbs.context);
    }
}

/* ---- events ---- */

/* Is the address that peers know still ours? Returns 0 or an errno. */
static int check_address(const btl_ib_ud_port_t *port)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    struct ibv_port_attr attr;
    union ibv_gid gid;

    if (ibv_query_gid(verbs->context, verbs->port, (int) port->gid.index, &gid) != 0
        || memcmp(&gid, &port->gid.gid, sizeof(gid)) != 0) {
        return EADDRNOTAVAIL;
    }
    const bool same_lid = btl_ib_verbs_ethernet(verbs)
                          || (ibv_query_port(verbs->context, verbs->port, &attr) == 0
                              && attr.lid == verbs->port_attr.lid);
    return same_lid ? 0 : EADDRNOTAVAIL;
}

static int check_partition(const btl_ib_ud_port_t *port)
{
    __be16 pkey;

    return ibv_query_pkey(port->verbs.context, port->verbs.port, port->pkey_index, &pkey) == 0
                   && be16toh(pkey) == port->pkey
               ? 0
               : EPERM;
}

/* The errno that an event means for the port, 0: it goes on. What happens to a queue pair because
 * of a peer shows in its completions. */
static int error_of(const btl_ib_ud_port_t *port, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        return ENETDOWN;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
        return btl_ib_verbs_port_up(&port->verbs) ? check_address(port) : ENETDOWN;
    case IBV_EVENT_PKEY_CHANGE:
        return btl_ib_verbs_port_up(&port->verbs) ? check_partition(port) : ENETDOWN;
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
static int read_events(const btl_ib_ud_port_t *port)
{
    struct ibv_async_event event;
    int error = 0;

    while (error == 0 && ibv_get_async_event(port->verbs.context, &event) == 0) {
        if (btl_ib_verbs_event_is_ours(&port->verbs, &event)) {
            error = error_of(port, &event);
            btl_ib_verbs_event_log(&port->verbs, &event, error);
        }
        ibv_ack_async_event(&event);
    }
    return error;
}

void btl_ib_ud_port_fail(const btl_ib_ud_port_t *port, btl_ib_verbs_state_t *state,
                         const char *what, int error)
{
    error = error != 0 ? error : EIO;
    if (state->error == 0) {
        BTL_IB_VERBS_LOG(&port->verbs, 1, "%s: %s: %s", port->verbs.base.name, what,
                         strerror(error));
        btl_ib_verbs_state_fail(state, error);
    }
}

/* Look where in the table the address is: one that was lost comes back at another place while
 * something still uses the old one. */
static void find_address(btl_ib_ud_port_t *port)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    btl_ib_verbs_gid_t *list;
    const int count = btl_ib_verbs_gids(verbs->context, verbs->port, -1, &list);

    for (int i = 0; i < count; i++) {
        if (list[i].type == port->gid.type
            && memcmp(&list[i].gid, &port->gid.gid, sizeof(list[i].gid)) == 0) {
            port->gid.index = list[i].index;
            break;
        }
    }
    free(list);
}

/* Look whether a port that was down has all that peers know of it, at whatever index its address is
 * now. */
static bool bring_back(btl_ib_ud_port_t *port)
{
    if (!btl_ib_verbs_port_up(&port->verbs) || check_partition(port) != 0) {
        return false;
    }
    if (check_address(port) != 0) {
        find_address(port);
    }
    return check_address(port) == 0;
}

bool btl_ib_ud_port_events(btl_ib_ud_port_t *port, btl_ib_verbs_state_t *state)
{
    if (state->error != 0) {
        return false;
    }
    const int error = read_events(port);
    if (error == ENODEV || error == EIO) {
        btl_ib_ud_port_fail(port, state, "the device failed", error);
    } else if (error != 0) {
        btl_ib_verbs_state_down(state, error);
    }
    return error == 0 && state->down != 0 && bring_back(port);
}
