/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Descriptors that tell when there is something to poll, and sleeping on several of them. */

#include "verbs_port.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

int btl_ib_verbs_never_wait(const btl_ib_verbs_t *verbs, int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0
               ? 0
               : btl_ib_verbs_failed(verbs, "fcntl", errno);
}

int btl_ib_verbs_bell_open(const btl_ib_verbs_t *verbs, struct ibv_comp_channel **bell)
{
    *bell = ibv_create_comp_channel(verbs->context);
    return *bell == NULL ? btl_ib_verbs_failed(verbs, "ibv_create_comp_channel", errno)
                         : btl_ib_verbs_never_wait(verbs, (*bell)->fd);
}

int btl_ib_verbs_watch(const btl_ib_verbs_t *verbs, const int *fds, int count)
{
    const int set = epoll_create1(EPOLL_CLOEXEC);
    bool watched = set >= 0;

    for (int i = 0; i < count && watched; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        watched = epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event) == 0;
    }
    if (!watched) {
        const int rc = btl_ib_verbs_failed(verbs, "epoll", errno);
        if (set >= 0) {
            (void) close(set);
        }
        return rc;
    }
    return set;
}
