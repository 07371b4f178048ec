/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What travels. All integers are little-endian. Every datagram is a header, then by type:
 *
 *   DATA   [CONNECT] payload                a whole message
 *   CHUNK  [CONNECT] chunk header, payload  a piece of a message (a "fragment" of the PML)
 *   SKIP   [CONNECT] count                  gives back unused credits: the `count` sequences that
 *                                           end with `seq` will never be used
 *   ACK    [CONNECT] blocks                 what arrived and may be sent, for one or more channels
 *   CLOSE  [CONNECT]                        the sender leaves; acknowledges everything
 *   PUT    [CONNECT] target, bytes          to be placed in a region of the receiver
 *   GET    [CONNECT] target                 asks for bytes of a region of the receiver
 *   ATOMIC [CONNECT] atomic                 asks for an operation on a word of a region
 *   GOT    [CONNECT] got, bytes             what a GET asked for, or a piece of it
 *   REPLY  [CONNECT] replies                how operations of the receiver ended
 *   VOID   [CONNECT] zeros                  a segment whose contents are no longer to be sent, or
 *                                           a probe: does a datagram of this size get through?
 *   REJECTED [CONNECT] operation             segments of this PUT are rejected
 *   BUNDLE [CONNECT] entries                several whole messages
 *   PART   [CONNECT] part, bytes            a part of the body of a segment with this sequence
 *   PATH_RESPONSE                           a datagram with CONNECT arrived, but its sender cannot
 *                                           be looked up now; `token` proves that, all else but
 *                                           `connection` and `length` is 0. With flag PATH a
 *                                           challenge to an address that nobody published, or the
 *                                           answer
 *
 * ACK, CLOSE, REJECTED and PATH_RESPONSE are not sequenced, not retransmitted and need no credit.
 * All others are numbered within their channel (the one they were first sent on), retransmitted,
 * and accepted once.
 *
 *    0      1      2      3      4      5      6      7
 *   +------+------+------+------+------+------+------+------+
 * 0 |ver|ty|flags |ac|ch |  tag |     connection (dest.)    |  ac, ch: 4-bit channel that is
 *   +------+------+------+------+------+------+------+------+  acknowledged / sequenced in
 * 8 |                         token                         |
 *   +------+------+------+------+------+------+------+------+
 * 16|          seq              |           ack             |  ack: next sequence expected in `ac`
 *   +------+------+------+------+------+------+------+------+
 * 24|  credits    |   length    |          stamp            |  credits: limit of `ac` minus ack
 *   +------+------+------+------+------+------+------+------+  length: bytes after this header
 * 32|          echo             |    hold     |  poll_gap   |  us: stamp, echo, hold, poll_gap
 *   +------+------+------+------+------+------+------+------+
 *
 * CONNECT block (flag CONNECT), directly after the header:
 *   +------+------+------+------+------+------+------+------+
 * 0 |                 name of the sender                    |
 *   +------+------+------+------+------+------+------+------+  sender's connection: to be used as
 * 8 |    sender's connection    |          epoch            |  `connection` from now on; epochs
 *   +------+------+------+------+------+------+------+------+  grow; from, to: rails of sender and
 * 16| from |  to  |  reserved   |          floor            |  receiver; the receiver's epochs
 *   +------+------+------+------+------+------+------+------+  below `floor` ended: begin a new one
 *
 * chunk header: a fragment of `total` bytes is split into units, all but the last of the same size
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *   |        fragment           |         total             |   index     |    unit     |
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *
 * ACK block: `ranges` pairs follow it; blocks ascend by channel
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *   | chan |ranges| duplicates  |           ack             |          limit            |
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *   |  offset     |   count     |  received: ack + offset ... ack + offset + count - 1
 *   +------+------+------+------+  duplicates: retransmissions that were, since the
 *                                  connection began, modulo 65536
 * `tag` of an ACK is the share of many to one (btl_ib_incast.h): segments of channels above 0 that
 * may be in flight, 0 for any number; a number of 3 bits and an exponent. All ones: none, until
 * another ACK tells that it is the peer's turn; what does not know that takes it for any number.
 *
 *      7    6    5    4    3    2    1    0
 *   +----+----+----+----+----+----+----+----+
 *   |       exponent e       |   number m   |  m if e is 0, else (8 + m) << (e - 1)
 *   +----+----+----+----+----+----+----+----+
 *
 * With 0x80 in `chan` the segments in the ranges arrived and got RNR: neither accepted nor
 * lost. duplicates: 1 if there are more than are named (else 0); limit is 0.
 *
 * ECN block, between the two kinds: how many datagrams with a sequence came with which codepoint
 * of ECN, since the connection began, modulo 2^32. Only if both sides published that they count
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *   | 0x40 |        zero        |           ect0            |            ce             |
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *
 * target (PUT, GET): names memory by key and offset. `end` is where the whole operation ends, so
 * that none of a PUT that goes beyond all regions is placed. Both are in two's complement
 *   +------+------+------+------+------+------+------+------+
 * 0 |                         region                        |
 *   +------+------+------+------+------+------+------+------+
 * 8 |                         secret                        |
 *   +------+------+------+------+------+------+------+------+
 * 16|                         offset                        |  of the first byte of this segment
 *   +------+------+------+------+------+------+------+------+
 * 24|                          end                          |
 *   +------+------+------+------+------+------+------+------+  operation: the sender's name for
 * 32|         operation         |         reserved          |  it, comes back in GOT and REPLY
 *   +------+------+------+------+------+------+------+------+
 *
 * atomic: code and type as in btl_ib_rma.h
 *   +------+------+------+------+------+------+------+------+
 * 0 |                         region                        |
 *   +------+------+------+------+------+------+------+------+
 * 8 |                         secret                        |
 *   +------+------+------+------+------+------+------+------+
 * 16|                         offset                        |
 *   +------+------+------+------+------+------+------+------+  as in target
 * 24|                         operand                       |
 *   +------+------+------+------+------+------+------+------+
 * 32|                         compare                       |
 *   +------+------+------+------+------+------+------+------+
 * 40|         operation         | code | type |  reserved   |
 *   +------+------+------+------+------+------+------+------+
 *
 * got: where in the operation the bytes belong
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *   |                         offset                        |         operation         |
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *
 * reply: one or more
 *   +------+------+------+------+------+------+------+------+
 * 0 |                         result                        |  ATOMIC: the word as it was before
 *   +------+------+------+------+------+------+------+------+
 * 8 |         operation         |          status           |  0: done, 1: rejected
 *   +------+------+------+------+------+------+------+------+
 *
 * entry: one or more; `size` bytes of a message follow, and zeros up to a multiple of 4
 *   +------+------+------+------+
 *   |    size     | tag  | zero |
 *   +------+------+------+------+
 *
 * challenge, answer: the whole header; `from`: the challenger's connection, which the answer names
 *   +------+------+------+------+------+------+------+------+
 * 0 |ver|ty|flags |     zero    |     connection (dest.)    |
 *   +------+------+------+------+------+------+------+------+
 * 8 |                         token                         |  btl_ib_token_of_challenge()
 *   +------+------+------+------+------+------+------+------+
 * 16|                       challenge                       |
 *   +------+------+------+------+------+------+------+------+
 * 24|           zero            |           from            |
 *   +------+------+------+------+------+------+------+------+
 * 32|                         zero                          |
 *   +------+------+------+------+------+------+------+------+
 *
 * part: of a body of `total` bytes those from `offset` on; type and tag of the segment as a whole
 *   +------+------+------+------+------+------+------+------+
 *   |   offset    |    total    | type | tag  |    zero     |
 *   +------+------+------+------+------+------+------+------+
 */

