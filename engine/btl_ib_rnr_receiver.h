/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Segments that this side was not ready for (RNR, as an RNR NAK of InfiniBand), and when they may
 * come again. Owns struct btl_ib_rnr. A sender can only retry now and then, one segment at a
 * time, because it does not know what is missing here. This side does: once the cause is gone an
 * ACK names the segment (flag READY), and the sender repeats it at once. When that is accepted, all
 * that was sent before it and is still missing follows, as after a loss. Of several with the same
 * cause the one with the lowest sequence is kept: others wait for its fragment. All are reported as
 * RNR, so that the sender does not take them for lost. A segment that got RNR for want of memory
 * counts as lost.
 */

#ifndef BTL_IB_RNR_RECEIVER_H
#define BTL_IB_RNR_RECEIVER_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"
#include "btl_ib_seq_window.h"

/* Why a valid segment cannot be accepted now (receiver not ready). */
typedef enum btl_ib_rnr_cause {
    BTL_IB_RNR_TAG,     /* no receiver is registered for its tag yet */
    BTL_IB_RNR_BUFFER,  /* no reassembly buffer for its fragment */
    BTL_IB_RNR_BACKLOG, /* the application does not call progress, and the backlog is full */
    BTL_IB_RNR_CAUSES,
} btl_ib_rnr_cause_t;

/* A segment that got RNR: of those with the same cause, the one with the lowest sequence. */
typedef struct btl_ib_rnr_entry {
    uint32_t seq;
    uint32_t fragment; /* CHUNK */
    uint8_t channel;
    uint8_t tag;
    bool kept; /* this entry is in use */
    bool told; /* the peer was told that it may send it again */
} btl_ib_rnr_entry_t;

/* Segments of the peer that got RNR. It is told when they may come
 * again. */
typedef struct btl_ib_rnr {
    btl_ib_list_t link;      /* on engine->rnr: a cause may be gone */
    btl_ib_rnr_runs_t *runs; /* NULL: none lately */
    bool any;                /* `entries` or `runs` has an entry */
    btl_ib_rnr_entry_t entries[BTL_IB_RNR_CAUSES];
} btl_ib_rnr_t;

/* Notes that a segment got RNR, for a message with that tag: the sender is to be told when the
 * cause is gone. */
void btl_ib_rnr_note(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint8_t tag,
                     btl_ib_rnr_cause_t cause);

/* Notes that a copy of a segment that is still missing arrived, and is about to be accepted,
 * dropped, or to get RNR. */
void btl_ib_rnr_here(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Returns the entry that the acknowledgement now leaving is to name as READY, or NULL. If it leaves
 * btl_ib_rnr_told() is called. */
btl_ib_rnr_entry_t *btl_ib_rnr_pick(btl_ib_conn_t *conn);

void btl_ib_rnr_told(btl_ib_conn_t *conn, btl_ib_rnr_entry_t *entry);

/* Acknowledges at once where a cause is gone. Once a turn, with bounded work. */
void btl_ib_rnr_turn(btl_ib_engine_t *engine);

/* Forgets all entries, as the peer's incarnation ended. */
void btl_ib_rnr_forget(btl_ib_conn_t *conn);

/* Frees the memory that an idle connection does not need. */
void btl_ib_rnr_shrink(btl_ib_conn_t *conn);

#endif
