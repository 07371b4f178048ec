/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a device says of itself, for wire RC. rdma_cm opens each device once for a process, so all rails on one
 * device have one stream of events, and whoever reads hands each event to all of them. (What another user of
 * rdma_cm in the process reads is lost to us.) The connection manager tells what becomes of addresses.
 */

#include "verbs_rc_rail.h"

#include <errno.h>

#include "net_interfaces.h"

/* All rails of this process. Whoever calls a transport holds the lock of all of them. */
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

static bool has_cq(const btl_ib_rc_t *rc, const struct ibv_cq *cq)
{
    uint32_t i = 0;

    while (i < rc->cqs && rc->cq[i].cq != cq) {
        i++;
    }
    return i < rc->cqs;
}

static bool has_srq(const btl_ib_rc_t *rc, const struct ibv_srq *srq)
{
    uint32_t i = 0;

    while (i < rc->channels && rc->channel[i].srq != srq) {
        i++;
    }
    return i < rc->channels;
}

/* Does the port have the address that peers know? Where the network is Ethernet its table has all of the interface; on InfiniBand
 * rdma_cm asks where an address is whenever it connects, and iWARP leaves all that to TCP. */
static bool has_address(const btl_ib_rc_t *rc)
{
    btl_ib_verbs_gid_t gids[BTL_IB_VERBS_GIDS_MAX];

    if (rc->iwarp || !btl_ib_verbs_ethernet(&rc->verbs)) {
        return true;
    }
    const int count =
        btl_ib_verbs_gids(rc->verbs.context, rc->verbs.port, -1, gids, BTL_IB_VERBS_GIDS_MAX);
    for (int i = 0; i < count; i++) {
        if (btl_ib_ip_same((const struct sockaddr *) &gids[i].ip, &rc->self.any)) {
            return true;
        }
    }
    return count < 0 || count == BTL_IB_VERBS_GIDS_MAX; /* not known */
}

/* What an event means for a rail: 0, or the errno that it failed with. A queue pair's trouble shows in its
 * completions; that of what many share shows nowhere else. What changed in a port's LID, partitions or subnet manager rdma_cm
 * learns when it connects anew, as it does after a connection that broke because of that. */
static int judge(const btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        return ENETDOWN;
    case IBV_EVENT_GID_CHANGE:
        return !btl_ib_verbs_port_up(&rc->verbs) ? ENETDOWN : has_address(rc) ? 0 : EADDRNOTAVAIL;
    case IBV_EVENT_DEVICE_FATAL:
        return ENODEV;
    case IBV_EVENT_CQ_ERR:
        return has_cq(rc, event->element.cq) ? EIO : 0;
    case IBV_EVENT_SRQ_ERR:
        return has_srq(rc, event->element.srq) ? EIO : 0;
    default:
        return 0;
    }
}

/* Is it about this rail? Others on the device have ports and connections of their own. */
static bool concerns(const btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    if (event->event_type == IBV_EVENT_PATH_MIG || event->event_type == IBV_EVENT_PATH_MIG_ERR) {
        return event->element.qp->pd == rc->verbs.pd;
    }
    return btl_ib_verbs_event_is_ours(&rc->verbs, event);
}

static void hear(btl_ib_rc_t *rc, const struct ibv_async_event *event)
{
    if (!concerns(rc, event)) {
        return;
    }
    const int error = judge(rc, event);

    btl_ib_verbs_event_told(&rc->verbs, event, error);
    if (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
        btl_ib_rc_pipe_last_words(rc, event->element.qp);
    }
    if (error == ENETDOWN) {
        rc->down = true;
    } else if (error == EADDRNOTAVAIL && rc->down) { /* it may come back with the port */
        return;
    } else if (error != 0 && rc->failed == 0) {
        rc->failed = error;
    }
}

/* A device that knows no port any more is no port that is down: it says so itself. */
bool btl_ib_rc_events_port_down(btl_ib_rc_t *rc)
{
    struct ibv_port_attr attr;

    if (!rc->down && rc->failed == 0
        && ibv_query_port(rc->verbs.context, rc->verbs.port, &attr) == 0
        && attr.state != IBV_PORT_ACTIVE) {
        BTL_IB_VERBS_LOG(&rc->verbs, 1, "%s: a connection failed because the port is down",
                         rc->verbs.base.name);
        rc->down = true;
    }
    return rc->down;
}

/* Soft-RoCE's connections may stand still for ever after that, without an error. */
static void make_anew(btl_ib_rc_t *rc)
{
    for (uint32_t i = 0; i < rc->slots; i++) {
        btl_ib_rc_pipe_t *pipe = rc->slot[i].pipe;
        if (pipe != NULL && pipe->stage >= BTL_IB_RC_ACCEPTED) {
            btl_ib_rc_cm_broke(pipe, "the port was down");
        }
    }
}

void btl_ib_rc_events_read(btl_ib_rc_t *rc)
{
    struct ibv_async_event event;
    const bool was_down = rc->down;

    while (ibv_get_async_event(rc->verbs.context, &event) == 0) {
        for (btl_ib_rc_t *rail = rails; rail != NULL; rail = rail->next_rail) {
            if (rail->verbs.context == rc->verbs.context) {
                hear(rail, &event);
            }
        }
        ibv_ack_async_event(&event);
    }
    if (was_down && btl_ib_verbs_port_up(&rc->verbs) && has_address(rc)) {
        rc->down = false;
        make_anew(rc);
    }
}
