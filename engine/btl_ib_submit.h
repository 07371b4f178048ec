/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the user sends: messages are submitted, and leave at once or together with others. */

#ifndef BTL_IB_SUBMIT_H
#define BTL_IB_SUBMIT_H

#include "btl_ib_parts.h"

/* Messages and operations that wait for others to travel with. */
typedef struct btl_ib_coalesce {
    uint32_t turn;      /* the turn to which `left` belongs */
    uint32_t left;      /* messages and operations that left at once in it */
    uint32_t alone_max; /* how many may leave at once */
    uint32_t held;      /* messages and operations held */
    uint64_t held_bytes;
    uint64_t left_at; /* us: when the last left at once */
} btl_ib_coalesce_t;

/* ---- submit ---- */

/* The top of the send path: what the component sends, and what leaves when its turn has come. The
 * component's own calls (btl_ib_engine_send() and others) are in btl_ib_engine.h. */

/* Nothing waits in any channel of a new connection. */
void btl_ib_submit_init(btl_ib_conn_t *conn);

/* All messages and operations of the connection complete with `status`, messages that left entirely
 * with `left_status`. */
void btl_ib_send_give_back(btl_ib_conn_t *conn, int left_status, int status);

/* Send what the limits allow. */
void btl_ib_send_push(btl_ib_conn_t *conn);

/* Give back the credits of a P channel beyond what an idle peer holds. Nothing may be in flight. */
void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t channel);

/* ---- coalescing ---- */

/*
 * Coalescing: which messages and operations are held back to travel with others. It works like
 * Nagle's algorithm or TCP_CORK, but in turns (progress calls) instead of time.
 *
 * The first ones of a turn leave at once. Those that follow before progress is called again are
 * held until that call, or until there are many. They leave together, in few datagrams and one call
 * of the transport. How many leave at once is learned. It is two at first, and one where others
 * followed soon. It doubles where only one was held, as with blocking sends, or where the next
 * progress call was long in coming: a process that computes between send and wait wants all data on
 * the wire.
 *
 * With GSO a short burst costs nearly as much as a full one. So of long messages only full bursts
 * leave before the turn ends; the rest leaves with the next messages.
 */

/* An incarnation of the connection begins. */
void btl_ib_coalesce_begin(btl_ib_coalesce_t *coalesce);

/* The peer's incarnation ended: nothing is held any more. */
void btl_ib_coalesce_forget(btl_ib_coalesce_t *coalesce);

#endif
