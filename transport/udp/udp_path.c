/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a datagram can carry on the way to a peer. The kernel knows: a connected socket tells the
 * MTU of its route (IP_MTU, ip(7)), which is that of the interface that it leaves by, or less where
 * a route says so (or an ICMP message, which is not believed: see udp_route.c). Between processes
 * of one host that is the loopback device, whatever interface they are bound to.
 */

#include "udp_state.h"

#include <string.h>
#include <unistd.h>

enum {
    IP4_HEADERS = 20 + 8,
    IP6_HEADERS = 40 + 8,
    /* More in one datagram saves nothing where the kernel joins them, and a socket buffer is counted in
     * powers of two: one of 9000 bytes takes 16 KiB of it. */
    LARGEST = 9000 - IP4_HEADERS,
    /* Within a host any size would do, so it is one that makes use of all that it takes of a socket buffer. */
    LARGEST_WITHIN = 8192 - BTL_IB_UDP_COUNTED_MORE,
};

static uint32_t at_most(uint32_t size, uint32_t most)
{
    return size < most ? size : most;
}

uint32_t btl_ib_udp_datagram(sa_family_t family, uint32_t mtu)
{
    const uint32_t headers = family == AF_INET ? IP4_HEADERS : IP6_HEADERS;
    const uint32_t size = mtu > headers ? mtu - headers : 0;

    return at_most(size, LARGEST) & ~7u; /* so that what is joined stays aligned */
}

/* Bind to the address of a name, whatever the port. The kernel refuses addresses that are not this host's (unless
 * net.ipv4.ip_nonlocal_bind is set: then a peer's smaller interface goes unnoticed). */
static bool bind_address(int fd, const btl_ib_udp_name_t *name)
{
    btl_ib_udp_name_t any_port = *name;

    btl_ib_udp_name_set_port(&any_port, 0);
    return bind(fd, &any_port.any, btl_ib_udp_name_len(name)) == 0;
}

/* The MTU of the route that a socket is connected to; 0: nobody knows. */
static uint32_t route_mtu(int fd, const btl_ib_udp_name_t *to)
{
    const bool v4 = to->any.sa_family == AF_INET;
    int mtu = 0;
    socklen_t len = sizeof(mtu);

    if (connect(fd, &to->any, btl_ib_udp_name_len(to)) != 0
        || getsockopt(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &len) != 0) {
        return 0;
    }
    return mtu > 0 ? (uint32_t) mtu : 0;
}

uint32_t btl_ib_udp_path(const btl_ib_udp_name_t *own, const btl_ib_udp_name_t *to, uint32_t beyond)
{
    const sa_family_t family = to->any.sa_family;
    const int no_port = 1;
    const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return beyond;
    }
    (void) setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &no_port, sizeof(no_port));
    const bool within = bind_address(fd, to);
    const uint32_t most = within ? LARGEST_WITHIN : beyond;
    uint32_t mtu = within || bind_address(fd, own) ? route_mtu(fd, to) : 0;
    if (mtu != 0 && btl_ib_udp_datagram(family, mtu) < most) {
        mtu = btl_ib_udp_route_mtu(fd, within ? to : own, to, mtu);
    }
    (void) close(fd);
    return mtu == 0 ? beyond : at_most(btl_ib_udp_datagram(family, mtu), most);
}
