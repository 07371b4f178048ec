/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "host_only_interfaces.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_interfaces.h"

enum {
    ANSWER = 32 * 1024, /* bytes of the kernel's longest datagram (rtnetlink dumps) */
};

/* ---- what they are ---- */

static btl_ib_link_t *by_index(const btl_ib_links_t *links, uint32_t index)
{
    for (size_t i = 0; i < links->count; i++) {
        if (index != 0 && links->link[i].index == index) {
            return &links->link[i];
        }
    }
    return NULL;
}

/* `kinds` has a space before and after each kind. */
static bool is_one_of(const btl_ib_link_t *link, const char *kinds)
{
    char kind[sizeof(link->kind) + 2];

    snprintf(kind, sizeof(kind), " %s ", link->kind);
    return link->kind[0] != '\0' && strstr(kinds, kind) != NULL;
}

static bool is_pair(const btl_ib_link_t *link)
{
    return is_one_of(link, " veth netkit ");
}

static const char *why_host_only(const btl_ib_links_t *links, btl_ib_link_t *link);

/* A pair with both ends here leads off the host if the other end is a member of a bridge that
 * does. */
static const char *why_host_only_pair(const btl_ib_links_t *links, const btl_ib_link_t *link)
{
    const btl_ib_link_t *peer = link->lower_elsewhere ? NULL : by_index(links, link->lower);
    btl_ib_link_t *master = peer == NULL ? NULL : by_index(links, peer->master);

    return peer == NULL || (master != NULL && why_host_only(links, master) == NULL)
               ? NULL
               : "both of its ends (veth) are on this host";
}

/* Does a bridge lead off this host by that member? Taps, and veths with an end in another
 * namespace, belong to guests and containers. */
static bool leads_out_of_bridge(const btl_ib_links_t *links, btl_ib_link_t *member)
{
    if (strcmp(member->kind, "tun") == 0 || (is_pair(member) && member->lower_elsewhere)) {
        return false;
    }
    return why_host_only(links, member) == NULL;
}

static const char *why_host_only_bridge(const btl_ib_links_t *links, const btl_ib_link_t *bridge)
{
    for (size_t i = 0; i < links->count; i++) {
        btl_ib_link_t *member = &links->link[i];

        if (member->master == bridge->index && leads_out_of_bridge(links, member)) {
            return NULL;
        }
    }
    return "it is a bridge of containers or virtual machines: no member leads off this host";
}

/* Drivers of virtual machines whose interfaces have no kind, and always these names. */
static bool is_vm_network(const btl_ib_link_t *link)
{
    return link->kind[0] == '\0'
           && (strncmp(link->name, "vboxnet", 7) == 0 || strncmp(link->name, "vmnet", 5) == 0);
}

static const char *why_host_only(const btl_ib_links_t *links, btl_ib_link_t *link)
{
    if (link->seen) {
        return "it leads back to itself";
    }
    link->seen = true;
    if (strcmp(link->kind, "bridge") == 0) {
        return why_host_only_bridge(links, link);
    }
    if (is_pair(link)) {
        return why_host_only_pair(links, link);
    }
    if (is_one_of(link, " dummy ifb ")) {
        return "it is a dummy interface";
    }
    /* Virtual machines have taps with virtio's header. VPNs have taps without it, or tuns with
     * it. */
    if ((link->tap && link->vnet_hdr) || is_vm_network(link)) {
        return "it is a network of virtual machines on this host";
    }
    btl_ib_link_t *lower = link->lower_elsewhere ? NULL : by_index(links, link->lower);
    return is_one_of(link, " vlan macvlan macvtap ipvlan ipvtap ") && lower != NULL
                   && why_host_only(links, lower) != NULL
               ? "it is on an interface that does not lead off this host"
               : NULL;
}

const char *btl_ib_links_host_only(const btl_ib_links_t *links, const char *name)
{
    for (size_t i = 0; i < links->count; i++) {
        links->link[i].seen = false;
    }
    for (size_t i = 0; i < links->count; i++) {
        if (strcmp(links->link[i].name, name) == 0) {
            return why_host_only(links, &links->link[i]);
        }
    }
    return NULL;
}

/* ---- what the kernel says ---- */

/* An attribute of that type, NULL if there is none. The getters take that for 0 and "". */
static const struct rtattr *find(const void *first, size_t len, int type)
{
    const struct rtattr *a = first;
    int left = (int) len;

    while (RTA_OK(a, left) && (a->rta_type & NLA_TYPE_MASK) != type) {
        a = RTA_NEXT(a, left);
    }
    return RTA_OK(a, left) ? a : NULL;
}

static const struct rtattr *find_nested(const struct rtattr *nest, int type)
{
    return nest == NULL ? NULL : find(RTA_DATA(nest), RTA_PAYLOAD(nest), type);
}

static uint32_t get_u32(const struct rtattr *attribute)
{
    uint32_t value = 0;

    if (attribute != NULL && RTA_PAYLOAD(attribute) >= sizeof(value)) {
        memcpy(&value, RTA_DATA(attribute), sizeof(value));
    }
    return value;
}

