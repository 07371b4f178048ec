/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* One UDP socket: its options, its buffers, its port (ip(7), ipv6(7), udp(7)). */

#ifndef BTL_IB_UDP_SOCKET_H
#define BTL_IB_UDP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "udp_log.h"
#include "udp_name.h"

enum {
    /* How the kernel counts a datagram in a receive buffer: its bytes, headers and trailer, rounded
     * up to a power of two of at least so much, and a descriptor. */
    BTL_IB_UDP_COUNTED_MORE = 448,
    BTL_IB_UDP_COUNTED_LEAST = 576,
    BTL_IB_UDP_COUNTED_DESCRIPTOR = 256,
};

/* Set a socket option to a number. Returns 0, or -1 with errno. */
int btl_ib_udp_set_option(int fd, int level, int option, int value);

/* Bytes of a buffer that the system is asked for: `buffer`; 0: what is good for us. */
uint32_t btl_ib_udp_socket_wanted(uint32_t buffer);

/* A socket with our options, whose buffers have `buffer` bytes (0: what is good for us), or what
 * the system grants. Returns its descriptor, or a negative errno after saying why at `level`. */
int btl_ib_udp_socket_new(const btl_ib_udp_log_t *log, int level, sa_family_t family,
                          uint32_t buffer);

/* Mark what it sends: `traffic_class` (four times the DSCP; the two bits for ECN are ignored) in
 * the IP header, and `priority` for queueing disciplines and VLANs of this host (socket(7),
 * SO_PRIORITY; above 6 it needs CAP_NET_ADMIN). 0: the default. If the system refuses the log says
 * so at `level`. */
void btl_ib_udp_socket_mark(const btl_ib_udp_log_t *log, int level, int fd, sa_family_t family,
                            uint8_t traffic_class, uint8_t priority);

/* Bytes of its SO_RCVBUF or SO_SNDBUF, as setsockopt() counts them. */
uint32_t btl_ib_udp_socket_buffer(int fd, int option);

/* Bind it to any port, if `first` is 0, or to the first free one from there to `last` in steps of
 * `step`. Returns 0 and the name that it has then, or a negative errno. */
int btl_ib_udp_socket_bind(int fd, btl_ib_udp_name_t *name, uint32_t first, uint32_t last,
                           uint32_t step);

/* Returns the limit of the system that makes a socket's buffers smaller than `buffer` bytes, or
 * than a burst of a few peers needs if that is 0. */
btl_ib_limit_t btl_ib_udp_socket_limit(const btl_ib_udp_log_t *log, int fd, uint32_t buffer);

#endif
