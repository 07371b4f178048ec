/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_addr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "verbs_port.h"

enum {
    VERSION = 1,
    KIND = 'R',
    FAMILY_4 = 4,
    FAMILY_6 = 6,
};

typedef struct wire {
    uint8_t version;
    uint8_t kind;
    uint8_t family;
    uint8_t mtu;
    uint16_t port; /* in network order, as the IP address */
    uint16_t zero;
    uint8_t ip[16];
    uint64_t cookie; /* big-endian */
} wire_t;

static_assert(sizeof(wire_t) == BTL_IB_RC_ADDRESS_BYTES, "as drawn");
static_assert((int) BTL_IB_RC_ADDRESS_BYTES <= BTL_IB_ADDR_BYTES, "fits what is published");

void btl_ib_rc_address_set_port(btl_ib_rc_address_t *addr, uint16_t port)
{
    if (addr->any.sa_family == AF_INET) {
        addr->v4.sin_port = port;
    } else {
        addr->v6.sin6_port = port;
    }
}

const char *btl_ib_rc_address_format(const btl_ib_rc_address_t *addr, char *out, size_t len)
{
    char ip[INET6_ADDRSTRLEN] = "?";

    if (addr->any.sa_family == AF_INET) {
        (void) inet_ntop(AF_INET, &addr->v4.sin_addr, ip, sizeof(ip));
        snprintf(out, len, "%s:%u", ip, ntohs(addr->v4.sin_port));
    } else if (addr->any.sa_family == AF_INET6) {
        (void) inet_ntop(AF_INET6, &addr->v6.sin6_addr, ip, sizeof(ip));
        snprintf(out, len, "[%s]:%u", ip, ntohs(addr->v6.sin6_port));
    } else {
        snprintf(out, len, "unknown");
    }
    return out;
}

void btl_ib_rc_address_pack(const btl_ib_rc_address_t *addr, uint8_t *out)
{
    const bool v4 = addr->any.sa_family == AF_INET;
    wire_t wire = {
        .version = VERSION,
        .kind = KIND,
        .family = v4 ? FAMILY_4 : FAMILY_6,
        .mtu = addr->mtu,
        .port = v4 ? addr->v4.sin_port : addr->v6.sin6_port,
        .cookie = htobe64(addr->cookie),
    };

    if (v4) {
        memcpy(wire.ip, &addr->v4.sin_addr, sizeof(addr->v4.sin_addr));
    } else {
        memcpy(wire.ip, &addr->v6.sin6_addr, sizeof(addr->v6.sin6_addr));
    }
    memcpy(out, &wire, sizeof(wire));
}

static bool usable_4(const struct sockaddr_in *v4)
{
    const uint32_t ip = ntohl(v4->sin_addr.s_addr);

    return ip != INADDR_ANY && ip != INADDR_BROADCAST && !IN_MULTICAST(ip) && v4->sin_port != 0;
}

static bool usable_6(const struct sockaddr_in6 *v6)
{
    return !IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) && !IN6_IS_ADDR_MULTICAST(&v6->sin6_addr)
           && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && v6->sin6_port != 0;
}

/* There is one way only to write an address: what is in no field is zero. */
static bool packs_to(const btl_ib_rc_address_t *addr, const uint8_t *bytes)
{
    uint8_t again[BTL_IB_RC_ADDRESS_BYTES];

    btl_ib_rc_address_pack(addr, again);
    return memcmp(again, bytes, sizeof(again)) == 0;
}

int btl_ib_rc_address_unpack(const void *bytes, size_t len, btl_ib_rc_address_t *addr)
{
    bool usable = false;
    wire_t wire;

    memset(addr, 0, sizeof(*addr));
    if (len != sizeof(wire)) {
        return -EINVAL;
    }
    memcpy(&wire, bytes, sizeof(wire));
    addr->cookie = be64toh(wire.cookie);
    addr->mtu = wire.mtu;
    if (wire.family == FAMILY_4) {
        addr->v4.sin_family = AF_INET;
        addr->v4.sin_port = wire.port;
        memcpy(&addr->v4.sin_addr, wire.ip, sizeof(addr->v4.sin_addr));
        usable = usable_4(&addr->v4);
    } else if (wire.family == FAMILY_6) {
        addr->v6.sin6_family = AF_INET6;
        addr->v6.sin6_port = wire.port;
        memcpy(&addr->v6.sin6_addr, wire.ip, sizeof(addr->v6.sin6_addr));
        usable = usable_6(&addr->v6);
    }
    return usable && addr->mtu <= BTL_IB_VERBS_MTU_MAX && packs_to(addr, bytes) ? 0 : -EINVAL;
}

bool btl_ib_rc_address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    btl_ib_rc_address_t addr;

    if (btl_ib_rc_address_unpack(bytes, len, &addr) != 0) {
        return false;
    }
    (void) btl_ib_rc_address_format(&addr, out, out_len);
    return true;
}
