/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_name.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    VERSION = 1,
    FAMILY_4 = 4,
    FAMILY_6 = 6,
    LATENCY_LANE = 0x80,
    PORT_AT = 2,
    MAX_DATAGRAM_AT = 4,
    ADDRESS_AT = 6,
};

const char *btl_ib_udp_name_format(const btl_ib_udp_name_t *name, char *out, size_t len)
{
    const bool v4 = name->any.sa_family == AF_INET;
    const void *address = v4 ? (const void *) &name->v4.sin_addr : &name->v6.sin6_addr;
    char ip[INET6_ADDRSTRLEN] = "?";

    (void) inet_ntop(name->any.sa_family, address, ip, sizeof(ip));
    snprintf(out, len, v4 ? "%s:%u" : "[%s]:%u", ip, btl_ib_udp_name_port(name));
    return out;
}

/* Both kinds of names have the port at the same place. */
uint16_t btl_ib_udp_name_port(const btl_ib_udp_name_t *name)
{
    return ntohs(name->v4.sin_port);
}

btl_ib_udp_name_t btl_ib_udp_name_shift(const btl_ib_udp_name_t *name, int by)
{
    btl_ib_udp_name_t other = *name;

    btl_ib_udp_name_set_port(&other, (uint16_t) (btl_ib_udp_name_port(name) + by));
    return other;
}

bool btl_ib_udp_name_same(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b)
{
    if (a->any.sa_family != b->any.sa_family || a->v4.sin_port != b->v4.sin_port) {
        return false;
    }
    return a->any.sa_family == AF_INET
               ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
               : memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

uint32_t btl_ib_udp_name_pack(const btl_ib_udp_name_t *name, uint32_t max_datagram,
                              bool latency_lane, uint8_t *out)
{
    const bool v4 = name->any.sa_family == AF_INET;
    const uint32_t size = v4 ? sizeof(name->v4.sin_addr) : sizeof(name->v6.sin6_addr);
    const uint16_t largest = htons((uint16_t) max_datagram);

    out[0] = VERSION;
    out[1] = (uint8_t) ((v4 ? FAMILY_4 : FAMILY_6) | (latency_lane ? LATENCY_LANE : 0));
    memcpy(out + PORT_AT, &name->v4.sin_port, sizeof(name->v4.sin_port));
    memcpy(out + MAX_DATAGRAM_AT, &largest, sizeof(largest));
    memcpy(out + ADDRESS_AT, v4 ? (const void *) &name->v4.sin_addr : &name->v6.sin6_addr, size);
    return ADDRESS_AT + size;
}

/* One host that can be reached from another one. IPv6's link-local addresses need an interface. */
static bool is_usable(const btl_ib_udp_name_t *name)
{
    if (name->any.sa_family == AF_INET) {
        const uint32_t ip = ntohl(name->v4.sin_addr.s_addr);
        return ip != INADDR_ANY && ip != INADDR_BROADCAST && !IN_MULTICAST(ip);
    }
    return !IN6_IS_ADDR_UNSPECIFIED(&name->v6.sin6_addr)
           && !IN6_IS_ADDR_MULTICAST(&name->v6.sin6_addr)
           && !IN6_IS_ADDR_LINKLOCAL(&name->v6.sin6_addr);
}

int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name,
                           uint32_t *max_datagram, bool *latency_lane)
{
    const uint8_t *in = bytes;
    uint16_t largest;

    memset(name, 0, sizeof(*name));
    if (len < ADDRESS_AT || in[0] != VERSION) {
        return -EINVAL;
    }
    const uint8_t family = in[1] & (uint8_t) ~LATENCY_LANE;
    if (family == FAMILY_4 && len == ADDRESS_AT + sizeof(name->v4.sin_addr)) {
        name->v4.sin_family = AF_INET;
        memcpy(&name->v4.sin_addr, in + ADDRESS_AT, sizeof(name->v4.sin_addr));
    } else if (family == FAMILY_6 && len == ADDRESS_AT + sizeof(name->v6.sin6_addr)) {
        name->v6.sin6_family = AF_INET6;
        memcpy(&name->v6.sin6_addr, in + ADDRESS_AT, sizeof(name->v6.sin6_addr));
    } else {
        return -EINVAL;
    }
    memcpy(&name->v4.sin_port, in + PORT_AT, sizeof(name->v4.sin_port));
    memcpy(&largest, in + MAX_DATAGRAM_AT, sizeof(largest));
    *max_datagram = ntohs(largest);
    *latency_lane = in[1] & LATENCY_LANE;
    const uint16_t port = btl_ib_udp_name_port(name);
    return port == 0 || (*latency_lane && port == UINT16_MAX) || !is_usable(name) ? -EINVAL : 0;
}
