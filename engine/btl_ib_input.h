/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* From datagrams to messages, operations and answers. Everything is checked before anything is
 * changed. */

#ifndef BTL_IB_INPUT_H
#define BTL_IB_INPUT_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"
#include "btl_ib_reasm.h"

/* Reassembly. */
typedef struct btl_ib_input {
    btl_ib_reasm_peer_t fragments; /* fragments being reassembled from chunks */
    btl_ib_list_t parts;           /* segments being reassembled from parts */
    btl_ib_list_t whole;           /* on engine->whole: fragments may be ready for delivery */
} btl_ib_input_t;

/* Checks as much of a datagram as is possible before the sender is known: all of it, or, if the
 * protection is keyed, only what finds the key. False: to be dropped; counted. */
bool btl_ib_input_look_at(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival);

/* True if channel, sequence, size and tag of a sequenced segment, which came in a datagram of
 * `datagram` bytes, are allowed on this connection. If not that is counted. */
bool btl_ib_input_check(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint32_t datagram);

/* Finds the burst of a sequenced segment that passed btl_ib_input_check(), behind which `events`
 * others lie: if nothing about it is unusual, those that continue it become a burst with it
 * (btl_ib_burst.h). */
void btl_ib_input_burst(const btl_ib_conn_t *conn, btl_ib_arrival_t *arrival, uint32_t events);

/* Processes a datagram that is genuine and valid, and its burst, which is none any more if it got
 * RNR. `new_acks`: also its acknowledgements. True: it is a CLOSE, which ends this incarnation of
 * the connection. */
bool btl_ib_input_take(btl_ib_conn_t *conn, btl_ib_view_t *view, bool new_acks);

/* Parses a genuine datagram, and checks all that needs no connection. False: counted. */
bool btl_ib_input_parse(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival);

void btl_ib_input_init(btl_ib_conn_t *conn);

/* Drops the incomplete fragments and segments of an incarnation that ended. The next progress call
 * delivers what is complete. */
void btl_ib_input_end(btl_ib_conn_t *conn);

/* Delivers nothing of a connection that ended any more. */
void btl_ib_input_drop(btl_ib_conn_t *conn);

/* Frees what idle connections do not need. */
void btl_ib_input_shrink(btl_ib_conn_t *conn);

/* Delivers the backlog of asynchronous progress, and what ended incarnations left. Returns the
 * number of messages. */
uint32_t btl_ib_input_stored(btl_ib_engine_t *engine);

#endif
