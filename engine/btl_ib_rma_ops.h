/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations that are under way with one peer: ours, and our replies to the peer's, whose
 * results are kept until they are acknowledged.
 *
 * Accounting of our one-sided operations with one peer (conn->ops). An operation is counted from
 * start to end. One that goes as segments waits until one of config.ops_max slots is free. The slot
 * is part of the id by which the peer names the operation in its answer.
 */

#ifndef BTL_IB_RMA_OPS_H
#define BTL_IB_RMA_OPS_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

typedef struct btl_ib_op_slot {
    btl_ib_op_t *op;    /* NULL: free */
    uint32_t next_free; /* if free: the next free slot */
} btl_ib_op_slot_t;

/* Our one-sided operations with one peer. */
typedef struct btl_ib_ops {
    btl_ib_list_t waiting;   /* operations that wait for a slot */
    btl_ib_op_slot_t *slots; /* config.ops_max of them; NULL: not allocated */
    uint32_t free;           /* first free slot */
    uint32_t count;          /* operations that are not over */
    uint32_t running;        /* of them, those that have a slot */
    uint32_t answers;        /* operations that wait for an answer of the peer or its device */
    uint64_t answer_since;   /* awake: the last answer, or when the first began to wait for one */
} btl_ib_ops_t;

/* Ids of the operations of all connections. An answer to a connection that was destroyed must
 * not fit an operation of the next one with the same peer. */
typedef struct btl_ib_op_ids {
    uint32_t generation; /* of the newest */
} btl_ib_op_ids_t;

void btl_ib_op_slots_init(btl_ib_conn_t *conn);

/* An operation was admitted. It is on no list yet. */
void btl_ib_op_begin(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* It goes as segments: it waits for a slot. It is on no list yet. */
void btl_ib_op_queue(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* Give free slots to waiting operations, and queue their segments. */
void btl_ib_op_run(btl_ib_conn_t *conn);

/* The operation with this id if it has a slot, else NULL. The id may be any number. */
btl_ib_op_t *btl_ib_op_find(const btl_ib_conn_t *conn, uint32_t id);

/* The request was sent, or the device took it; or it came back without an answer. */
void btl_ib_op_asked(btl_ib_op_t *op);
void btl_ib_op_not_asked(btl_ib_op_t *op);

/* So many bytes of what a GET asked for have arrived. */
static inline void btl_ib_op_got(btl_ib_op_t *op, uint32_t bytes)
{
    op->got += bytes;
}

/* The peer, or its device, works for us: it is not silent. The wait for answers starts again. */
void btl_ib_op_answered(btl_ib_conn_t *conn);

/* An operation is over: take it off all accounts. */
void btl_ib_op_leaves(btl_ib_op_t *op, int status);

/* Free what idle connections do not need. */
void btl_ib_op_shrink(btl_ib_conn_t *conn);

/* ---- our replies to operations of the peer ---- */

/*
 * Answers to one peer's one-sided operations (conn->answers): results, which leave in REPLY
 * segments, and the bytes of each GET, a stream of GOT segments. There is room for BTL_IB_OPS_MAX
 * of both together: as many operations as a peer may have outstanding.
 */

/* Answers to the peer's one-sided operations. */
typedef struct btl_ib_answers {
    btl_ib_out_t out;             /* the replies: size and offset count since the beginning */
    btl_ib_wire_reply_t *replies; /* a ring of BTL_IB_OPS_MAX; NULL: not allocated */
    uint32_t streams;             /* streams (answers to GETs) that are not over */
} btl_ib_answers_t;

/* The bytes that answer a GET of a peer. */
typedef struct btl_ib_stream {
    btl_ib_out_t out;
    btl_ib_region_key_t key;
    uint64_t offset; /* in the region */
    uint8_t *memory; /* address of that, as last checked */
    uint32_t id;     /* of the operation, chosen by the peer */
} btl_ib_stream_t;

void btl_ib_answers_init(btl_ib_conn_t *conn);

/* Reserve memory for one more answer. False: no room or no memory, which is counted. */
bool btl_ib_answers_reserve(btl_ib_conn_t *conn);

/* Add the result of operation `id`. There must be room (btl_ib_answers_reserve()). */
void btl_ib_answers_reply(btl_ib_conn_t *conn, uint32_t id, uint32_t status, uint64_t result);

/* Make a stream for a GET of those bytes of a region; it is not begun. NULL: no memory
 * (counted). */
btl_ib_stream_t *btl_ib_answers_stream(btl_ib_conn_t *conn, const btl_ib_view_t *get,
                                       const btl_ib_region_key_t *key, uint64_t offset);

/* Begin to send it. There must be room. */
void btl_ib_answers_begin(btl_ib_stream_t *stream);

/* Look up the memory of a stream. False: peers may not read it any more. Then the stream is
 * freed, and a reply says so. */
bool btl_ib_answers_find_or_reject(btl_ib_stream_t *stream);

/* Copy the next `size` bytes of replies to `to`. */
void btl_ib_answers_write(const btl_ib_conn_t *conn, uint8_t *to, uint32_t size);

/* A stream, or all replies, are over, sent or not. A stream is freed. `out` is on no list. */
void btl_ib_answers_end(btl_ib_out_t *out);

/* Free what idle connections do not need. */
void btl_ib_answers_shrink(btl_ib_conn_t *conn);

#endif