#ifndef BTL_IB_WIRE_H
#define BTL_IB_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aead.h"
#include "btl_ib_receive_queues.h"
#include "btl_ib_rma.h"

/* ---- versions ---- */

/*
 * Which versions of datagrams a process speaks, and which one it speaks with a peer. Each publishes
 * its range; both sides take the newest that both have, so nothing need be asked.
 */

/* The newest. A build for tests may define a later one, whose datagrams differ in nothing else. */
#ifndef BTL_IB_WIRE_VERSION
#define BTL_IB_WIRE_VERSION 1
#endif

/* A release understands the version before its own as well. */
#define BTL_IB_WIRE_VERSION_OLDEST (BTL_IB_WIRE_VERSION > 1 ? BTL_IB_WIRE_VERSION - 1 : 1)

_Static_assert(BTL_IB_WIRE_VERSION <= 15, "four bits of the header");

/* From `oldest` to `newest`, 1..15. */
typedef struct btl_ib_versions {
    uint8_t oldest, newest;
} btl_ib_versions_t;

/* Versions of this build, which its parser knows. */
static inline btl_ib_versions_t btl_ib_versions_here(void)
{
    return (btl_ib_versions_t){BTL_IB_WIRE_VERSION_OLDEST, BTL_IB_WIRE_VERSION};
}

