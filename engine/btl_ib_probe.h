/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What happens when nothing comes: probes (RFC 8985, TLP; RFC 9002, PTO), how long silence may
 * last, and when a peer counts as dead. btl_ib_loss.c says when a probe is due. */

#ifndef BTL_IB_PROBE_H
#define BTL_IB_PROBE_H

#include "btl_ib_engine.h"

/* Probes, or gives the peer up, as the loss timer of a connection expired. May end the
 * connection. */
void btl_ib_on_timeout(btl_ib_conn_t *conn);

/* Probes for connections that waited for the budget of copies, as far as it reaches now. */
void btl_ib_probe_retry(btl_ib_engine_t *engine);

#endif
