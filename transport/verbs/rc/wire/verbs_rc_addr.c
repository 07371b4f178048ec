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

static_assert((int) BTL_IB_RC_ADDR_BYTES <= BTL_IB_ADDR_BYTES, "fits what is published");

void btl_ib_rc_addr_set_port(btl_ib_rc_addr_t *addr, uint16_t port)
{
    if (addr->any.sa_family == AF_INET) {
        addr->v4.sin_port = port;
    } else {
        addr->v6.sin6_port = port;
    }
}

const char *btl_ib_rc_addr_format(const btl_ib_rc_addr_t *addr, char *out, size_t len)
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

void btl_ib_rc_addr_pack(const btl_ib_rc_addr_t *addr, uint8_t *out)
{
    const bool v4 = addr->any.sa_family == AF_INET;
    const uint64_t cookie = htobe64(addr->cookie);

    memset(out, 0, BTL_IB_RC_ADDR_BYTES);
    out[0] = VERSION;
    out[1] = KIND;
    out[2] = v4 ? FAMILY_4 : FAMILY_6;
    out[3] = addr->mtu;
    memcpy(out + 4, v4 ? &addr->v4.sin_port : &addr->v6.sin6_port, 2);
    if (v4) {
        memcpy(out + 8, &addr->v4.sin_addr, 4);
    } else {
        memcpy(out + 8, &addr->v6.sin6_addr, 16);
    }
    memcpy(out + 24, &cookie, sizeof(cookie));
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
static bool packs_to(const btl_ib_rc_addr_t *addr, const uint8_t *bytes)
{
    uint8_t again[BTL_IB_RC_ADDR_BYTES];

    btl_ib_rc_addr_pack(addr, again);
    return memcmp(again, bytes, sizeof(again)) == 0;
}

int btl_ib_rc_addr_unpack(const void *bytes, size_t len, btl_ib_rc_addr_t *addr)
{
    const uint8_t *in = bytes;
    bool usable = false;
    uint64_t cookie;

    memset(addr, 0, sizeof(*addr));
    if (len != BTL_IB_RC_ADDR_BYTES) {
        return -EINVAL;
    }
    memcpy(&cookie, in + 24, sizeof(cookie));
    addr->cookie = be64toh(cookie);
    addr->mtu = in[3];
    if (in[2] == FAMILY_4) {
        addr->v4.sin_family = AF_INET;
        memcpy(&addr->v4.sin_port, in + 4, 2);
        memcpy(&addr->v4.sin_addr, in + 8, 4);
        usable = usable_4(&addr->v4);
    } else if (in[2] == FAMILY_6) {
        addr->v6.sin6_family = AF_INET6;
        memcpy(&addr->v6.sin6_port, in + 4, 2);
        memcpy(&addr->v6.sin6_addr, in + 8, 16);
        usable = usable_6(&addr->v6);
    }
    return usable && addr->mtu <= BTL_IB_VERBS_MTU_MAX && packs_to(addr, in) ? 0 : -EINVAL;
}

bool btl_ib_rc_addr_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    btl_ib_rc_addr_t addr;

    if (btl_ib_rc_addr_unpack(bytes, len, &addr) != 0) {
        return false;
    }
    (void) btl_ib_rc_addr_format(&addr, out, out_len);
    return true;
}
