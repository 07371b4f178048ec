/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What proves that a datagram is genuine and whole: tokens, checksum (CRC-32C), authentication with
 * encryption, and what is replayed. */

#ifndef BTL_IB_PROTECTION_H
#define BTL_IB_PROTECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "aead.h"
#include "btl_ib_counters.h"

/* ---- tokens: what proves that a sender knows the secrets of both ends ---- */

/*
 * A token proves that the sender of a datagram knows the secrets of both ends. Only processes of
 * one job do: they get them through the runtime (modex). A restarted process has a new secret, so
 * its tokens differ from those of its earlier incarnation.
 */

/* Random, new for every start of a process, the same for all its rails. */
typedef struct btl_ib_secret {
    uint64_t k[2];
} btl_ib_secret_t;

/*
 * Computes SipHash-2-4 with 64 bits of result: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast
 * short-input PRF", INDOCRYPT 2012. key->k[0] and k[1] are the paper's k0 and k1. `data` may be
 * NULL if `len` is 0.
 */
uint64_t btl_ib_siphash(const btl_ib_secret_t *key, const void *data, size_t len);

/*
 * Computes the token of what the sender sends to the receiver in one incarnation of their
 * connection: `epoch` is the sender's, `rails` both ends' (btl_ib_rails_of()). Equal on machines of
 * either byte order, and never 0.
 */
uint64_t btl_ib_token(const btl_ib_secret_t *of_receiver, uint64_t sender_name,
                      const btl_ib_secret_t *of_sender, uint32_t epoch, uint32_t rails);

/* Computes the proof in a PATH_RESPONSE. Its sender, whose secret is `of_sender`, received a
 * datagram with `token` in which the other end named its connection `id`. Never 0. */
uint64_t btl_ib_token_of_response(const btl_ib_secret_t *of_sender, uint64_t token, uint32_t id);

/* Computes the token of a challenge, or of its answer (btl_ib_wire_path_t), from the process of
 * that name and secret: `id` is the receiver's connection, `flags` those of the datagram. Never
 * 0. */
uint64_t btl_ib_token_of_challenge(const btl_ib_secret_t *of_receiver, uint64_t sender_name,
                                   const btl_ib_secret_t *of_sender, uint64_t challenge,
                                   uint32_t id, uint8_t flags);

/* ---- replay ---- */

/*
 * Replay protection: which numbered datagrams arrived already. A bitmap that slides with the
 * highest number (RFC 4303, 3.4.3), in a ring of words, so that sliding clears only new words (RFC
 * 6479). Numbers begin with 1. What is older than the window counts as received.
 */

/* One word is always partly ahead of the window. */
#define BTL_IB_REPLAY_WORDS 33u
/* More than a network reorders. What is older is treated as lost. */
#define BTL_IB_REPLAY_WINDOW ((BTL_IB_REPLAY_WORDS - 1) * 64)

typedef struct btl_ib_replay {
    uint64_t highest; /* 0: none came */
    uint64_t bits[BTL_IB_REPLAY_WORDS];
} btl_ib_replay_t;

static inline void btl_ib_replay_init(btl_ib_replay_t *replay)
{
    *replay = (btl_ib_replay_t){.highest = 0};
}

/* True if this number is new. Changes nothing: the datagram is not known to be genuine yet. */
static inline bool btl_ib_replay_fresh(const btl_ib_replay_t *replay, uint64_t number)
{
    if (number > replay->highest) {
        return true;
    }
    return number != 0 && replay->highest - number < BTL_IB_REPLAY_WINDOW
           && !(replay->bits[number / 64 % BTL_IB_REPLAY_WORDS] >> number % 64 & 1);
}

/* Marks the number of a new, genuine datagram that arrived. */
static inline void btl_ib_replay_mark(btl_ib_replay_t *replay, uint64_t number)
{
    if (number > replay->highest) {
        uint64_t words = number / 64 - replay->highest / 64;
        words = words < BTL_IB_REPLAY_WORDS ? words : BTL_IB_REPLAY_WORDS;
        for (uint64_t i = 0; i < words; i++) {
            replay->bits[(number / 64 - i) % BTL_IB_REPLAY_WORDS] = 0;
        }
        replay->highest = number;
    }
    replay->bits[number / 64 % BTL_IB_REPLAY_WORDS] |= UINT64_C(1) << number % 64;
}

/* ---- protection ---- */

/*
 * The protection: what protects datagrams on their way. Nothing, a checksum, or authentication with
 * or without encryption. It is a trailer behind header and payload, made for each copy when it is
 * sent and checked before anything in the datagram is believed:
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
 * The tag covers everything before it. A key belongs to one direction of one incarnation of a
 * connection. Every datagram sent with it has a number of its own: a retransmission takes a new
 * one, and the number of a datagram that the transport did not take is not used again. A key is
 * used for 2^22 numbers: the upper bits of the number say which key of the series it is.
 *
 * All processes of a job use the same protection. It is published; a process with another one is
 * unreachable.
 */

/* The numbers are part of the protocol (published in the modex). */
typedef enum btl_ib_protection_kind {
    BTL_IB_PROTECTION_NONE = 0,
    BTL_IB_PROTECTION_CRC32C = 1,
    BTL_IB_PROTECTION_INTEGRITY = 2, /* authenticated */
    BTL_IB_PROTECTION_ENCRYPT = 3,   /* and encrypted */
    BTL_IB_PROTECTION_KINDS,
} btl_ib_protection_kind_t;

/*
 * How many numbers are used with one key: 2^22. That is below what GCM permits for the longest
 * datagrams: RFC 9001, B.1.1, gives 2^23 of 64 KiB for an advantage of 2^-57.
 */
