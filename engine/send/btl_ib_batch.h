/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What waits in a channel leaves: planned, packetized, and sent in batches. */

#ifndef BTL_IB_BATCH_H
#define BTL_IB_BATCH_H

#include "btl_ib_limits.h"

/* Send what waits in a channel; if `trains` only as far as it fills whole ones. Returns what stopped it, BTL_IB_GO if
 * that was nothing; *full: the transport or memory stopped it. */
btl_ib_verdict_t btl_ib_batch_push(btl_ib_conn_t *conn, uint32_t space, bool trains, bool *full);

#endif
