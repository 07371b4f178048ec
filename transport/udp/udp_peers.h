/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_UDP_PEERS_H
#define BTL_IB_UDP_PEERS_H

#include <stdint.h>

#include "transport.h"
#include "udp_sockets.h"

/* ---- peers ---- */

/*
 * The peers of a rail: from handle to address, and from the address of what arrives to handle.
 * A handle is an index into `peer`; a free place has no users.
 */

typedef struct btl_ib_udp_peer {
    btl_ib_udp_name_t name;
    btl_ib_udp_name_t latency; /* its latency lane, if both of us have one; else AF_UNSPEC */
    uint32_t interface;        /* the largest datagram of its interface, as it says */
    uint32_t users;            /* addr_add() less addr_remove(); 0: free */
    uint32_t next;             /* of the same hash, or of the free ones; index + 1, 0: none */
    uint32_t socket;           /* index of the socket that is connected to it; 0: none */
    uint32_t sent;             /* short messages, while there is a connected socket to be had */
} btl_ib_udp_peer_t;

typedef struct btl_ib_udp_peers {
    btl_ib_udp_peer_t *peer;
    uint32_t *bucket; /* a power of two of them; index + 1 of the first, 0: none */
    uint32_t count;   /* of `peer` that were ever used */
    uint32_t size;    /* of `peer` and of `bucket` */
    uint32_t free;    /* index + 1 of the first free one, 0: none */
    uint32_t last;    /* index of the one found last: most traffic comes in rows */
} btl_ib_udp_peers_t;

/* As the largest datagram of an interface: the name is a source that was seen, and tells neither
 * that nor whether there is a latency lane. */
enum { BTL_IB_UDP_INTERFACE_UNKNOWN = UINT16_MAX };

/* Adds a user to the peer of that name. What its owner published about lane and interface replaces
 * what there was; a source that was seen changes nothing of a peer that is there. Returns 0 and its
 * handle, or -ENOMEM. */
int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name, bool latency_lane,
                        uint32_t interface, btl_ib_addr_t *addr);

/* One user less. Returns whether it was the last one: the handle is free then. */
bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr);

/* Its handle, or BTL_IB_ADDR_UNKNOWN. */
btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name);
void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers);

/* There are other sockets, and none is connected to any. What was at our address `before` is on
 * this host, and so has the address `now`, at the port as before. */
void btl_ib_udp_peers_rebound(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *before,
                              const btl_ib_udp_name_t *now);

/* ---- connected sockets ---- */

/*
 * Which peers have a connected socket, which saves the look-up of the route for each message
 * (udp(7)). It also has a buffer that nobody else fills, and hears of nobody else's errors.
 *
 * The first peers that were sent BTL_IB_UDP_CONNECT_AFTER short messages each have one, and keep it
 * until they are removed. It carries what is not bulk where bulk has a lane of its own.
 */

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
    if (connected->vacant > 0 && ++connected->peers->peer[to].sent == BTL_IB_UDP_CONNECT_AFTER) {
        btl_ib_udp_connected_promote(connected, to);
    }
}

/* A handle is gone: its socket is free for another peer. */
void btl_ib_udp_connected_forget(btl_ib_udp_connected_t *connected, btl_ib_addr_t addr);

#endif
