/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which segments leave together, new or again. */

#ifndef BTL_IB_BATCH_H
#define BTL_IB_BATCH_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"
#include "btl_ib_send_limits.h"

/* Sends what waits in a channel; with `bursts` only as much as fills whole GSO bursts. Returns what
 * stopped it, BTL_IB_GO if all left or *full is set: the transport or memory stopped it. */
btl_ib_verdict_t btl_ib_batch_push(btl_ib_conn_t *conn, uint32_t channel, bool bursts, bool *full);

/* Sends again what was lost on the command channel, or on the others, within the limits. It goes
 * before anything new of theirs. Returns as above. */
btl_ib_verdict_t btl_ib_batch_resend(btl_ib_conn_t *conn, bool command, bool *full);

/* Sends one sequenced segment again, with `flags` (BTL_IB_FLAG_) added. False if the transport
 * cannot take it now. */
bool btl_ib_retransmit(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint8_t flags);

#endif
