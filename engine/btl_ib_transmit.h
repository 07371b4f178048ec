/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What leaves: new segments in batches, lost ones again, ACKs, and the address of a rail. */

#ifndef BTL_IB_TRANSMIT_H
#define BTL_IB_TRANSMIT_H

#include "btl_ib_send_limits.h"
#include "btl_ib_list.h"
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

/* ---- datagrams ---- */

/* Makes datagrams of segments and hands them to the transport. Headers are written, and datagrams
 * protected, anew for each copy. Writes conn->transmit. */

/* Send one. Most go a short way. False: it did not leave. */
bool btl_ib_transmit_one(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* The same of the first copy of a DATA segment with all of a message in it. */
bool btl_ib_transmit_message(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* ---- batches ---- */

/* Send what waits in a channel; with `bursts` only as much as fills whole GSO bursts. Returns what
 * stopped it, BTL_IB_GO if all left or *full is set: the transport or memory stopped it. */
btl_ib_verdict_t btl_ib_batch_push(btl_ib_conn_t *conn, uint32_t channel, bool bursts, bool *full);

/* Send again what was lost on the command channel, or on the others, within the limits. It goes
 * before anything new of theirs. Returns as above. */
btl_ib_verdict_t btl_ib_batch_lost(btl_ib_conn_t *conn, bool command, bool *full);

/* READY: the peer can accept a segment that got RNR. Retransmit it, unless that was done since. */
void btl_ib_batch_ready(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* ---- ACK segments ---- */

/* Acknowledge all that is due, with `flags` (BTL_IB_FLAG_) added. False if the transport or memory
 * did not allow it. */
bool btl_ib_ack_send(btl_ib_conn_t *conn, uint8_t flags);

/* Send the acknowledgements that are due in this turn; `all`: also those that would wait
 * to be piggybacked, as there may be no other turn soon. */
void btl_ib_ack_turn(btl_ib_engine_t *engine, bool all);

/* ---- probes ---- */

/* Ask the peer for a sign of life: with a copy of a segment if there is one (RFC 8985, TLP), else
 * with an ACK. btl_ib_loss_probe_begins() was called. */
void btl_ib_probe_send(btl_ib_conn_t *conn);

/* ---- ADDRESS ---- */

/* Tell a peer where the own rail of a connection is now (ADDRESS). */

/* Send it by the present route. It is repeated as long as the own rails are tried in vain. False:
 * a peer to which only smaller datagrams get through is not told; or memory or the transport did
 * not allow it. */
bool btl_ib_address_send(btl_ib_conn_t *conn);

#endif
