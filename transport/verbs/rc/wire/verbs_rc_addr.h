/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The address that an RC transport publishes, 32 bytes:
 *
 *     0       1      2        3     4      6     8               24       32
 *     | version kind | family | MTU | port | 0   | IP address     | cookie |
 */

#ifndef BTL_IB_VERBS_RC_ADDR_H
#define BTL_IB_VERBS_RC_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    BTL_IB_RC_ADDRESS_BYTES = 32,
    BTL_IB_RC_ADDRESS_TEXT = 64,
};

typedef struct btl_ib_rc_addr {
    union {
        struct sockaddr any; /* family 0: not known */
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    /* Random, new with every open(): identifies the transport; who knows it has read the modex. */
    uint64_t cookie;
    uint8_t mtu; /* of the port: enum ibv_mtu; 0: not told */
} btl_ib_rc_address_t;

/* `port` is in network order. */
void btl_ib_rc_address_set_port(btl_ib_rc_address_t *addr, uint16_t port);

/* As text: "10.1.2.3:4567", "[fd00::1]:4567" or "unknown". Returns `out`. */
const char *btl_ib_rc_address_format(const btl_ib_rc_address_t *addr, char *out, size_t len);

void btl_ib_rc_address_pack(const btl_ib_rc_address_t *addr, uint8_t *out);

/* Returns 0 or -EINVAL. */
int btl_ib_rc_address_unpack(const void *bytes, size_t len, btl_ib_rc_address_t *addr);

/* address_text() of btl_ib_transport_ops_t. */
bool btl_ib_rc_address_text(const void *bytes, size_t len, char *out, size_t out_len);

#endif
