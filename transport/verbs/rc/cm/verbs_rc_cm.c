/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Where peers can ask for connections, and what the library says of them and of ours: read from a channel that never
 * blocks. verbs_rc_cm.h says how two sides connect. */

#include "verbs_rc_cm.h"

#include <string.h>
#include <time.h>

enum {
    BACKLOG = 1024,
    EVENTS = 64,       /* in one go */
    POLLS = 64,        /* without a look at the connection manager */
    POLLS_PENDING = 8, /* the same while a connection is being made */
};

uint64_t btl_ib_rc_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u;
}

/* ---- events ---- */

static void disconnected(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->stage >= BTL_IB_RC_ACCEPTED) {
        btl_ib_rc_cm_broke(pipe, "the peer ended it");
    } else {
        btl_ib_rc_cm_failed(pipe, false, "the peer ended it", 0);
    }
}

static bool is_answer(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED
           || type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE
           || type == RDMA_CM_EVENT_DISCONNECTED;
}

static int error_of(const btl_ib_rc_news_t *news)
{
    return news->status < 0 ? -news->status : 0;
}

/* What an event means for the pipe that it is about. Those that tell of the end of what we ended ourselves mean nothing. */
static void handle_open(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_news_t *news)
{
    switch (news->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        btl_ib_rc_cm_address_resolved(pipe);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        btl_ib_rc_cm_route_resolved(pipe);
        break;
    case RDMA_CM_EVENT_ESTABLISHED: /* who accepted learns that sooner, by the first message */
        if (pipe->stage == BTL_IB_RC_ASKING) {
            btl_ib_rc_cm_accepted(pipe, news);
        }
        break;
    case RDMA_CM_EVENT_REJECTED:
        btl_ib_rc_cm_rejected(pipe, news);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        disconnected(pipe);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        btl_ib_rc_cm_no_way(pipe, rdma_event_str(news->type), error_of(news));
        break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        btl_ib_rc_cm_failed(pipe, error_of(news) == ECONNREFUSED, rdma_event_str(news->type),
                            error_of(news));
        break;
    default:
        break;
    }
}

static void handle_pipe(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_news_t *news)
{
    const bool closed = pipe->stage == BTL_IB_RC_CLOSED;

    if (is_answer(news->type)) {
        btl_ib_rc_pipe_answered(pipe); /* who waited for that only is gone now */
    }
    if (!closed) {
        handle_open(pipe, news);
    }
}

static void handle(btl_ib_rc_t *rc, const btl_ib_rc_news_t *news)
{
    if (news->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        rc->failed = ENODEV;
    } else if (news->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        btl_ib_rc_cm_requested(rc, news);
    } else if (news->id != rc->listener) {
        handle_pipe(news->id->context, news);
    }
}

/* Take in one event. Returns whether there was any. */
static bool read_event(btl_ib_rc_t *rc, btl_ib_rc_news_t *news)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(rc->events, &event) != 0) {
        return false;
    }
    const struct rdma_conn_param *param = &event->param.conn;
    *news = (btl_ib_rc_news_t){.type = event->event, .id = event->id, .status = event->status};
    if (param->private_data != NULL) {
        news->len = param->private_data_len < sizeof(news->bytes) ? param->private_data_len
                                                                  : sizeof(news->bytes);
        memcpy(news->bytes, param->private_data, news->len);
    }
    (void) rdma_ack_cm_event(event); /* before its id may be destroyed, which would wait for that */
    return true;
}

/* A look is a system call, so not each poll has one; but who polls seldom must not wait for that. */
static bool is_due(btl_ib_rc_t *rc)
{
    struct timespec now;

    if (++rc->polls < (rc->pending + rc->doubted > 0 ? POLLS_PENDING : POLLS)) {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        const uint64_t tick = (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
        if (tick == rc->asked_at) {
            return false;
        }
        rc->asked_at = tick;
    }
    rc->polls = 0;
    return true;
}

bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc)
{
    btl_ib_rc_news_t news;

    if (rc->failed != 0 || !is_due(rc)) {
        return false;
    }
    btl_ib_rc_events_read(rc);
    if (rc->doubted > 0 && !rc->down) {
        btl_ib_rc_cm_end_doubts(rc);
    }
    btl_ib_rc_eager_review(rc);
    for (int i = 0; i < EVENTS && rc->failed == 0 && !rc->down && read_event(rc, &news); i++) {
        handle(rc, &news);
    }
    return !rc->down;
}

/* ---- beginning and end ---- */

/* The last port that may be used; 0: any may. */
static uint32_t last_port(const btl_ib_open_params_t *params)
{
    const uint32_t more = params->port_count > 0 ? params->port_count - 1 : 0;
    const uint32_t last = params->port_min == 0 ? 0 : params->port_min + more;

    return last < UINT16_MAX ? last : UINT16_MAX;
}

/* A port from the range that was asked for, or any. Returns 0 or an errno. */
static int bind_listener(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    const uint32_t last = last_port(params);
    int error = EADDRINUSE;

    for (uint32_t port = params->port_min; port <= last && error == EADDRINUSE; port++) {
        btl_ib_rc_name_set_port(&rc->self, htons((uint16_t) port));
        error = rdma_bind_addr(rc->listener, &rc->self.any) == 0 ? 0 : errno;
    }
    return error;
}

int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params)
{
    rc->events = rdma_create_event_channel();
    if (rc->events == NULL) {
        return btl_ib_verbs_failed(&rc->verbs, "rdma_create_event_channel", errno);
    }
    int error = btl_ib_verbs_never_wait(&rc->verbs, rc->events->fd);
    if (error != 0) {
        return error;
    }
    if (rdma_create_id(rc->events, &rc->listener, NULL, RDMA_PS_TCP) != 0) {
        rc->listener = NULL;
        return btl_ib_verbs_failed(&rc->verbs, "rdma_create_id", errno);
    }
    error = bind_listener(rc, params);
    if (error != 0) {
        return btl_ib_verbs_failed(&rc->verbs, "rdma_bind_addr", error);
    }
    const struct ibv_context *context = rc->listener->verbs;
    if (context == NULL || strcmp(ibv_get_device_name(context->device), device) != 0) {
        return btl_ib_verbs_failed(&rc->verbs, "its address belongs to another device", ENODEV);
    }
    if (rdma_listen(rc->listener, BACKLOG) != 0) {
        return btl_ib_verbs_failed(&rc->verbs, "rdma_listen", errno);
    }
    btl_ib_rc_name_set_port(&rc->self, rdma_get_src_port(rc->listener));
    rc->verbs.context = rc->listener->verbs;
    rc->verbs.port = rc->listener->port_num;
    rc->iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
    btl_ib_rc_events_join(rc);
    return btl_ib_verbs_never_wait(&rc->verbs, rc->verbs.context->async_fd);
}

void btl_ib_rc_cm_close(btl_ib_rc_t *rc)
{
    btl_ib_rc_events_leave(rc);
    if (rc->listener != NULL) {
        (void) rdma_destroy_id(rc->listener);
        rc->listener = NULL;
    }
    if (rc->events != NULL) {
        rdma_destroy_event_channel(rc->events);
        rc->events = NULL;
    }
}
