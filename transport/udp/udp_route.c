/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The MTU of a route as the administrator and the interface have it. What a connected socket tells
 * (IP_MTU, ip(7)) is less where an ICMP message said so within the last ten minutes, about any
 * socket of this host; the kernel compares addresses and ports only, so that anybody may have made
 * it. The kernel's answer to a look-up (rtnetlink(7)) says which of both it is: what was learned
 * expires.
 */

#include "udp_state.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A look-up, with room for two addresses. */
typedef struct request {
    struct nlmsghdr head;
    struct rtmsg route;
    uint8_t room[2 * RTA_SPACE(sizeof(struct in6_addr))];
} request_t;

/* What is of use in the answer. */
typedef struct answer {
    uint32_t interface; /* its index, 0: not said */
    uint32_t mtu;       /* of the route, 0: not said */
    bool expires;       /* that MTU was learned */
} answer_t;

static void append(request_t *request, uint16_t type, const btl_ib_udp_name_t *name)
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

static uint32_t read_u32(const struct rtattr *attribute)
{
    uint32_t value = 0;

    if (RTA_PAYLOAD(attribute) >= sizeof(value)) {
        memcpy(&value, RTA_DATA(attribute), sizeof(value));
    }
    return value;
}

static uint32_t mtu_of(struct rtattr *metrics)
{
    struct rtattr *metric = RTA_DATA(metrics);

    for (int left = (int) RTA_PAYLOAD(metrics); RTA_OK(metric, left);
         metric = RTA_NEXT(metric, left)) {
        if (metric->rta_type == RTAX_MTU) {
            return read_u32(metric);
        }
    }
    return 0;
}

static answer_t parse(struct nlmsghdr *head)
{
    struct rtattr *attribute = RTM_RTA((struct rtmsg *) NLMSG_DATA(head));
    struct rta_cacheinfo cache;
    answer_t answer = {0};

    for (int left = (int) RTM_PAYLOAD(head); RTA_OK(attribute, left);
         attribute = RTA_NEXT(attribute, left)) {
        if (attribute->rta_type == RTA_OIF) {
            answer.interface = read_u32(attribute);
        } else if (attribute->rta_type == RTA_METRICS) {
            answer.mtu = mtu_of(attribute);
        } else if (attribute->rta_type == RTA_CACHEINFO
                   && RTA_PAYLOAD(attribute) >= sizeof(cache)) {
            memcpy(&cache, RTA_DATA(attribute), sizeof(cache));
            answer.expires = cache.rta_expires != 0;
        }
    }
    return answer;
}

/* All 0 if the kernel does not answer. */
static answer_t look_up(const btl_ib_udp_name_t *from, const btl_ib_udp_name_t *to)
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
    _Alignas(struct nlmsghdr) uint8_t bytes[2048];
    struct nlmsghdr *head = (struct nlmsghdr *) (void *) bytes;
    answer_t answer = {0};

    if (fd < 0) {
        return answer;
    }
    append(&request, RTA_DST, to);
    append(&request, RTA_SRC, from);
    if (send(fd, &request, request.head.nlmsg_len, 0) == (ssize_t) request.head.nlmsg_len) {
        /* The kernel has answered within that call. */
        const ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (size > 0 && NLMSG_OK(head, (uint32_t) size) && head->nlmsg_type == RTM_NEWROUTE) {
            answer = parse(head);
        }
    }
    (void) close(fd);
    return answer;
}

/* 0: nobody knows. */
static uint32_t interface_mtu(int fd, uint32_t interface)
{
    struct ifreq request;

    memset(&request, 0, sizeof(request));
    if (if_indextoname(interface, request.ifr_name) == NULL || ioctl(fd, SIOCGIFMTU, &request) != 0
        || request.ifr_mtu < 0) {
        return 0;
    }
    return (uint32_t) request.ifr_mtu;
}

uint32_t btl_ib_udp_route_mtu(int fd, const btl_ib_udp_name_t *from, const btl_ib_udp_name_t *to,
                              uint32_t told)
{
    const answer_t answer = look_up(from, to);
    const uint32_t mtu =
        answer.expires && answer.interface != 0 ? interface_mtu(fd, answer.interface) : 0;

    return mtu > told ? mtu : told;
}
