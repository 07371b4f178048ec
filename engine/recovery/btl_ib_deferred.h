/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments that the peer refused (RNR): neither lost nor in flight. */

#ifndef BTL_IB_DEFERRED_H
#define BTL_IB_DEFERRED_H

#include "btl_ib_state.h"

/* The sequences [from, to) of a space arrived and were refused, as an ACK says: those in flight are
 * deferred. */
void btl_ib_deferred_add(btl_ib_conn_t *conn, uint32_t space, uint32_t from, uint32_t to,
                         const btl_ib_view_t *view);

/* A segment was acknowledged. If it had been refused the cause is gone, perhaps that of others too.
 * */
void btl_ib_deferred_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Acknowledgements were taken in: send the deferred segments again if they have waited long enough.
 * */
void btl_ib_deferred_retry(btl_ib_conn_t *conn);

#endif
