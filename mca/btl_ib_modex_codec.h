/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_MODEX_CODEC_H
#define BTL_IB_MODEX_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_host_id.h"

/*
 * Converts what a process publishes of itself through the runtime to bytes and back. The reader
 * trusts nothing: the bytes come from another process, perhaps of another version or byte order. No
 * OPAL in here, so that it can be tested and fuzzed by itself.
 *
 * All numbers big endian:
 *   u32 magic "BtIb", u16 version, u16 oldest version, u32 bytes in all
 *   u8 oldest and u8 newest version of datagrams, u8 length of the release, its name
 *   u16 length of the process:
 *     16 bytes secret, u8 protection, 32 bytes key if that is keyed, u8 answers (0 or 1),
 *     u32 message_max, u8 length of the host name, the name, u64 machine, u64 network
 *   u8 rails, and for each u16 length of the rail:
 *     u8 length, transport; u8 length, provider; u8 length, address
 *     u8 family (0, 4 or 6), u8 prefix bits, u8 loopback (0 or 1), u8 rank (btl_ib_rank_t),
 *       0, 4 or 16 bytes of IP address
 *     u32 max_datagram, u32 bandwidth, u32 ack_delay, u8 atomics
 *     u8 queues, u8 bytes of one, and for each: u8 type, u32 size, num, low, window, reserve,
 *       max_pending, init, limit
 *     from version 6 on: u8 length, what follows the address (btl_ib_transport_t.address_base);
 *       u8 ecn (0 or 1)
 *
 * A later version may append fields to the process, a rail, a queue and the whole; readers skip
 * them. Two processes can work together if neither's oldest version is later than the other's
 * version.
 */

#define BTL_IB_MODEX_VERSION 6u
/* The oldest version that this code reads; readers of that version understand what it writes. */
#define BTL_IB_MODEX_OLDEST 5u
/* The longest acknowledgement delay that a process may announce, us. */
#define BTL_IB_MODEX_ACK_DELAY_MAX 1000000u

/* What executes atomics on a process's memory that peers ask for over a rail. */
typedef enum btl_ib_atomics {
    BTL_IB_ATOMICS_PROCESSOR = 0, /* the processor of that process */
    BTL_IB_ATOMICS_DEVICE = 1,    /* the device alone */
    BTL_IB_ATOMICS_GLOBAL = 2,    /* the device, and processors may change the same words */
} btl_ib_atomics_t;

#define BTL_IB_ATOMICS_KINDS 3u

/* A rail of a process, as its peers see it. */
typedef struct btl_ib_modex_rail {
    char transport[16];
    char provider[32];
    uint32_t address_len;
    uint32_t address_base; /* bytes of `address` that readers of version 5 see; 0: all */
    uint8_t address[BTL_IB_ADDR_BYTES];
    uint8_t family; /* of `ip`: 4, 6, or 0 if the rail has no IP address */
    uint8_t prefix_bits;
    bool loopback;
    uint8_t rank; /* btl_ib_rank_t */
    uint8_t ip[16];
    uint32_t max_datagram; /* bytes */
    uint32_t bandwidth;    /* Mbit/s, 0: unknown */
    uint32_t ack_delay;    /* us */
    btl_ib_atomics_t atomics;
    bool ecn; /* it counts datagrams with ECT(0) and CE, and reports them (btl_ib_ecn.h) */
    btl_ib_queue_table_t queues;
} btl_ib_modex_rail_t;

typedef struct btl_ib_modex {
    uint16_t version, oldest; /* as read; pack writes our own */
    char release[32];         /* of the component, cut to fit; for people */
    btl_ib_versions_t wire;   /* versions of datagrams that it understands */
    btl_ib_secret_t secret;
    btl_ib_protection_kind_t protection; /* of its datagrams */
    btl_ib_auth_key_t key;               /* zero if `protection` is not keyed */
    bool answers;         /* it answers a first contact also while its application computes */
    uint32_t message_max; /* bytes: the longest message that it sends or accepts */
    char host[64];        /* name, cut to fit */
    btl_ib_host_t where;  /* identifies the host */
    uint32_t rail_count;  /* 1..BTL_IB_RAILS_MAX; 0: all between `wire` and this is unknown */
    btl_ib_modex_rail_t rails[BTL_IB_RAILS_MAX];
} btl_ib_modex_t;

/*
 * Writes `modex` into `out`, at most `size` bytes. Returns the number of bytes written, or -EINVAL
 * (`modex` has a value that no reader would accept), or -ENOSPC.
 */
int btl_ib_modex_pack(const btl_ib_modex_t *modex, void *out, size_t size);

/* Bytes; no description needs more. */
#define BTL_IB_MODEX_SIZE_MAX 32768u

/*
 * Reads a description. Returns 0; or -EBADMSG if it has anything that pack would not have written
 * (lengths, counts, ranges, texts, or, in our own version, further bytes): then `modex` is
 * undefined. Of a version that does not work together with ours only the versions are read, and
 * rail_count is 0.
 */
int btl_ib_modex_unpack(btl_ib_modex_t *modex, const void *bytes, size_t size);

/* True if both understand each other's description and datagrams. (A description that could not be
 * read has no rails.) */
static inline bool btl_ib_modex_versions_fit(const btl_ib_modex_t *a, const btl_ib_modex_t *b)
{
    return a->rail_count > 0 && b->rail_count > 0 && btl_ib_versions_common(a->wire, b->wire) != 0;
}

/* True if parameters that have to be the same in all processes are. */
static inline bool btl_ib_modex_params_fit(const btl_ib_modex_t *a, const btl_ib_modex_t *b)
{
    return a->message_max == b->message_max && a->protection == b->protection;
}

#endif
