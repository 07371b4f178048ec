/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The peers of a rail: from handle to address, and from the address of what arrives to handle.
 * A handle is an index into `peer`; a free place has no users.
 */

#ifndef BTL_IB_UDP_PEERS_H
#define BTL_IB_UDP_PEERS_H

#include "transport.h"
#include "udp_name.h"

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

/* The peer of that name has one user more; a new one has the other two as well. Returns 0 and its
 * handle, or -ENOMEM. */
int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name, bool latency_lane,
                        uint32_t interface, btl_ib_addr_t *addr);

/* One user less. Returns whether it was the last one: the handle is free then. */
bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr);

/* Its handle, or BTL_IB_ADDR_UNKNOWN. */
btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name);
void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers);

/* One short message more. Returns how many there were. */
static inline uint32_t btl_ib_udp_peer_count_sent(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr)
{
    return ++peers->peer[addr].sent;
}

static inline void btl_ib_udp_peer_set_socket(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr,
                                              uint32_t socket)
{
    peers->peer[addr].socket = socket;
}

#endif
