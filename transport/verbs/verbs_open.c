/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_open.h"

#include "verbs_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- completion channel ---- */

int btl_ib_verbs_nonblocking(const btl_ib_verbs_t *verbs, int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0
               ? 0
               : btl_ib_verbs_failed(verbs, "fcntl", errno);
}

static bool watch(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
}

int btl_ib_verbs_comp_open(btl_ib_verbs_comp_t *comp, const btl_ib_verbs_t *verbs,
                           const int *others, int count)
{
    comp->fd = -1;
    comp->channel = ibv_create_comp_channel(verbs->context);
    if (comp->channel == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_create_comp_channel", errno);
    }
    const int error = btl_ib_verbs_nonblocking(verbs, comp->channel->fd);
    if (error != 0) {
        return error;
    }
    comp->fd = epoll_create1(EPOLL_CLOEXEC);
    bool watched = comp->fd >= 0 && watch(comp->fd, comp->channel->fd);
    for (int i = 0; i < count && watched; i++) {
        watched = watch(comp->fd, others[i]);
    }
    return watched ? 0 : btl_ib_verbs_failed(verbs, "epoll", errno);
}

void btl_ib_verbs_comp_close(btl_ib_verbs_comp_t *comp)
{
    if (comp->channel == NULL) {
        return;
    }
    if (comp->fd >= 0) {
        (void) close(comp->fd);
    }
    (void) ibv_destroy_comp_channel(comp->channel);
}

bool btl_ib_verbs_comp_read(const btl_ib_verbs_comp_t *comp)
{
    struct ibv_cq *cq;
    void *context;
    bool any = false;

    while (ibv_get_cq_event(comp->channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        any = true;
    }
    return any;
}

/* ---- opening ---- */

void btl_ib_verbs_init(btl_ib_verbs_t *verbs, const btl_ib_transport_ops_t *ops,
                       const btl_ib_log_t *log, const char *wire, const char *name)
{
    verbs->base.ops = ops;
    verbs->log = *log;
    snprintf(verbs->base.name, sizeof(verbs->base.name), "verbs/%s:%.54s", wire, name);
}

int btl_ib_verbs_open(btl_ib_verbs_t *verbs, struct ibv_context *context, uint8_t port,
                      uint32_t mtu)
{
    int error;

    verbs->context = context;
    verbs->port = port;
    if ((error = btl_ib_verbs_nonblocking(verbs, context->async_fd)) != 0) {
        return error;
    }
    if ((error = ibv_query_device(context, &verbs->device)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_device", error);
    }
    if ((error = ibv_query_port(context, port, &verbs->port_attr)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_port", error);
    }
    verbs->refusals = btl_ib_verbs_refusals_read(verbs);
    verbs->mtu = btl_ib_verbs_mtu(verbs->port_attr.active_mtu, mtu);
    verbs->pd = ibv_alloc_pd(context);
    return verbs->pd != NULL ? 0 : btl_ib_verbs_failed(verbs, "ibv_alloc_pd", errno);
}

void btl_ib_verbs_close(btl_ib_verbs_t *verbs)
{
    if (verbs->pd != NULL) {
        btl_ib_verbs_refusals_tell(verbs);
        (void) ibv_dealloc_pd(verbs->pd);
    }
}

/* ---- asynchronous events ---- */

int btl_ib_verbs_state_report(btl_ib_verbs_state_t *state, btl_ib_event_t *events, int max)
{
    if (max == 0) {
        return 0;
    }
    *events = (btl_ib_event_t){.type = state->error != 0  ? BTL_IB_EVENT_FAILED
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
