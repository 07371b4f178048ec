/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Our one-sided operations that are outstanding with one peer (conn->ops): their slots and ids. An
 * operation is counted from start to end. One that goes as segments waits until one of
 * config.ops_max slots is free, and until config.ops_total allows one more. The slot is part of the
 * id by which the peer names the operation in its reply.
 */

#ifndef BTL_IB_RMA_REQUESTS_H
#define BTL_IB_RMA_REQUESTS_H

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
    btl_ib_list_t turn;      /* in engine->op_ids.peers */
} btl_ib_ops_t;

/* Ids of the operations of all connections. An answer to a connection that was destroyed must
 * not fit an operation of the next one with the same peer. */
typedef struct btl_ib_op_ids {
    uint32_t generation; /* of the newest */
    uint32_t running;    /* operations that have a slot, or that a device executes */
    btl_ib_list_t peers; /* connections that wait until config.ops_total allows them one more */
} btl_ib_op_ids_t;

/* Puts an operation that goes as segments, and is on no list, behind those that wait for a slot. */
void btl_ib_op_queue(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* Asks to run one more operation of a connection that has `running`. True if config.ops_total
 * allows it; of each connection it always allows the first: a peer that does not answer delays
 * no other. False: the connection waits, and is ready when it is its turn. */
bool btl_ib_op_run_or_wait(btl_ib_conn_t *conn, uint32_t running);

/* Makes the connection ready that has waited longest, as an operation is over, or a connection
 * leaves room that others may use. */
void btl_ib_op_next_peer(btl_ib_engine_t *engine);

/* Gives free slots and ids to waiting operations, and puts them into their channels. */
void btl_ib_op_give_slots(btl_ib_conn_t *conn);

/* Returns the operation with this id if it has a slot, else NULL. The id may be any number. */
btl_ib_op_t *btl_ib_op_find(const btl_ib_conn_t *conn, uint32_t id);

/* Notes that the request was sent, or the device took it; or that it came back without an
 * answer. */
void btl_ib_op_asked(btl_ib_op_t *op);
void btl_ib_op_not_asked(btl_ib_op_t *op);

/* Notes that the peer, or its device, works for us: it is not silent. The wait for answers starts
 * again. */
void btl_ib_op_answered(btl_ib_conn_t *conn);

/* Implements out_ops (btl_ib_completion.c) for PUTs, for requests, and for these and offloaded
 * operations: one that is over is taken off all accounts. */
int btl_ib_put_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                        btl_ib_segment_t **segments, int most);
int btl_ib_request_segments(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                            btl_ib_segment_t **segments, int most);
bool btl_ib_request_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied);
bool btl_ib_op_ended(btl_ib_out_t *out, int status);

/* Frees what idle connections do not need. */
void btl_ib_op_shrink(btl_ib_conn_t *conn);

#endif