static uint8_t get_u8(const struct rtattr *attribute)
{
    return attribute != NULL && RTA_PAYLOAD(attribute) >= 1 ? *(const uint8_t *) RTA_DATA(attribute)
                                                            : 0;
}

/* `out` is all zero. */
static void get_text(const struct rtattr *attribute, char *out, size_t size)
{
    if (attribute != NULL) {
        const size_t len = strnlen(RTA_DATA(attribute), RTA_PAYLOAD(attribute));
        memcpy(out, RTA_DATA(attribute), len < size ? len : size - 1);
    }
}

static void parse_link(btl_ib_link_t *link, const void *first, size_t len)
{
    const struct rtattr *info = find(first, len, IFLA_LINKINFO);
    const struct rtattr *data = find_nested(info, IFLA_INFO_DATA);

    get_text(find(first, len, IFLA_IFNAME), link->name, sizeof(link->name));
    get_text(find_nested(info, IFLA_INFO_KIND), link->kind, sizeof(link->kind));
    link->master = get_u32(find(first, len, IFLA_MASTER));
    link->lower = get_u32(find(first, len, IFLA_LINK));
    link->lower_elsewhere = find(first, len, IFLA_LINK_NETNSID) != NULL;
    if (strcmp(link->kind, "tun") == 0) { /* what these types mean depends on the kind */
        link->vnet_hdr = get_u8(find_nested(data, IFLA_TUN_VNET_HDR)) != 0;
        link->tap = get_u8(find_nested(data, IFLA_TUN_TYPE)) == IFF_TAP;
    }
}

static int append(btl_ib_links_t *links, const struct nlmsghdr *message)
{
    const struct ifinfomsg *info = NLMSG_DATA(message);
    btl_ib_link_t *all = realloc(links->link, (links->count + 1) * sizeof(*all));

    if (all == NULL) {
        return -ENOMEM;
    }
    links->link = all;
    btl_ib_link_t *link = &all[links->count++];
    memset(link, 0, sizeof(*link));
    link->index = (uint32_t) info->ifi_index;
    parse_link(link, IFLA_RTA(info), IFLA_PAYLOAD(message));
    return 0;
}

/* As NLMSG_OK(), which compares signed and unsigned numbers. */
static bool is_whole(const struct nlmsghdr *m, int left)
{
    return left >= (int) sizeof(*m) && m->nlmsg_len >= sizeof(*m)
           && m->nlmsg_len <= (uint32_t) left;
}

/* Of one datagram. Returns 1 if more follow, 0 after the last one, or a negative errno. */
static int append_all(btl_ib_links_t *links, const void *answer, size_t size)
{
    int left = (int) size;
    int rc = 1;

    for (const struct nlmsghdr *m = answer; is_whole(m, left) && rc == 1; m = NLMSG_NEXT(m, left)) {
        if (m->nlmsg_type == NLMSG_DONE) {
            return 0;
        }
        if (m->nlmsg_type == NLMSG_ERROR) {
            const struct nlmsgerr *error = NLMSG_DATA(m);

            return error->error < 0 ? error->error : -EPROTO;
        }
        if (m->nlmsg_type == RTM_NEWLINK && m->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifinfomsg))
            && append(links, m) != 0) {
            rc = -ENOMEM;
        }
    }
    return rc;
}

static int ask(int fd)
{
    const struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = RTM_GETLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .info = {.ifi_family = AF_UNSPEC},
    };

    return send(fd, &request, sizeof(request), 0) == (ssize_t) sizeof(request) ? 1 : -errno;
}

int btl_ib_links_read(btl_ib_links_t *links)
{
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    void *answer = malloc(ANSWER);
    int rc = fd < 0 ? -errno : answer == NULL ? -ENOMEM : ask(fd);

    memset(links, 0, sizeof(*links));
    while (rc == 1) {
        const ssize_t size = recv(fd, answer, ANSWER, 0);

        if (size > 0) {
            rc = append_all(links, answer, (size_t) size);
        } else if (size == 0 || errno != EINTR) {
            rc = size == 0 ? -EPROTO : -errno;
        }
    }
    free(answer);
    if (fd >= 0) {
        (void) close(fd);
    }
    if (rc != 0) {
        btl_ib_links_free(links);
    }
    return rc;
}

void btl_ib_links_free(btl_ib_links_t *links)
{
    free(links->link);
    memset(links, 0, sizeof(*links));
}

/* ---- devices ---- */

void btl_ib_links_mark_host_only(btl_ib_device_t *list, int count, const btl_ib_log_t *log)
{
    btl_ib_links_t links;
    const int rc = btl_ib_links_read(&links);

    if (rc != 0 && log->print != NULL) {
        log->print(log->context, 10,
                   "what the network interfaces are cannot be asked, so all may lead off this host:"
                   " %s",
                   strerror(-rc));
    }
    for (int i = 0; i < count; i++) {
        btl_ib_device_t *device = &list[i];

        if (device->last_resort == NULL) {
            device->last_resort = btl_ib_links_host_only(&links, device->interface);
        }
        if (device->last_resort == NULL
            && btl_ib_ip_link_local4((const struct sockaddr *) (const void *) &device->ip)) {
            device->last_resort = "its address is link-local";
        }
    }
    btl_ib_links_free(&links);
}
