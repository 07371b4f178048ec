/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments between the moment that gives them a sequence and their acknowledgement, and the accounts that count them. */

#ifndef BTL_IB_SENTMAP_H
#define BTL_IB_SENTMAP_H

#include "btl_ib_state.h"

/* A new connection has sent nothing. */
static inline void btl_ib_sentmap_init(btl_ib_sentmap_t *sentmap)
{
    for (int i = 0; i < BTL_IB_RACKS; i++) {
        btl_ib_list_init(&sentmap->sent[i]);
    }
    btl_ib_list_init(&sentmap->lost);
    btl_ib_list_init(&sentmap->deferred);
}

/* S: how many segments of a channel may be on the way. */
uint32_t btl_ib_sentmap_pending_max(const btl_ib_conn_t *conn, const btl_ib_queue_t *queue);

/* Give new segments, at least one, their sequences, for which there are places, and count them. A SKIP comes alone. */
void btl_ib_sentmap_enter(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count,
                          uint32_t space);

/* It cannot leave: as if it had never entered, and free. The last that entered goes first. */
void btl_ib_sentmap_withdraw(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* New segments have left, in this order. */
void btl_ib_sentmap_left(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count);

/* A later copy of a segment has left; `probe`: to ask, not because it seemed lost. */
void btl_ib_sentmap_left_again(btl_ib_conn_t *conn, btl_ib_segment_t *segment, bool probe);

/* Only the sequence of a segment is to arrive: it becomes a VOID. */
void btl_ib_sentmap_cut_off(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* The peer refused the last copy of a segment: it is not on its way. */
void btl_ib_sentmap_defer(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* Take a segment off all accounts. Returns what it was a piece of, if that is finished with it. */
btl_ib_out_t *btl_ib_sentmap_end(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* A segment was lost: it waits to be sent again. */
void btl_ib_sentmap_lost(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* All that is in flight was lost. Returns how many segments that were. */
uint32_t btl_ib_sentmap_lose_all(btl_ib_conn_t *conn);

/* A segment arrived at the peer: take it out of all accounts and release it. */
void btl_ib_sentmap_acked(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* The segments of `out`, or if it is NULL all answers to operations of the peer, that are not
 * acknowledged carry nothing from now on. */
void btl_ib_sentmap_void(btl_ib_conn_t *conn, const btl_ib_out_t *out);

/* A region of ours is about to go: what is sent from it, and not acknowledged, is copied. */
void btl_ib_sentmap_own(btl_ib_engine_t *engine, uint64_t region);

#endif
