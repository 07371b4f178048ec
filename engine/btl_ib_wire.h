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
 *   ACK    [CONNECT] blocks                 what arrived and may be sent, for one or more spaces
 *   CLOSE  [CONNECT]                        the sender leaves; acknowledges everything
 *
 * DATA, CHUNK and SKIP are sequenced: they are numbered within their space (the channel they were
 * first sent on), retransmitted, and accepted once. ACK and CLOSE are neither, and need no credit.
 *
 *    0      1      2      3      4      5      6      7
 *   +------+------+------+------+------+------+------+------+
 * 0 |ver|ty|flags |as|sp |  tag |     connection (dest.)    |  as, sp: 4-bit space that is
 *   +------+------+------+------+------+------+------+------+  acknowledged / sequenced in
 * 8 |                         token                         |
 *   +------+------+------+------+------+------+------+------+
 * 16|          seq              |           ack             |  ack: next sequence expected in `as`
 *   +------+------+------+------+------+------+------+------+
 * 24|  credits    |   length    |          stamp            |  credits: limit of `as` minus ack
 *   +------+------+------+------+------+------+------+------+  length: bytes after this header
 * 32|          echo             |    hold     |    away     |  us: stamp, echo, hold, away
 *   +------+------+------+------+------+------+------+------+
 *
 * CONNECT block (flag CONNECT), directly after the header:
 *   +------+------+------+------+------+------+------+------+
 * 0 |                 name of the sender                    |
 *   +------+------+------+------+------+------+------+------+  sender's connection: to be used as
 * 8 |    sender's connection    |          epoch            |  `connection` from now on; epoch grows
 *   +------+------+------+------+------+------+------+------+  with each; from, to: rails of sender
 * 16| from |  to  |  reserved   |          floor            |  and receiver; the receiver's epochs
 *   +------+------+------+------+------+------+------+------+  below `floor` ended: begin a new one
 *
 * chunk header: a fragment of `total` bytes is cut into units, all but the last of the same size
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *   |        fragment           |         total             |   index     |    unit     |
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *
 * ACK block: `ranges` pairs follow it; blocks ascend by space
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *   |space |ranges|    again    |           ack             |          limit            |
 *   +------+------+------+------+------+------+------+------+------+------+------+------+
 *   |  offset     |   count     |  received: ack + offset ... ack + offset + count - 1
 *   +------+------+------+------+  again: segments sent again of which another copy had come before,
 *                                  since the connection began, modulo 65536
 */

#ifndef BTL_IB_WIRE_H
#define BTL_IB_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_guard.h"
#include "btl_ib_queues.h"

#define BTL_IB_WIRE_VERSION 1

typedef enum btl_ib_type {
    BTL_IB_TYPE_DATA = 1,
    BTL_IB_TYPE_CHUNK = 2,
    BTL_IB_TYPE_SKIP = 3,
    BTL_IB_TYPE_ACK = 4,
    BTL_IB_TYPE_CLOSE = 5,
} btl_ib_type_t;

enum {
    BTL_IB_FLAG_CONNECT = 0x01, /* a CONNECT block follows the header */
    BTL_IB_FLAG_ACK_NOW = 0x02, /* acknowledge this at once */
    BTL_IB_FLAG_ACK = 0x04,     /* ack, credits and the space acknowledged are valid */
    BTL_IB_FLAG_ECHO = 0x08,    /* echo and hold are valid */
    BTL_IB_FLAG_AGAIN = 0x10,   /* a retransmission */
    BTL_IB_FLAG_NO_TAG = 0x20,  /* something of yours has a tag that nobody here listens to yet */
    BTL_IB_FLAGS_ALL = 0x3f,
};

typedef struct btl_ib_wire_header {
    uint8_t version_type;
    uint8_t flags;
    uint8_t spaces;
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
    uint16_t away;
} btl_ib_wire_header_t;

typedef struct btl_ib_wire_connect {
    uint64_t name;
    uint32_t connection;
    uint32_t epoch;
    uint8_t from_rail;
    uint8_t to_rail;
    uint16_t reserved;
    uint32_t floor;
} btl_ib_wire_connect_t;

typedef struct btl_ib_wire_chunk {
    uint32_t fragment;
    uint32_t total;
    uint16_t index;
    uint16_t unit;
} btl_ib_wire_chunk_t;

typedef struct btl_ib_wire_ack {
    uint8_t space;
    uint8_t ranges;
    uint16_t again;
    uint32_t ack;
    uint32_t limit;
} btl_ib_wire_ack_t;

