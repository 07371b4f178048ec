/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_ud_addr.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "transport.h"
#include "verbs_device.h"
#include "verbs_port.h"

enum {
    VERSION = 1,
    KIND_UD = 1,
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
typedef struct wire {
    uint8_t version;
    uint8_t kind;
    uint8_t count;
    uint8_t mtu;
    uint16_t lid;
    uint16_t pkey;
    uint32_t qkey;
    uint8_t gid[16];
    uint32_t qpn[BTL_IB_UD_QPS_MAX];
} wire_t;

enum { WIRE_HEAD = offsetof(wire_t, qpn) };

static_assert(offsetof(wire_t, lid) == 4 && offsetof(wire_t, qkey) == 8 && WIRE_HEAD == 28,
              "the layout of an address");
static_assert(sizeof(wire_t) <= BTL_IB_ADDR_BYTES, "an address fits where addresses are kept");

uint32_t btl_ib_ud_address_pack(const btl_ib_ud_address_t *address, uint8_t *out)
{
    const uint32_t len = WIRE_HEAD + address->count * (uint32_t) sizeof(uint32_t);
    wire_t wire = {
        .version = VERSION,
        .kind = KIND_UD,
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

static bool qpn_ok(uint32_t qpn)
{
    return qpn > 1 && qpn < QPN_MAX; /* 0 and 1 manage the subnet, the last means a group */
}

int btl_ib_ud_address_unpack(const void *bytes, size_t len, btl_ib_ud_address_t *address)
{
    static const uint8_t none[16];
    wire_t wire = {0};

    if (len < WIRE_HEAD || len > sizeof(wire)) {
        return -EINVAL;
    }
    memcpy(&wire, bytes, len);
    if (wire.version != VERSION || wire.kind != KIND_UD || wire.mtu > BTL_IB_VERBS_MTU_MAX
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
        good = good && qpn_ok(address->qpn[i]);
    }
    return good ? 0 : -EINVAL;
}

bool btl_ib_ud_address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    char gid[INET6_ADDRSTRLEN];
    btl_ib_ud_address_t address;

    if (btl_ib_ud_address_unpack(bytes, len, &address) != 0) {
        return false;
    }
    snprintf(out, out_len, "%s, QPN 0x%06x",
             btl_ib_verbs_gid_format(&address.gid, gid, sizeof(gid)), address.qpn[0]);
    return true;
}
