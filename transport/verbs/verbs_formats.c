/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_formats.h"

#include "net_interfaces.h"
#include "transport.h"
#include "verbs_device.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- address of a UD transport ---- */

enum {
    UD_VERSION = 1,
    UD_KIND = 1,
    QPN_MAX = 0xffffff,
    LID_MULTICAST = 0xc000, /* LIDs from here on name no port */
};

/*
 * All numbers are in network order.
 *
 *    0        1        2        3        4        6        8           12
 *   +--------+--------+--------+--------+--------+--------+-----------+------------+
 *   |version |kind: UD|queue   |MTU: an |LID, 0: |P_Key   |Q_Key      |GID         |
 *   |        |        |pairs n |ibv_mtu |none    |        |           |(16 bytes)  |
 *   +--------+--------+--------+--------+--------+--------+-----------+------------+
 *   28: n numbers of queue pairs, 4 bytes each, the first for the smallest queue
 */
typedef struct ud_wire {
    uint8_t version;
    uint8_t kind;
    uint8_t count;
    uint8_t mtu;
    uint16_t lid;
    uint16_t pkey;
    uint32_t qkey;
    uint8_t gid[16];
    uint32_t qpn[BTL_IB_UD_QPS_MAX];
} ud_wire_t;

enum { WIRE_HEAD = offsetof(ud_wire_t, qpn) };

static_assert(offsetof(ud_wire_t, lid) == 4 && offsetof(ud_wire_t, qkey) == 8 && WIRE_HEAD == 28,
              "the layout of an address");
static_assert(sizeof(ud_wire_t) <= BTL_IB_ADDR_BYTES, "an address fits where addresses are kept");

uint32_t btl_ib_ud_address_pack(const btl_ib_ud_address_t *address, uint8_t *out)
{
    const uint32_t len = WIRE_HEAD + address->count * (uint32_t) sizeof(uint32_t);
    ud_wire_t wire = {
        .version = UD_VERSION,
        .kind = UD_KIND,
        .count = address->count,
        .mtu = address->mtu,
        .lid = htobe16(address->lid),
        .pkey = htobe16(address->pkey),
        .qkey = htobe32(address->qkey),
    };

    memcpy(wire.gid, address->gid.raw, sizeof(wire.gid));
    for (uint32_t i = 0; i < address->count; i++) {
        wire.qpn[i] = htobe32(address->qpn[i]);
    }
    memcpy(out, &wire, len);
    return len;
}

static bool qpn_is_usable(uint32_t qpn)
{
    return qpn > 1 && qpn < QPN_MAX; /* 0 and 1 manage the subnet, the last means a group */
}

int btl_ib_ud_address_unpack(const void *bytes, size_t len, btl_ib_ud_address_t *address)
{
    static const uint8_t none[16];
    ud_wire_t wire = {0};

    if (len < WIRE_HEAD || len > sizeof(wire)) {
        return -EINVAL;
    }
    memcpy(&wire, bytes, len);
    if (wire.version != UD_VERSION || wire.kind != UD_KIND || wire.mtu > BTL_IB_VERBS_MTU_MAX
        || wire.count < 1 || wire.count > BTL_IB_UD_QPS_MAX
        || len != WIRE_HEAD + wire.count * sizeof(uint32_t)) {
        return -EINVAL;
    }
    *address = (btl_ib_ud_address_t){
        .qkey = be32toh(wire.qkey),
        .lid = be16toh(wire.lid),
        .pkey = be16toh(wire.pkey),
        .mtu = wire.mtu,
        .count = wire.count,
    };
    memcpy(address->gid.raw, wire.gid, sizeof(wire.gid));
    bool good = address->lid < LID_MULTICAST && wire.gid[0] != 0xff
                && memcmp(wire.gid, none, sizeof(none)) != 0;
    for (uint32_t i = 0; i < wire.count; i++) {
        address->qpn[i] = be32toh(wire.qpn[i]);
        good = good && qpn_is_usable(address->qpn[i]);
    }
    return good ? 0 : -EINVAL;
}

