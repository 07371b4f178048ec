/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments that were sent, until they are acknowledged. */

#ifndef BTL_IB_SENTMAP_H
#define BTL_IB_SENTMAP_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"
#include "btl_ib_seq_window.h"

/* Bulk may travel by a lane of its own, so it is in a list of its own. */
enum {
    BTL_IB_SENT_OTHERS,
    BTL_IB_SENT_BULK,
    BTL_IB_SENT_LISTS,
};

/* Sent segments: in flight, lost or deferred. */
typedef struct btl_ib_sentmap {
    uint32_t in_flight; /* of all channels */
    uint32_t unacked;   /* segments in flight, lost or deferred */
    uint32_t skips;     /* of them, SKIPs */
    uint32_t deferred_count;
    uint32_t unasked; /* segments sent since one asked for its ACK, or nothing was in flight */
    uint64_t order;   /* of the newest segment sent */
    btl_ib_list_t sent[BTL_IB_SENT_LISTS]; /* in flight, by time of last sending */
    btl_ib_list_t lost;                    /* to be sent again; of the command channel first */
    btl_ib_list_t deferred;                /* that got RNR, by the time the peer said so */
} btl_ib_sentmap_t;

/* Limits on all connections together. */
typedef struct btl_ib_budget {
    uint32_t unacked; /* segments in flight or lost, without SKIPs */
    uint32_t apart;   /* of them, those that the limits do not count: BTL_IB_DEPTH_APART */
    uint64_t bytes_unacked;
} btl_ib_budget_t;

/* The sent map: segments from the moment they get a sequence until they are acknowledged, and the
 * counts of them. Owns struct btl_ib_sentmap, and the engine's budget of unacknowledged
 * segments. */

/* Begins a new connection, which has sent nothing. */
static inline void btl_ib_sentmap_init(btl_ib_sentmap_t *sentmap)
{
    for (int i = 0; i < BTL_IB_SENT_LISTS; i++) {
        btl_ib_list_init(&sentmap->sent[i]);
    }
    btl_ib_list_init(&sentmap->lost);
    btl_ib_list_init(&sentmap->deferred);
}

/* Gives new segments, at least one, their sequences, for which there are places, and counts them. A
 * SKIP enters alone. */
void btl_ib_sentmap_enter(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count,
                          uint32_t channel);

/* Undoes the entry of a segment that cannot leave, and frees it. The last that entered must be
 * withdrawn first. */
void btl_ib_sentmap_withdraw(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* Enters new segments that have left, in this order: the first of at most `most`, and those that
 * continue it. Returns how many those are. */
int btl_ib_sentmap_left(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int most);

/* Notes that a later copy of a segment has left; `probe`: as a probe, not because it seemed
 * lost. */
void btl_ib_sentmap_retransmitted(btl_ib_conn_t *conn, btl_ib_segment_t *segment, bool probe);

/* Makes a VOID of a segment of which only the sequence still has to arrive. */
void btl_ib_sentmap_cut_off(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* Notes that the last copy of a segment got RNR, and defers it: then it is not in flight. Returns
 * false if `most` are deferred already: then it stays in flight. */
bool btl_ib_sentmap_defer(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint32_t most);

/* Removes a segment from all counts. Returns the message that it was a piece of, if that is
 * finished now. */
btl_ib_out_t *btl_ib_sentmap_end(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* Has a segment that is no more in flight wait to be sent again: it was lost, is deferred or no
 * more so, is too large for its path now, or a SKIP takes its place. */
void btl_ib_sentmap_to_lost(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* Returns how many segments of the connection were acknowledged; wraps. */
uint32_t btl_ib_sentmap_segments_acked(const btl_ib_conn_t *conn);

/* Notes that all segments in flight were lost. Returns how many. */
uint32_t btl_ib_sentmap_lose_all(btl_ib_conn_t *conn);

/* True if a segment is the copy of a message, sent once, so that nothing waits for its
 * acknowledgement. */
static inline bool btl_ib_sentmap_is_message(const btl_ib_segment_t *segment)
{
    return segment->type == BTL_IB_TYPE_DATA && segment->out == NULL && segment->copies == 1
           && !segment->lost && segment->rnr_copy == 0;
}

/* Returns how many segments from `first` on, at most `most`, continue it and are in flight since
 * they were first sent: one acknowledgement serves all. `*last` is the last of them, perhaps
 * `first`. */
uint32_t btl_ib_sentmap_run(const btl_ib_tx_window_t *window, btl_ib_segment_t *first,
                            uint32_t most, btl_ib_segment_t **last);

/* Removes acknowledged segments from all counts and frees them: `first` alone, or a run that
 * btl_ib_sentmap_run() found. */
void btl_ib_sentmap_acked(btl_ib_conn_t *conn, btl_ib_segment_t *first, btl_ib_segment_t *last,
                          uint32_t count);

/* Takes the contents from the unacknowledged segments of `out`, or if it is NULL from all answers
 * to operations of the peer. */
void btl_ib_sentmap_void(btl_ib_conn_t *conn, const btl_ib_out_t *out);

/* Gives unacknowledged segments that are sent from a region which is about to be removed a copy of
 * their bytes. */
void btl_ib_sentmap_own(btl_ib_engine_t *engine, uint64_t region);

#endif
