/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The receive_queues grammar and the table of queues that it describes. Each queue is one channel
 * of every connection: what a peer may have on the way to us in segments of up to `size` bytes.
 *
 *   string := queue { ':' queue }
 *   queue  := P,<size>,<num>[,<low_watermark>[,<window>[,<reserve>]]]
 *           | S,<size>,<num>[,<low_watermark>[,<max_pending_sends>[,<init>[,<limit>]]]]
 *
 * A field after num may be empty, as in P,128,256,,16: then it has its default.
 * Defaults, all rounded down but at least 1: low = num/2; window = low/2;
 * reserve = (2*num - 1)/window; max_pending_sends = low/4; init = num/4; limit = 3/16 of init.
 *
 * Every number is at least 1, and: sizes ascend from BTL_IB_QUEUE_SIZE_MIN; low < num; window is at
 * most floor(num/(num - low))*(num - low). A window counts buffers that were used, whatever the
 * batches of num - low (btl_ib_credit.h); the bound is openib's, whose credits come free in whole
 * batches, and peers refuse a table that exceeds it. A larger init than num, or limit than init, is
 * harmless, and reduced to that.
 */

#ifndef BTL_IB_RECEIVE_QUEUES_H
#define BTL_IB_RECEIVE_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A channel number has four bits on the wire. */
#define BTL_IB_QUEUES_MAX 16
/* The smallest queue must hold our header, a CONNECT block, one acknowledgement and the longest
 * trailer of protection (asserted in btl_ib_wire.h). */
#define BTL_IB_QUEUE_SIZE_MIN 104u
#define BTL_IB_QUEUE_SIZE_MAX (1u << 20)
#define BTL_IB_QUEUE_NUM_MAX  (1u << 20)
/* The default for the most buffers and a window of one. */
#define BTL_IB_QUEUE_RESERVE_MAX (2 * BTL_IB_QUEUE_NUM_MAX - 1)

typedef enum btl_ib_queue_type {
    /* One credit for each buffer: nothing is dropped for want of a buffer. */
    BTL_IB_QUEUE_PER_PEER = 'P',
    /* One pool for all peers: overflow is retransmitted. */
    BTL_IB_QUEUE_SHARED = 'S',
} btl_ib_queue_type_t;

typedef struct btl_ib_queue {
    btl_ib_queue_type_t type;
    uint32_t size;    /* bytes of a buffer: our header and payload, not the transport's prefix */
    uint32_t num;     /* buffers: for each peer (P) or for all (S) */
    uint32_t low;     /* repost when at most this many buffers are posted */
    uint32_t window;  /* P: credits banked before an explicit return */
    uint32_t reserve; /* P: further buffers, for what needs no credit; of the first queue only */
    uint32_t max_pending; /* S: segments that one sender may have in flight to us */
    uint32_t init;        /* S: buffers posted at start; P: credits of a peer that is new or idle,
                           * which is no field of the grammar: the engine's settings decide */
    uint32_t limit;       /* S: the limit event that asks for more buffers than init */
} btl_ib_queue_t;

/* Ordered by ascending size: [0] is the command channel. Fields of the other type are 0,
 * except where said. */
typedef struct btl_ib_queue_table {
    uint32_t count;
    btl_ib_queue_t q[BTL_IB_QUEUES_MAX];
} btl_ib_queue_table_t;

/* Why a string was rejected. Positions count from 1. */
typedef struct btl_ib_queues_error {
    uint32_t queue;     /* which queue of the string; 0: the string as a whole */
    const char *field;  /* the field's name in the grammar, e.g. "low_watermark"; a literal */
    char value[32];     /* what stood there, truncated */
    uint32_t column;    /* where it starts in the string */
    char expected[128]; /* what would have been right, in words; or what it was reduced to */
} btl_ib_queues_error_t;

/*
 * Parses `spec` (NULL is taken as empty) into `table`. Strict: every number is plain decimal digits
 * in range, nothing is skipped or guessed. Returns 0, or -EINVAL with `error` filled in and `table`
 * undefined. If a value was reduced, `error` names the first such one, and its queue is not 0.
 */
int btl_ib_queues_parse(const char *spec, btl_ib_queue_table_t *table,
                        btl_ib_queues_error_t *error);

/* True if a valid `spec` has something for that field of a queue, which is counted from 0 and named
 * as in errors. */
bool btl_ib_queues_is_written(const char *spec, uint32_t queue, const char *field);

/*
 * True if the largest queue of the parsed `spec` has at least `least` bytes. What cannot be split
 * must fit. Returns 0, or -EINVAL with `error` filled in.
 */
int btl_ib_queues_holds(const char *spec, const btl_ib_queue_table_t *table, uint32_t least,
                        btl_ib_queues_error_t *error);

/*
 * Fits a valid table to a transport. Queues larger than `max_datagram` bytes are clamped to it.
 * Queues of equal size are then joined into one of the first one's type: a queue of the other type
 * gets the defaults of that type, then all numbers but the size are added and limited to the
 * grammar's bounds. Returns how many queues were too large (0: the table is unchanged). A
 * max_datagram below BTL_IB_QUEUE_SIZE_MIN counts as that: reject such a transport before.
 */
uint32_t btl_ib_queues_clamp(btl_ib_queue_table_t *table, uint32_t max_datagram);

/* Sets the window of each P queue so that up to `slack` credits are banked before an explicit
 * return, or as many as the grammar allows. */
void btl_ib_queues_set_slack(btl_ib_queue_table_t *table, uint32_t slack);

/* Returns the channel for a segment of `size` bytes (header included): the smallest that holds it;
 * table->count if none does. */
static inline uint32_t btl_ib_queues_channel(const btl_ib_queue_table_t *table, uint32_t size)
{
    uint32_t channel = 0;

    while (channel < table->count && table->q[channel].size < size) {
        channel++;
    }
    return channel;
}

/* Returns 0 if a table from another process, which may have any contents, is one that
 * btl_ib_queues_parse() could have made (but `init` of a P queue may be up to num), else
 * -EINVAL. */
int btl_ib_queues_check(const btl_ib_queue_table_t *table);

/* Writes a valid table in the grammar, all fields spelled out, NUL-terminated and truncated at
 * `len` bytes (`out` may be NULL if that is 0). Returns the length needed, as snprintf() does. */
int btl_ib_queues_format(const btl_ib_queue_table_t *table, char *out, size_t len);

#endif
