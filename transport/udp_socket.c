/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Making the socket: options, buffers, and what the kernel can do (ip(7), ipv6(7), udp(7)). */

#include "udp_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_WANTED = 4 * 1024 * 1024, /* bytes of the socket's buffers, if the system lets us */
    BUFFER_NEEDED =
        212992, /* what a stock kernel grants; with less, bursts of a few peers overflow it */
};

static int failed(const btl_ib_udp_t *udp, const char *call)
{
    const int error = errno;

    BTL_IB_UDP_LOG(udp, 1, "%s: %s: %s", udp->base.name, call, strerror(error));
    return -error;
}

static int set(const btl_ib_udp_t *udp, int level, int option, int value)
{
    return setsockopt(udp->fd, level, option, &value, sizeof(value));
}

/* Bytes that the socket may hold, as setsockopt() counts them: the kernel doubles what it is asked for. */
static uint32_t buffer_of(const btl_ib_udp_t *udp, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    (void) getsockopt(udp->fd, SOL_SOCKET, option, &value, &len);
    return value < 0 ? 0 : (uint32_t) value / 2;
}

/* As large as the system lets them be. Says in `limit` what to change if that is too little. */
static void size_buffers(btl_ib_udp_t *udp, uint32_t wanted)
{
    const int bytes = (int) (wanted != 0 ? wanted : BUFFER_WANTED);

    (void) set(udp, SOL_SOCKET, SO_RCVBUF, bytes);
    (void) set(udp, SOL_SOCKET, SO_SNDBUF, bytes);
    uint32_t rx = buffer_of(udp, SO_RCVBUF);
    uint32_t tx = buffer_of(udp, SO_SNDBUF);
    uint32_t needed = wanted != 0 ? wanted : BUFFER_NEEDED;
    udp->buffer_bytes = 2 * rx;
    BTL_IB_UDP_LOG(udp, 10, "%s: socket buffers: %u bytes to receive, %u to send", udp->base.name,
                   rx, tx);
    if (rx < needed || tx < needed) {
        udp->base.limit = (btl_ib_limit_t){
            .sysctl = rx < needed ? "net.core.rmem_max" : "net.core.wmem_max",
            .is = rx < needed ? rx : tx,
            .needed = needed,
        };
    }
}

/*
 * Errors of the path are to be told, fragments never made.
 */
static int set_options(btl_ib_udp_t *udp)
{
    const bool v4 = udp->family == AF_INET;
    int rc = v4 ? set(udp, SOL_IP, IP_RECVERR, 1) : set(udp, SOL_IPV6, IPV6_RECVERR, 1);

    if (rc != 0) {
        return failed(udp, "setsockopt IP_RECVERR");
    }
    if (!v4 && set(udp, SOL_IPV6, IPV6_V6ONLY, 1) != 0) {
        return failed(udp, "setsockopt IPV6_V6ONLY");
    }
    btl_ib_udp_socket_whole(udp, true);
    return 0;
}

/* Kernels know UDP_SEGMENT from 4.18 and UDP_GRO from 5.0 on. An option that is refused is one that
 * is not there. */
static void probe(btl_ib_udp_t *udp)
{
    const bool gro = set(udp, SOL_UDP, UDP_GRO, 1) == 0;

    udp->gso = set(udp, SOL_UDP, UDP_SEGMENT, 0) == 0;
    BTL_IB_UDP_LOG(
        udp, 10, "%s: the kernel %s datagrams to send (UDP_SEGMENT), %s received ones (UDP_GRO)",
        udp->base.name, udp->gso ? "joins" : "does not join", gro ? "joins" : "does not join");
}

static void set_port(btl_ib_udp_name_t *name, uint16_t port)
{
    if (name->any.sa_family == AF_INET) {
        name->v4.sin_port = htons(port);
    } else {
        name->v6.sin6_port = htons(port);
    }
}

static int bind_failed(const btl_ib_udp_t *udp, const btl_ib_udp_name_t *name, uint32_t first,
                       uint32_t last)
{
    const int error = errno;
    char ip[INET6_ADDRSTRLEN] = "?";
    char ports[32] = "any port";

    if (first != 0) {
        snprintf(ports, sizeof(ports), "ports %u to %u", first, last);
    }
    (void) inet_ntop(name->any.sa_family,
                     name->any.sa_family == AF_INET ? (const void *) &name->v4.sin_addr
                                                    : (const void *) &name->v6.sin6_addr,
                     ip, sizeof(ip));
    BTL_IB_UDP_LOG(udp, 1, "%s: bind to %s, %s: %s", udp->base.name, ip, ports, strerror(error));
    return -error;
}

/* Any port, or the first of those allowed that is free. */
static int bind_to(btl_ib_udp_t *udp, btl_ib_udp_name_t *name, const btl_ib_open_params_t *params)
{
    const uint32_t first = params->port_min;
    const uint32_t last = first == 0 ? 0 : first + params->port_count - 1;

    errno = EADDRINUSE;
    for (uint32_t port = first; port <= last && port <= UINT16_MAX; port++) {
        set_port(name, (uint16_t) port);
        if (bind(udp->fd, &name->any, btl_ib_udp_name_len(name)) == 0) {
            socklen_t len = sizeof(*name);
            return getsockname(udp->fd, &name->any, &len) == 0 ? 0 : failed(udp, "getsockname");
        }
        if (errno != EADDRINUSE) {
            break;
        }
    }
    return bind_failed(udp, name, first, last < UINT16_MAX ? last : UINT16_MAX);
}

int btl_ib_udp_socket_open(btl_ib_udp_t *udp, const btl_ib_device_t *device,
                           const btl_ib_open_params_t *params)
{
    btl_ib_udp_name_t name;
    char text[64];

    memset(&name, 0, sizeof(name));
    memcpy(&name, &device->ip, sizeof(name));
    udp->family = device->ip.ss_family;
    udp->fd = socket(udp->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (udp->fd < 0) {
        return failed(udp, "socket");
    }
    int rc = set_options(udp);
    if (rc == 0) {
        size_buffers(udp, params->socket_buffer);
        probe(udp);
        rc = bind_to(udp, &name, params);
    }
    if (rc == 0) {
        udp->base.address_len = btl_ib_udp_name_pack(&name, udp->base.address);
        BTL_IB_UDP_LOG(udp, 10, "%s: bound to %s", udp->base.name,
                       btl_ib_udp_name_format(&name, text, sizeof(text)));
    }
    return rc;
}

void btl_ib_udp_socket_whole(const btl_ib_udp_t *udp, bool whole)
{
    if (udp->family == AF_INET) {
        (void) set(udp, SOL_IP, IP_MTU_DISCOVER, whole ? IP_PMTUDISC_DO : IP_PMTUDISC_DONT);
    } else {
        (void) set(udp, SOL_IPV6, IPV6_MTU_DISCOVER, whole ? IPV6_PMTUDISC_DO : IPV6_PMTUDISC_DONT);
    }
}