/* Returns the newest version that both have; 0: none. */
static inline uint8_t btl_ib_versions_common(btl_ib_versions_t a, btl_ib_versions_t b)
{
    const uint8_t newest = a.newest < b.newest ? a.newest : b.newest;

    return newest >= a.oldest && newest >= b.oldest ? newest : 0;
}

/* ---- sizes ---- */

/* The longest trailer of protection (btl_ib_protection.h): a number and a tag. */
#define BTL_IB_TRAILER_MAX (8u + BTL_IB_AEAD_TAG_BYTES)

/* What a datagram is, BTL_IB_TYPE_DATA ...: X(name, number, "what it is"), in order of numbers. */
#define BTL_IB_TYPES(X)                                                                            \
    X(NONE, 0, "no datagram (up to release 0.3.0: ADDRESS)")                                       \
    X(DATA, 1, "a message")                                                                        \
    X(CHUNK, 2, "a piece of a message")                                                            \
    X(SKIP, 3, "credits are given back")                                                           \
    X(ACK, 4, "acknowledgements of all channels; has no sequence")                                 \
    X(CLOSE, 5, "the connection ends")                                                             \
    X(PUT, 6, "a piece of a put")                                                                  \
    X(GET, 7, "a get is asked for")                                                                \
    X(ATOMIC, 8, "an atomic operation is asked for")                                               \
    X(GOT, 9, "a piece of the answer to a get")                                                    \
    X(REPLY, 10, "answers to operations")                                                          \
    X(VOID, 11, "given up, or a probe of the path MTU")                                            \
    X(REJECTED, 12, "an operation is rejected")                                                    \
    X(BUNDLE, 13, "several messages")                                                              \
    X(PART, 14, "a part of a segment that is larger than the path MTU")                            \
    X(PATH_RESPONSE, 15, "a first contact arrived")

#define BTL_IB_TYPE(name, number, text) BTL_IB_TYPE_##name = (number),
typedef enum btl_ib_type { BTL_IB_TYPES(BTL_IB_TYPE) } btl_ib_type_t;
#undef BTL_IB_TYPE

enum {
    BTL_IB_FLAG_CONNECT = 0x01,        /* a CONNECT block follows the header */
    BTL_IB_FLAG_ACK_NOW = 0x02,        /* acknowledge this at once */
    BTL_IB_FLAG_ACK = 0x04,            /* ack, credits and the channel acknowledged are valid */
    BTL_IB_FLAG_ECHO = 0x08,           /* echo and hold are valid */
    BTL_IB_FLAG_RETRANSMISSION = 0x10, /* a retransmission */
    BTL_IB_FLAG_NO_TAG = 0x20, /* a segment of yours has a tag without a receiver here, yet */
    BTL_IB_FLAG_READY = 0x40,  /* ACK only: what got RNR, `seq` in `ch`, may come again now */
    BTL_IB_FLAG_PATH = 0x80,   /* PATH_RESPONSE only: with ACK_NOW a challenge, else its answer */
    BTL_IB_FLAGS_ALL = 0x7f,   /* of all other types */
};

