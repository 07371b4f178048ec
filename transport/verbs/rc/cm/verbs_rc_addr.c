/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Addresses of transport "verbs", wire RC, as published; and what both ends of a pipe tell each other in the
 * private data of rdma_cm: 56 bytes of a request are what InfiniBand leaves to its user (IBTA 1.4, A11.3.2:
 * 92 less the 36 of the IP header), so a reply has no more than that, either.
 *
 *      0       4         5         6        8     16     24        28      32     40         44      45        46     48
 *      | magic | version | channel | zero   | to  | from | attempt | depth | word | word key | reads | relaxed | zero |
 *      48          52            54           56
 *      | eager key | eager slots | bytes of one |
 *                                                                                                        big-endian
 *
 *      0       4         5        6
 *      | magic | version | reason |      of a refusal
 */

#include "verbs_rc_rail.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    VERSION = 1,
    KIND = 'R',
    FAMILY_4 = 4,
    FAMILY_6 = 6,
    REFUSAL_BYTES = 6,
};

static const uint8_t magic[4] = {'b', 't', 'l', 'i'};

_Static_assert((int) BTL_IB_RC_HELLO_BYTES <= (int) BTL_IB_RC_PRIVATE_MAX,
               "fits the private data of a request");
_Static_assert((int) BTL_IB_RC_NAME_BYTES <= BTL_IB_ADDR_BYTES, "fits what is published");

/* ---- addresses ---- */

void btl_ib_rc_name_set_port(btl_ib_rc_name_t *name, uint16_t port)
{
    if (name->any.sa_family == AF_INET) {
        name->v4.sin_port = port;
    } else {
        name->v6.sin6_port = port;
    }
}

const char *btl_ib_rc_name_format(const btl_ib_rc_name_t *name, char *out, size_t len)
{
    char ip[INET6_ADDRSTRLEN] = "?";

    if (name->any.sa_family == AF_INET) {
        (void) inet_ntop(AF_INET, &name->v4.sin_addr, ip, sizeof(ip));
        snprintf(out, len, "%s:%u", ip, ntohs(name->v4.sin_port));
    } else if (name->any.sa_family == AF_INET6) {
        (void) inet_ntop(AF_INET6, &name->v6.sin6_addr, ip, sizeof(ip));
        snprintf(out, len, "[%s]:%u", ip, ntohs(name->v6.sin6_port));
    } else {
        snprintf(out, len, "a stranger");
    }
    return out;
}

