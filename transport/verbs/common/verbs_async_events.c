/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_async_events.h"

#include <errno.h>

#include "verbs_diagnostics.h"

int btl_ib_verbs_state_report(btl_ib_verbs_state_t *state, btl_ib_event_t *events, int max)
{
    if (max == 0) {
        return 0;
    }
    *events = (btl_ib_event_t){.type = state->error != 0 ? BTL_IB_EVENT_FAILED
                                       : state->down != 0 ? BTL_IB_EVENT_DOWN
                                                          : BTL_IB_EVENT_UP,
                               .error = state->error != 0 ? state->error : state->down,
                               .from = BTL_IB_ADDR_UNKNOWN};
    state->error_reported = state->error != 0;
    state->down_reported = state->down != 0;
    return 1;
}

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

bool btl_ib_verbs_port_up(const btl_ib_verbs_t *verbs)
{
    struct ibv_port_attr attr;

    return ibv_query_port(verbs->context, verbs->port, &attr) == 0 && attr.state == IBV_PORT_ACTIVE;
}

/* The help text that a user gets, BTL_IB_DIAGS if none. */
static btl_ib_diagnostic_t diag_of(const struct ibv_async_event *event, int error)
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

void btl_ib_verbs_event_log(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event,
                            int error)
{
    const char *text = ibv_event_type_str(event->event_type);
    const btl_ib_diagnostic_t diag = diag_of(event, error);

    BTL_IB_VERBS_LOG(verbs, diag != BTL_IB_DIAGS ? 1 : 10, "%s: the device says: %s",
                     verbs->base.name, text);
    if (diag != BTL_IB_DIAGS) {
        btl_ib_verbs_diag(&verbs->log, diag, verbs->base.name, text);
    }
}