typedef struct btl_ib_wire_header {
    uint8_t version_type;
    uint8_t flags;
    uint8_t channels;
    uint8_t tag;
    uint32_t connection;
    uint64_t token;
    uint32_t seq;
    uint32_t ack;
    uint16_t credits;
    uint16_t length;
    uint32_t stamp;
    uint32_t echo;
    uint16_t hold;
    uint16_t poll_gap;
} btl_ib_wire_header_t;

/* The header of a challenge, or of its answer. Little-endian but for `challenge`, which only its
 * sender reads. */
typedef struct btl_ib_wire_path {
    uint8_t version_type;
    uint8_t flags;
    uint16_t zero;
    uint32_t connection;
    uint64_t token;
    uint64_t challenge;
    uint32_t zero_length;
    uint32_t from;
    uint64_t zero_times;
} btl_ib_wire_path_t;

/* Reads one where it was received: at any address. */
typedef btl_ib_wire_header_t btl_ib_wire_header_at_t __attribute__((aligned(1)));

typedef struct btl_ib_wire_connect {
    uint64_t name;
    uint32_t connection;
    uint32_t epoch;
    uint8_t from_rail;
    uint8_t to_rail;
    uint16_t reserved;
    uint32_t floor;
} btl_ib_wire_connect_t;

/* Zeros that may follow the last chunk of a message, to make it as long as the others. */
#define BTL_IB_PAD_MAX 128u

typedef struct btl_ib_wire_chunk {
    uint32_t fragment;
    uint32_t total;
    uint16_t index;
    uint16_t unit;
} btl_ib_wire_chunk_t;

typedef struct btl_ib_wire_ack {
    uint8_t channel;
    uint8_t ranges;
    uint16_t duplicates;
    uint32_t ack;
    uint32_t limit;
} btl_ib_wire_ack_t;

/* A bit in `channel` of an ACK block: its ranges got RNR. */
#define BTL_IB_CHANNEL_RNR 0x80u

/* `channel` of an ECN block. */
#define BTL_IB_CHANNEL_ECN 0x40u

typedef struct btl_ib_wire_ecn {
    uint8_t channel;
    uint8_t zero;
    uint16_t zero_too;
    uint32_t ect0;
    uint32_t ce;
} btl_ib_wire_ecn_t;

typedef struct btl_ib_wire_range {
    uint16_t offset;
    uint16_t count;
} btl_ib_wire_range_t;

typedef struct btl_ib_wire_target {
    uint64_t region;
    uint64_t secret;
    uint64_t offset;
    uint64_t end;
    uint32_t operation;
    uint32_t reserved;
} btl_ib_wire_target_t;

typedef struct btl_ib_wire_atomic {
    uint64_t region;
    uint64_t secret;
    uint64_t offset;
    uint64_t operand;
    uint64_t compare;
    uint32_t operation;
    uint8_t code;
    uint8_t type;
    uint16_t reserved;
} btl_ib_wire_atomic_t;

/* The offset in two halves: a structure with a 64-bit member would have 16 bytes. */
typedef struct btl_ib_wire_got {
    uint32_t offset_low;
    uint32_t offset_high;
    uint32_t operation;
} btl_ib_wire_got_t;

typedef struct btl_ib_wire_reply {
    uint64_t result;
    uint32_t operation;
    uint32_t status;
} btl_ib_wire_reply_t;

typedef struct btl_ib_wire_entry {
    uint16_t size;
    uint8_t tag;
    uint8_t zero;
} btl_ib_wire_entry_t;

typedef struct btl_ib_wire_part {
    uint16_t offset;
    uint16_t total;
    uint8_t type;
    uint8_t tag;
    uint16_t zero;
} btl_ib_wire_part_t;

