/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_peers.h"

#include "net_interfaces.h"
#include "transport.h"
#include "udp_sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- peers ---- */

static inline void udp_peer_set_socket(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr,
                                       uint32_t socket)
{
    peers->peer[addr].socket = socket;
}

/* FNV-1a, 32 bits. Only published addresses are in the table, so nobody can fill one bucket. */
static uint32_t *bucket_of(const btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name)
{
    uint8_t bytes[BTL_IB_UDP_NAME_BYTES];
    const uint32_t len = btl_ib_udp_name_pack(name, 0, false, bytes);
    uint32_t hash = 2166136261u;

    for (uint32_t i = 2; i < len; i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    return &peers->bucket[hash & (peers->size - 1)];
}

btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name)
{
    if (peers->size == 0) {
        return BTL_IB_ADDR_UNKNOWN;
    }
    const btl_ib_udp_peer_t *last = &peers->peer[peers->last];
    if (last->users > 0 && btl_ib_udp_name_same(&last->name, name)) {
        return peers->last;
    }
    for (uint32_t i = *bucket_of(peers, name); i != 0; i = peers->peer[i - 1].next) {
        if (btl_ib_udp_name_same(&peers->peer[i - 1].name, name)) {
            peers->last = i - 1;
            return i - 1;
        }
    }
    return BTL_IB_ADDR_UNKNOWN;
}

static void link_peer(btl_ib_udp_peers_t *peers, uint32_t index)
{
    uint32_t *first = bucket_of(peers, &peers->peer[index].name);

    peers->peer[index].next = *first;
    *first = index + 1;
}

/* All places are in use: twice as many, and every peer in a new bucket. */
static bool grow(btl_ib_udp_peers_t *peers)
{
    btl_ib_addr_table_t table = {
        .count = peers->size, .entry = peers->peer, .bucket = peers->bucket};

    if (!btl_ib_addr_table_grow(&table, sizeof(*peers->peer), sizeof(*peers->bucket))) {
        return false;
    }
    peers->size = table.count;
    peers->peer = table.entry;
    peers->bucket = table.bucket;
    for (uint32_t i = 0; i < peers->count; i++) {
        link_peer(peers, i);
    }
    return true;
}

int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name, bool latency_lane,
                        uint32_t interface, btl_ib_addr_t *addr)
{
    uint32_t index = peers->count;

    *addr = btl_ib_udp_peer_find(peers, name);
    if (*addr == BTL_IB_ADDR_UNKNOWN) {
        if (peers->free != 0) {
            index = peers->free - 1;
            peers->free = peers->peer[index].next;
        } else if (peers->count == peers->size && !grow(peers)) {
            return -ENOMEM;
        } else {
            peers->count++;
        }
        peers->peer[index] = (btl_ib_udp_peer_t){.name = *name};
        link_peer(peers, index);
        *addr = index;
    }
    btl_ib_udp_peer_t *peer = &peers->peer[*addr];
    const bool published = latency_lane || interface != BTL_IB_UDP_INTERFACE_UNKNOWN;
    if (peer->users++ == 0 || published) {
        peer->interface = interface;
        peer->latency = (btl_ib_udp_name_t){.any.sa_family = AF_UNSPEC};
        if (latency_lane) {
            peer->latency = btl_ib_udp_name_shift(name, 1);
        }
    }
    return 0;
}

static void unlink_peer(btl_ib_udp_peers_t *peers, uint32_t index)
{
    uint32_t *link = bucket_of(peers, &peers->peer[index].name);

    while (*link != index + 1) {
        link = &peers->peer[*link - 1].next;
    }
    *link = peers->peer[index].next;
}

bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr)
{
    btl_ib_udp_peer_t *peer = &peers->peer[addr];

    if (--peer->users > 0) {
        return false;
    }
    unlink_peer(peers, (uint32_t) addr);
    peer->next = peers->free;
    peers->free = (uint32_t) addr + 1;
    return true;
}

/* The same port of another host. */
static btl_ib_udp_name_t at_host(const btl_ib_udp_name_t *name, const btl_ib_udp_name_t *host)
{
    btl_ib_udp_name_t moved = *host;

    btl_ib_udp_name_set_port(&moved, ntohs(name->v4.sin_port));
    return moved;
}

void btl_ib_udp_peers_rebound(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *before,
                              const btl_ib_udp_name_t *now)
{
    for (uint32_t i = 0; i < peers->count; i++) {
        btl_ib_udp_peer_t *peer = &peers->peer[i];

        peer->socket = 0;
        peer->sent = 0;
        if (peer->users == 0 || !btl_ib_udp_name_same_host(&peer->name, before)) {
            continue;
        }
        unlink_peer(peers, i);
        peer->name = at_host(&peer->name, now);
        if (peer->latency.any.sa_family != AF_UNSPEC) {
            peer->latency = at_host(&peer->latency, now);
        }
        link_peer(peers, i);
    }
}

void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers)
{
    free(peers->peer);
    free(peers->bucket);
}

/* ---- connected sockets ---- */

/*
 * A socket that lost its peer moves to another one by a second connect() (connect(2)). What it
 * still holds says where it is from. So none is closed before the end, and nothing is lost.
 */