/* ---- address of an RC transport ---- */

enum {
    RC_VERSION = 1,
    RC_KIND = 'R',
    FAMILY_4 = 4,
    FAMILY_6 = 6,
};

typedef struct rc_wire {
    uint8_t version;
    uint8_t kind;
    uint8_t family;
    uint8_t mtu;
    uint16_t port; /* in network order, as the IP address */
    uint16_t zero;
    uint8_t ip[16];
    uint64_t cookie; /* big-endian */
} rc_wire_t;

static_assert(sizeof(rc_wire_t) == BTL_IB_RC_ADDRESS_BYTES, "as drawn");
static_assert((int) BTL_IB_RC_ADDRESS_BYTES <= BTL_IB_ADDR_BYTES, "fits what is published");

const char *btl_ib_rc_address_format(const btl_ib_rc_address_t *addr, char *out, size_t len)
{
    if (addr->any.sa_family == AF_UNSPEC) {
        snprintf(out, len, "unknown");
        return out;
    }
    return btl_ib_ip_port_text(&addr->any, out, len);
}

void btl_ib_rc_address_pack(const btl_ib_rc_address_t *addr, uint8_t *out)
{
    const bool v4 = addr->any.sa_family == AF_INET;
    rc_wire_t wire = {
        .version = RC_VERSION,
        .kind = RC_KIND,
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

/* True if `bytes` are an address as it is written: what is in no field is zero. */
static bool packs_to(const btl_ib_rc_address_t *addr, const uint8_t *bytes)
{
    uint8_t again[BTL_IB_RC_ADDRESS_BYTES];

    btl_ib_rc_address_pack(addr, again);
    return memcmp(again, bytes, sizeof(again)) == 0;
}

int btl_ib_rc_address_unpack(const void *bytes, size_t len, btl_ib_rc_address_t *addr)
{
    bool usable = false;
    rc_wire_t wire;

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

/* ---- connection parameters ---- */

enum {
    PARAMS_VERSION = 2,
    LINE = 64, /* bytes: what long slots are told in */
};

static const uint8_t magic[4] = {'b', 't', 'l', 'i'};

/* The beginning of requests, replies and rejections. */
typedef struct head {
    uint8_t magic[4];
    uint8_t version;
    uint8_t value; /* channel, or reason */
} head_t;

typedef struct params_wire {
    head_t head;
    uint16_t zero;
    uint64_t to;
    uint64_t from;
    uint32_t attempt;
    uint32_t depth;
    uint64_t word;
    uint32_t word_key;
    uint8_t reads;
    uint8_t relaxed;
    uint8_t mtu;
    uint8_t zero_too;
    uint32_t eager_key;
    uint16_t eager_slots;
    uint16_t eager_slot;
} params_wire_t;

static_assert(sizeof(params_wire_t) == BTL_IB_RC_PARAMS_BYTES && offsetof(params_wire_t, to) == 8
                  && offsetof(params_wire_t, word_key) == 40
                  && offsetof(params_wire_t, eager_key) == 48,
              "as drawn");
static_assert((int) BTL_IB_RC_PARAMS_BYTES <= (int) BTL_IB_RC_PRIVATE_MAX,
              "fits the private data of a request");

static head_t head_of(uint8_t value)
{
    head_t head = {.version = PARAMS_VERSION, .value = value};

    memcpy(head.magic, magic, sizeof(magic));
    return head;
}

static bool is_head(const head_t *head)
{
    return memcmp(head->magic, magic, sizeof(magic)) == 0 && head->version == PARAMS_VERSION;
}

/* Returns the ring of a peer's parameters with its slots as they are. */
static void ring_unpack(btl_ib_rc_params_t *params)
{
    const uint16_t both = params->eager_slot;

    if (params->eager_slots == 0 && both != 0) {
        params->eager_slots = (uint16_t) (1u << (both >> 8 & 15));
        params->eager_slot = (uint16_t) ((both & 255) * LINE);
    }
}

/* True if slots of so many bytes need the form of long ones. */
static bool ring_is_long(const btl_ib_rc_params_t *params)
{
    return params->eager_slots != 0 && params->eager_slot > BTL_IB_RC_EAGER_SLOT;
}

/* Returns the last field for slots that are long. */
static uint16_t ring_pack_long(const btl_ib_rc_params_t *params)
{
    uint16_t log2 = 0;

    while (1u << log2 < params->eager_slots) {
        log2++;
    }
    return (uint16_t) (log2 << 8 | params->eager_slot / LINE);
}

void btl_ib_rc_params_pack(const btl_ib_rc_params_t *params, uint8_t *out)
{
    const bool is_long = ring_is_long(params);
    const params_wire_t params_wire = {
        .head = head_of(params->channel),
        .to = htobe64(params->to),
        .from = htobe64(params->from),
        .attempt = htobe32(params->attempt),
        .depth = htobe32(params->depth),
        .word = htobe64(params->word),
        .word_key = htobe32(params->word_key),
        .reads = params->reads,
        .relaxed = params->relaxed,
        .mtu = params->mtu,
        .eager_key = htobe32(params->eager_key),
        .eager_slots = htobe16(is_long ? 0 : params->eager_slots),
        .eager_slot = htobe16(is_long ? ring_pack_long(params) : params->eager_slot),
    };

    memcpy(out, &params_wire, sizeof(params_wire));
}

int btl_ib_rc_params_unpack(const void *bytes, size_t len, btl_ib_rc_params_t *params)
{
    params_wire_t params_wire;

    if (bytes == NULL || len < sizeof(params_wire)) {
        return -EINVAL;
    }
    memcpy(&params_wire, bytes, sizeof(params_wire));
    *params = (btl_ib_rc_params_t){
        .channel = params_wire.head.value,
        .to = be64toh(params_wire.to),
        .from = be64toh(params_wire.from),
        .attempt = be32toh(params_wire.attempt),
        .depth = be32toh(params_wire.depth),
        .word = be64toh(params_wire.word),
        .word_key = be32toh(params_wire.word_key),
        .reads = params_wire.reads,
        .relaxed = params_wire.relaxed != 0,
        .mtu = params_wire.mtu,
        .eager_key = be32toh(params_wire.eager_key),
        .eager_slots = be16toh(params_wire.eager_slots),
        .eager_slot = be16toh(params_wire.eager_slot),
    };
    const bool is_long = params->eager_slots == 0 && params->eager_slot != 0;
    ring_unpack(params);
    const uint16_t slots = params->eager_slots;
    const uint16_t slot = params->eager_slot;
    const uint16_t most = is_long ? BTL_IB_RC_EAGER_LONG : BTL_IB_RC_EAGER_SLOT;
    const bool one_form =
        !is_long
        || (ring_is_long(params) && ring_pack_long(params) == be16toh(params_wire.eager_slot));
    const bool ring = (slots & (slots - 1)) == 0 && slot > BTL_IB_RC_EAGER_TRAILER && slot <= most
                      && slot % 8 == 0 && one_form;
    return is_head(&params_wire.head) && params->channel < BTL_IB_RC_CHANNELS
                   && params_wire.relaxed <= 1 && (params_wire.zero | params_wire.zero_too) == 0
                   && (slots == 0 || ring)
               ? 0
               : -EINVAL;
}

uint8_t btl_ib_rc_reject_pack(btl_ib_rc_reject_t reason, uint8_t *out)
{
    const head_t head = head_of((uint8_t) reason);

    memcpy(out, &head, sizeof(head));
    return sizeof(head);
}

btl_ib_rc_reject_t btl_ib_rc_reject_unpack(const void *bytes, size_t len)
{
    head_t head;

    if (bytes == NULL || len < sizeof(head)) {
        return 0;
    }
    memcpy(&head, bytes, sizeof(head));
    return is_head(&head) && head.value >= BTL_IB_RC_CROSSING && head.value <= BTL_IB_RC_SHORTAGE
               ? (btl_ib_rc_reject_t) head.value
               : 0;
}
