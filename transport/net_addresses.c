/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "net_addresses.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "net_interfaces.h"

enum {
    ROOM_FIRST = 64,       /* addresses that SIOCGIFCONF is asked for; then twice as many, */
    ROOM_MAX = 64 * 1024,  /* at most */
    ADDRESS_DIGITS = 32,   /* of an address in /proc/self/net/if_inet6 */
    INET6_LINE_FIELDS = 5, /* that are used of a line of it */
};

typedef union ip {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} ip_t;

/* One that getifaddrs() did not list. */
typedef struct btl_ib_own_address {
    struct ifaddrs entry;
    ip_t address;
    ip_t mask;
    char name[IF_NAMESIZE];
} btl_ib_own_address_t;

/* A list in the making. */
typedef struct list {
    btl_ib_own_address_t *own;
    size_t count;
} list_t;

static int append(list_t *list, const char *name, const ip_t *address, const ip_t *mask)
{
    struct ifreq request = {.ifr_flags = 0};
    btl_ib_own_address_t *own = realloc(list->own, (list->count + 1) * sizeof(*own));

    if (own == NULL) {
        return -ENOMEM;
    }
    list->own = own;
    own += list->count++;
    memset(own, 0, sizeof(*own));
    snprintf(own->name, sizeof(own->name), "%s", name);
    own->address = *address;
    own->mask = *mask;
    /* Who cannot be asked is gone meanwhile, and counts as down. */
    own->entry.ifa_flags = btl_ib_interface_ask(name, SIOCGIFFLAGS, &request) == 0
                               ? (unsigned short) request.ifr_flags
                               : 0;
    return 0;
}

/* ---- IPv4 ---- */

/* An interface may have several addresses: its mask is asked for with the one in question, which
 * the kernel compares (devinet_ioctl). */
static int append_v4(list_t *list, const struct ifreq *found)
{
    struct ifreq request = *found;
    ip_t address;
    ip_t mask;

    if (found->ifr_addr.sa_family != AF_INET) {
        return 0;
    }
    memset(&address, 0, sizeof(address));
    memset(&mask, 0, sizeof(mask));
    memcpy(&address.v4, &found->ifr_addr, sizeof(address.v4));
    memset(mask.v4.sin_zero, 0, sizeof(mask.v4.sin_zero));
    if (btl_ib_interface_ask(found->ifr_name, SIOCGIFNETMASK, &request) == 0) {
        memcpy(&mask.v4, &request.ifr_netmask, sizeof(mask.v4));
    }
    mask.v4.sin_family = AF_INET;
    return append(list, found->ifr_name, &address, &mask);
}

/* Addresses beyond what there is room for are left out in silence: so there is to be room for one
 * more than there are. */
static int list_v4(list_t *list)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifconf answer = {.ifc_req = NULL};
    int rc = fd < 0 ? -errno : -EAGAIN;

    for (size_t room = ROOM_FIRST; rc == -EAGAIN; room *= 2) {
        struct ifreq *more = realloc(answer.ifc_req, room * sizeof(*more));

        if (more == NULL || room > ROOM_MAX) {
            rc = -ENOMEM;
            break;
        }
        answer.ifc_req = more;
        answer.ifc_len = (int) (room * sizeof(*more));
        rc = ioctl(fd, SIOCGIFCONF, &answer) != 0 ? -errno : 0;
        if (rc == 0 && (size_t) answer.ifc_len / sizeof(*more) == room) {
            rc = -EAGAIN;
        }
    }
    for (size_t i = 0; rc == 0 && i < (size_t) answer.ifc_len / sizeof(*answer.ifc_req); i++) {
        rc = append_v4(list, &answer.ifc_req[i]);
    }
    free(answer.ifc_req);
    if (fd >= 0) {
        (void) close(fd);
    }
    return rc;
}

/* ---- IPv6 ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A line has, in hexadecimal digits, the address, the index of its interface, the bits of its
 * prefix, its scope and flags, then the interface's name. False if it is none. */
