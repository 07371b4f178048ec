/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Connections that open, fail and break: what is logged and reported of that, and when the next one
 * may be asked for. */

#ifndef BTL_IB_VERBS_RC_CM_LIFECYCLE_H
#define BTL_IB_VERBS_RC_CM_LIFECYCLE_H

#include "verbs_rc_rail.h"

/* Log what happens to a channel; `detail` may be empty. */
void btl_ib_rc_cm_log(const btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer, uint8_t channel,
                      const char *what, const char *detail);

/* A connection opened. */
void btl_ib_rc_cm_opened(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *how);

/* An attempt failed: it is closed. `refused`: because nobody is there. */
void btl_ib_rc_cm_failed(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, bool refused, const char *what,
                         int error);

/*
 * A connection broke: it is closed, and what was sent is reported as perhaps lost. But if that is
 * because the port is down all that comes when it is up again: soft-RoCE's connection manager never
 * sends again after it had to disconnect while its interface was down.
 */
void btl_ib_rc_cm_broke(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *why);

/* What was sent over a connection may be lost: report it. */
void btl_ib_rc_cm_lost(btl_ib_rc_t *rc, const btl_ib_rc_conn_t *conn);

/* Those that were suspected for long enough are broken. */
void btl_ib_rc_cm_end_suspicions(btl_ib_rc_t *rc);

/* The port was down: all connections are broken. Soft-RoCE's may stand still for ever after that,
 * without an error. */
void btl_ib_rc_cm_restart(btl_ib_rc_t *rc);

#endif
