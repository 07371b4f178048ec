/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments that the peer refused (RNR): neither lost nor on their way. */

#ifndef BTL_IB_DEFERRED_H
#define BTL_IB_DEFERRED_H

#include "btl_ib_state.h"

/* Sequences [from, to) of a space came and were refused, as an ACK says: what of them is on its way
 * is not any more. */
void btl_ib_deferred_add(btl_ib_conn_t *conn, uint32_t space, uint32_t from, uint32_t to,
                         const btl_ib_view_t *view);

/* A segment was acknowledged: if it had been refused the cause is gone, perhaps of others, too. */
void btl_ib_deferred_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Acknowledgements were taken in: has what is parked waited long enough? */
void btl_ib_deferred_retry(btl_ib_conn_t *conn);

#endif
