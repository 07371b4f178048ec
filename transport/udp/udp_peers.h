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
 * The peers of a rail: maps a handle (btl_ib_addr_t) to an address, and the source address of a
 * datagram to a handle. A handle is an index into `peer`. A place without users is free.
 */

typedef struct btl_ib_udp_peer {
    btl_ib_udp_name_t name;    /* with its first port */
    btl_ib_udp_name_t latency; /* its latency lane, if both sides have one; else AF_UNSPEC */
    uint32_t interface;        /* bytes of the largest datagram of its interface, as published */
    uint32_t users;            /* addr_add() calls less addr_remove() calls; 0: free */
    uint32_t next;             /* index + 1 in the list of a bucket, or of free places; 0: none */
    uint32_t socket;           /* index of the socket that is connected to the peer; 0: none */
    uint32_t sent;             /* short messages sent to it, while a socket could be connected */
} btl_ib_udp_peer_t;

typedef struct btl_ib_udp_peers {
    btl_ib_udp_peer_t *peer;
    uint32_t *bucket; /* index + 1 of the first peer of each list; 0: none */
    uint32_t count;   /* places of `peer` that were ever used */
    uint32_t size;    /* places of `peer` and of `bucket`, a power of two */
    uint32_t free;    /* index + 1 of the first free place below `count`; 0: none */
    uint32_t last;    /* index of the peer that was found last: often the next one, too */
} btl_ib_udp_peers_t;

/* The value of `interface` for a name that was seen as the source of a datagram, and so tells
 * nothing of the peer's interface or latency lane. */
enum { BTL_IB_UDP_INTERFACE_UNKNOWN = UINT16_MAX };

/* Adds a user to the peer of that name. If the peer is there already, a published name replaces its
 * lane and interface; a source that was seen (BTL_IB_UDP_INTERFACE_UNKNOWN) changes nothing.
 * Returns 0 and the handle, or -ENOMEM. */
int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name, bool latency_lane,
                        uint32_t interface, btl_ib_addr_t *addr);

/* Removes a user of a peer. Returns true if it was the last one, and so the handle is free. */
bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr);

/* Returns the handle of a name, or BTL_IB_ADDR_UNKNOWN. */
btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name);
void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers);

/* Follows a change of our address from `before` to `now`, with new sockets, none of which is
 * connected to a peer. Peers that had our old address are on this host, and so have the new one, at
 * their old ports. */
void btl_ib_udp_peers_rebound(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *before,
                              const btl_ib_udp_name_t *now);

/* ---- connected sockets ---- */

/*
 * Sending by a connected socket saves looking up the route of each message (udp(7)). The socket
 * also has a receive buffer that no other peer fills, and gets no other peer's errors.
 *
 * The first peers to which BTL_IB_UDP_CONNECT_AFTER short messages were sent have one each, and
 * keep it until they are removed. If bulk has a lane of its own the socket carries what is not
 * bulk.
 */

enum { BTL_IB_UDP_CONNECT_AFTER = 512 };

typedef struct btl_ib_udp_connected {
    btl_ib_udp_sockets_t *sockets;
    btl_ib_udp_peers_t *peers;
    btl_ib_addr_t peer[BTL_IB_UDP_SOCKETS_MAX]; /* of each socket; BTL_IB_ADDR_UNKNOWN: none */
    uint32_t vacant; /* sockets that could be connected: not made yet, or without a peer */
} btl_ib_udp_connected_t;

/* Initializes, when the shared sockets are open. At most `max` sockets will be connected. */
void btl_ib_udp_connected_init(btl_ib_udp_connected_t *connected, btl_ib_udp_sockets_t *sockets,
                               btl_ib_udp_peers_t *peers, uint32_t max);

/* Connects a socket to a peer that got BTL_IB_UDP_CONNECT_AFTER short messages. */
void btl_ib_udp_connected_promote(btl_ib_udp_connected_t *connected, btl_ib_addr_t to);

/* Counts a short message to a peer. Connects a socket to the peer if that is now due. */
static inline void btl_ib_udp_connected_count(btl_ib_udp_connected_t *connected, btl_ib_addr_t to)
{
    if (connected->vacant > 0 && ++connected->peers->peer[to].sent == BTL_IB_UDP_CONNECT_AFTER) {
        btl_ib_udp_connected_promote(connected, to);
    }
}

/* Makes the socket of a handle, which is free now, vacant. */
void btl_ib_udp_connected_forget(btl_ib_udp_connected_t *connected, btl_ib_addr_t addr);

#endif