/* Parts begin at multiples of so many bytes, and all but the last have as many. */
#define BTL_IB_PART_UNIT 8u

/* Status of a reply. */
enum {
    BTL_IB_REPLY_DONE = 0,
    BTL_IB_REPLY_REJECTED = 1,
};

#define BTL_IB_WIRE_AT(type, field, at)                                                            \
    static_assert(offsetof(type, field) == (at), #type "." #field " moved")
BTL_IB_WIRE_AT(btl_ib_wire_header_t, connection, 4);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, token, 8);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, seq, 16);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, ack, 20);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, credits, 24);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, length, 26);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, stamp, 28);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, echo, 32);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, hold, 36);
BTL_IB_WIRE_AT(btl_ib_wire_header_t, poll_gap, 38);
BTL_IB_WIRE_AT(btl_ib_wire_path_t, flags, offsetof(btl_ib_wire_header_t, flags));
BTL_IB_WIRE_AT(btl_ib_wire_path_t, connection, offsetof(btl_ib_wire_header_t, connection));
BTL_IB_WIRE_AT(btl_ib_wire_path_t, token, offsetof(btl_ib_wire_header_t, token));
BTL_IB_WIRE_AT(btl_ib_wire_path_t, challenge, 16);
BTL_IB_WIRE_AT(btl_ib_wire_path_t, zero_length, offsetof(btl_ib_wire_header_t, credits));
BTL_IB_WIRE_AT(btl_ib_wire_path_t, from, 28);
BTL_IB_WIRE_AT(btl_ib_wire_path_t, zero_times, 32);
static_assert(sizeof(btl_ib_wire_path_t) == sizeof(btl_ib_wire_header_t),
              "no longer than the shortest datagram that is challenged");
