/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport udp, over the loopback device. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire.h"

const char wire_queues[] = "P,256,256,128,32:S,1472,1024,512,64";

/* These read what a socket has, and note that there was something. */

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    const ssize_t len = syscall(SYS_recvmsg, fd, msg, flags);

    if (len >= 0) {
        wire_received();
    }
    return len;
}

#ifdef __GLIBC__
int recvmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags, struct timespec *timeout)
#else
int recvmmsg(int fd, struct mmsghdr *msgs, unsigned count, unsigned flags, struct timespec *timeout)
#endif
{
    const int got = (int) syscall(SYS_recvmmsg, fd, msgs, count, flags, timeout);

    if (got > 0) {
        wire_received();
    }
    return got;
}

/* The loopback device. Ends the program if there is none. */
static const btl_ib_device_t *find_loopback(void)
{
    btl_ib_device_t *devices;
    const int count = btl_ib_udp_type.devices(&(btl_ib_search_t){.provider = NULL}, &devices);

    for (int i = 0; i < count; i++) {
        if (devices[i].loopback && devices[i].ip.ss_family == AF_INET) {
            return &devices[i];
        }
    }
    fprintf(stderr, "udp_cost: no loopback device\n");
    exit(1);
}

/* As a job opens it by default. */
btl_ib_transport_t *wire_open(void)
{
    static const btl_ib_device_t *loopback;
    const btl_ib_open_params_t params = {
        .queue_count = 2,
        .queue = {{.size = 256, .num = 256, .init = 256, .per_peer = 16},
                  {.size = 1472, .num = 1024, .init = 512, .shared = true}},
        .connected_max = 4,
        .bulk_lane = true,
    };
    btl_ib_transport_t *transport;

    if (loopback == NULL) {
        loopback = find_loopback();
    }
    if (btl_ib_udp_type.open(loopback, &params, &transport) != 0) {
        fprintf(stderr, "udp_cost: the loopback device cannot be opened\n");
        exit(1);
    }
    return transport;
}
