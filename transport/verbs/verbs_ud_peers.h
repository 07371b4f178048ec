/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Peers of a UD transport: by handle, and by the source that a received datagram names. Peers on
 * one port share its address handle ("host").
 */

#ifndef BTL_IB_VERBS_UD_PEERS_H
#define BTL_IB_VERBS_UD_PEERS_H

#include "verbs_formats.h"
#include "verbs_ud_qp.h"

/* A port that peers are behind. */
typedef struct btl_ib_ud_host {
    union ibv_gid gid;
    uint16_t lid; /* 0: datagrams to and from it carry a GRH */
    uint32_t users;
    uint32_t next; /* index + 1 in the list of a bucket, `leaving` or `host_free`; 0: none */
    struct ibv_ah *ah;
    uint32_t own_index;               /* place of our address in the port's table, as in `ah` */
    uint32_t last[BTL_IB_UD_QPS_MAX]; /* number of the last send to it by each queue pair of ours */
} btl_ib_ud_host_t;

typedef struct btl_ib_ud_peer {
    uint32_t host;  /* index */
    uint32_t users; /* added less removed; 0: free */
    uint32_t qkey;
    uint32_t count;                   /* of its queue pairs */
    uint32_t qpn[BTL_IB_UD_QPS_MAX];  /* by the queue that they serve */
    uint32_t next[BTL_IB_UD_QPS_MAX]; /* as `bucket`; next[0] of a free peer: index + 1 */
} btl_ib_ud_peer_t;

typedef struct btl_ib_ud_peers {
    const btl_ib_ud_port_t *port;
    btl_ib_ud_qps_t *qps;
    btl_ib_ud_host_t *host;
    uint32_t *host_bucket; /* index + 1, 0: none */
    uint32_t hosts;        /* places of `host` that were ever used */
    uint32_t host_room;    /* places of `host`, a power of two; as many buckets */
    uint32_t host_free;    /* index + 1 of the first free place */
    uint32_t leaving;      /* index + 1 of the first host without users whose sends are not over */
    btl_ib_ud_peer_t *peer;
    uint32_t *bucket; /* by host and queue pair: index * BTL_IB_UD_QPS_MAX + which + 1, 0: none */
    uint32_t count;   /* places of `peer` that were ever used */
    uint32_t room;    /* places of `peer`; BTL_IB_UD_QPS_MAX times as many buckets */
    uint32_t free;    /* index + 1 of the first free place */
    uint32_t recent;  /* source of the last datagram, as in `bucket`; 0: unknown */
} btl_ib_ud_peers_t;

/* addr_add() and addr_remove() of btl_ib_transport_ops_t. */
int btl_ib_ud_peers_add(btl_ib_ud_peers_t *peers, const void *bytes, size_t len,
                        btl_ib_addr_t *addr);
void btl_ib_ud_peers_remove(btl_ib_ud_peers_t *peers, btl_ib_addr_t addr);

/* Returns the peer that sent the datagram of a completion. `payload` follows the GRH. */
btl_ib_addr_t btl_ib_ud_peers_source(btl_ib_ud_peers_t *peers, const struct ibv_wc *wc,
                                     const uint8_t *payload);

/* Destroys the address handles of hosts without users whose sends are over. */
void btl_ib_ud_peers_clean(btl_ib_ud_peers_t *peers);

/* Makes the handles anew that name an old place of our address in the port's table. Returns true if
 * all are right; else try again later. */
bool btl_ib_ud_peers_renew(btl_ib_ud_peers_t *peers);

void btl_ib_ud_peers_free(btl_ib_ud_peers_t *peers);

#endif
