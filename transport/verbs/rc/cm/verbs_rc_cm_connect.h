/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Requests of ours, from the first datagram for a peer to its answer. */

#ifndef BTL_IB_VERBS_RC_CM_CONNECT_H
#define BTL_IB_VERBS_RC_CM_CONNECT_H

#include <errno.h>

#include "verbs_rc_rail.h"

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

/* What becomes of a request, step by step. */
void btl_ib_rc_cm_address_resolved(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn);
void btl_ib_rc_cm_route_resolved(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn);
void btl_ib_rc_cm_responded(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes, size_t len);
void btl_ib_rc_cm_accepted(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes, size_t len);
void btl_ib_rc_cm_rejected(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, int status, const void *bytes,
                           size_t len);

/* The system knows no route to the peer. */
void btl_ib_rc_cm_no_route(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what, int error);

#endif
