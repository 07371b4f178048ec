/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Our requests, from the first datagram for a peer to his answer. */

#include "verbs_rc_cm.h"

#include <stdio.h>
#include <string.h>

enum {
    RESOLVE_MS = 2000,
    CROSSING_US = 100 * 1000, /* the other's request is on its way */
    NO_WAY_AFTER = 2,         /* failures without an answer in between */
    /* What waits for a pipe for longer may as well have been lost. The kernel repeats what the network loses of a request each
     * 4.3 s, and many processes that share a processor are slow to answer. */
    PATIENCE_US = 10 * 1000 * 1000,
    NO_LISTENER = 8,  /* IB_CM_REJ_INVALID_SERVICE_ID (IBTA 12.6.7.2) */
    BY_CONSUMER = 28, /* IB_CM_REJ_CONSUMER_DEFINED */
};

struct rdma_conn_param btl_ib_rc_cm_params(const btl_ib_rc_pipe_t *pipe, const uint8_t *bytes)
{
    const btl_ib_rc_t *rc = pipe->rc;
    const uint8_t reads = pipe->rdma != NULL ? rc->reads : 0;
    const bool told = pipe->rdma != NULL && !pipe->asked; /* how many the other one serves */

    return (struct rdma_conn_param){
        .private_data = bytes,
        .private_data_len = BTL_IB_RC_PRIVATE_MAX,
        .initiator_depth = told ? (uint8_t) pipe->rdma->reads_max : reads,
        .responder_resources = reads,
        .retry_count = rc->retry,
        .rnr_retry_count = rc->rnr_retry,
    };
}

static void set_option(const btl_ib_rc_pipe_t *pipe, int option, uint8_t value, const char *what)
{
    if (value != 0
        && rdma_set_option(pipe->id, RDMA_OPTION_ID, option, &value, sizeof(value)) != 0) {
        btl_ib_rc_cm_tell(pipe->rc, pipe->peer, pipe->channel, what, strerror(errno));
    }
}

/* That may pass, as when the other host is still on its way up: the user is told when the system was asked in vain for
 * the third time. */
void btl_ib_rc_cm_no_way(btl_ib_rc_pipe_t *pipe, const char *what, int error)
{
    const btl_ib_verbs_t *verbs = &pipe->rc->verbs;
    char text[BTL_IB_RC_NAME_TEXT];

    if (pipe->peer->link[pipe->channel].failures == NO_WAY_AFTER) {
        btl_ib_verbs_trouble(&verbs->log, BTL_IB_DIAG_UNREACHABLE, verbs->base.name,
                             btl_ib_rc_name_format(&pipe->peer->name, text, sizeof(text)));
    }
    btl_ib_rc_cm_failed(pipe, false, what, error);
}

/* A pipe, with the first step of its way. */
static void ask(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel)
{
    btl_ib_rc_pipe_t *pipe = btl_ib_rc_pipe_new(rc, peer, channel);
    btl_ib_rc_name_t from = rc->self;

    if (pipe == NULL) {
        return;
    }
    pipe->asked = true;
    pipe->stage = BTL_IB_RC_RESOLVING;
    rc->attempts++;
    if (rdma_create_id(rc->events, &pipe->id, pipe, RDMA_PS_TCP) != 0) {
        pipe->id = NULL;
        btl_ib_rc_cm_failed(pipe, false, "rdma_create_id", errno);
        return;
    }
    set_option(pipe, RDMA_OPTION_ID_TOS, rc->tos, "its traffic class cannot be set");
    btl_ib_rc_name_set_port(&from, 0);
    if (rdma_resolve_addr(pipe->id, &from.any, &peer->name.any, RESOLVE_MS) != 0) {
        btl_ib_rc_cm_no_way(pipe, "rdma_resolve_addr", errno);
    }
}

void btl_ib_rc_cm_address_resolved(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->id->verbs != pipe->rc->verbs.context) {
        btl_ib_rc_cm_no_way(pipe, "the way to it begins at another device", 0);
        return;
    }
    pipe->stage = BTL_IB_RC_ROUTING;
    if (!pipe->rc->iwarp) { /* which has TCP's */
        set_option(pipe, RDMA_OPTION_ID_ACK_TIMEOUT, pipe->rc->ack_timeout,
                   "its timeout cannot be set");
    }
    if (rdma_resolve_route(pipe->id, RESOLVE_MS) != 0) {
        btl_ib_rc_cm_failed(pipe, false, "rdma_resolve_route", errno);
    }
}

