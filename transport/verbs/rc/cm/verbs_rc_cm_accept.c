/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_cm_accept.h"

#include <errno.h>
#include <string.h>

#include "verbs_rc_cm_lifecycle.h"
#include "verbs_rc_qp.h"

static void reject(struct rdma_cm_id *id, btl_ib_rc_reject_t reason)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];

    (void) rdma_reject(id, bytes, btl_ib_rc_reject_pack(reason, bytes));
}

/* Reject a request that is no connection's yet. */
static void refuse(const btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_reject_t reason)
{
    BTL_IB_VERBS_LOG(&rc->port.verbs, 10, "%s: a request was refused, reason %d",
                     rc->port.verbs.base.name, reason);
    reject(id, reason);
    (void) rdma_destroy_id(id);
}

/* Close what stands in the way of a peer's new request. Returns whether it may go on. */
static bool make_way(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, const btl_ib_rc_params_t *params)
{
    btl_ib_rc_conn_t *conn = peer->channel[params->channel].conn;

    if (conn == NULL) {
        return true;
    }
    if (conn->stage < BTL_IB_RC_ACCEPTED) {
        if (rc->self.cookie < params->from) {
            return false;
        }
        btl_ib_rc_cm_log(rc, peer, params->channel, "its request goes before our own", "");
    } else { /* it would not ask again if it had not lost the connection */
        btl_ib_rc_cm_log(rc, peer, params->channel, "connects anew", "");
        btl_ib_rc_cm_lost(rc, conn);
    }
    btl_ib_rc_peer_close(conn);
    return true;
}

/* Returns 0 or a negative errno. */
static int accept_conn(const btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn,
                       const btl_ib_rc_params_t *params)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    const int error = conn->id->verbs == rc->port.verbs.context
                          ? btl_ib_rc_conn_equip(conn, &conn->peer->addr)
                          : -ENODEV;

    if (error != 0) {
        return error;
    }
    const int unset = btl_ib_rc_qp_set_ack_timeout(&rc->port, conn->id);
    if (unset != 0) {
        btl_ib_rc_cm_log(rc, conn->peer, conn->channel, "its timeout cannot be set",
                         strerror(unset));
    }
    btl_ib_rc_conn_join(conn, params);
    struct rdma_conn_param reply = btl_ib_rc_conn_offer(conn, params->from, bytes);
    return -btl_ib_rc_qp_accept(&rc->port, conn->id, params->mtu, &reply);
}

static void take_request(btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_peer_t *peer,
                         const btl_ib_rc_params_t *params)
{
    btl_ib_rc_conn_t *conn = btl_ib_rc_peer_connect(&rc->peers, peer, params->channel, id);

    if (conn == NULL) {
        refuse(rc, id, BTL_IB_RC_SHORTAGE);
        btl_ib_rc_peer_free_unused(&rc->peers, peer);
        return;
    }
    btl_ib_rc_channel_void_attempts(&peer->channel[params->channel], params->attempt);
    const int error = accept_conn(rc, conn, params);
    if (error != 0) {
        reject(id, BTL_IB_RC_SHORTAGE);
        btl_ib_rc_cm_failed(rc, conn, false, "its request cannot be accepted", -error);
    }
}

/*
 * Who asks? NULL if it may not. An unknown peer may, unless there are too many. So may we: for
 * operations on our own memory that have to be done by the device. The other end of that is a peer
 * whose cookie nobody has but by a chance of 2^-64.
 */
static btl_ib_rc_peer_t *find_asker(btl_ib_rc_t *rc, const btl_ib_rc_params_t *params)
{
    btl_ib_rc_peer_t *peer = btl_ib_rc_peer_find(&rc->peers, params->from);

    if (params->from == rc->self.cookie) {
        return peer != NULL && params->channel == BTL_IB_RC_RDMA_CHANNEL
                   ? btl_ib_rc_peer_get(&rc->peers, ~rc->self.cookie)
                   : NULL;
    }
    return peer == NULL && rc->peers.unknown < rc->port.unknown_max
               ? btl_ib_rc_peer_get(&rc->peers, params->from)
               : peer;
}

void btl_ib_rc_cm_requested(btl_ib_rc_t *rc, struct rdma_cm_id *id, const void *bytes, size_t len)
{
    btl_ib_rc_params_t params;

    if (btl_ib_rc_params_unpack(bytes, len, &params) != 0 || params.to != rc->self.cookie) {
        refuse(rc, id, BTL_IB_RC_NOT_OURS);
        return;
    }
    btl_ib_rc_peer_t *peer = find_asker(rc, &params);
    if (peer == NULL) {
        refuse(rc, id, BTL_IB_RC_SHORTAGE);
    } else if ((int32_t) (params.attempt - peer->channel[params.channel].peer_attempt) <= 0) {
        refuse(rc, id, BTL_IB_RC_STALE);
    } else if (!make_way(rc, peer, &params)) {
        refuse(rc, id, BTL_IB_RC_CROSSING);
    } else {
        take_request(rc, id, peer, &params);
    }
}
