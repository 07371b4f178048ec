/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Segments for which the peer was not ready (RNR): they arrived, but cannot be
 * accepted now (no receiver for the tag, no buffer). Its ACKs say so. They are not lost, so they
 * must neither shrink the window nor be retransmitted each round trip; and they are not in flight,
 * so they must not fill the window. So they are deferred. They are sent again when the peer names
 * them (READY); when another deferred segment was accepted, because the cause may have been the
 * same; and all together now and then, because the peer names only some. While nothing else is sent
 * probes do that, one segment at a time.
 */

#ifndef BTL_IB_RNR_SENDER_H
#define BTL_IB_RNR_SENDER_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* Defers those in flight of the sequences [from, to) of a channel, which arrived and got RNR, as an
 * ACK says. */
void btl_ib_rnr_sender_add(btl_ib_conn_t *conn, uint32_t channel, uint32_t from, uint32_t to,
                           const btl_ib_view_t *view);

/* Notes that a segment was acknowledged. If it had got RNR the cause is gone, perhaps that of
 * others too. */
void btl_ib_rnr_sender_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Sends the deferred segments again if they have waited long enough; called after acknowledgements
 * were taken in. */
void btl_ib_rnr_sender_retry(btl_ib_conn_t *conn);

/* Retransmits a segment that got RNR and which the peer can accept now (READY), unless that was
 * done since. */
void btl_ib_rnr_sender_ready(btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
