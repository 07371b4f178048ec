/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The kernel knows the MTU of a connected socket's route (IP_MTU, ip(7)): that of the interface by
 * which the route leaves, or less if the route says so. Between processes of one host the interface
 * is the loopback device, whatever addresses they are bound to.
 *
 * The MTU may also be less because an ICMP message said so. Of these the kernel compares addresses
 * and ports only, which anybody can know, so we do not believe an MTU that was learned. It is one
 * that expires, as the kernel's answer to a route request shows (rtnetlink(7)).
 */

#include "udp_path_mtu.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    IP4_HEADERS = 20 + 8,
    IP6_HEADERS = 40 + 8,
    /* Within a host any size would do, and fewer datagrams are cheaper for both sides. With what
     * the kernel adds, a datagram of this size takes a power of two of bytes, which is how the
     * kernel counts against a socket's buffer. (A stock buffer would hold six datagrams of 64
     * KiB.) */
    LARGEST_WITHIN_HOST = 16384 - BTL_IB_UDP_COUNTED_MORE,
};

static uint32_t at_most(uint32_t size, uint32_t most)
{
    return size < most ? size : most;
}

uint32_t btl_ib_udp_mtu_datagram(sa_family_t family, uint32_t mtu)
{
    const uint32_t headers = family == AF_INET ? IP4_HEADERS : IP6_HEADERS;

    return at_most(mtu > headers ? mtu - headers : 0, LARGEST_WITHIN_HOST) & ~7u;
}

/* ---- route requests ---- */

typedef struct request {
    struct nlmsghdr head;
    struct rtmsg route;
    uint8_t addresses[2 * RTA_SPACE(sizeof(struct in6_addr))];
} request_t;

typedef struct route {
    uint32_t interface; /* index of the interface; 0: unknown */
    bool expires;       /* its MTU was learned from an ICMP message */
} route_t;

static void request_append(request_t *request, uint16_t type, const btl_ib_udp_name_t *name)
{
    const bool v4 = name->any.sa_family == AF_INET;
    const uint32_t size = v4 ? sizeof(name->v4.sin_addr) : sizeof(name->v6.sin6_addr);
    struct rtattr *attribute =
        (struct rtattr *) (void *) ((uint8_t *) request + NLMSG_ALIGN(request->head.nlmsg_len));

    attribute->rta_type = type;
    attribute->rta_len = (uint16_t) RTA_LENGTH(size);
    memcpy(RTA_DATA(attribute),
           v4 ? (const void *) &name->v4.sin_addr : (const void *) &name->v6.sin6_addr, size);
    request->head.nlmsg_len = (uint32_t) (NLMSG_ALIGN(request->head.nlmsg_len) + RTA_SPACE(size));
}

static route_t route_parse(struct nlmsghdr *head)
{
    const struct rtattr *attribute = RTM_RTA((struct rtmsg *) NLMSG_DATA(head));
    struct rta_cacheinfo cache;
    route_t route = {0};
    int left = (int) RTM_PAYLOAD(head);

    while (RTA_OK(attribute, left)) {
        const int size = (int) RTA_ALIGN(attribute->rta_len);

        if (attribute->rta_type == RTA_OIF && RTA_PAYLOAD(attribute) >= sizeof(route.interface)) {
            memcpy(&route.interface, RTA_DATA(attribute), sizeof(route.interface));
        } else if (attribute->rta_type == RTA_CACHEINFO
                   && RTA_PAYLOAD(attribute) >= sizeof(cache)) {
            memcpy(&cache, RTA_DATA(attribute), sizeof(cache));
            route.expires = cache.rta_expires != 0;
        }
        attribute = (const struct rtattr *) ((const char *) attribute + size);
        left -= size;
    }
    return route;
}

/* Asks the kernel for a route. Returns zeros if it does not answer. */
static route_t route_get(const btl_ib_udp_name_t *from, const btl_ib_udp_name_t *to)
{
    const uint8_t bits = to->any.sa_family == AF_INET ? 32 : 128;
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    request_t request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                 .nlmsg_type = RTM_GETROUTE,
                 .nlmsg_flags = NLM_F_REQUEST},
        .route = {.rtm_family = (uint8_t) to->any.sa_family,
                  .rtm_dst_len = bits,
                  .rtm_src_len = bits},
    };
    _Alignas(struct nlmsghdr) uint8_t bytes[512];
    struct nlmsghdr *head = (struct nlmsghdr *) (void *) bytes;
    route_t route = {0};

    if (fd < 0) {
        return route;
    }
    request_append(&request, RTA_DST, to);
    request_append(&request, RTA_SRC, from);
    if (send(fd, &request, request.head.nlmsg_len, 0) == (ssize_t) request.head.nlmsg_len) {
        /* The kernel answers within send(), so there is nothing to wait for. */
        const ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (size > 0 && NLMSG_OK(head, (uint32_t) size) && head->nlmsg_type == RTM_NEWROUTE) {
            route = route_parse(head);
        }
    }
    (void) close(fd);
    return route;
}

/* Returns the MTU of the interface by which a route leaves, if the route's own MTU was learned;
 * else 0. `fd` is any socket. */
static uint32_t route_unlearned_mtu(int fd, const btl_ib_udp_name_t *from,
                                    const btl_ib_udp_name_t *to)
{
    const route_t route = route_get(from, to);
    struct ifreq request = {.ifr_mtu = 0};

    return route.expires && if_indextoname(route.interface, request.ifr_name) != NULL
                   && ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0
               ? (uint32_t) request.ifr_mtu
               : 0;
}

/* ---- paths ---- */

/* Binds to the address of a name, at any port. Returns false for an address that is not this
 * host's. (With net.ipv4.ip_nonlocal_bind it is true for any address; then the smaller MTU of a
 * peer's interface goes unnoticed.) */
static bool bind_address(int fd, const btl_ib_udp_name_t *name)
{
    btl_ib_udp_name_t any_port = *name;

    btl_ib_udp_name_set_port(&any_port, 0);
    return bind(fd, &any_port.any, btl_ib_udp_name_len(name)) == 0;
}

/* Returns the MTU of the route to `to`; 0: the kernel does not know it. */
static uint32_t route_mtu(int fd, const btl_ib_udp_name_t *to)
{
    const bool v4 = to->any.sa_family == AF_INET;
    int mtu = 0;
    socklen_t len = sizeof(mtu);

    if (connect(fd, &to->any, btl_ib_udp_name_len(to)) != 0
        || getsockopt(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &len) != 0) {
        return 0;
    }
    return (uint32_t) mtu;
}

uint32_t btl_ib_udp_path_datagram(const btl_ib_udp_name_t *own, const btl_ib_udp_name_t *to,
                                  uint32_t interfaces)
{
    const sa_family_t family = to->any.sa_family;
    const int no_port = 1;
    const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return interfaces;
    }
    (void) setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &no_port, sizeof(no_port));
    const bool within_host = bind_address(fd, to);
    const uint32_t most =
        within_host ? LARGEST_WITHIN_HOST : at_most(interfaces, BTL_IB_UDP_DATAGRAM_MOST);
    uint32_t mtu = within_host || bind_address(fd, own) ? route_mtu(fd, to) : 0;
    if (mtu != 0 && btl_ib_udp_mtu_datagram(family, mtu) < most) {
        const uint32_t unlearned = route_unlearned_mtu(fd, within_host ? to : own, to);
        mtu = unlearned > mtu ? unlearned : mtu;
    }
    (void) close(fd);
    return mtu == 0 ? interfaces : at_most(btl_ib_udp_mtu_datagram(family, mtu), most);
}