void btl_ib_rc_cm_route_resolved(btl_ib_rc_pipe_t *pipe)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    btl_ib_rc_hello_t hello;
    int rc = btl_ib_rc_pipe_equip(pipe);

    if (rc != 0) {
        btl_ib_rc_cm_failed(pipe, false, "no queue pair", -rc);
        return;
    }
    pipe->stage = BTL_IB_RC_ASKING;
    btl_ib_rc_pipe_describe(pipe, &hello);
    btl_ib_rc_hello_pack(&hello, bytes);
    struct rdma_conn_param param = btl_ib_rc_cm_params(pipe, bytes);
    if (rdma_connect(pipe->id, &param) != 0) {
        /* Soft iWARP asks for a TCP connection there and then. */
        btl_ib_rc_cm_failed(pipe, errno == ECONNREFUSED, "rdma_connect", errno);
        return;
    }
    pipe->answer_due = pipe->rc->iwarp;
}

void btl_ib_rc_cm_accepted(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_news_t *news)
{
    btl_ib_rc_hello_t hello;

    if (btl_ib_rc_hello_unpack(news->bytes, news->len, &hello) != 0
        || hello.channel != pipe->channel || hello.from != pipe->peer->name.cookie
        || hello.to != pipe->rc->self.cookie) {
        btl_ib_rc_cm_failed(pipe, false, "its reply is none of ours", 0);
        return;
    }
    pipe->peer->link[pipe->channel].peer_attempt = hello.attempt;
    btl_ib_rc_pipe_join(pipe, &hello);
    btl_ib_rc_cm_opened(pipe, "connected");
    if (btl_ib_rc_send_first(pipe) != 0) {
        btl_ib_rc_cm_broke(pipe, "the first message cannot be posted");
    }
}

/* Does the status of a refusal say that no process of ours is there? */
static bool nobody_there(int status)
{
    return status == NO_LISTENER || status == BY_CONSUMER || status == -ECONNREFUSED
           || status == -ECONNRESET;
}

void btl_ib_rc_cm_rejected(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_news_t *news)
{
    switch (btl_ib_rc_refusal_unpack(news->bytes, news->len)) {
    case BTL_IB_RC_CROSSING:
        pipe->peer->link[pipe->channel].retry_at = btl_ib_rc_now_us() + CROSSING_US;
        btl_ib_rc_cm_tell(pipe->rc, pipe->peer, pipe->channel, "its own request goes first", "");
        btl_ib_rc_pipe_close(pipe); /* we know the peer, or would not have asked: he stays */
        break;
    case BTL_IB_RC_STRANGER:
        btl_ib_rc_cm_failed(pipe, true, "another process is there", 0);
        break;
    case BTL_IB_RC_STALE:
        btl_ib_rc_cm_failed(pipe, false, "a newer request came before ours", EAGAIN);
        break;
    case BTL_IB_RC_SHORTAGE:
        btl_ib_rc_cm_failed(pipe, false, "it is short of memory", 0);
        break;
    default:
        btl_ib_rc_cm_failed(pipe, nobody_there(news->status), "refused", 0);
        break;
    }
}

/* Is what waits for a pipe as good as lost? One that was begun just now began after `now`. */
static bool is_hopeless(const btl_ib_rc_link_t *link, uint64_t now)
{
    if (link->pipe != NULL) {
        return now >= link->pipe->begun_at + PATIENCE_US;
    }
    return link->failures > 0 && (link->hopeless || now >= link->wanted_at + PATIENCE_US);
}

int btl_ib_rc_cm_ask(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel)
{
    btl_ib_rc_link_t *link = &peer->link[channel];
    const uint64_t now = btl_ib_rc_now_us();

    link->wanted_at = link->wanted_at == 0 ? now : link->wanted_at;
    if (link->pipe == NULL && now >= link->retry_at) {
        ask(rc, peer, channel);
    }
    const bool hopeless = is_hopeless(link, now);
    link->gave_up = link->gave_up || hopeless;
    return hopeless ? EHOSTUNREACH : EAGAIN;
}
