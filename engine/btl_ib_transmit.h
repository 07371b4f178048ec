/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What leaves: new segments in batches, lost ones again, ACKs, and the address of a rail. */

#ifndef BTL_IB_TRANSMIT_H
#define BTL_IB_TRANSMIT_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* Datagrams about to be sent. */
typedef struct btl_ib_datagrams {
    const btl_ib_wire_header_t *common; /* what their headers have in common */
    int count;
    bool plain; /* nothing is to be done for any once it has left: datagram_left() */
    btl_ib_tx_t tx[BTL_IB_BATCH];
    /* what is sent: the segment itself, or its copy or sealed copy */
    btl_ib_segment_t *wire[BTL_IB_BATCH];
} btl_ib_datagrams_t;

/* Makes datagrams of segments and hands them to the transport. Headers are written, and datagrams
 * protected, anew for each copy. Writes conn->transmit. */

/* Sends one that has data, or is an ACK. Most go a short way. False: it did not leave. */
bool btl_ib_transmit_one(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* Returns the segments worth handing to the transport in one call: a multiple of a GSO burst. */
int btl_ib_transmit_max(const btl_ib_conn_t *conn);

/* Sends `count` segments: sequenced ones (new or again), or a single one that has no sequence.
 * Returns how many left. */
int btl_ib_transmit_segments(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count);

#endif
