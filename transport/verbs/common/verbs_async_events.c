/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a device says of itself without being asked (ibv_get_async_event(3)). Reading costs a system call, and
 * nobody calls it but poll(): it looks each so manyth time, and at once after something went wrong.
 */

#include "verbs_port.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

bool btl_ib_verbs_event_is_ours(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        return event->element.port_num == verbs->port;
    default:
        return true;
    }
}

/* Peers know our address. Is it still ours? Returns 0 or an errno. */
static int check_address(const btl_ib_verbs_t *verbs)
{
    struct ibv_port_attr attr;
    union ibv_gid gid;

    if (ibv_query_gid(verbs->context, verbs->port, (int) verbs->gid.index, &gid) != 0
        || memcmp(&gid, &verbs->gid.gid, sizeof(gid)) != 0) {
        return EADDRNOTAVAIL;
    }
    if (btl_ib_verbs_ethernet(verbs)) {
        return 0;
    }
    return ibv_query_port(verbs->context, verbs->port, &attr) == 0
                   && attr.lid == verbs->port_attr.lid
               ? 0
               : EADDRNOTAVAIL;
}

static int check_partition(const btl_ib_verbs_t *verbs)
{
    __be16 pkey;

    return ibv_query_pkey(verbs->context, verbs->port, verbs->pkey_index, &pkey) == 0
                   && be16toh(pkey) == verbs->pkey
               ? 0
               : EPERM;
}

bool btl_ib_verbs_port_up(const btl_ib_verbs_t *verbs)
{
    struct ibv_port_attr attr;

    return ibv_query_port(verbs->context, verbs->port, &attr) == 0 && attr.state == IBV_PORT_ACTIVE;
}

bool btl_ib_verbs_is_back(const btl_ib_verbs_t *verbs)
{
    return btl_ib_verbs_port_up(verbs) && check_address(verbs) == 0 && check_partition(verbs) == 0;
}

/* What an event means for us: 0, or the errno that the device failed with. */
static int judge(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event)
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
    default: /* a queue pair's trouble with a peer shows in its completions */
        return 0;
    }
}

/* Which help text a user gets; BTL_IB_DIAGS: none. */
static btl_ib_diagnostic_t trouble_of(const struct ibv_async_event *event, int error)
{
    if (event->event_type == IBV_EVENT_PATH_MIG || event->event_type == IBV_EVENT_PATH_MIG_ERR) {
        return BTL_IB_DIAG_MIGRATED;
    }
    switch (error) {
    case 0:
        return BTL_IB_DIAGS;
    case ENETDOWN:
        return BTL_IB_DIAG_PORT_ERROR;
    case EADDRNOTAVAIL:
    case EPERM:
        return BTL_IB_DIAG_IDENTITY;
    default:
        return BTL_IB_DIAG_FATAL;
    }
}

void btl_ib_verbs_event_told(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event,
                             int error)
{
    const char *text = ibv_event_type_str(event->event_type);
    const btl_ib_diagnostic_t trouble = trouble_of(event, error);

    BTL_IB_VERBS_LOG(verbs, trouble != BTL_IB_DIAGS ? 1 : 10, "%s: the device says: %s",
                     verbs->base.name, text);
    if (trouble != BTL_IB_DIAGS) {
        btl_ib_verbs_trouble(&verbs->log, trouble, verbs->base.name, text);
    }
}

int btl_ib_verbs_async(const btl_ib_verbs_t *verbs)
{
    struct ibv_async_event event;
    int error = 0;

    while (error == 0 && ibv_get_async_event(verbs->context, &event) == 0) {
        if (btl_ib_verbs_event_is_ours(verbs, &event)) {
            error = judge(verbs, &event);
            btl_ib_verbs_event_told(verbs, &event, error);
        }
        ibv_ack_async_event(&event);
    }
    return error;
}
