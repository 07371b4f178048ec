/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_cm.h"

#include <errno.h>
#include <string.h>

#include "verbs_comp_channel.h"
#include "verbs_diagnostics.h"
#include "verbs_rc_async_events.h"
#include "verbs_rc_cm_accept.h"
#include "verbs_rc_cm_connect.h"
#include "verbs_rc_cm_lifecycle.h"

enum {
    BACKLOG = 1024,
    EVENTS = 64,       /* in one go */
    POLLS = 64,        /* without a look at the connection manager */
    POLLS_PENDING = 8, /* the same while a connection is being made */
};

/* An event that was read and acknowledged: nothing of it is the library's any more. */
typedef struct cm_event {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    size_t len;
} cm_event_t;

/* ---- events ---- */

static bool is_answer(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED
           || type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE
           || type == RDMA_CM_EVENT_DISCONNECTED;
}

/* What an event means for the connection that it is about, which is not closed. */
static void handle_conn(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const cm_event_t *event)
{
    const int error = event->status < 0 ? -event->status : 0;

    switch (event->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        btl_ib_rc_cm_address_resolved(rc, conn);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        btl_ib_rc_cm_route_resolved(rc, conn);
        break;
    case RDMA_CM_EVENT_ESTABLISHED: /* who accepted learns that sooner, by the first message */
        if (conn->stage == BTL_IB_RC_ASKING) {
            btl_ib_rc_cm_accepted(rc, conn, event->bytes, event->len);
        }
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        btl_ib_rc_cm_responded(rc, conn, event->bytes, event->len);
        break;
    case RDMA_CM_EVENT_REJECTED:
        btl_ib_rc_cm_rejected(rc, conn, event->status, event->bytes, event->len);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        if (conn->stage >= BTL_IB_RC_ACCEPTED) {
            btl_ib_rc_cm_broke(rc, conn, "the peer ended it");
        } else {
            btl_ib_rc_cm_failed(rc, conn, false, "the peer ended it", 0);
        }
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        btl_ib_rc_cm_no_route(rc, conn, rdma_event_str(event->type), error);
        break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        btl_ib_rc_cm_failed(rc, conn, error == ECONNREFUSED, rdma_event_str(event->type), error);
        break;
    default:
        break;
    }
}

static void handle(btl_ib_rc_t *rc, const cm_event_t *event)
{
    if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        btl_ib_rc_events_fail(rc, ENODEV);
    } else if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        btl_ib_rc_cm_requested(rc, event->id, event->bytes, event->len);
    } else if (event->id != rc->cm.listener) {
        btl_ib_rc_conn_t *conn = event->id->context;
        const bool closed = conn->stage == BTL_IB_RC_CLOSED;
        if (is_answer(event->type)) {
            btl_ib_rc_conn_answered(conn); /* a closed one may be gone now */
        }
        if (!closed) {
            handle_conn(rc, conn, event);
        }
    }
}

/* Returns whether there was one. */
static bool read_event(btl_ib_rc_t *rc, cm_event_t *out)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(rc->cm.events, &event) != 0) {
        return false;
    }
    const struct rdma_conn_param *param = &event->param.conn;
    *out = (cm_event_t){.type = event->event, .id = event->id, .status = event->status};
    if (param->private_data != NULL) {
        out->len = btl_ib_verbs_min(param->private_data_len, sizeof(out->bytes));
        memcpy(out->bytes, param->private_data, out->len);
    }
    (void) rdma_ack_cm_event(event); /* before its id may be destroyed, which would wait for that */
    return true;
}

/* A look is a system call, so not each poll has one; but who polls seldom must not wait for
 * that. */
static bool is_due(btl_ib_rc_t *rc)
{
    const bool busy = rc->conns.pending + rc->conns.suspected > 0;
    struct timespec now;

    if (++rc->cm.polls < (busy ? POLLS_PENDING : POLLS)) {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        const uint64_t tick = (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
        if (tick == rc->cm.last_tick) {
            return false;
        }
        rc->cm.last_tick = tick;
    }
    rc->cm.polls = 0;
    return true;
}

/* Switch off eager rings that are used too little, if it is time to look. */
static void review_eager(btl_ib_rc_t *rc)
{
    if (rc->eagers.peers == 0 || !btl_ib_rc_eagers_review(&rc->eagers, btl_ib_rc_now_us())) {
        return;
    }
    for (uint32_t i = 0; i < rc->conns.slots; i++) {
        const btl_ib_rc_conn_t *conn = rc->conns.slot[i].conn;
        if (conn != NULL && conn->eager != NULL) {
            btl_ib_rc_eager_reset(conn->eager);
        }
    }
}

bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc)
{
    cm_event_t event;

    if (rc->state.error != 0 || !is_due(rc)) {
        return false;
    }
    if (btl_ib_rc_events_read(rc)) {
        btl_ib_rc_cm_restart(rc);
    }
    if (rc->conns.suspected > 0 && !rc->state.down) {
        btl_ib_rc_cm_end_suspicions(rc);
    }
    review_eager(rc);
    for (int i = 0; i < EVENTS && rc->state.error == 0 && !rc->state.down && read_event(rc, &event);
         i++) {
        handle(rc, &event);
    }
    return !rc->state.down;
}

/* ---- opening ---- */

/* Take a port from the range that was asked for, or any. Returns 0 or an errno. */
static int bind_listener(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    const uint32_t more = params->port_count > 0 ? params->port_count - 1 : 0;
    const uint32_t last =
        params->port_min == 0 ? 0 : btl_ib_verbs_min(params->port_min + more, UINT16_MAX);
    int error = EADDRINUSE;

    for (uint32_t port = params->port_min; port <= last && error == EADDRINUSE; port++) {
        btl_ib_rc_address_set_port(&rc->self, htons((uint16_t) port));
        error = rdma_bind_addr(rc->cm.listener, &rc->self.any) == 0 ? 0 : errno;
    }
    return error;
}

int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;

    rc->cm.events = rdma_create_event_channel();
    if (rc->cm.events == NULL) {
        return btl_ib_verbs_failed(verbs, "rdma_create_event_channel", errno);
    }
    int error = btl_ib_verbs_nonblocking(verbs, rc->cm.events->fd);
    if (error != 0) {
        return error;
    }
    if (rdma_create_id(rc->cm.events, &rc->cm.listener, NULL, RDMA_PS_TCP) != 0) {
        rc->cm.listener = NULL;
        return btl_ib_verbs_failed(verbs, "rdma_create_id", errno);
    }
    error = bind_listener(rc, params);
    if (error != 0) {
        return btl_ib_verbs_failed(verbs, "rdma_bind_addr", error);
    }
    const struct ibv_context *context = rc->cm.listener->verbs;
    if (context == NULL || strcmp(ibv_get_device_name(context->device), device) != 0) {
        return btl_ib_verbs_failed(verbs, "its address belongs to another device", ENODEV);
    }
    if (rdma_listen(rc->cm.listener, BACKLOG) != 0) {
        return btl_ib_verbs_failed(verbs, "rdma_listen", errno);
    }
    btl_ib_rc_address_set_port(&rc->self, rdma_get_src_port(rc->cm.listener));
    return 0;
}

void btl_ib_rc_cm_close(btl_ib_rc_t *rc)
{
    if (rc->cm.listener != NULL) {
        (void) rdma_destroy_id(rc->cm.listener);
    }
    if (rc->cm.events != NULL) {
        rdma_destroy_event_channel(rc->cm.events);
    }
}
