/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * An open port of an RDMA device: what every file of transport "verbs" reads. UD opens it by name
 * (verbs_ud_port.c), RC takes the context that rdma_cm opened (verbs_rc_cm.c).
 */

#ifndef BTL_IB_VERBS_PORT_H
#define BTL_IB_VERBS_PORT_H

#include <infiniband/verbs.h>

#include "transport.h"
#include "verbs_gid.h"

enum {
    BTL_IB_VERBS_LINE = 64, /* bytes of a cache line */
    BTL_IB_VERBS_MTU_MAX = IBV_MTU_4096,
    BTL_IB_VERBS_PKEY_NUMBER = 0x7fff, /* the bits of a P_Key that name the partition */
    BTL_IB_VERBS_PKEY_FULL = 0x8000,   /* a full member, which may talk to all others */
};

/* The transports' own structures start with this. */
typedef struct btl_ib_verbs {
    btl_ib_transport_t base;
    btl_ib_log_t log;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr device;
    struct ibv_port_attr port_attr;
    uint8_t port;
    uint16_t pkey; /* of the partition, BTL_IB_VERBS_PKEY_FULL included */
    uint16_t pkey_index;
    uint8_t service_level;
    uint8_t traffic_class;
    btl_ib_verbs_gid_t gid;
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

#endif
