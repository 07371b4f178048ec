/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Connections by rdma_cm: requests of ours and of peers, connections that open, fail and break. */

#ifndef BTL_IB_VERBS_RC_CM_H
#define BTL_IB_VERBS_RC_CM_H

#include <errno.h>

#include "verbs_rc_rail.h"

/* ---- the connection manager ---- */

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

/* Listen at rc->self, whose port is set, by the device of that name. Returns
 * 0 or a negative errno after logging why; close follows in either case. */
int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params);
void btl_ib_rc_cm_close(btl_ib_rc_t *rc);

/* Handle the events of rdma_cm and of the device, if it is time to look. Returns whether it did,
 * and the port is up. */
bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc);

/* ---- requests of ours ---- */

/* Requests of ours, from the first datagram for a peer to its answer. */

/* A channel has no open connection: ask for one, unless it is too soon. Returns EAGAIN, or
 * EHOSTUNREACH if it is hopeless. */
int btl_ib_rc_cm_connect(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel);

/* The open connection of a channel; NULL after asking for one, and *error is the answer. */
static inline btl_ib_rc_conn_t *btl_ib_rc_cm_conn(btl_ib_rc_t *rc, btl_ib_addr_t to,
                                                  uint8_t channel, int *error)
{
    btl_ib_rc_peer_t *peer = rc->peers.peer[to];
    btl_ib_rc_conn_t *conn = peer->channel[channel].conn;

    if (conn != NULL && conn->stage == BTL_IB_RC_OPEN) {
        *error = EAGAIN;
        return conn->suspect_until == 0 ? conn : NULL;
    }
    *error = btl_ib_rc_cm_connect(rc, peer, channel);
    return NULL;
}

/* ---- open, failed, broken ---- */

/* Connections that open, fail and break: what is logged and reported of that, and when the next one
 * may be asked for. */

/* A connection opened. */
void btl_ib_rc_cm_opened(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *how);

/*
 * A connection broke: it is closed, and what was sent is reported as perhaps lost. But if that is
 * because the port is down all that comes when it is up again: soft-RoCE's connection manager never
 * sends again after it had to disconnect while its interface was down.
 */
void btl_ib_rc_cm_broke(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *why);

#endif