BTL_IB_WIRE_AT(btl_ib_wire_connect_t, connection, 8);
BTL_IB_WIRE_AT(btl_ib_wire_connect_t, epoch, 12);
BTL_IB_WIRE_AT(btl_ib_wire_connect_t, from_rail, 16);
BTL_IB_WIRE_AT(btl_ib_wire_connect_t, floor, 20);
BTL_IB_WIRE_AT(btl_ib_wire_chunk_t, total, 4);
BTL_IB_WIRE_AT(btl_ib_wire_chunk_t, index, 8);
BTL_IB_WIRE_AT(btl_ib_wire_ack_t, ack, 4);
BTL_IB_WIRE_AT(btl_ib_wire_ack_t, limit, 8);
BTL_IB_WIRE_AT(btl_ib_wire_ecn_t, zero, offsetof(btl_ib_wire_ack_t, ranges));
BTL_IB_WIRE_AT(btl_ib_wire_ecn_t, zero_too, offsetof(btl_ib_wire_ack_t, duplicates));
BTL_IB_WIRE_AT(btl_ib_wire_ecn_t, ect0, offsetof(btl_ib_wire_ack_t, ack));
BTL_IB_WIRE_AT(btl_ib_wire_ecn_t, ce, offsetof(btl_ib_wire_ack_t, limit));
static_assert(sizeof(btl_ib_wire_ecn_t) == sizeof(btl_ib_wire_ack_t), "it is among ACK blocks");
static_assert(sizeof(btl_ib_wire_header_t) == 40, "header");
static_assert(sizeof(btl_ib_wire_connect_t) == 24, "CONNECT block");
static_assert(sizeof(btl_ib_wire_chunk_t) == 12, "chunk header");
static_assert(sizeof(btl_ib_wire_ack_t) == 12, "ACK block");
static_assert(sizeof(btl_ib_wire_range_t) == 4, "ACK range");
BTL_IB_WIRE_AT(btl_ib_wire_target_t, secret, 8);
BTL_IB_WIRE_AT(btl_ib_wire_target_t, offset, 16);
BTL_IB_WIRE_AT(btl_ib_wire_target_t, end, 24);
BTL_IB_WIRE_AT(btl_ib_wire_target_t, operation, 32);
BTL_IB_WIRE_AT(btl_ib_wire_target_t, reserved, 36);
BTL_IB_WIRE_AT(btl_ib_wire_atomic_t, secret, 8);
BTL_IB_WIRE_AT(btl_ib_wire_atomic_t, offset, 16);
BTL_IB_WIRE_AT(btl_ib_wire_atomic_t, operand, 24);
BTL_IB_WIRE_AT(btl_ib_wire_atomic_t, compare, 32);
BTL_IB_WIRE_AT(btl_ib_wire_atomic_t, operation, 40);
BTL_IB_WIRE_AT(btl_ib_wire_atomic_t, code, 44);
BTL_IB_WIRE_AT(btl_ib_wire_atomic_t, type, 45);
BTL_IB_WIRE_AT(btl_ib_wire_atomic_t, reserved, 46);
BTL_IB_WIRE_AT(btl_ib_wire_got_t, offset_high, 4);
BTL_IB_WIRE_AT(btl_ib_wire_got_t, operation, 8);
BTL_IB_WIRE_AT(btl_ib_wire_reply_t, operation, 8);
BTL_IB_WIRE_AT(btl_ib_wire_reply_t, status, 12);
BTL_IB_WIRE_AT(btl_ib_wire_entry_t, tag, 2);
BTL_IB_WIRE_AT(btl_ib_wire_entry_t, zero, 3);
BTL_IB_WIRE_AT(btl_ib_wire_part_t, total, 2);
BTL_IB_WIRE_AT(btl_ib_wire_part_t, type, 4);
BTL_IB_WIRE_AT(btl_ib_wire_part_t, tag, 5);
BTL_IB_WIRE_AT(btl_ib_wire_part_t, zero, 6);
static_assert(sizeof(btl_ib_wire_part_t) == 8, "PART");
static_assert(sizeof(btl_ib_wire_target_t) == 40, "target of a PUT or GET");
static_assert(sizeof(btl_ib_wire_atomic_t) == 48, "ATOMIC");
static_assert(sizeof(btl_ib_wire_got_t) == 12, "GOT");
static_assert(sizeof(btl_ib_wire_reply_t) == 16, "REPLY");
static_assert(sizeof(btl_ib_wire_entry_t) == 4, "entry of a BUNDLE");
static_assert(BTL_IB_QUEUE_SIZE_MIN >= sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t)
                                           + sizeof(btl_ib_wire_ack_t) + sizeof(btl_ib_wire_range_t)
                                           + BTL_IB_TRAILER_MAX,
              "the smallest queue holds a CONNECT with one acknowledgement");
/* The largest datagram between two processes must hold every kind of segment, besides the
 * protection's trailer. */
#define BTL_IB_DATAGRAM_MIN                                                                        \
    ((uint32_t) (sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t)                      \
                 + sizeof(btl_ib_wire_atomic_t)))

/* The length field has 16 bits. */
#define BTL_IB_DATAGRAM_MAX (sizeof(btl_ib_wire_header_t) + UINT16_MAX)
/* `hold`: the sender held the echoed stamp for longer than the field can say: do not use it.
 * `poll_gap`: for how long that process had not polled when it read the echoed datagram, at most
 * UINT16_MAX. The datagram may have waited there for as long. */
#define BTL_IB_HOLD_UNKNOWN UINT16_MAX
/* How far ahead of the oldest missing sequence a receiver accepts: part of the protocol. */
#define BTL_IB_WINDOW_LIMIT 65536u
/* The most that a SKIP covers: its sender keeps its own window below the rest. */
#define BTL_IB_SKIP_MAX (BTL_IB_WINDOW_LIMIT / 4)

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BTL_IB_LE16(x) __builtin_bswap16((uint16_t) (x))
#define BTL_IB_LE32(x) __builtin_bswap32((uint32_t) (x))
#define BTL_IB_LE64(x) __builtin_bswap64((uint64_t) (x))
#else
#define BTL_IB_LE16(x) ((uint16_t) (x))
#define BTL_IB_LE32(x) ((uint32_t) (x))
#define BTL_IB_LE64(x) ((uint64_t) (x))
#endif

