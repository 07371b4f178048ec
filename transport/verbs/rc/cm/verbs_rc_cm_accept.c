/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Requests of peers: accepted, or refused. */

#include "verbs_rc_cm.h"

static void refuse(const btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_reason_t reason)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    const uint8_t len = btl_ib_rc_refusal_pack(reason, bytes);

    BTL_IB_VERBS_LOG(&rc->verbs, 10, "%s: a request was refused, reason %d", rc->verbs.base.name,
                     reason);
    (void) rdma_reject(id, bytes, len);
    (void) rdma_destroy_id(id);
}

/* Make room for a peer's new request. Returns whether it may have it. */
static bool give_way(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, const btl_ib_rc_hello_t *hello)
{
    btl_ib_rc_pipe_t *pipe = peer->link[hello->channel].pipe;

    if (pipe == NULL) {
        return true;
    }
    if (pipe->stage < BTL_IB_RC_ACCEPTED) {
        if (rc->self.cookie < hello->from) {
            return false;
        }
        btl_ib_rc_cm_tell(rc, peer, hello->channel, "its request goes before our own", "");
    } else { /* he would not ask again if he had not lost it */
        btl_ib_rc_cm_tell(rc, peer, hello->channel, "connects anew", "");
        btl_ib_rc_cm_lost(pipe);
    }
    btl_ib_rc_pipe_close(pipe);
    return true;
}

/* Accept a request, for which there is room. Returns 0 or a negative errno; the id is the pipe's if there is one. */
static int accept_request(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_hello_t *hello)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    btl_ib_rc_hello_t reply;
    int rc = pipe->id->verbs == pipe->rc->verbs.context ? btl_ib_rc_pipe_equip(pipe) : -ENODEV;

    if (rc != 0) {
        return rc;
    }
    btl_ib_rc_pipe_join(pipe, hello);
    btl_ib_rc_pipe_describe(pipe, &reply);
    btl_ib_rc_hello_pack(&reply, bytes);
    struct rdma_conn_param param = btl_ib_rc_cm_params(pipe, bytes);
    return rdma_accept(pipe->id, &param) == 0 ? 0 : -errno;
}

static btl_ib_rc_peer_t *asker(btl_ib_rc_t *rc, const btl_ib_rc_hello_t *hello)
{
    btl_ib_rc_peer_t *peer = btl_ib_rc_peer_find(&rc->peers, hello->from);

    return peer == NULL && rc->peers.strangers < rc->strangers_max
               ? btl_ib_rc_peer_get(&rc->peers, hello->from)
               : peer;
}

static void take_request(btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_peer_t *peer,
                         const btl_ib_rc_hello_t *hello)
{
    btl_ib_rc_pipe_t *pipe = btl_ib_rc_pipe_new(rc, peer, hello->channel);

    if (pipe == NULL) {
        refuse(rc, id, BTL_IB_RC_SHORTAGE);
        btl_ib_rc_peer_let_go(&rc->peers, peer);
        return;
    }
    pipe->stage = BTL_IB_RC_ACCEPTED;
    pipe->id = id;
    id->context = pipe;
    peer->link[hello->channel].peer_attempt = hello->attempt;
    int error = accept_request(pipe, hello);
    if (error != 0) {
        uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
        (void) rdma_reject(id, bytes, btl_ib_rc_refusal_pack(BTL_IB_RC_SHORTAGE, bytes));
        btl_ib_rc_cm_failed(pipe, false, "its request cannot be accepted", -error);
    }
}

/* Our own request, for operations on our own memory that have to be done by the device. Its other end is a peer whose
 * cookie nobody has but by a chance of 2^-64. */
static btl_ib_rc_peer_t *mirror(btl_ib_rc_t *rc, const btl_ib_rc_hello_t *hello)
{
    const btl_ib_rc_peer_t *self = btl_ib_rc_peer_find(&rc->peers, rc->self.cookie);
    btl_ib_rc_peer_t *peer = NULL;

    if (self != NULL && hello->channel == BTL_IB_RC_RDMA) {
        peer = btl_ib_rc_peer_get(&rc->peers, ~rc->self.cookie);
    }
    if (peer != NULL) {
        peer->mirror = true;
    }
    return peer;
}

void btl_ib_rc_cm_requested(btl_ib_rc_t *rc, const btl_ib_rc_news_t *news)
{
    btl_ib_rc_hello_t hello;

    if (btl_ib_rc_hello_unpack(news->bytes, news->len, &hello) != 0
        || hello.to != rc->self.cookie) {
        refuse(rc, news->id, BTL_IB_RC_STRANGER);
        return;
    }
    btl_ib_rc_peer_t *peer = hello.from == rc->self.cookie ? mirror(rc, &hello) : asker(rc, &hello);
    if (peer == NULL) {
        refuse(rc, news->id, BTL_IB_RC_SHORTAGE);
    } else if ((int32_t) (hello.attempt - peer->link[hello.channel].peer_attempt) <= 0) {
        refuse(rc, news->id, BTL_IB_RC_STALE);
    } else if (!give_way(rc, peer, &hello)) {
        refuse(rc, news->id, BTL_IB_RC_CROSSING);
    } else {
        take_request(rc, news->id, peer, &hello);
    }
}
