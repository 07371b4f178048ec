/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "own_network.h"
#include "unit.h"

static void change(unsigned long what, void *request)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_in_range(fd, 0, INT32_MAX);
    assert_int_equal(ioctl(fd, what, request), 0);
    close(fd);
}

void set_lo_mtu(int mtu)
{
    change(SIOCSIFMTU, &(struct ifreq){.ifr_name = "lo", .ifr_mtu = mtu});
}

void set_lo_address(const char *label, const char *ip)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    struct ifreq request = {.ifr_flags = 0};

    memcpy(request.ifr_name, label, strlen(label));
    assert_int_equal(inet_pton(AF_INET, ip != NULL ? ip : "0.0.0.0", &name.sin_addr), 1);
    memcpy(&request.ifr_addr, &name, sizeof(name));
    change(SIOCSIFADDR, &request);
    if (ip != NULL) {
        name.sin_addr.s_addr = INADDR_NONE;
        memcpy(&request.ifr_netmask, &name, sizeof(name));
        change(SIOCSIFNETMASK, &request);
    }
}

/* A request to the kernel's routing (rtnetlink(7)), attributes behind each other. */
typedef struct request {
    struct nlmsghdr head;
    union {
        struct rtmsg route;
        struct ifaddrmsg address;
    };
    uint8_t room[128];
} request_t;

/* Append an attribute. Returns where it is: what follows may be put into it. */
static struct rtattr *append(request_t *request, uint16_t type, const void *data, uint32_t len)
{
    struct rtattr *attribute =
        (struct rtattr *) (void *) ((uint8_t *) request + NLMSG_ALIGN(request->head.nlmsg_len));

    attribute->rta_type = type;
    attribute->rta_len = (uint16_t) RTA_LENGTH(len);
    if (len > 0) {
        memcpy(RTA_DATA(attribute), data, len);
    }
    request->head.nlmsg_len = (uint32_t) (NLMSG_ALIGN(request->head.nlmsg_len) + RTA_SPACE(len));
    return attribute;
}

static void ask_kernel(const request_t *request)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        uint8_t room[256];
    } answer;
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    assert_in_range(fd, 0, INT32_MAX);
    assert_int_equal(send(fd, request, request->head.nlmsg_len, 0), request->head.nlmsg_len);
    assert_true(recv(fd, &answer, sizeof(answer), 0) > 0);
    assert_int_equal(answer.head.nlmsg_type, NLMSG_ERROR);
    assert_int_equal(answer.error.error, 0);
    close(fd);
}

void add_lo_address(const char *label, const char *ip)
{
    struct in_addr address;
    request_t request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
                 .nlmsg_type = RTM_NEWADDR,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK},
        .address = {.ifa_family = AF_INET,
                    .ifa_prefixlen = 32,
                    .ifa_scope = RT_SCOPE_UNIVERSE,
                    .ifa_index = if_nametoindex("lo")},
    };

    assert_int_equal(inet_pton(AF_INET, ip, &address), 1);
    (void) append(&request, IFA_LOCAL, &address, sizeof(address));
    (void) append(&request, IFA_LABEL, label, (uint32_t) strlen(label) + 1);
    ask_kernel(&request);
}

void add_route(const char *network, uint32_t mtu)
{
    const unsigned lo = if_nametoindex("lo");
    struct in_addr ip;
    request_t request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                 .nlmsg_type = RTM_NEWROUTE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK},
        .route = {.rtm_family = AF_INET,
                  .rtm_dst_len = 16,
                  .rtm_table = RT_TABLE_MAIN,
                  .rtm_protocol = RTPROT_STATIC,
                  .rtm_scope = RT_SCOPE_LINK,
                  .rtm_type = RTN_UNICAST},
    };

    assert_int_equal(inet_pton(AF_INET, network, &ip), 1);
    (void) append(&request, RTA_DST, &ip, sizeof(ip));
    (void) append(&request, RTA_OIF, &lo, sizeof(lo));
    if (mtu != 0) {
        struct rtattr *metrics = append(&request, RTA_METRICS, NULL, 0);
        (void) append(&request, RTAX_MTU, &mtu, sizeof(mtu));
        metrics->rta_len = (uint16_t) (metrics->rta_len + RTA_SPACE(sizeof(mtu)));
    }
    ask_kernel(&request);
}

void need_own_network(void)
{
    static bool have;

    if (!have && unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        print_message("skipped: no network namespace of its own: %s\n", strerror(errno));
        skip();
    }
    have = true;
    set_lo_mtu(65536);
    change(SIOCSIFFLAGS, &(struct ifreq){.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING});
}
