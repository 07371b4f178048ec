/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One call that says which sockets have something (epoll(7)), for who looks, and one descriptor for who sleeps. A datagram
 * to a watched socket costs its sender up to 0.2 us more, so they are watched only from when that is asked for the first time.
 */

#include "udp_state.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static int add(const btl_ib_udp_t *udp, int fd, uint32_t index)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};

    return epoll_ctl(udp->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 ? -errno : 0;
}

int btl_ib_udp_watch_add(const btl_ib_udp_t *udp, int fd, uint32_t index)
{
    return udp->epoll_fd < 0 ? 0 : add(udp, fd, index);
}

bool btl_ib_udp_watch(btl_ib_udp_t *udp)
{
    if (udp->epoll_fd >= 0) {
        return true;
    }
    udp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = udp->epoll_fd < 0 ? -errno : 0;
    for (uint32_t i = 0; rc == 0 && i < udp->sockets; i++) {
        rc = add(udp, udp->socket[i].fd, i);
    }
    if (rc != 0) {
        btl_ib_udp_watch_close(udp);
        BTL_IB_UDP_LOG(udp, 10, "%s: no epoll set of its sockets: %s", udp->base.name,
                       strerror(-rc));
    }
    return rc == 0;
}

uint32_t btl_ib_udp_watch_ask(btl_ib_udp_t *udp)
{
    struct epoll_event events[BTL_IB_UDP_SOCKETS_MAX];
    const int n = epoll_wait(udp->epoll_fd, events, BTL_IB_UDP_SOCKETS_MAX, 0);
    uint32_t ready = 0;

    for (int i = 0; i < n; i++) {
        const uint32_t index = events[i].data.u32;
        ready |= UINT32_C(1) << index;
        if (events[i].events & EPOLLERR) { /* which a look does not always take away */
            (void) btl_ib_udp_errors(udp, &udp->socket[index], BTL_IB_ADDR_UNKNOWN);
        }
    }
    return ready;
}

void btl_ib_udp_watch_close(btl_ib_udp_t *udp)
{
    if (udp->epoll_fd >= 0) {
        (void) close(udp->epoll_fd);
        udp->epoll_fd = -1;
    }
}
