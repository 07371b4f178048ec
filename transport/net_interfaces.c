/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "net_interfaces.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINK_MODES_MAX = 127 }; /* words of each bitmap; the kernel tells how many it has */

const uint8_t *btl_ib_ip_bytes(const struct sockaddr *address, size_t *len)
{
    if (address->sa_family == AF_INET) {
        *len = sizeof(struct in_addr);
        return (const uint8_t *) &((const struct sockaddr_in *) (const void *) address)->sin_addr;
    }
    if (address->sa_family == AF_INET6) {
        *len = sizeof(struct in6_addr);
        return (const uint8_t *) &((const struct sockaddr_in6 *) (const void *) address)->sin6_addr;
    }
    *len = 0;
    return NULL;
}

bool btl_ib_ip_same(const struct sockaddr *a, const struct sockaddr *b)
{
    size_t len;
    size_t other;
    const uint8_t *bytes = btl_ib_ip_bytes(a, &len);
    const uint8_t *others = btl_ib_ip_bytes(b, &other);

    return len > 0 && len == other && memcmp(bytes, others, len) == 0;
}

bool btl_ib_ip_same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    const unsigned whole = bits / 8;
    const unsigned rest = bits % 8;

    return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

uint8_t btl_ib_ip_prefix(const struct sockaddr *mask)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(mask, &len);
    unsigned bits = 0;

    for (size_t i = 0; i < len; i++) {
        bits += (unsigned) __builtin_popcount(bytes[i]);
    }
    return (uint8_t) bits;
}

bool btl_ib_ip_link_local(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6
           && IN6_IS_ADDR_LINKLOCAL(
               &((const struct sockaddr_in6 *) (const void *) address)->sin6_addr);
}

bool btl_ib_ip_loopback(const struct sockaddr *address)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(address, &len);

    return len == sizeof(struct in_addr)
               ? bytes[0] == 127
               : len == sizeof(struct in6_addr)
                     && IN6_IS_ADDR_LOOPBACK((const struct in6_addr *) (const void *) bytes);
}

bool btl_ib_ip_link_local4(const struct sockaddr *address)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(address, &len);

    return len == sizeof(struct in_addr) && bytes[0] == 169 && bytes[1] == 254;
}

int btl_ib_interface_ask(const char *interface, unsigned long question, struct ifreq *request)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(request->ifr_name, sizeof(request->ifr_name), "%.*s", IFNAMSIZ - 1, interface);
    const int rc = fd < 0 ? -1 : ioctl(fd, question, request);
    if (fd >= 0) {
        (void) close(fd);
    }
    return rc;
}

/* The first call tells how long its bitmaps are, the second
 * fills them in (ethtool's ETHTOOL_GLINKSETTINGS). */
uint32_t btl_ib_interface_speed(const char *interface)
{
    struct ethtool_link_settings *link =
        calloc(1, sizeof(*link) + 3 * LINK_MODES_MAX * sizeof(uint32_t));
    struct ifreq request = {.ifr_data = (char *) link};
    uint32_t speed = 0;

    if (link == NULL) {
        return 0;
    }
    link->cmd = ETHTOOL_GLINKSETTINGS;
    if (btl_ib_interface_ask(interface, SIOCETHTOOL, &request) == 0
        && link->link_mode_masks_nwords < 0) {
        const int words = -link->link_mode_masks_nwords;
        *link = (struct ethtool_link_settings){
            .cmd = ETHTOOL_GLINKSETTINGS,
            .link_mode_masks_nwords = (int8_t) words,
        };
        if (btl_ib_interface_ask(interface, SIOCETHTOOL, &request) == 0
            && link->speed != (uint32_t) SPEED_UNKNOWN) {
            speed = link->speed;
        }
    }
    free(link);
    return speed;
}
