/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Peers of a UD transport, found by their btl_ib_addr_t (the index in `peer`), or by the source
 * that a received datagram names: a port and a queue pair number. Peers behind one port share a
 * "host", which has the port's address handle.
 *
 * Links and heads of lists are index + 1, so that 0 means none. A "place" names one queue pair of a
 * peer: index * BTL_IB_UD_QPS_MAX + number of the queue pair + 1.
 *
 *      a host:   in a bucket (users > 0)  ->  leaving (sends are not over)  ->  host_free
 *      a peer:   in a bucket for each of its queue pairs (users > 0)  ->  free
 */

#ifndef BTL_IB_VERBS_UD_PEERS_H
#define BTL_IB_VERBS_UD_PEERS_H

#include "verbs_formats.h"
#include "verbs_ud_qp.h"

/* A port behind which peers are. */
typedef struct btl_ib_ud_host {
    union ibv_gid gid;
    uint16_t lid;   /* 0: datagrams to and from it carry a GRH */
    uint32_t users; /* peers behind it */
    uint32_t next;  /* in the list of a bucket, `leaving` or `host_free` */
    struct ibv_ah *ah;
    uint32_t own_index;               /* index of our GID in the port's table, as `ah` has it */
    uint32_t last[BTL_IB_UD_QPS_MAX]; /* number of the last send to it by each of our queue pairs */
} btl_ib_ud_host_t;

typedef struct btl_ib_ud_peer {
    uint32_t host;  /* index of its port */
    uint32_t users; /* how often it was added, less how often removed; 0: free */
    uint32_t qkey;
    uint32_t count;                   /* of its queue pairs */
    uint32_t qpn[BTL_IB_UD_QPS_MAX];  /* in the order of the receive queues that they serve */
    uint32_t next[BTL_IB_UD_QPS_MAX]; /* the next place in each one's bucket; next[0] of a free
                                       * peer: the next free peer */
} btl_ib_ud_peer_t;

typedef struct btl_ib_ud_peers {
    const btl_ib_ud_port_t *port;
    btl_ib_ud_qps_t *qps;
    btl_ib_ud_host_t *host;
    uint32_t *host_bucket; /* by GID or LID */
    uint32_t hosts;        /* entries of `host` that were ever used */
    uint32_t host_room;    /* entries of `host`, a power of two; as many buckets */
    uint32_t host_free;    /* the first free entry */
    uint32_t leaving;      /* the first host without users whose sends are not over */
    btl_ib_ud_peer_t *peer;
    uint32_t *bucket; /* by host and queue pair: the first place */
    uint32_t count;   /* entries of `peer` that were ever used */
    uint32_t room;    /* entries of `peer`; BTL_IB_UD_QPS_MAX times as many buckets */
    uint32_t free;    /* the first free entry */
    uint32_t recent;  /* place of the last datagram's source; 0: unknown */
} btl_ib_ud_peers_t;

/* addr_add() and addr_remove() of btl_ib_transport_ops_t. Add makes the host and receive buffers,
 * and returns -EHOSTUNREACH after telling the user if the peer is in another subnet or
 * partition. */
int btl_ib_ud_peers_add(btl_ib_ud_peers_t *peers, const void *bytes, size_t len,
                        btl_ib_addr_t *addr);
void btl_ib_ud_peers_remove(btl_ib_ud_peers_t *peers, btl_ib_addr_t addr);

/* Returns the peer that sent the datagram of a completion, or BTL_IB_ADDR_UNKNOWN. `payload`
 * follows the GRH. */
btl_ib_addr_t btl_ib_ud_peers_source(btl_ib_ud_peers_t *peers, const struct ibv_wc *wc,
                                     const uint8_t *payload);

/* Destroys the address handles of hosts without users whose sends are over. */
void btl_ib_ud_peers_clean(btl_ib_ud_peers_t *peers);

/* Makes the handles anew that have an old index of our GID in the port's table. Returns true if all
 * have the present one; else try again later. */
bool btl_ib_ud_peers_renew(btl_ib_ud_peers_t *peers);

void btl_ib_ud_peers_free(btl_ib_ud_peers_t *peers);

#endif