/* An event of the transport. */
struct btl_ib_event;

/* Segments that are taken in with another: btl_ib_burst.h. */
typedef struct btl_ib_burst {
    const struct btl_ib_event *events; /* their datagrams */
    uint32_t count;                    /* 0: it is alone */
    uint32_t head;                     /* bytes of headers in each */
    uint32_t less;                     /* bytes that the last one has less than the others */
    bool asks;                         /* the last one asks for its acknowledgement */
} btl_ib_burst_t;

/* A parsed datagram, in our byte order. Only fields that its type and flags call for are set. */
typedef struct btl_ib_view {
    uint8_t version;
    uint8_t type; /* btl_ib_type_t */
    uint8_t flags;
    uint8_t channel;
    uint8_t ack_channel;
    uint8_t tag;    /* BUNDLE: the highest of its messages, */
    uint8_t lowest; /* and the lowest */
    uint16_t hold;
    uint16_t poll_gap;
    uint32_t connection;
    uint64_t token;
    uint32_t seq;
    uint32_t ack;
    uint32_t limit;
    uint32_t stamp;
    uint32_t echo;

    struct {
        uint64_t name;
        uint32_t connection;
        uint32_t epoch;
        uint8_t from_rail;
        uint8_t to_rail;
        uint32_t floor;
    } connect;

    struct {
        uint32_t fragment;
        uint32_t total;
        uint32_t offset;
        uint32_t index;
        uint32_t unit;
    } chunk;

    struct {
        btl_ib_region_key_t key; /* PUT, GET, ATOMIC */
        uint64_t offset;         /* the same, and GOT */
        uint64_t end;            /* PUT, GET */
        uint64_t operand;        /* ATOMIC */
        uint64_t compare;        /* ATOMIC */
        uint32_t id;             /* all but REPLY, also REJECTED */
        uint32_t code;           /* ATOMIC */
        uint32_t type;           /* ATOMIC */
    } op;

    struct {
        uint32_t offset;
        uint32_t total;
        uint8_t type;
        uint8_t tag;
    } part;

    uint32_t skip; /* SKIP: how many sequences */

    uint32_t bytes; /* BUNDLE: of all its messages; VOID: its zeros */

    /* DATA, CHUNK, PUT, GOT: user data; ACK, REPLY, BUNDLE: their lists; PART: its bytes */
    uint8_t *payload;
    uint32_t size;

    btl_ib_burst_t more;
} btl_ib_view_t;

/* Results of btl_ib_wire_parse(). */
typedef enum btl_ib_wire_error {
    BTL_IB_WIRE_OK = 0,
    BTL_IB_WIRE_SHORT, /* shorter than its headers */
    BTL_IB_WIRE_VERSION_UNKNOWN,
    BTL_IB_WIRE_TYPE_UNKNOWN, /* or unknown flags, or reserved bits that are not zero */
    BTL_IB_WIRE_LENGTH,       /* the length field disagrees with the datagram, or with the type */
    BTL_IB_WIRE_CHUNK_WRONG,  /* a chunk outside its fragment, or of the wrong size */
    BTL_IB_WIRE_ACK_WRONG,    /* ACK blocks that are cut off or contradict themselves */
    BTL_IB_WIRE_OP_WRONG,     /* a one-sided operation that contradicts itself */
} btl_ib_wire_error_t;

/*
 * Parses a datagram, and checks all that can be checked without knowing the connection. Writes only
 * to *view. `data` is aligned to 8.
 */
btl_ib_wire_error_t btl_ib_wire_parse(uint8_t *data, uint32_t size, btl_ib_view_t *view);

/* Parses the body of a segment of which all parts arrived. Type, tag, payload and size in *view are
 * those of the whole. */
