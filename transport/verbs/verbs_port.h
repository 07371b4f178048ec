/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* An open port of an RDMA device: what every file of transport "verbs" reads. Written by
 * verbs_open.c. */

#ifndef BTL_IB_VERBS_PORT_H
#define BTL_IB_VERBS_PORT_H

#include "transport.h"
#include "verbs_library.h"

enum {
    BTL_IB_VERBS_LINE = 64, /* bytes of a cache line */
    BTL_IB_VERBS_MTU_MAX = IBV_MTU_4096,
    BTL_IB_VERBS_INLINE = 256, /* bytes wanted of a device unless the user says so */
};

/* Messages for which there was no receive buffer, as the port counts them: see verbs_device.h. */
typedef struct btl_ib_verbs_refusals {
    bool known;
    uint64_t here;  /* that came here */
    uint64_t there; /* that this port sent */
} btl_ib_verbs_refusals_t;

/* The transports' own structures start with this. */
typedef struct btl_ib_verbs {
    btl_ib_transport_t base;
    btl_ib_log_t log;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr device;
    struct ibv_port_attr port_attr;
    uint8_t port;
    uint8_t mtu;                      /* enum ibv_mtu: the port's, or less if the user wants that */
    btl_ib_verbs_refusals_t refusals; /* when it was opened */
} btl_ib_verbs_t;

#define BTL_IB_VERBS_LOG(verbs, level, ...)                                                        \
    do {                                                                                           \
        if ((verbs)->log.print != NULL) {                                                          \
            (verbs)->log.print((verbs)->log.context, (level), __VA_ARGS__);                        \
        }                                                                                          \
    } while (0)

static inline bool btl_ib_verbs_ethernet(const btl_ib_verbs_t *verbs)
{
    return verbs->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

static inline uint32_t btl_ib_verbs_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The largest power of two that is not above x. */
static inline uint32_t btl_ib_verbs_power_below(uint32_t x)
{
    uint32_t power = 1;

    while (power <= x / 2) {
        power *= 2;
    }
    return power;
}

/* The bytes of an enum ibv_mtu (IBV_MTU_256 is 1). */
static inline uint32_t btl_ib_verbs_mtu_bytes(uint8_t mtu)
{
    return 128u << mtu;
}

/* What is used of a port with `active` where the user wants at most `wanted` bytes (0: any). No MTU
 * is below 256 bytes. */
static inline uint8_t btl_ib_verbs_mtu(enum ibv_mtu active, uint32_t wanted)
{
    uint8_t mtu = (uint8_t) active;

    while (wanted != 0 && mtu > IBV_MTU_256 && btl_ib_verbs_mtu_bytes(mtu) > wanted) {
        mtu--;
    }
    return mtu;
}

/* Bytes that a device shall take out of a request itself, if it can. */
static inline uint32_t btl_ib_verbs_inline_wanted(const btl_ib_open_params_t *params)
{
    return params->inline_max == 0  ? BTL_IB_VERBS_INLINE
           : params->inline_max > 0 ? (uint32_t) params->inline_max
                                    : 0;
}

/*
 * The next size to ask for, in bytes, where a device does not send `size` inline: 256, 192, 128,
 * 96, 64 and so on to 0. Sizes between powers of two are there because devices have odd ones: 96
 * for bnxt_re, 101 for irdma (rdma-core, providers).
 */
static inline uint32_t btl_ib_verbs_inline_less(uint32_t size)
{
    return (size & (size - 1)) == 0 ? size - (size + 3) / 4 : size - (size + 2) / 3;
}

#endif
