/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Making sockets: options, buffers, and what the kernel can do (ip(7), ipv6(7), udp(7)). */

#include "udp_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PAIRS_MAX = 64,                  /* tries to find two ports side by side */
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

static int set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

/* Bytes that the socket may hold, as setsockopt() counts them: the kernel doubles what it is asked for. */
static uint32_t buffer_of(int fd, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    (void) getsockopt(fd, SOL_SOCKET, option, &value, &len);
    return value < 0 ? 0 : (uint32_t) value / 2;
}

/* As large as the system lets them be. */
static void set_buffers(int fd, uint32_t wanted)
{
    const int bytes = (int) (wanted != 0 ? wanted : BUFFER_WANTED);

    (void) set(fd, SOL_SOCKET, SO_RCVBUF, bytes);
    (void) set(fd, SOL_SOCKET, SO_SNDBUF, bytes);
}

/* Says in `limit` what to change if that is too little. */
static void size_buffers(btl_ib_udp_t *udp, int fd, uint32_t wanted)
{
    set_buffers(fd, wanted);
    uint32_t rx = buffer_of(fd, SO_RCVBUF);
    uint32_t tx = buffer_of(fd, SO_SNDBUF);
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

/* Errors of the path are to be told, fragments never made. What the path carries is the engine's
 * business (IP_PMTUDISC_PROBE): with IP_PMTUDISC_DO the kernel would refuse what is larger than an
 * ICMP message said, of which it compares addresses and ports only. */
static int set_options(const btl_ib_udp_t *udp, int fd)
{
    const bool v4 = udp->family == AF_INET;
    int rc = v4 ? set(fd, SOL_IP, IP_RECVERR, 1) : set(fd, SOL_IPV6, IPV6_RECVERR, 1);

    if (rc != 0) {
        return failed(udp, "setsockopt IP_RECVERR");
    }
    if (!v4 && set(fd, SOL_IPV6, IPV6_V6ONLY, 1) != 0) {
        return failed(udp, "setsockopt IPV6_V6ONLY");
    }
    if (v4) {
        (void) set(fd, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    } else {
        (void) set(fd, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    }
    return 0;
}

/* Kernels know UDP_SEGMENT from 4.18 and UDP_GRO from 5.0 on. An option that is refused is one that
 * is not there. */
static void probe(btl_ib_udp_t *udp, int fd)
{
    const bool gro = set(fd, SOL_UDP, UDP_GRO, 1) == 0;

    udp->gso = set(fd, SOL_UDP, UDP_SEGMENT, 0) == 0;
    BTL_IB_UDP_LOG(
        udp, 10, "%s: the kernel %s datagrams to send (UDP_SEGMENT), %s received ones (UDP_GRO)",
        udp->base.name, udp->gso ? "joins" : "does not join", gro ? "joins" : "does not join");
}

static void bind_failed(const btl_ib_udp_t *udp, const btl_ib_udp_name_t *name, uint32_t first,
                        uint32_t last, int error)
{
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
}

/* The last port that may be used; 0: any may. */
static uint32_t last_port(const btl_ib_open_params_t *params)
{
    const uint32_t last = params->port_min == 0 ? 0 : params->port_min + params->port_count - 1;

    return last < UINT16_MAX ? last : UINT16_MAX;
}

/* Any port, if `first` is 0, or the first from there to `last` that is free. Returns 0 or a negative errno. */
static int bind_to(btl_ib_udp_t *udp, int fd, uint32_t first, uint32_t last, uint32_t step)
{
    btl_ib_udp_name_t *name = &udp->own;

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

static int new_socket(const btl_ib_udp_t *udp)
{
    return socket(udp->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static void add_socket(btl_ib_udp_t *udp, int fd, bool quick)
{
    udp->socket[udp->sockets++] = (btl_ib_udp_socket_t){
        .fd = fd,
        .quick = quick,
        .wide = 1,
        .seen = udp->looks,
        .peer = BTL_IB_ADDR_UNKNOWN,
    };
}

/* The same options as the first one has; a smaller buffer would not hold what the peers were promised. */
static int set_alike(const btl_ib_udp_t *udp, int fd)
{
    const int rc = set_options(udp, fd);

    set_buffers(fd, udp->buffer_wanted);
    (void) set(fd, SOL_UDP, UDP_GRO, 1);
    return rc == 0 && 2 * buffer_of(fd, SO_RCVBUF) < udp->buffer_bytes ? -ENOBUFS : rc;
}

/* ---- those that serve all ---- */

/* The first one, not bound yet. */
static int open_first(btl_ib_udp_t *udp, const btl_ib_open_params_t *params)
{
    const int fd = new_socket(udp);

    if (fd < 0) {
        return failed(udp, "socket");
    }
    add_socket(udp, fd, false);
    udp->shared = 1;
    const int rc = set_options(udp, fd);
    if (rc == 0) {
        udp->buffer_wanted = params->socket_buffer;
        size_buffers(udp, fd, params->socket_buffer);
        probe(udp, fd);
    }
    return rc;
}

static int open_alone(btl_ib_udp_t *udp, const btl_ib_open_params_t *params)
{
    const uint32_t last = last_port(params);
    int rc = open_first(udp, params);

    if (rc == 0) {
        rc = bind_to(udp, udp->socket[0].fd, params->port_min, last, 1);
        if (rc != 0) {
            bind_failed(udp, &udp->own, params->port_min, last, -rc);
        }
    }
    return rc;
}

/* The other one, bound to the port above. */
static int open_quick(btl_ib_udp_t *udp)
{
    const uint32_t port = btl_ib_udp_name_port(&udp->own) + 1u;
    const int fd = port > UINT16_MAX ? -1 : new_socket(udp);

    if (fd < 0) {
        return port > UINT16_MAX ? -EADDRINUSE : -errno;
    }
    udp->own_quick = udp->own;
    btl_ib_udp_name_set_port(&udp->own_quick, (uint16_t) port);
    add_socket(udp, fd, true);
    udp->shared = 2;
    const int rc = set_alike(udp, fd);
    if (rc == 0 && bind(fd, &udp->own_quick.any, btl_ib_udp_name_len(&udp->own_quick)) != 0) {
        return -errno;
    }
    return rc;
}

/* Two with ports side by side. Where ports are counted all take them two by two, so that none is left between them. */
static int open_pair(btl_ib_udp_t *udp, const btl_ib_open_params_t *params)
{
    const uint32_t last = last_port(params);
    uint32_t first = params->port_min;
    int rc = -EADDRINUSE;

    for (int i = 0; i < PAIRS_MAX && rc == -EADDRINUSE; i++) {
        rc = open_first(udp, params);
        if (rc == 0) {
            rc = bind_to(udp, udp->socket[0].fd, first, last > 0 ? last - 1 : 0, 2);
        }
        const bool bound = rc == 0;
        rc = bound ? open_quick(udp) : rc;
        if (rc != 0) {
            btl_ib_udp_sockets_close(udp);
        }
        if (!bound) {
            break;
        }
        first = first == 0 ? 0 : btl_ib_udp_name_port(&udp->own) + 2u;
    }
    return rc;
}

static void bulk_is_not_apart(const btl_ib_udp_t *udp, const btl_ib_open_params_t *params,
                              int error)
{
    BTL_IB_UDP_LOG(
        udp, 1,
        "%s: long messages share the socket of all else, and small ones wait behind them: no two "
        "ports side by side for btl_ib_bulk_apart (btl_ib_port_min %u, btl_ib_port_range %u): %s",
        udp->base.name, params->port_min, params->port_count, strerror(error));
}

int btl_ib_udp_socket_open(btl_ib_udp_t *udp, const btl_ib_device_t *device,
                           const btl_ib_open_params_t *params)
{
    char text[64];
    int rc = -ENOTSUP;

    memcpy(&udp->own, &device->ip, sizeof(udp->own));
    udp->family = device->ip.ss_family;
    if (params->bulk_lane) {
        rc = open_pair(udp, params);
        if (rc != 0) {
            bulk_is_not_apart(udp, params, -rc);
        }
    }
    if (rc != 0) {
        rc = open_alone(udp, params);
    }
    if (rc == 0) {
        udp->base.address_len = btl_ib_udp_name_pack(&udp->own, btl_ib_udp_device_datagram(device),
                                                     udp->shared > 1, udp->base.address);
        BTL_IB_UDP_LOG(udp, 10, "%s: bound to %s", udp->base.name,
                       btl_ib_udp_name_format(&udp->own, text, sizeof(text)));
    }
    return rc;
}

/* ---- more of them ---- */

/* Several are to be bound to one address and port, and nobody else to it. So the port is got without SO_REUSEPORT, which is
 * set for as long as a bind() of ours takes, and lets nobody in but this user even then (socket(7)); SO_REUSEADDR
 * would let in anybody. */
static int share_port(const btl_ib_udp_t *udp, int value)
{
    int rc = 0;

    for (uint32_t i = 0; i < udp->sockets && rc == 0; i++) {
        rc = set(udp->socket[i].fd, SOL_SOCKET, SO_REUSEPORT, value);
    }
    return rc;
}

static int bind_beside(const btl_ib_udp_t *udp, int fd)
{
    const btl_ib_udp_name_t *name = udp->shared > 1 ? &udp->own_quick : &udp->own;
    int rc = share_port(udp, 1);

    if (rc == 0) {
        rc = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    if (rc == 0) {
        rc = bind(fd, &name->any, btl_ib_udp_name_len(name));
    }
    const int error = rc == 0 ? 0 : errno;
    (void) set(fd, SOL_SOCKET, SO_REUSEPORT, 0);
    (void) share_port(udp, 0);
    return -error;
}

int btl_ib_udp_socket_beside(btl_ib_udp_t *udp)
{
    const int fd = new_socket(udp);

    if (fd < 0) {
        return -errno;
    }
    int rc = set_alike(udp, fd);
    if (rc == 0) {
        rc = btl_ib_udp_watch_add(udp, fd, udp->sockets);
    }
    if (rc == 0) {
        rc = bind_beside(udp, fd); /* the last that may fail: from then on datagrams may be in it */
    }
    if (rc != 0) {
        (void) close(fd);
        return rc;
    }
    add_socket(udp, fd, udp->shared > 1);
    return 0;
}

/* ---- all of them ---- */

int btl_ib_udp_sockets_wait(btl_ib_udp_t *udp)
{
    if (udp->sockets == 0) {
        return -1;
    }
    if (udp->sockets_max == 1) {
        return udp->socket[0].fd;
    }
    return btl_ib_udp_watch(udp) ? udp->epoll_fd : -1;
}

void btl_ib_udp_sockets_close(btl_ib_udp_t *udp)
{
    while (udp->sockets > 0) {
        (void) close(udp->socket[--udp->sockets].fd);
    }
    udp->shared = 0;
    btl_ib_udp_watch_close(udp);
}
