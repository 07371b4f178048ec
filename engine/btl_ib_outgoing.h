/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What is sent in pieces: a message, a one-sided operation, or an answer to one. Embedded in those.
 * All members are the engine's. It is made where the message, operation or answer begins; then each
 * group of members has one writer.
 */

#ifndef BTL_IB_OUTGOING_H
#define BTL_IB_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"

struct btl_ib_conn;

typedef enum btl_ib_out_kind {
    BTL_IB_OUT_MESSAGE, /* btl_ib_msg_t */
    BTL_IB_OUT_PUT,     /* btl_ib_op_t: its bytes */
    BTL_IB_OUT_REQUEST, /* btl_ib_op_t: the request for a GET or an ATOMIC */
    BTL_IB_OUT_OFFLOAD, /* btl_ib_op_t: executed by the device */
    BTL_IB_OUT_STREAM,  /* btl_ib_stream_t: what a GET of the peer asked for */
    BTL_IB_OUT_REPLIES, /* btl_ib_answers_t: replies to the peer's operations */
} btl_ib_out_kind_t;

typedef struct btl_ib_out {
    btl_ib_list_t link; /* waits in a channel, or for its callbacks */
    struct btl_ib_conn *conn;
    uint64_t size;    /* bytes; of BTL_IB_OUT_REPLIES it grows: btl_ib_rma_ops.c */
    uint64_t offset;  /* bytes already packetized: btl_ib_packetize.c */
    uint32_t pending; /* segments not yet acknowledged, if that matters: btl_ib_out_count() */
    btl_ib_out_kind_t kind;

    /* btl_ib_sentmap.c */
    int status;    /* for on_done or op_done */
    bool sent_due; /* on_sent is to be called */
    bool done_due; /* on_done or op_done is to be called */
} btl_ib_out_t;

/* So many more of its segments are not acknowledged; negative: fewer. */
static inline void btl_ib_out_count(btl_ib_out_t *out, int segments)
{
    out->pending += (uint32_t) segments;
}

#endif
