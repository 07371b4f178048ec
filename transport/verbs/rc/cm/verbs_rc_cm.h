/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The connection manager: where peers can ask for connections, and the events of rdma_cm, alike on
 * InfiniBand, RoCE and iWARP.
 *
 *      who has something to send                    the other
 *      RESOLVING  address
 *      ROUTING    route; queue pair, buffers
 *      ASKING     request --------------------->    queue pair, buffers
 *      OPEN       <-------------------- reply       ACCEPTED
 *                 empty first message ---------->   OPEN
 *
 * The first message is there for iWARP, where the side that accepted must not be the first to send
 * (RFC 6581); it does no harm elsewhere.
 *
 * Both at once: each request names both sides by their cookies. Who has a request of its own on its
 * way when one comes in rejects it if its cookie is the smaller one (CROSSING), else gives up its
 * own and accepts. Requests are numbered (`attempt`), and a reply says which of its sender's are
 * void: one that was given up, and comes late, is told from the next one.
 */

#ifndef BTL_IB_VERBS_RC_CM_H
#define BTL_IB_VERBS_RC_CM_H

#include "verbs_rc_rail.h"

/* Listen at rc->self, whose port is set, by the device of that name. Returns
 * 0 or a negative errno after logging why; close follows in either case. */
int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params);
void btl_ib_rc_cm_close(btl_ib_rc_t *rc);

/* Handle the events of rdma_cm and of the device, if it is time to look. Returns whether it did,
 * and the port is up. */
bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc);

#endif