void btl_ib_udp_connected_init(btl_ib_udp_connected_t *connected, btl_ib_udp_sockets_t *sockets,
                               btl_ib_udp_peers_t *peers, uint32_t max)
{
    *connected = (btl_ib_udp_connected_t){
        .sockets = sockets,
        .peers = peers,
        .vacant = max < BTL_IB_UDP_CONNECTED_MAX ? max : BTL_IB_UDP_CONNECTED_MAX,
    };
    for (uint32_t i = 0; i < BTL_IB_UDP_SOCKETS_MAX; i++) {
        connected->peer[i] = BTL_IB_ADDR_UNKNOWN;
    }
}

void btl_ib_udp_connected_promote(btl_ib_udp_connected_t *connected, btl_ib_addr_t to)
{
    btl_ib_udp_sockets_t *sockets = connected->sockets;
    const btl_ib_udp_peer_t *peer = &connected->peers->peer[to];
    uint32_t index = sockets->shared;
    char text[64];

    if (peer->socket != 0) {
        return;
    }
    while (index < sockets->count && connected->peer[index] != BTL_IB_ADDR_UNKNOWN) {
        index++;
    }
    if (index == sockets->count) {
        const int rc = btl_ib_udp_sockets_add(sockets);
        if (rc != 0) {
            connected->vacant = 0;
            BTL_IB_UDP_LOG(sockets->log, 10, "%u connected sockets and no more: %s",
                           index - sockets->shared, strerror(-rc));
            return;
        }
    }
    const btl_ib_udp_socket_t *own = &sockets->socket[index];
    const btl_ib_udp_name_t *name = own->latency ? &peer->latency : &peer->name;
    const bool done = connect(own->fd, &name->any, btl_ib_udp_name_len(name)) == 0;
    BTL_IB_UDP_LOG(sockets->log, 10, "socket %u for %s: %s", index,
                   btl_ib_ip_port_text(&name->any, text, sizeof(text)),
                   done ? "connected" : strerror(errno));
    if (done) {
        connected->peer[index] = to;
        connected->vacant--;
        udp_peer_set_socket(connected->peers, to, index);
    }
}

void btl_ib_udp_connected_forget(btl_ib_udp_connected_t *connected, btl_ib_addr_t addr)
{
    const uint32_t socket = connected->peers->peer[addr].socket;

    if (socket != 0) {
        connected->peer[socket] = BTL_IB_ADDR_UNKNOWN;
        connected->vacant++;
        udp_peer_set_socket(connected->peers, addr, 0);
    }
}

/* ---- the largest datagram of a path ---- */

/*
 * The kernel tells the MTU of a connected socket's route (IP_MTU, ip(7)): that of the interface
 * that it leaves by, or less where a route says so. Between processes of one host that is the
 * loopback device, whatever interface they are bound to.
 *
 * It may also be less because an ICMP message said so, and of those the kernel compares addresses
 * and ports only, which anybody can know. Such an MTU was learned, it expires, and it is not
 * believed: the kernel's answer to a route request (rtnetlink(7)) tells them apart.
 */

enum {
    IP4_HEADERS = 20 + 8,
    IP6_HEADERS = 40 + 8,
    /* Within a host any size would do, and fewer are cheaper for both sides: this one fills what it
     * takes of a socket buffer, which counts powers of two. Of 64 KiB a stock one holds six. */
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
    uint32_t interface; /* its index, 0: not said */
    bool expires;       /* its MTU was learned */
} route_t;

static void append_address(request_t *request, uint16_t type, const btl_ib_udp_name_t *name)
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

static route_t parse_route(struct nlmsghdr *head)
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

/* All 0 if the kernel does not answer. */
static route_t get_route(const btl_ib_udp_name_t *from, const btl_ib_udp_name_t *to)
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
    append_address(&request, RTA_DST, to);
    append_address(&request, RTA_SRC, from);
    if (send(fd, &request, request.head.nlmsg_len, 0) == (ssize_t) request.head.nlmsg_len) {
        /* The kernel has answered within that call. */
        const ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (size > 0 && NLMSG_OK(head, (uint32_t) size) && head->nlmsg_type == RTM_NEWROUTE) {
            route = parse_route(head);
        }
    }
    (void) close(fd);
    return route;
}

/* The MTU of the interface that a route leaves by, if the route's own was learned; else 0. `fd`:
 * any socket. */
static uint32_t unlearned_mtu(int fd, const btl_ib_udp_name_t *from, const btl_ib_udp_name_t *to)
{
    const route_t route = get_route(from, to);
    struct ifreq request = {.ifr_mtu = 0};

    return route.expires && if_indextoname(route.interface, request.ifr_name) != NULL
                   && ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0
               ? (uint32_t) request.ifr_mtu
               : 0;
}

/* ---- paths ---- */

/* Bind to the address of a name, whatever the port. The kernel refuses addresses that are not
 * this host's (unless net.ipv4.ip_nonlocal_bind is set: then a peer's smaller interface goes
 * unnoticed). */
static bool bind_address(int fd, const btl_ib_udp_name_t *name)
{
    btl_ib_udp_name_t any_port = *name;

    btl_ib_udp_name_set_port(&any_port, 0);
    return bind(fd, &any_port.any, btl_ib_udp_name_len(name)) == 0;
}

/* The MTU of the route to `to`, 0 if the kernel does not know one. */
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
        const uint32_t unlearned = unlearned_mtu(fd, within_host ? to : own, to);
        mtu = unlearned > mtu ? unlearned : mtu;
    }
    (void) close(fd);
    return mtu == 0 ? interfaces : at_most(btl_ib_udp_mtu_datagram(family, mtu), most);
}