void btl_ib_rc_name_pack(const btl_ib_rc_name_t *name, uint8_t *out)
{
    const bool v4 = name->any.sa_family == AF_INET;
    const uint64_t cookie = htobe64(name->cookie);

    memset(out, 0, BTL_IB_RC_NAME_BYTES);
    out[0] = VERSION;
    out[1] = KIND;
    out[2] = v4 ? FAMILY_4 : FAMILY_6;
    out[3] = name->mtu;
    memcpy(out + 4, v4 ? &name->v4.sin_port : &name->v6.sin6_port, 2);
    if (v4) {
        memcpy(out + 8, &name->v4.sin_addr, 4);
    } else {
        memcpy(out + 8, &name->v6.sin6_addr, 16);
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

/* What is in no field is zero: then there is one way only to write an address. */
static bool packs_to(const btl_ib_rc_name_t *name, const uint8_t *bytes)
{
    uint8_t again[BTL_IB_RC_NAME_BYTES];

    btl_ib_rc_name_pack(name, again);
    return memcmp(again, bytes, sizeof(again)) == 0;
}

int btl_ib_rc_name_unpack(const void *bytes, size_t len, btl_ib_rc_name_t *name)
{
    const uint8_t *in = bytes;
    bool usable = false;
    uint64_t cookie;

    memset(name, 0, sizeof(*name));
    if (len != BTL_IB_RC_NAME_BYTES) {
        return -EINVAL;
    }
    memcpy(&cookie, in + 24, sizeof(cookie));
    name->cookie = be64toh(cookie);
    name->mtu = in[3];
    if (in[2] == FAMILY_4) {
        name->v4.sin_family = AF_INET;
        memcpy(&name->v4.sin_port, in + 4, 2);
        memcpy(&name->v4.sin_addr, in + 8, 4);
        usable = usable_4(&name->v4);
    } else if (in[2] == FAMILY_6) {
        name->v6.sin6_family = AF_INET6;
        memcpy(&name->v6.sin6_port, in + 4, 2);
        memcpy(&name->v6.sin6_addr, in + 8, 16);
        usable = usable_6(&name->v6);
    }
    return usable && name->mtu <= BTL_IB_VERBS_MTU_MAX && packs_to(name, in) ? 0 : -EINVAL;
}

/* ---- private data ---- */

static void put32(uint8_t *out, uint32_t value)
{
    value = htobe32(value);
    memcpy(out, &value, sizeof(value));
}

static void put64(uint8_t *out, uint64_t value)
{
    value = htobe64(value);
    memcpy(out, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *in)
{
    uint32_t value;

    memcpy(&value, in, sizeof(value));
    return be32toh(value);
}

static uint64_t get64(const uint8_t *in)
{
    uint64_t value;

    memcpy(&value, in, sizeof(value));
    return be64toh(value);
}

void btl_ib_rc_hello_pack(const btl_ib_rc_hello_t *hello, uint8_t *out)
{
    memset(out, 0, BTL_IB_RC_PRIVATE_MAX);
    memcpy(out, magic, sizeof(magic));
    out[4] = VERSION;
    out[5] = hello->channel;
    put64(out + 8, hello->to);
    put64(out + 16, hello->from);
    put32(out + 24, hello->attempt);
    put32(out + 28, hello->depth);
    put64(out + 32, hello->word);
    put32(out + 40, hello->word_key);
    out[44] = hello->reads;
    out[45] = hello->relaxed;
    put32(out + 48, hello->eager_key);
    put32(out + 52, (uint32_t) hello->eager_slots << 16 | hello->eager_slot);
}

int btl_ib_rc_hello_unpack(const void *bytes, size_t len, btl_ib_rc_hello_t *hello)
{
    const uint8_t *in = bytes;

    if (in == NULL || len < BTL_IB_RC_HELLO_BYTES || memcmp(in, magic, sizeof(magic)) != 0
        || in[4] != VERSION || in[5] >= BTL_IB_RC_LINKS || in[6] != 0 || in[7] != 0 || in[45] > 1
        || in[46] != 0 || in[47] != 0) {
        return -EINVAL;
    }
    *hello = (btl_ib_rc_hello_t){
        .channel = in[5],
        .to = get64(in + 8),
        .from = get64(in + 16),
        .attempt = get32(in + 24),
        .depth = get32(in + 28),
        .word = get64(in + 32),
        .word_key = get32(in + 40),
        .reads = in[44],
        .relaxed = in[45] != 0,
        .eager_key = get32(in + 48),
        .eager_slots = (uint16_t) (get32(in + 52) >> 16),
        .eager_slot = (uint16_t) get32(in + 52),
    };
    if (hello->eager_slots > 0
        && ((hello->eager_slots & (hello->eager_slots - 1)) != 0
            || hello->eager_slot <= BTL_IB_RC_TRAILER || hello->eager_slot > BTL_IB_RC_EAGER_SLOT
            || hello->eager_slot % 8 != 0)) {
        return -EINVAL;
    }
    return 0;
}

uint8_t btl_ib_rc_refusal_pack(btl_ib_rc_reason_t reason, uint8_t *out)
{
    memcpy(out, magic, sizeof(magic));
    out[4] = VERSION;
    out[5] = (uint8_t) reason;
    return REFUSAL_BYTES;
}

btl_ib_rc_reason_t btl_ib_rc_refusal_unpack(const void *bytes, size_t len)
{
    const uint8_t *in = bytes;

    if (in == NULL || len < REFUSAL_BYTES || memcmp(in, magic, sizeof(magic)) != 0
        || in[4] != VERSION || in[5] < BTL_IB_RC_CROSSING || in[5] > BTL_IB_RC_SHORTAGE) {
        return 0;
    }
    return (btl_ib_rc_reason_t) in[5];
}
