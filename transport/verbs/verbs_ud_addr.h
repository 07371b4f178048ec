/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The address that a UD transport publishes. */

#ifndef BTL_IB_VERBS_UD_ADDR_H
#define BTL_IB_VERBS_UD_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs_library.h"

enum { BTL_IB_UD_QPS_MAX = 4 }; /* queue pairs of one port; further queues share the last one */

typedef struct btl_ib_ud_address {
    union ibv_gid gid;
    uint32_t qkey;
    uint16_t lid; /* 0: none */
    uint16_t pkey;
    uint8_t mtu;                     /* of the port: enum ibv_mtu, 0: not told */
    uint8_t count;                   /* of queue pairs, 1..BTL_IB_UD_QPS_MAX */
    uint32_t qpn[BTL_IB_UD_QPS_MAX]; /* the first is that of the smallest queue */
} btl_ib_ud_address_t;

/* Write an address to `out`, which has BTL_IB_ADDR_BYTES. Returns its length. */
uint32_t btl_ib_ud_address_pack(const btl_ib_ud_address_t *address, uint8_t *out);

/* Returns 0, or -EINVAL if it is no address that btl_ib_ud_address_pack() could have written. */
int btl_ib_ud_address_unpack(const void *bytes, size_t len, btl_ib_ud_address_t *address);

/* address_text() of btl_ib_transport_ops_t. */
bool btl_ib_ud_address_text(const void *bytes, size_t len, char *out, size_t out_len);

#endif