typedef struct btl_ib_wire_range {
    uint16_t offset;
    uint16_t count;
} btl_ib_wire_range_t;

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
BTL_IB_WIRE_AT(btl_ib_wire_header_t, away, 38);
BTL_IB_WIRE_AT(btl_ib_wire_connect_t, connection, 8);
BTL_IB_WIRE_AT(btl_ib_wire_connect_t, epoch, 12);
BTL_IB_WIRE_AT(btl_ib_wire_connect_t, from_rail, 16);
BTL_IB_WIRE_AT(btl_ib_wire_connect_t, floor, 20);
BTL_IB_WIRE_AT(btl_ib_wire_chunk_t, total, 4);
BTL_IB_WIRE_AT(btl_ib_wire_chunk_t, index, 8);
BTL_IB_WIRE_AT(btl_ib_wire_ack_t, ack, 4);
BTL_IB_WIRE_AT(btl_ib_wire_ack_t, limit, 8);
static_assert(sizeof(btl_ib_wire_header_t) == 40, "header");
static_assert(sizeof(btl_ib_wire_connect_t) == 24, "CONNECT block");
static_assert(sizeof(btl_ib_wire_chunk_t) == 12, "chunk header");
static_assert(sizeof(btl_ib_wire_ack_t) == 12, "ACK block");
static_assert(sizeof(btl_ib_wire_range_t) == 4, "ACK range");
static_assert(BTL_IB_QUEUE_SIZE_MIN >= sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t)
                                           + sizeof(btl_ib_wire_ack_t) + sizeof(btl_ib_wire_range_t)
                                           + BTL_IB_TRAILER_MAX,
              "the smallest queue holds a CONNECT with one acknowledgement");

/* The length field has 16 bits. */
#define BTL_IB_DATAGRAM_MAX (sizeof(btl_ib_wire_header_t) + UINT16_MAX)
/* `hold` of a reply whose sender held it for longer than the field can say: not to be used. `away`
 * is the time that the process had not looked when the echoed datagram was found: it may have lain
 * there for up to so long, at most UINT16_MAX. */
#define BTL_IB_HOLD_UNKNOWN UINT16_MAX
/* How far ahead of the oldest missing sequence a receiver accepts: part of the protocol. */
#define BTL_IB_WINDOW_LIMIT 65536u
/* What a SKIP takes of that at most: its sender keeps its own window below the rest. */
#define BTL_IB_SKIP_MAX (BTL_IB_WINDOW_LIMIT / 4)

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BTL_IB_LE16(x) __builtin_bswap16(x)
#define BTL_IB_LE32(x) __builtin_bswap32(x)
#define BTL_IB_LE64(x) __builtin_bswap64(x)
#else
#define BTL_IB_LE16(x) ((uint16_t) (x))
#define BTL_IB_LE32(x) ((uint32_t) (x))
#define BTL_IB_LE64(x) ((uint64_t) (x))
#endif

/* A datagram taken apart, in our byte order. Only fields that its type and flags call for are set. */
typedef struct btl_ib_view {
    uint8_t type; /* btl_ib_type_t */
    uint8_t flags;
    uint8_t space;
    uint8_t ack_space;
    uint8_t tag;
    uint16_t hold;
    uint16_t away;
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

    uint32_t skip; /* SKIP: how many sequences */

    uint8_t *payload; /* DATA, CHUNK: user data; ACK: the blocks */
    uint32_t size;
} btl_ib_view_t;

/* What btl_ib_wire_parse() may find wrong. */
typedef enum btl_ib_wire_error {
    BTL_IB_WIRE_OK = 0,
    BTL_IB_WIRE_SHORT, /* shorter than its headers */
    BTL_IB_WIRE_VERSION_UNKNOWN,
    BTL_IB_WIRE_TYPE_UNKNOWN, /* or unknown flags, or reserved bits that are not zero */
    BTL_IB_WIRE_LENGTH,       /* the length field disagrees with the datagram, or with the type */
    BTL_IB_WIRE_CHUNK_WRONG,  /* a chunk outside its fragment, or of the wrong size */
    BTL_IB_WIRE_ACK_WRONG,    /* ACK blocks that are cut off or contradict themselves */
} btl_ib_wire_error_t;

/*
 * Take a datagram apart and check all that can be checked without knowing the connection. Writes
 * only to *view; `data` is aligned to 8.
 */
btl_ib_wire_error_t btl_ib_wire_parse(uint8_t *data, uint32_t size, btl_ib_view_t *view);

/*
 * Only what finds the connection: type, flags, connection, token and the CONNECT block. The rest may
 * still be encrypted. Checks and sets no more than that (and payload and size, after the block).
 */
btl_ib_wire_error_t btl_ib_wire_peek(uint8_t *data, uint32_t size, btl_ib_view_t *view);

/* One block of an ACK. */
typedef struct btl_ib_ack_block {
    uint32_t space;
    uint32_t ack;
    uint32_t limit;
    uint16_t again;
    uint32_t ranges;
    const uint8_t *range; /* for btl_ib_wire_range() */
} btl_ib_ack_block_t;

/* Step through the blocks of a parsed ACK: *offset starts with 0. False at the end. */
bool btl_ib_wire_next_block(const btl_ib_view_t *view, uint32_t *offset, btl_ib_ack_block_t *block);

/* Range `i` of a block: sequences [*from, *to). */
void btl_ib_wire_range(const btl_ib_ack_block_t *block, uint32_t i, uint32_t *from, uint32_t *to);

#endif