static bool read_inet6(const char *line, btl_ib_inet6_t *inet6)
{
    char digits[ADDRESS_DIGITS + 1];

    if (sscanf(line, "%32[0-9a-f] %x %x %*x %x %15s", digits, &inet6->index, &inet6->prefix_bits,
               &inet6->flags, inet6->name)
            != INET6_LINE_FIELDS
        || strlen(digits) != ADDRESS_DIGITS || inet6->prefix_bits > 128) {
        return false;
    }
    for (unsigned i = 0; i < sizeof(struct in6_addr); i++) {
        inet6->ip.s6_addr[i] = (uint8_t) (digit(digits[2 * i]) << 4 | digit(digits[2 * i + 1]));
    }
    return true;
}

/* "self": that of this process' own namespace. A kernel without IPv6 has no such file. */
int btl_ib_net_inet6_get(btl_ib_inet6_t **list, size_t *count)
{
    FILE *file = fopen("/proc/self/net/if_inet6", "re");
    char line[128];
    int rc = 0;

    *list = NULL;
    *count = 0;
    while (file != NULL && rc == 0 && fgets(line, sizeof(line), file) != NULL) {
        btl_ib_inet6_t inet6;
        btl_ib_inet6_t *more;

        if (!read_inet6(line, &inet6)) {
            continue;
        }
        more = realloc(*list, (*count + 1) * sizeof(*more));
        if (more == NULL) {
            rc = -ENOMEM;
        } else {
            *list = more;
            more[(*count)++] = inet6;
        }
    }
    if (file != NULL) {
        (void) fclose(file);
    }
    return rc;
}

static int append_v6(list_t *list, const btl_ib_inet6_t *inet6)
{
    ip_t address;
    ip_t mask;

    memset(&address, 0, sizeof(address));
    memset(&mask, 0, sizeof(mask));
    address.v6.sin6_family = mask.v6.sin6_family = AF_INET6;
    address.v6.sin6_addr = inet6->ip;
    for (unsigned i = 0; i < inet6->prefix_bits; i++) {
        mask.v6.sin6_addr.s6_addr[i / 8] |= (uint8_t) (0x80 >> i % 8);
    }
    if (btl_ib_ip_link_local(&address.any)) {
        address.v6.sin6_scope_id = inet6->index;
    }
    return append(list, inet6->name, &address, &mask);
}

static int list_v6(list_t *list)
{
    btl_ib_inet6_t *found;
    size_t count;
    int rc = btl_ib_net_inet6_get(&found, &count);

    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = append_v6(list, &found[i]);
    }
    free(found);
    return rc;
}

/* ---- both ---- */

int btl_ib_net_addresses_get(btl_ib_net_addresses_t *all, const btl_ib_log_t *log)
{
    list_t list = {.count = 0};

    memset(all, 0, sizeof(*all));
    if (getifaddrs(&all->first) == 0) {
        return 0;
    }
    const int error = errno;
    if (list_v4(&list) != 0 || list_v6(&list) != 0) {
        free(list.own);
        return -error;
    }
    if (log != NULL && log->print != NULL) {
        log->print(log->context, 10,
                   "interfaces cannot be listed by netlink (%s): by SIOCGIFCONF and if_inet6",
                   strerror(error));
    }
    for (size_t i = 0; i < list.count; i++) {
        btl_ib_own_address_t *own = &list.own[i];

        own->entry.ifa_next = i + 1 < list.count ? &own[1].entry : NULL;
        own->entry.ifa_name = own->name;
        own->entry.ifa_addr = &own->address.any;
        own->entry.ifa_netmask = &own->mask.any;
    }
    all->own = list.own;
    all->first = list.count > 0 ? &list.own->entry : NULL;
    return 0;
}

void btl_ib_net_addresses_free(btl_ib_net_addresses_t *all)
{
    if (all->own != NULL) {
        free(all->own);
    } else if (all->first != NULL) {
        freeifaddrs(all->first);
    }
    memset(all, 0, sizeof(*all));
}
