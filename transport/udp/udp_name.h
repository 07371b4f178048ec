/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Socket addresses, and how one is published to peers.
 *
 * A rail has one port, or two in a row: then the first is the bulk lane, the second the latency
 * lane. Peers know a rail by the address with the first port.
 */

#ifndef BTL_IB_UDP_NAME_H
#define BTL_IB_UDP_NAME_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef union btl_ib_udp_name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} btl_ib_udp_name_t;

static inline socklen_t btl_ib_udp_name_len(const btl_ib_udp_name_t *name)
{
    return name->any.sa_family == AF_INET ? sizeof(name->v4) : sizeof(name->v6);
}

/* As "10.1.2.3:4567" or "[fd00::1]:4567". Returns `out`. */
const char *btl_ib_udp_name_format(const btl_ib_udp_name_t *name, char *out, size_t len);

uint16_t btl_ib_udp_name_port(const btl_ib_udp_name_t *name);

static inline void btl_ib_udp_name_set_port(btl_ib_udp_name_t *name, uint16_t port)
{
    name->v4.sin_port = htons(port);
}

/* The same address, `by` ports further. */
btl_ib_udp_name_t btl_ib_udp_name_shift(const btl_ib_udp_name_t *name, int by);

/* Address and port are equal. Of IPv6 names scope and flow do not count: a received one has
 * its own. */
bool btl_ib_udp_name_same(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b);

/*
 * The published form, integers in network order: version, family (4 or 6) with the bit L (there is
 * a latency lane at the next port), port, the largest datagram of the interface, address.
 *
 *       0         1         2                   4                   6
 *      +---------+-+-------+-------------------+-------------------+------------------ - -
 *      | version |L| family|       port        |   max_datagram    | address, 4 or 16 bytes
 *      +---------+-+-------+-------------------+-------------------+------------------ - -
 *
 * Returns its length, at most BTL_IB_UDP_NAME_BYTES.
 */
#define BTL_IB_UDP_NAME_BYTES 22
uint32_t btl_ib_udp_name_pack(const btl_ib_udp_name_t *name, uint32_t max_datagram,
                              bool latency_lane, uint8_t *out);

/* Returns 0, or -EINVAL: malformed, port 0, or no address of a single host that others can
 * reach. */
int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name,
                           uint32_t *max_datagram, bool *latency_lane);

#endif
