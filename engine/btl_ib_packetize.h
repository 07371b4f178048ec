/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments of what is sent in pieces: a message, a one-sided operation, or an answer to one of the
 * peer's. The file of each kind says what they are (out_ops in btl_ib_completion.c); here is what
 * all have in common. */

#ifndef BTL_IB_PACKETIZE_H
#define BTL_IB_PACKETIZE_H

#include "btl_ib_state.h"

/* Reserves a place in the window of a channel for the last of `count` new segments. False: no
 * memory. */
static inline bool btl_ib_packetize_reserve(btl_ib_conn_t *conn, uint32_t channel, int count)
{
    return btl_ib_tx_window_reserve(&conn->tx[channel].sentmap.window, (uint32_t) count,
                                    &conn->engine->mem)
           == 0;
}

/* Returns the most bytes that a segment of `channel` holds behind a header of `head` bytes. */
uint32_t btl_ib_packetize_room(const btl_ib_conn_t *conn, uint32_t channel, uint32_t head);

/* Makes a segment of the next `size` bytes of `out`, which the caller writes to the segment's body.
 * `ask_ack`: it asks for its acknowledgement if it is the last of `out`. NULL: no memory. */
btl_ib_segment_t *btl_ib_packetize_plain(btl_ib_conn_t *conn, btl_ib_out_t *out, btl_ib_type_t type,
                                         uint32_t size, bool ask_ack);

/* What a segment of a series is made of: the header of its type, which the kind writes afterwards,
 * then bytes. */
typedef struct btl_ib_piece {
    btl_ib_type_t type;
    uint32_t head;           /* bytes of that header */
    const struct iovec *iov; /* two elements: where the bytes are */
    /* The region of ours that the bytes are in: they stay while it is registered. 0: in none, they
     * stay until they are acknowledged. */
    uint64_t region;

    /* Written by btl_ib_packetize_series(). */
    uint64_t offset; /* of the first byte in there */
    uint32_t size;
    uint32_t pad; /* zeros behind them */
    bool refers;  /* the bytes are sent from where they are */
} btl_ib_piece_t;

/* What the segments of one thing have in common, and the one to be made next. */
typedef struct btl_ib_series {
    btl_ib_piece_t piece;
    uint32_t unit;     /* bytes in each segment but the last */
    uint32_t pad_most; /* zeros that the last may get to be as long as the others, at most */
    uint8_t tag;
    bool ask_ack; /* the last one asks for its acknowledgement */

    /* Written by btl_ib_packetize_series(). */
    bool refers;    /* some are sent from where their bytes are */
    uint64_t ahead; /* bytes that follow the last one made without a gap in memory */
    /* Chunks that were begun on a rail with larger datagrams: the present rail carries no full one
     * whole, nor has it buffers for them. They leave in parts, which are copies, so they refer to
     * their bytes whatever the rail can refer to; over another rail they leave as copies, too. */
    bool beyond_rail;
} btl_ib_series_t;

/* Makes segments of the next bytes of `out`, all but their headers: as btl_ib_out_segments(). */
int btl_ib_packetize_series(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t channel,
                            btl_ib_series_t *series, btl_ib_segment_t **segments, int most);

/* True if a datagram of `size` bytes may leave from the user's memory, without a copy. */
bool btl_ib_packetize_can_refer(const btl_ib_conn_t *conn, uint32_t size);

/* Undoes the making of the newest segment: its bytes wait again. */
void btl_ib_packetize_undo(btl_ib_segment_t *segment);

/* True if what a segment is a piece of waits for its acknowledgement, because its memory stays in
 * use till then. Else segment->out is not kept once it has left. */
static inline bool btl_ib_packetize_waits(const btl_ib_segment_t *segment)
{
    return segment->type == BTL_IB_TYPE_CHUNK || segment->type == BTL_IB_TYPE_PUT;
}

#endif
