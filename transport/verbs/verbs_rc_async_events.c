/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_async_events.h"

#include <errno.h>
#include <stdlib.h>

#include "net_interfaces.h"
#include "verbs_device.h"

/* All RC transports of this process. Whoever calls one holds the lock of all of them. */
static btl_ib_rc_t *rails;

void btl_ib_rc_events_join(btl_ib_rc_t *rc)
{
    rc->next_rail = rails;
    rails = rc;
}

void btl_ib_rc_events_leave(btl_ib_rc_t *rc)
{
    btl_ib_rc_t **at = &rails;

    while (*at != NULL && *at != rc) {
        at = &(*at)->next_rail;
    }
    if (*at != NULL) {
        *at = rc->next_rail;
    }
}

void btl_ib_rc_events_fail(btl_ib_rc_t *rc, int error)
{
    btl_ib_verbs_state_fail(&rc->state, error);
}

/* Look whether the port has the address that peers know. Where the network is Ethernet its table
 * has all of the interface; on InfiniBand rdma_cm asks where an address is whenever it connects,
 * and iWARP leaves all that to TCP. */
static bool look_for_address(const btl_ib_rc_t *rc)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    btl_ib_verbs_gid_t *gids;
    bool found = false;

    if (rc->port.iwarp || !btl_ib_verbs_ethernet(verbs)) {
        return true;
    }
    const int count = btl_ib_verbs_gids(verbs->context, verbs->port, -1, &gids);
    for (int i = 0; i < count && !found; i++) {
        found = btl_ib_ip_same((const struct sockaddr *) &gids[i].ip, &rc->self.any);
    }
    free(gids);
    return found || count < 0 || count == BTL_IB_VERBS_GIDS_MAX; /* or not known */
}

/* The errno that an event means for a transport, 0: it goes on. What happens to one queue pair
 * shows in its completions; to what many share, nowhere else. A changed LID, partition or subnet
 * manager rdma_cm learns when it connects again, as it does after a connection that broke because
 * of that. */
static int error_of(const btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        return ENETDOWN;
    case IBV_EVENT_GID_CHANGE:
        return !btl_ib_verbs_port_up(&rc->port.verbs) ? ENETDOWN
               : look_for_address(rc)                 ? 0
                                                      : EADDRNOTAVAIL;
    case IBV_EVENT_DEVICE_FATAL:
        return ENODEV;
    case IBV_EVENT_CQ_ERR:
        return btl_ib_rc_cqs_has(&rc->cqs, event->element.cq) ? EIO : 0;
    case IBV_EVENT_SRQ_ERR:
        return btl_ib_rc_rxqs_has(&rc->rxqs, event->element.srq) ? EIO : 0;
    default:
        return 0;
    }
}

/* Is it about this transport? Others on the device have ports and connections of their own. */
static bool concerns(const btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    if (event->event_type == IBV_EVENT_PATH_MIG || event->event_type == IBV_EVENT_PATH_MIG_ERR) {
        return event->element.qp->pd == rc->port.verbs.pd;
    }
    return btl_ib_verbs_event_is_ours(&rc->port.verbs, event);
}

static void handle(btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    if (!concerns(rc, event)) {
        return;
    }
    const int error = error_of(rc, event);

    btl_ib_verbs_event_log(&rc->port.verbs, event, error);
    if (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
        btl_ib_rc_conns_last_wqe(&rc->conns, event->element.qp);
    }
    if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED && rc->state.error == 0) {
        if (btl_ib_rc_rxqs_ran_low(&rc->rxqs, &rc->port.verbs, event->element.srq) != 0) {
            btl_ib_rc_events_fail(rc, EIO);
        }
        rc->port.verbs.base.overflows = btl_ib_rc_rxqs_emptied(&rc->rxqs);
    }
    if (error == ENETDOWN || error == EADDRNOTAVAIL) {
        btl_ib_verbs_state_down(&rc->state, error);
    } else if (error != 0) {
        btl_ib_rc_events_fail(rc, error);
    }
}

/* A device that knows no port any more has not lost its link: it says so itself. */
bool btl_ib_rc_events_port_down(btl_ib_rc_t *rc)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    struct ibv_port_attr attr;

    if (!rc->state.down && rc->state.error == 0
        && ibv_query_port(verbs->context, verbs->port, &attr) == 0
        && attr.state != IBV_PORT_ACTIVE) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: a connection failed because the port is down",
                         verbs->base.name);
        btl_ib_verbs_state_down(&rc->state, ENETDOWN);
    }
    return rc->state.down != 0;
}

bool btl_ib_rc_events_read(btl_ib_rc_t *rc)
{
    struct ibv_context *context = rc->port.verbs.context;
    const bool was_down = rc->state.down != 0;
    struct ibv_async_event event;

    while (ibv_get_async_event(context, &event) == 0) {
        for (btl_ib_rc_t *rail = rails; rail != NULL; rail = rail->next_rail) {
            if (rail->port.verbs.context == context) {
                handle(rail, &event);
            }
        }
        ibv_ack_async_event(&event);
    }
    if (!was_down || !btl_ib_verbs_port_up(&rc->port.verbs) || !look_for_address(rc)) {
        return false;
    }
    btl_ib_verbs_state_up(&rc->state);
    return true;
}
