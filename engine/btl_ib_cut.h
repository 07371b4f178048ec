/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files that make segments share; the rest of the engine sees what btl_ib_calls.h names.
 *
 *     btl_ib_cut.c         messages, operations, answers -> segments, one after the other
 *     btl_ib_cut_heads.h   ... what stands before their bytes
 *     btl_ib_cut_piece.c   ... and how the bytes get there, or are sent from where they are
 *     btl_ib_cut_bundle.c  several short messages -> one segment
 */

#ifndef BTL_IB_CUT_H
#define BTL_IB_CUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "btl_ib_calls.h"

/* What a segment is made of: a head of its type, which who cuts it writes, then bytes. */
typedef struct btl_ib_piece {
    btl_ib_type_t type;
    uint32_t head;           /* bytes of it */
    const struct iovec *iov; /* two of them: where the bytes are */
    uint64_t offset;         /* of the bytes in there */
    uint32_t size;
    uint32_t pad; /* zeros behind them */
    /* The bytes are sent from where they are, and stay there until acknowledged, or as long as `region` of ours is
     * registered (0: they are in none). */
    bool refers;
    uint64_t region;
} btl_ib_piece_t;

/* A segment with room for the head, and the bytes behind it. NULL: there is no buffer. */
btl_ib_segment_t *btl_ib_cut_make(btl_ib_conn_t *conn, const btl_ib_piece_t *piece);

/* ---- which one is it, of what is on its way out? ---- */

static inline btl_ib_msg_t *btl_ib_msg_of(btl_ib_out_t *out)
{
    return BTL_IB_CONTAINER(out, btl_ib_msg_t, out);
}

static inline btl_ib_op_t *btl_ib_op_of(btl_ib_out_t *out)
{
    return BTL_IB_CONTAINER(out, btl_ib_op_t, out);
}

static inline btl_ib_stream_t *btl_ib_stream_of(btl_ib_out_t *out)
{
    return BTL_IB_CONTAINER(out, btl_ib_stream_t, out);
}

#endif
