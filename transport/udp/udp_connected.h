/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which peers have a connected socket, which saves the look-up of the route for each message
 * (udp(7)). It also has a buffer that nobody else fills, and hears of nobody else's errors.
 *
 * The first peers that were sent BTL_IB_UDP_CONNECT_AFTER short messages each have one, and keep it
 * until they are removed. It carries what is not bulk where bulk has a lane of its own.
 */

#ifndef BTL_IB_UDP_CONNECTED_H
#define BTL_IB_UDP_CONNECTED_H

#include "udp_peers.h"
#include "udp_sockets.h"

enum { BTL_IB_UDP_CONNECT_AFTER = 512 };

typedef struct btl_ib_udp_connected {
    btl_ib_udp_sockets_t *sockets;
    btl_ib_udp_peers_t *peers;
    btl_ib_addr_t peer[BTL_IB_UDP_SOCKETS_MAX]; /* of each socket; BTL_IB_ADDR_UNKNOWN: none */
    uint32_t vacant; /* sockets that a peer could have: not made yet, or without a peer */
} btl_ib_udp_connected_t;

/* After the shared ones were opened; at most `max` are to be connected. */
void btl_ib_udp_connected_init(btl_ib_udp_connected_t *connected, btl_ib_udp_sockets_t *sockets,
                               btl_ib_udp_peers_t *peers, uint32_t max);

/* The peer has got the number of messages from which on it has a socket: connect one to it. */
void btl_ib_udp_connected_promote(btl_ib_udp_connected_t *connected, btl_ib_addr_t to);

/* A message goes to that peer: may it have a socket now? */
static inline void btl_ib_udp_connected_count(btl_ib_udp_connected_t *connected, btl_ib_addr_t to)
{
    if (connected->vacant > 0
        && btl_ib_udp_peer_count_sent(connected->peers, to) == BTL_IB_UDP_CONNECT_AFTER) {
        btl_ib_udp_connected_promote(connected, to);
    }
}

/* A handle is gone: its socket is free for another peer. */
void btl_ib_udp_connected_forget(btl_ib_udp_connected_t *connected, btl_ib_addr_t addr);

#endif
