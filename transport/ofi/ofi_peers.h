/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Peers of an ofi transport, and the address that it publishes. */

#ifndef BTL_IB_OFI_PEERS_H
#define BTL_IB_OFI_PEERS_H

#include "ofi_library.h"
#include "transport.h"

/* ---- channels ---- */

/*
 * Channels may have endpoints of their own, so that bulk uses up neither the sends nor the receive
 * buffers of the command channel.
 *
 * - A transport with several endpoints publishes first the address of the last channel's endpoint,
 *   in the form in which a transport with one endpoint publishes it. The bytes behind it, which
 *   releases up to 0.3.0 do not see (btl_ib_transport_t.address_base), say how the addresses of the
 *   others differ. The last channel's buffers hold every datagram, so all channels may use it.
 * - A datagram for channel c goes to the peer's endpoint c, or to the last one if there are fewer.
 * - To a peer with several endpoints it leaves by our endpoint c, or the last one if there are
 *   fewer; to a peer with one endpoint by our last one, as releases up to 0.3.0 know no other
 *   source of ours.
 * - Each endpoint of a peer may be the source of that peer's datagrams.
 */

enum { BTL_IB_OFI_ENDPOINTS_MAX = 4 }; /* further channels share the last one */

/* Returns the endpoint, of `count`, that serves a channel. */
static inline uint32_t btl_ib_ofi_endpoint_of(uint32_t channel, uint32_t count)
{
    return channel < count ? channel : count - 1;
}

/* ---- the published address ---- */

/*
 *     0         1        2
 *     | version | format | address of the last endpoint, as libfabric tells it
 *     0        1       2       3
 *     | others | first | bytes | for each of the others what differs: `bytes` from place `first` on
 */

enum {
    BTL_IB_OFI_ADDRESS_HEAD = 2, /* bytes before libfabric's address */
    BTL_IB_OFI_NAME_MAX = BTL_IB_ADDR_BYTES - BTL_IB_OFI_ADDRESS_HEAD,
};

/* Addresses of the endpoints of one transport, by channel. */
typedef struct btl_ib_ofi_address {
    uint8_t format; /* of libfabric: FI_SOCKADDR_IN... */
    uint32_t count; /* 1..BTL_IB_OFI_ENDPOINTS_MAX */
    uint32_t size;  /* bytes of each */
    uint64_t name[BTL_IB_OFI_ENDPOINTS_MAX][BTL_IB_ADDR_BYTES / sizeof(uint64_t)];
} btl_ib_ofi_address_t;

/* Writes an address to `out`, which has BTL_IB_ADDR_BYTES; *base is how many bytes the last
 * endpoint takes. Returns the length; 0: the other endpoints do not fit. */
uint32_t btl_ib_ofi_address_pack(const btl_ib_ofi_address_t *address, uint8_t *out, uint32_t *base);

/* Reads an address of the same format as `own`, of which the first `base` bytes are the last
 * endpoint's. Returns 0 or -EINVAL. */
int btl_ib_ofi_address_unpack(const uint8_t *bytes, size_t len, const uint8_t *own, uint32_t base,
                              btl_ib_ofi_address_t *address);

/* ---- peers ---- */

typedef struct btl_ib_ofi_peer {
    uint32_t users; /* how often it was added, less how often removed; 0: free */
    uint32_t count; /* of endpoints */
    fi_addr_t to[BTL_IB_OFI_ENDPOINTS_MAX];
    uint32_t next[BTL_IB_OFI_ENDPOINTS_MAX]; /* the next place in each one's bucket; next[0] of a
                                              * free peer: the next free peer, index + 1 */
} btl_ib_ofi_peer_t;

/* A table of peers: by handle (btl_ib_addr_t), which is the index, and by the endpoint that sent a
 * datagram. A "place" names one endpoint of a peer: index * BTL_IB_OFI_ENDPOINTS_MAX + number of
 * the endpoint + 1; 0: none. */
typedef struct btl_ib_ofi_peers {
    struct fid_av *av;
    btl_ib_ofi_peer_t *peer;
    uint32_t *bucket; /* by endpoint: the first place */
    uint32_t count;   /* entries of `peer` that were ever used */
    uint32_t room;    /* entries of `peer`; BTL_IB_OFI_ENDPOINTS_MAX times as many buckets */
    uint32_t free;    /* index + 1 of the first free entry; 0: none */
    uint32_t recent;  /* place of the last datagram's source; 0: unknown */
} btl_ib_ofi_peers_t;

/* Adds a user to a peer. Returns 0 and *addr, -ENOMEM or -EHOSTUNREACH. *refused is the error of
 * fi_av_insert() if that failed; else 0. */
int btl_ib_ofi_peers_add(btl_ib_ofi_peers_t *peers, const btl_ib_ofi_address_t *address,
                         btl_ib_addr_t *addr, int *refused);
void btl_ib_ofi_peers_remove(btl_ib_ofi_peers_t *peers, btl_ib_addr_t addr);

/* Returns the peer that has an endpoint; BTL_IB_ADDR_UNKNOWN: none. */
btl_ib_addr_t btl_ib_ofi_peers_source(btl_ib_ofi_peers_t *peers, fi_addr_t from);

void btl_ib_ofi_peers_free(btl_ib_ofi_peers_t *peers);

#endif