btl_ib_wire_error_t btl_ib_wire_parse_whole(btl_ib_view_t *view);

/*
 * Parses only what finds the connection: type, flags, connection, token and the CONNECT block. The
 * rest may still be encrypted. Checks and sets no more than that (and payload and size, behind the
 * block).
 */
btl_ib_wire_error_t btl_ib_wire_peek(uint8_t *data, uint32_t size, btl_ib_view_t *view);

/* One block of an ACK. */
typedef struct btl_ib_ack_block {
    uint32_t channel; /* BTL_IB_CHANNEL_ECN: counts, without a channel */
    bool rnr;         /* the ranges got RNR; duplicates and limit are not valid */
    uint32_t ack;     /* of an ECN block `ect0`, */
    uint32_t limit;   /* and `ce` */
    uint16_t duplicates;
    uint32_t ranges;
    const uint8_t *range; /* for btl_ib_wire_range() */
} btl_ib_ack_block_t;

/* Steps through the blocks of a parsed ACK: *offset starts with 0. Returns false at the end. */
bool btl_ib_wire_next_block(const btl_ib_view_t *view, uint32_t *offset, btl_ib_ack_block_t *block);

/* One reply of a REPLY. */
typedef struct btl_ib_reply {
    uint64_t result;
    uint32_t id;
    uint32_t status; /* BTL_IB_REPLY_* */
} btl_ib_reply_t;

/* Steps through the replies of a parsed REPLY: *offset starts with 0. Returns false at the end. */
bool btl_ib_wire_next_reply(const btl_ib_view_t *view, uint32_t *offset, btl_ib_reply_t *reply);

/* One message of a BUNDLE. */
typedef struct btl_ib_bundled {
    uint8_t *data; /* aligned to 4 */
    uint32_t size;
    uint8_t tag;
} btl_ib_bundled_t;

/* Returns the bytes that a message of `size` bytes takes in a BUNDLE. */
static inline uint64_t btl_ib_wire_bundled_size(uint64_t size)
{
    return sizeof(btl_ib_wire_entry_t) + (size + 3) / 4 * 4;
}

/* Steps through the messages of a parsed BUNDLE: *offset starts with 0. Returns false at the
 * end. */
static inline bool btl_ib_wire_next_message(const btl_ib_view_t *view, uint32_t *offset,
                                            btl_ib_bundled_t *message)
{
    btl_ib_wire_entry_t wire;

    if (view->size - *offset < sizeof(wire)) {
        return false;
    }
    memcpy(&wire, view->payload + *offset, sizeof(wire));
    message->data = view->payload + *offset + sizeof(wire);
    message->size = BTL_IB_LE16(wire.size);
    message->tag = wire.tag;
    const uint64_t whole = btl_ib_wire_bundled_size(message->size);
    if (view->size - *offset < whole) {
        return false;
    }
    *offset += (uint32_t) whole;
    return true;
}

/* Writes a message's entry, and the zeros that follow it. Returns where its `size` bytes go. */
static inline uint8_t *btl_ib_wire_put_entry(uint8_t *to, uint32_t size, uint8_t tag)
{
    const btl_ib_wire_entry_t wire = {.size = BTL_IB_LE16(size), .tag = tag};

    memcpy(to, &wire, sizeof(wire));
    to += sizeof(wire);
    if (size % 4 != 0) {
        memset(to + size / 4 * 4, 0, 4);
    }
    return to;
}

/* True if a segment of this type is numbered, acknowledged and accepted once. */
static inline bool btl_ib_type_is_sequenced(uint32_t type)
{
    return type != BTL_IB_TYPE_ACK && type != BTL_IB_TYPE_CLOSE && type != BTL_IB_TYPE_REJECTED
           && type != BTL_IB_TYPE_PATH_RESPONSE;
}

/* Reads range `i` of a block: sequences [*from, *to). */
void btl_ib_wire_range(const btl_ib_ack_block_t *block, uint32_t i, uint32_t *from, uint32_t *to);

#endif
