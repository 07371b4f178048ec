/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Acknowledgements that are due to the peer: for what, when (the ACK delay), and how an ACK says
 * it. btl_ib_ack_send.c sends it. */

#ifndef BTL_IB_ACK_WRITE_H
#define BTL_IB_ACK_WRITE_H

#include "btl_ib_clock.h"
#include "btl_ib_engine.h"
#include "btl_ib_list.h"
#include "btl_ib_pool.h"
#include "btl_ib_seq_window.h"

/* How many segments are remembered that were accepted from a retransmission. If the first copy
 * comes after all, the retransmission was spurious. */
#define BTL_IB_REPAIRED_KEPT 8

/* How many of the newest segments that filled a gap are remembered. An ACK without room for all
 * ranges carries at least theirs. */
#define BTL_IB_NEWEST_KEPT 16

/* Acknowledgements that are due to the peer. */
typedef struct btl_ib_ack_tx {
    btl_ib_list_t link;     /* on engine->acks or acks_answered: an acknowledgement is due */
    uint64_t at;            /* us: when it is due */
    uint64_t delivered_at;  /* us: when a message was last delivered */
    uint64_t echo_at;       /* us: when `echo` arrived */
    uint32_t echo;          /* the peer's newest stamp */
    uint32_t echo_poll_gap; /* us: how long it may have waited at this host before it was read */
    uint32_t due;           /* one bit for each channel with something to acknowledge */
    uint32_t count;         /* segments received since the last acknowledgement */
    uint32_t channel;       /* the channel to acknowledge by piggyback */
    uint32_t repaired_next; /* entries written to the repaired_* rings; wraps */
    uint32_t repaired_seq[BTL_IB_REPAIRED_KEPT];
    uint32_t newest_next; /* the same for newest_* */
    uint32_t newest_seq[BTL_IB_NEWEST_KEPT];
    uint8_t repaired_channel[BTL_IB_REPAIRED_KEPT];
    uint8_t newest_channel[BTL_IB_NEWEST_KEPT];
    bool at_once; /* send one at once */
    /* A message was delivered, and nothing has left yet within the ACK delay after the last one. */
    bool unreplied;
    bool echo_valid; /* `echo` is set */
    bool no_tag;     /* tell the peer that there is no receiver for a tag */
} btl_ib_ack_tx_t;

/* Begins a new connection: nothing is due, and nothing is known. */
static inline void btl_ib_ack_tx_init(btl_ib_ack_tx_t *ack)
{
    *ack = (btl_ib_ack_tx_t){0};
    btl_ib_list_init(&ack->link);
}

/* Begins the receiving side of an incarnation of the connection. */
void btl_ib_ack_tx_begin(btl_ib_conn_t *conn);

/* Keeps the stamp of a datagram for echoing, if it is the peer's newest. `poll_gap` is that of its
 * turn. */
static inline void btl_ib_ack_tx_heard(btl_ib_ack_tx_t *ack, uint32_t stamp, uint64_t now,
                                       uint32_t poll_gap)
{
    if (!ack->echo_valid || btl_ib_seq_before(ack->echo, stamp)
        || now - ack->echo_at > BTL_IB_STAMP_AGE) {
        ack->echo_valid = poll_gap != BTL_IB_POLL_GAP_UNKNOWN;
        ack->echo = stamp;
        ack->echo_at = now;
        ack->echo_poll_gap = poll_gap;
    }
}

/* Keeps what ACKs have to tell of a new segment, which is about to be marked in its window. */
void btl_ib_ack_tx_accepting(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Notes that `count` new segments of `type` were marked in the window of a channel. They are to be
 * acknowledged in this turn if `at_once`, or if many are due; else within the ACK delay. */
void btl_ib_ack_tx_accepted(btl_ib_conn_t *conn, uint32_t channel, uint8_t type, uint32_t count,
                            bool at_once);

/* Notes a copy of a segment that was accepted before. */
void btl_ib_ack_tx_duplicate(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Has the next datagram say that a message got RNR because there is no receiver for its tag. */
static inline void btl_ib_ack_tx_no_tag(btl_ib_ack_tx_t *ack)
{
    ack->no_tag = true;
}

/* Notes that a message was delivered. */
static inline void btl_ib_ack_tx_delivered(btl_ib_ack_tx_t *ack, uint64_t now)
{
    ack->unreplied = true;
    ack->delivered_at = now;
}

/* Has something in `channel` acknowledged: in this turn if `at_once`, else within the ACK delay. */
void btl_ib_ack_tx_set_pending(btl_ib_conn_t *conn, uint32_t channel, bool at_once);

/* Progress calls in a row that received nothing. After so many, no data segment is likely to come
 * soon that the acknowledgement could ride on. A smaller number costs throughput: a receiver that
 * is faster than its sender is idle between any two segments (after 2 calls, a tenth of it). */
enum { BTL_IB_ACK_IDLE_CALLS = 32 };

/* True if the pending acknowledgement of a connection is due, after `idle_calls` progress calls
 * that received nothing. */
static inline bool btl_ib_ack_tx_is_due(const btl_ib_ack_tx_t *ack, uint64_t now,
                                        uint32_t idle_calls)
{
    return ack->at_once || now >= ack->at || idle_calls >= BTL_IB_ACK_IDLE_CALLS;
}

/* Returns the connection whose acknowledgement is due first; NULL: none is. */
const btl_ib_conn_t *btl_ib_ack_tx_first(const btl_ib_engine_t *engine);

/* Notes that all that was due of `channels` is acknowledged. If nothing else is due the connection
 * leaves the engine's list. */
static inline void btl_ib_ack_tx_settled(btl_ib_ack_tx_t *ack, uint32_t channels)
{
    ack->due &= ~channels;
    if (ack->due == 0) {
        ack->count = 0;
        ack->at_once = false;
        btl_ib_list_remove(&ack->link);
    }
}

/* True if segments got RNR, which ACKs must name; or if an ACK of `room` bytes has room for a block
 * of them beside another. */
bool btl_ib_ack_tx_has_rnr(const btl_ib_conn_t *conn);
bool btl_ib_ack_tx_has_room_for_both(uint32_t room);

/* What an ACK segment tells. */
typedef struct btl_ib_ack_filled {
    uint32_t channels; /* one bit for each channel that it has a block of */
    uint32_t told;     /* of these, those of which nothing else is to be told */
    bool all;          /* nothing is left that another segment could tell now */
} btl_ib_ack_filled_t;

/* Fills an ACK segment, whose body has `room` bytes, with what is due of `channels`. It counts as
 * told only when the segment has left. */
btl_ib_ack_filled_t btl_ib_ack_tx_fill(btl_ib_conn_t *conn, btl_ib_segment_t *segment,
                                       uint32_t room, uint32_t channels);

/* Notes that an ACK segment has left that told `filled`. */
void btl_ib_ack_tx_told(btl_ib_conn_t *conn, const btl_ib_ack_filled_t *filled);

/* Leaves what is still due after a batch of segments to the next ACK: other connections have to
 * send too. */
void btl_ib_ack_tx_put_off(btl_ib_conn_t *conn);

#endif
