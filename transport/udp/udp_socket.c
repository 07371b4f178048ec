/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_socket.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

enum {
    ECN_OFF = 0xfc, /* nobody here reads what switches mark, so they are to drop instead */
    BUFFER_WANTED = 4 * 1024 * 1024,
    BUFFER_NEEDED =
        212992, /* what a stock kernel grants; with less, bursts of a few peers overflow it */
};

int btl_ib_udp_set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

/*
 * Errors of the path are to be told (IP_RECVERR), fragments never made. How much the path carries
 * is the engine's business, hence IP_PMTUDISC_PROBE: with IP_PMTUDISC_DO the kernel would refuse
 * what is larger than an ICMP message said, of which it compares addresses and ports only.
 * Returns NULL, or the option that failed, with errno.
 */
static const char *set_options(int fd, sa_family_t family)
{
    const bool v4 = family == AF_INET;

    if (btl_ib_udp_set_option(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR, 1) != 0) {
        return "setsockopt IP_RECVERR";
    }
    if (!v4 && btl_ib_udp_set_option(fd, SOL_IPV6, IPV6_V6ONLY, 1) != 0) {
        return "setsockopt IPV6_V6ONLY";
    }
    (void) btl_ib_udp_set_option(fd, v4 ? SOL_IP : SOL_IPV6,
                                 v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
                                 v4 ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE);
    (void) btl_ib_udp_set_option(fd, SOL_UDP, UDP_GRO, 1); /* Linux 5.0 and later */
    /* What comes says how many others found no room, once some did (socket(7)). */
    (void) btl_ib_udp_set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    return NULL;
}

uint32_t btl_ib_udp_socket_wanted(uint32_t buffer)
{
    return buffer != 0 ? buffer : BUFFER_WANTED;
}

int btl_ib_udp_socket_new(const btl_ib_udp_log_t *log, int level, sa_family_t family,
                          uint32_t buffer)
{
    const int bytes = (int) btl_ib_udp_socket_wanted(buffer);
    const int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const char *failed = fd < 0 ? "socket" : set_options(fd, family);
    const int error = errno;

    if (failed != NULL) {
        BTL_IB_UDP_LOG(log, level, "%s: %s", failed, strerror(error));
        if (fd >= 0) {
            (void) close(fd);
        }
        return -error;
    }
    (void) btl_ib_udp_set_option(fd, SOL_SOCKET, SO_RCVBUF, bytes);
    (void) btl_ib_udp_set_option(fd, SOL_SOCKET, SO_SNDBUF, bytes);
    return fd;
}

void btl_ib_udp_socket_mark(const btl_ib_udp_log_t *log, int level, int fd, sa_family_t family,
                            uint8_t traffic_class, uint8_t priority)
{
    const bool v4 = family == AF_INET;

    traffic_class &= ECN_OFF;
    if (traffic_class != 0
        && btl_ib_udp_set_option(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_TOS : IPV6_TCLASS,
                                 traffic_class)
               != 0) {
        BTL_IB_UDP_LOG(log, level, "traffic class %u (btl_ib_traffic_class): %s", traffic_class,
                       strerror(errno));
    }
    /* comes last: the kernel derives one from the traffic class */
    if (priority != 0 && btl_ib_udp_set_option(fd, SOL_SOCKET, SO_PRIORITY, priority) != 0) {
        BTL_IB_UDP_LOG(log, level, "priority %u (btl_ib_service_level): %s", priority,
                       strerror(errno));
    }
}

/* The kernel doubles what setsockopt() asks for. */
uint32_t btl_ib_udp_socket_buffer(int fd, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    (void) getsockopt(fd, SOL_SOCKET, option, &value, &len);
    return value < 0 ? 0 : (uint32_t) value / 2;
}

int btl_ib_udp_socket_bind(int fd, btl_ib_udp_name_t *name, uint32_t first, uint32_t last,
                           uint32_t step)
{
    for (uint32_t port = first; port <= last; port += step) {
        btl_ib_udp_name_set_port(name, (uint16_t) port);
        if (bind(fd, &name->any, btl_ib_udp_name_len(name)) == 0) {
            socklen_t len = sizeof(*name);
            return getsockname(fd, &name->any, &len) == 0 ? 0 : -errno;
        }
        if (errno != EADDRINUSE) {
            return -errno;
        }
    }
    return -EADDRINUSE;
}

btl_ib_limit_t btl_ib_udp_socket_limit(const btl_ib_udp_log_t *log, int fd, uint32_t buffer)
{
    const uint32_t needed = buffer != 0 ? buffer : BUFFER_NEEDED;
    const uint32_t rx = btl_ib_udp_socket_buffer(fd, SO_RCVBUF);
    const uint32_t tx = btl_ib_udp_socket_buffer(fd, SO_SNDBUF);

    BTL_IB_UDP_LOG(log, 10, "socket buffers: %u bytes to receive, %u to send", rx, tx);
    return (btl_ib_limit_t){
        .sysctl = rx < needed   ? "net.core.rmem_max"
                  : tx < needed ? "net.core.wmem_max"
                                : NULL,
        .is = rx < needed ? rx : tx,
        .needed = needed,
    };
}
