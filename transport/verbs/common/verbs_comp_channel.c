/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_comp_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs_diagnostics.h"

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
