/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the tests of transport "udp" see of its inside: udp_inside.c is the only one of their files
 * that includes the private headers of the whole rail. */

#ifndef BTL_IB_TEST_UDP_INSIDE_H
#define BTL_IB_TEST_UDP_INSIDE_H

#include "transport.h"
#include "udp_sockets.h"

/* Limits of the transport; udp_inside.c demands that they are its own. */
enum {
    UDP_CONNECT_AFTER = 512, /* messages to a peer, which then gets a socket */
    UDP_CONNECTED_MAX = 16,  /* such sockets */
    UDP_RECV_BATCH = 16,     /* buffers that one receiving call fills */
    UDP_BUFFERS_MAX = 1024,  /* that are not given back */
};

typedef struct udp_inside {
    uint32_t sockets;      /* that are open */
    uint32_t shared;       /* of those, the ones that serve all peers */
    uint32_t vacant;       /* that a peer could have: not made yet, or without a peer */
    uint32_t buffer_bytes; /* of each socket's receive buffer */
    uint32_t buffers;      /* that were made, and how many of them nobody has */
    uint32_t unused;
    uint32_t keep_most; /* messages that may stay in a socket's buffer, and how many do */
    uint32_t kept;
    uint32_t errors; /* events of errors that nobody has yet */
} udp_inside_t;

udp_inside_t udp_inside(const btl_ib_transport_t *t);

/* The place of the socket that is connected to a peer; 0: none. */
uint32_t udp_socket_of(const btl_ib_transport_t *t, btl_ib_addr_t addr);
int udp_fd(const btl_ib_transport_t *t, uint32_t socket);

/* The address and port that the transport publishes. */
btl_ib_udp_name_t udp_name(const btl_ib_transport_t *t);

/* Which sockets have something now, by the epoll set, and which an error: bits. */
uint32_t udp_ready(const btl_ib_transport_t *t, uint32_t *errors);

#endif