#define BTL_IB_PROTECTION_KEY_SHIFT 22

/* Random, new for every start of a process, published like its secret. */
typedef struct btl_ib_auth_key {
    uint8_t bytes[32];
} btl_ib_auth_key_t;

/* Input from which the keys of one direction are derived. */
typedef struct btl_ib_protection_path {
    const btl_ib_auth_key_t *sender_key;
    const btl_ib_auth_key_t *receiver_key;
    uint64_t sender; /* names */
    uint64_t receiver;
    uint32_t epoch;     /* of the sender's incarnation */
    uint32_t from_rail; /* the sender's */
    uint32_t to_rail;
} btl_ib_protection_path_t;

/* The keys of one direction. */
typedef struct btl_ib_protection_way {
    bool begun;          /* the first key was made */
    uint64_t generation; /* which key of the series `key` is */
    btl_ib_aead_key_t key;
    uint8_t secret[BTL_IB_AEAD_KEY_BYTES]; /* from which all keys of the series are derived */
} btl_ib_protection_way_t;

/* State of a connection, if the protection is keyed. */
typedef struct btl_ib_protection_keys {
    btl_ib_auth_key_t peer; /* what the peer published */
    uint64_t number;        /* of the last datagram sealed */
    btl_ib_protection_way_t tx;
    btl_ib_protection_way_t rx;
    btl_ib_replay_t replay;
} btl_ib_protection_keys_t;

typedef struct btl_ib_protection btl_ib_protection_t;

typedef struct btl_ib_protection_ops {
    const char *name; /* the value of the parameter that selects it */
    uint32_t trailer; /* bytes, at most BTL_IB_TRAILER_MAX */
    bool keyed;       /* opening needs the key of the sender, which must be found before */
    bool apart;       /* sealed data differs from the original: needs a buffer of its own */

    /* Neither of the two is called if there is no trailer.
     *
     * Seal the `size` bytes at `data` to `out`, trailer behind. `key` is NULL if not keyed; `out`
     * equals `data` if not apart. False: it failed. */
    bool (*seal)(const btl_ib_protection_t *protection, const btl_ib_aead_key_t *key,
                 uint64_t number, const uint8_t *data, uint8_t *out, uint32_t size);

    /* True if the trailer behind the `size` bytes at `data` is correct. Decrypts in place; if not
     * correct, the bytes are undefined. */
    bool (*open)(const btl_ib_protection_t *protection, const btl_ib_aead_key_t *key,
                 uint64_t number, uint8_t *data, uint32_t size);
} btl_ib_protection_ops_t;

struct btl_ib_protection {
    const btl_ib_protection_ops_t *ops;
    btl_ib_protection_kind_t kind;
    bool crc_instruction; /* the processor has one for CRC-32C */
    btl_ib_aead_t *aead;
    btl_ib_counters_t *count;
};

/* Returns the ops of a kind; NULL if there is no such kind. */
const btl_ib_protection_ops_t *btl_ib_protection_ops(uint32_t kind);

/*
 * Begins protection of that kind, which must be known to btl_ib_protection_ops(). `aead` may be
 * NULL if it is not keyed. Drops are counted in *count.
 */
void btl_ib_protection_init(btl_ib_protection_t *protection, btl_ib_protection_kind_t kind,
                            btl_ib_aead_t *aead, btl_ib_counters_t *count);

/* Begins the keys for a peer that published `peer`; all else is zero. */
static inline void btl_ib_protection_keys_init(btl_ib_protection_keys_t *keys,
                                               const btl_ib_auth_key_t *peer)
{
    keys->peer = *peer;
}

/* Begins another incarnation, which gets a new key for sending, so its numbers may start again, at
 * the one after `number`. */
static inline void btl_ib_protection_renew(btl_ib_protection_keys_t *keys, uint64_t number)
{
    keys->tx.begun = false;
    keys->number = number;
}

/* Accepts an incarnation of the peer: its first datagram was opened by `way`, and has `number`. */
static inline void btl_ib_protection_accept(btl_ib_protection_keys_t *keys,
                                            const btl_ib_protection_way_t *way, uint64_t number)
{
    keys->rx = *way;
    btl_ib_replay_init(&keys->replay);
    btl_ib_replay_mark(&keys->replay, number);
}

/* Makes the first key of a direction. False: no memory; try again later. */
bool btl_ib_protection_begin(const btl_ib_protection_t *protection, btl_ib_protection_way_t *way,
                             const btl_ib_protection_path_t *path);

/* Seals the `size` bytes at `data` to `out` (see the ops). `keys` is NULL if the protection is not
 * keyed, else keys->tx must have begun. Returns false without memory; the number is used up
 * nevertheless. */
bool btl_ib_protection_seal(const btl_ib_protection_t *protection, btl_ib_protection_keys_t *keys,
                            const uint8_t *data, uint8_t *out, uint32_t size);

/*
 * Checks the trailer behind the `size` bytes at `data` and decrypts them in place. `way` and
 * `replay` are NULL if the protection is not keyed. For a first contact only `replay` is NULL; its
 * number is marked later. False: not genuine or a replay (counted); nothing was changed but the
 * bytes.
 */
bool btl_ib_protection_open(const btl_ib_protection_t *protection, btl_ib_protection_way_t *way,
                            btl_ib_replay_t *replay, uint8_t *data, uint32_t size);

/* Returns the number in the trailer behind `size` bytes. Valid only after open(). */
uint64_t btl_ib_protection_number(const uint8_t *data, uint32_t size);

/* Returns the size of the smallest datagram that holds everything that cannot be split, trailer
 * included. */
uint32_t btl_ib_protection_datagram_min(btl_ib_protection_kind_t protection);

#endif
