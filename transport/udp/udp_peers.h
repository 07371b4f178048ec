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
    uint32_t next;             /* index + 1 in the list of a bucket, or of free peers; 0: none */
    uint32_t socket;           /* index of the socket that is connected to the peer; 0: none */
    uint32_t sent;             /* short messages, while there is a connected socket to be had */
} btl_ib_udp_peer_t;

typedef struct btl_ib_udp_peers {
    btl_ib_udp_peer_t *peer;
    uint32_t *bucket; /* index + 1 of the first peer of each list, 0: none */
    uint32_t count;   /* places of `peer` that were ever used */
    uint32_t size;    /* places of `peer` and of `bucket`, a power of two */
    uint32_t free;    /* index + 1 of the first free place, 0: none */
    uint32_t last;    /* index of the peer found last: most traffic comes in runs */
} btl_ib_udp_peers_t;

/* Stands for the largest datagram of an interface where the name is a source that was seen, which
 * tells neither that nor whether there is a latency lane. */
enum { BTL_IB_UDP_INTERFACE_UNKNOWN = UINT16_MAX };

/* Adds a user to the peer of that name. What its owner published about lane and interface replaces
 * what there was; a source that was seen changes nothing of a peer that is there. Returns 0 and its
 * handle, or -ENOMEM. */
int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name, bool latency_lane,
                        uint32_t interface, btl_ib_addr_t *addr);

/* Removes a user of a peer. Returns whether it was the last one: the handle is free then. */
bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr);

/* Returns the handle of a name, or BTL_IB_ADDR_UNKNOWN. */
btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name);
void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers);

/* Follows a change of our address, and of all sockets: none is connected to a peer any more. Peers
 * at our address `before` are on this host, and so have the address `now`, at the port as
 * before. */
void btl_ib_udp_peers_rebound(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *before,
                              const btl_ib_udp_name_t *now);

/* ---- connected sockets ---- */

/*
 * A connected socket saves the look-up of the route for each message (udp(7)). It also has a buffer
 * that nobody else fills, and hears of nobody else's errors.
 *
 * The first peers that were sent BTL_IB_UDP_CONNECT_AFTER short messages have one each, and keep it
 * until they are removed. It carries what is not bulk where bulk has a lane of its own.
 */

enum { BTL_IB_UDP_CONNECT_AFTER = 512 };

typedef struct btl_ib_udp_connected {
    btl_ib_udp_sockets_t *sockets;
    btl_ib_udp_peers_t *peers;
    btl_ib_addr_t peer[BTL_IB_UDP_SOCKETS_MAX]; /* of each socket; BTL_IB_ADDR_UNKNOWN: none */
    uint32_t vacant; /* sockets that a peer could have: not made yet, or without a peer */
} btl_ib_udp_connected_t;

/* Initializes, once the shared sockets are open; at most `max` are to be connected. */
void btl_ib_udp_connected_init(btl_ib_udp_connected_t *connected, btl_ib_udp_sockets_t *sockets,
                               btl_ib_udp_peers_t *peers, uint32_t max);

/* Connects a socket to a peer that got BTL_IB_UDP_CONNECT_AFTER short messages. */
void btl_ib_udp_connected_promote(btl_ib_udp_connected_t *connected, btl_ib_addr_t to);

/* Counts a short message to a peer, which may make it have a socket. */
static inline void btl_ib_udp_connected_count(btl_ib_udp_connected_t *connected, btl_ib_addr_t to)
{
    if (connected->vacant > 0 && ++connected->peers->peer[to].sent == BTL_IB_UDP_CONNECT_AFTER) {
        btl_ib_udp_connected_promote(connected, to);
    }
}

/* Frees the socket of a handle that is gone for another peer. */
void btl_ib_udp_connected_forget(btl_ib_udp_connected_t *connected, btl_ib_addr_t addr);

#endif
