/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments that leave again. */

#ifndef BTL_IB_RETRANSMIT_H
#define BTL_IB_RETRANSMIT_H

#include "btl_ib_limits.h"

/* What was lost goes before anything new, within the window. As btl_ib_batch_push(). */
btl_ib_verdict_t btl_ib_retransmit_lost(btl_ib_conn_t *conn, bool *full);

/* Send one sequenced segment again. False if the transport cannot take it now. */
bool btl_ib_retransmit(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint8_t flags);

#endif
