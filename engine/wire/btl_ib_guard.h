/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What protects datagrams on their way: nothing, a checksum, or authentication with or without
 * encryption. It is a trailer behind header and payload, made for each copy when it leaves and
 * checked before anything of it is believed:
 *
 *   header, ... payload | CRC-32C, 4 bytes little-endian              checksum
 *   header, ... payload | number, 8 bytes little-endian | tag, 16     authentication
 *
 *    0               16                  (64 with CONNECT)
 *   +---------------+------------------------------------+--------+-----+
 *   | in the clear  | encrypted, if that is asked for    | number | tag |
 *   +---------------+------------------------------------+--------+-----+
 *    what finds the connection: up to the token, with CONNECT up to the end of its block
 *
 * The tag covers everything before it. The key belongs to one direction of one life of a connection,
 * and every datagram sent with it has a number of its own, whatever is in it: a segment that is sent
 * again takes a new one, and one that the transport would not take is not used again. A key
 * serves for 2^22 numbers: the upper bits of the number say which key of a row it is.
 *
 * All processes of a job use the same guard: it is published, and who has another one is
 * unreachable.
 */

#ifndef BTL_IB_GUARD_H
#define BTL_IB_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "aead.h"
#include "btl_ib_counters.h"
#include "btl_ib_replay.h"

/* Published: the numbers are part of the protocol. */
typedef enum btl_ib_guard_kind {
    BTL_IB_GUARD_NONE = 0,
    BTL_IB_GUARD_CRC32C = 1,
    BTL_IB_GUARD_INTEGRITY = 2, /* authenticated */
    BTL_IB_GUARD_ENCRYPT = 3,   /* and encrypted */
    BTL_IB_GUARD_KINDS,
} btl_ib_guard_kind_t;

/* The longest trailer. */
#define BTL_IB_TRAILER_MAX (8u + BTL_IB_AEAD_TAG_BYTES)

/*
 * Numbers for one key, as a power of two. Below what GCM bears for the longest datagrams: RFC 9001,
 * B.1.1, comes to 2^23 of 64 KiB for an advantage of 2^-57.
 */
#define BTL_IB_GUARD_KEY_SHIFT 22

/* Random for every start of a process, and published like its secret. */
typedef struct btl_ib_auth_key {
    uint8_t bytes[32];
} btl_ib_auth_key_t;

/* What the keys of one direction follow from. */
typedef struct btl_ib_guard_path {
    const btl_ib_auth_key_t *sender_key;
    const btl_ib_auth_key_t *receiver_key;
    uint64_t sender; /* names */
    uint64_t receiver;
    uint32_t epoch;     /* of the sender's life of the connection */
    uint32_t from_rail; /* the sender's */
    uint32_t to_rail;
} btl_ib_guard_path_t;

/* The keys of one direction. */
typedef struct btl_ib_guard_way {
    bool begun;          /* there are some */
    uint64_t generation; /* which one of the row `key` is */
    btl_ib_aead_key_t key;
    uint8_t secret[BTL_IB_AEAD_KEY_BYTES]; /* what all keys of the row follow from */
} btl_ib_guard_way_t;

/* What a connection needs, only if the guard is keyed. */
typedef struct btl_ib_guard_keys {
    btl_ib_auth_key_t peer; /* what it published */
    uint64_t number;        /* of the last datagram sealed */
    btl_ib_guard_way_t tx;
    btl_ib_guard_way_t rx;
    btl_ib_replay_t replay;
} btl_ib_guard_keys_t;

typedef struct btl_ib_guard btl_ib_guard_t;

typedef struct btl_ib_guard_ops {
    const char *name; /* the value of the parameter that selects it */
    uint32_t trailer; /* bytes, at most BTL_IB_TRAILER_MAX */
    bool keyed;       /* a datagram is opened by its sender's key, which must be found before */
    bool apart;       /* what travels is not what is kept: it needs a buffer of its own */

    /* Make what travels of the `size` bytes at `data`, at `out` with its trailer behind. `key` is
     * NULL if not keyed; `out` is `data` if not apart. */
    bool (*seal)(const btl_ib_guard_t *guard, const btl_ib_aead_key_t *key, uint64_t number,
                 const uint8_t *data, uint8_t *out, uint32_t size);

    /* Does the trailer behind the `size` bytes at `data` fit them? Decrypts in place; if it does not
     * fit they are undefined. */
    bool (*open)(const btl_ib_guard_t *guard, const btl_ib_aead_key_t *key, uint64_t number,
                 uint8_t *data, uint32_t size);
} btl_ib_guard_ops_t;

struct btl_ib_guard {
    const btl_ib_guard_ops_t *ops;
    btl_ib_guard_kind_t kind;
    bool crc_instruction; /* the processor has one for CRC-32C */
    btl_ib_aead_t *aead;
    btl_ib_counters_t *count;
};

/* The ops of a kind, which may be any number: NULL if there is no such kind. */
const btl_ib_guard_ops_t *btl_ib_guard_ops(uint32_t kind);

/*
 * `kind` must be one that btl_ib_guard_ops() knows; `aead` may be NULL if that is not keyed. What is
 * dropped is counted in *count.
 */
void btl_ib_guard_init(btl_ib_guard_t *guard, btl_ib_guard_kind_t kind, btl_ib_aead_t *aead,
                       btl_ib_counters_t *count);

/* Make the first key of a direction. False if there is no memory: try again later. */
bool btl_ib_guard_begin(const btl_ib_guard_t *guard, btl_ib_guard_way_t *way,
                        const btl_ib_guard_path_t *path);

/* Make what travels of the `size` bytes at `data`, at `out` (see the ops). `keys` is NULL if the guard is not keyed,
 * else its tx has begun. False if memory is short; the number is used up all the same. */
bool btl_ib_guard_seal(const btl_ib_guard_t *guard, btl_ib_guard_keys_t *keys, const uint8_t *data,
                       uint8_t *out, uint32_t size);

/*
 * Check the trailer behind the `size` bytes at `data`, decrypt them in place. `way` and `replay` are
 * NULL if the guard is not keyed. `replay` alone may be NULL for a first contact; the number is to be marked
 * later then. False: not genuine or not new (counted), and nothing was changed but the bytes.
 */
bool btl_ib_guard_open(const btl_ib_guard_t *guard, btl_ib_guard_way_t *way,
                       btl_ib_replay_t *replay, uint8_t *data, uint32_t size);

/* The number in the trailer behind `size` bytes. Believe it after open() only. */
uint64_t btl_ib_guard_number(const uint8_t *data, uint32_t size);

/* The smallest datagram that everything that cannot be split fits into, trailer included. */
uint32_t btl_ib_guard_datagram_min(btl_ib_guard_kind_t guard);

#endif
