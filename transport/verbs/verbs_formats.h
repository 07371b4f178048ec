/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Formats of verbs transports, besides datagrams: the addresses that UD and RC publish, and the
 * private data of RC's connection requests. */

#ifndef BTL_IB_VERBS_FORMATS_H
#define BTL_IB_VERBS_FORMATS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "verbs_library.h"

/* ---- address of a UD transport ---- */

enum { BTL_IB_UD_QPS_MAX = 4 }; /* queue pairs of one port; further queues share the last one */

typedef struct btl_ib_ud_address {
    union ibv_gid gid;
    uint32_t qkey;
    uint16_t lid; /* 0: none */
    uint16_t pkey;
    uint8_t mtu;                     /* of the port: enum ibv_mtu, 0: not told */
    uint8_t count;                   /* of queue pairs, 1..BTL_IB_UD_QPS_MAX */
    uint32_t qpn[BTL_IB_UD_QPS_MAX]; /* in the order of the receive queues that they serve */
} btl_ib_ud_address_t;

/* Writes an address to `out`, which has BTL_IB_ADDR_BYTES. Returns its length. */
uint32_t btl_ib_ud_address_pack(const btl_ib_ud_address_t *address, uint8_t *out);

/* Reads an address. Returns 0, or -EINVAL if btl_ib_ud_address_pack() cannot have written it. */
int btl_ib_ud_address_unpack(const void *bytes, size_t len, btl_ib_ud_address_t *address);

/* ---- address of an RC transport ---- */

/*
 * The address that an RC transport publishes, 32 bytes:
 *
 *     0       1      2        3     4      6     8               24       32
 *     | version kind | family | MTU | port | 0   | IP address     | cookie |
 */

enum {
    BTL_IB_RC_ADDRESS_BYTES = 32,
    BTL_IB_RC_ADDRESS_TEXT = 64,
};

typedef struct btl_ib_rc_addr {
    union {
        struct sockaddr any; /* family 0: not known */
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    /* Identifies the transport: random, new with every open(). A process that knows it has read the
     * modex. */
    uint64_t cookie;
    uint8_t mtu; /* of the port: enum ibv_mtu; 0: not told */
} btl_ib_rc_address_t;

/* Sets the port, in network order. */
static inline void btl_ib_rc_address_set_port(btl_ib_rc_address_t *addr, uint16_t port)
{
    if (addr->any.sa_family == AF_INET) {
        addr->v4.sin_port = port;
    } else {
        addr->v6.sin6_port = port;
    }
}

/* Writes an address as text: "10.1.2.3:4567", "[fd00::1]:4567" or "unknown". Returns `out`. */
const char *btl_ib_rc_address_format(const btl_ib_rc_address_t *addr, char *out, size_t len);

/* Packs BTL_IB_RC_ADDRESS_BYTES; unpack returns 0 or -EINVAL. */
void btl_ib_rc_address_pack(const btl_ib_rc_address_t *addr, uint8_t *out);
int btl_ib_rc_address_unpack(const void *bytes, size_t len, btl_ib_rc_address_t *addr);

/* ---- connection parameters ---- */

/*
 * Connection parameters: what both ends of a connection tell each other in the private data of
 * rdma_cm. InfiniBand leaves 56 bytes of a request to its user (IBTA 1.4, A11.3.2: 92 less the 36
 * of the IP header), so replies have no more, either. All numbers are big-endian.
 *
 *      0       4         5         6        8     16     24        28      32     40         44
 *      | magic | version | channel | zero   | to  | from | attempt | depth | word | word key |
 *      44      45        46     48          52            54           56
 *      | reads | relaxed | MTU, zero | eager key | eager slots | bytes of one |
 *
 * The release before knows no long slots. To it, a ring of long slots has 0 "eager slots"; the last
 * field has the log2 of their number, and the cache lines of one, 8 bits each.
 *
 *      0       4         5        6
 *      | magic | version | reason |      of a rejection
 */

enum {
    BTL_IB_RC_QUEUES_MAX = 16,                     /* as many as the engine has */
    BTL_IB_RC_RDMA_CHANNEL = BTL_IB_RC_QUEUES_MAX, /* for operations on memory */
    BTL_IB_RC_CHANNELS = BTL_IB_RC_QUEUES_MAX + 1,
    BTL_IB_RC_EAGER_TRAILER = 16,    /* bytes at the end of a slot of an eager ring */
    BTL_IB_RC_EAGER_SLOT = 512,      /* bytes of a slot, at most */
    BTL_IB_RC_EAGER_LONG = 4096,     /* bytes of a long slot, at most: whole cache lines */
    BTL_IB_RC_EAGER_SLOTS = 1 << 15, /* slots of a ring, at most */
    BTL_IB_RC_PRIVATE_MAX = 56,      /* bytes of private data that every fabric lets through */
    BTL_IB_RC_PARAMS_BYTES = 56,
};

typedef struct btl_ib_rc_params {
    uint8_t channel;
    uint64_t to;      /* cookie of the receiver */
    uint64_t from;    /* cookie of the sender */
    uint32_t attempt; /* number of requests that the sender has made: its older requests are void */
    uint32_t depth;   /* the sender's receive buffers for the connection; 0: all peers share them */
    uint64_t word; /* address in the sender's memory where the other side writes its credit word */
    uint32_t word_key;
    uint8_t reads;        /* reads and atomics of the other side that the sender serves at once */
    bool relaxed;         /* memory that the sender exposes is filled in any order */
    uint8_t mtu;          /* the largest that the sender wants: enum ibv_mtu */
    uint32_t eager_key;   /* key of the sender's ring, which begins a cache line behind the word */
    uint16_t eager_slots; /* a power of two; 0: there is none */
    uint16_t eager_slot;  /* bytes */
} btl_ib_rc_params_t;

/* Reasons of a rejection. */
typedef enum btl_ib_rc_reject {
    BTL_IB_RC_CROSSING = 1, /* our own request is on its way, and goes before yours */
    BTL_IB_RC_STALE,        /* a newer request of yours came before it */
    BTL_IB_RC_NOT_OURS,     /* not meant for us, or not understood */
    BTL_IB_RC_SHORTAGE,     /* no memory, or too many unknown peers */
} btl_ib_rc_reject_t;

/* Packs BTL_IB_RC_PARAMS_BYTES. Unpack reads as many; `len` may be more, as some fabrics pad. It
 * returns 0 or -EINVAL. */
void btl_ib_rc_params_pack(const btl_ib_rc_params_t *params, uint8_t *out);
int btl_ib_rc_params_unpack(const void *bytes, size_t len, btl_ib_rc_params_t *params);

/* Writes and reads the private data of a rejection. Pack returns its length; unpack returns 0 if
 * the rejection is none of ours. */
uint8_t btl_ib_rc_reject_pack(btl_ib_rc_reject_t reason, uint8_t *out);
btl_ib_rc_reject_t btl_ib_rc_reject_unpack(const void *bytes, size_t len);

#endif
