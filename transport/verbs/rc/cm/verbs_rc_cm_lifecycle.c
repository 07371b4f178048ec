/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Pipes open and end: what is told of that, and when the next one may be asked for. */

#include "verbs_rc_cm.h"

#include <stdio.h>
#include <string.h>

enum {
    RETRY_US = 10 * 1000, /* after a failure; twice as long after each that follows */
    RETRY_DOUBLINGS = 7,
    SHORT_LIFE_US = 1000 * 1000, /* a pipe that breaks sooner is likely to break again */
    DOUBT_US =
        200
        * 1000, /* between what a port that goes down makes fail and its new state, on slow hosts */
};

void btl_ib_rc_cm_tell(const btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer, uint8_t channel,
                       const char *what, const char *detail)
{
    char text[BTL_IB_RC_NAME_TEXT];
    char link[16] = "RDMA";

    if (channel != BTL_IB_RC_RDMA) {
        snprintf(link, sizeof(link), "queue %u", channel);
    }
    BTL_IB_VERBS_LOG(&rc->verbs, 10, "%s: peer %s, %s: %s%s%s", rc->verbs.base.name,
                     btl_ib_rc_name_format(&peer->name, text, sizeof(text)), link, what,
                     detail[0] != '\0' ? ": " : "", detail);
}

/* Errors of an attempt that say nothing of the next one. */
static bool may_pass(int error)
{
    return error == ETIMEDOUT || error == EAGAIN;
}

void btl_ib_rc_cm_failed(btl_ib_rc_pipe_t *pipe, bool refused, const char *what, int error)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_peer_t *peer = pipe->peer;
    btl_ib_rc_link_t *link = &peer->link[pipe->channel];

    btl_ib_rc_cm_tell(rc, peer, pipe->channel, what, error != 0 ? strerror(error) : "");
    if (pipe->asked) {
        link->retry_at = btl_ib_rc_now_us() + ((uint64_t) RETRY_US << link->failures);
        link->failures += link->failures < RETRY_DOUBLINGS;
        link->hopeless = refused || !may_pass(error);
    }
    btl_ib_rc_pipe_close(pipe);
    if (refused) {
        peer->refused = ECONNREFUSED;
        btl_ib_rc_peer_news(&rc->peers, peer);
    }
    btl_ib_rc_peer_let_go(&rc->peers, peer);
}

/* The next pipe comes at once, unless the last ones broke as soon as they were open: nothing is to be made anew, with
 * all in flight sent again, in a tight loop. */
static void pause_after(const btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_link_t *link = &pipe->peer->link[pipe->channel];
    const uint64_t now = btl_ib_rc_now_us();

    if (pipe->stage == BTL_IB_RC_OPEN && now - pipe->opened_at >= SHORT_LIFE_US) {
        link->short_lives = 0;
        return;
    }
    if (link->short_lives > 0) {
        link->retry_at = now + ((uint64_t) RETRY_US << (link->short_lives - 1));
    }
    link->short_lives += link->short_lives <= RETRY_DOUBLINGS;
}

/* Messages may be lost with a pipe. Operations on memory say themselves what became of them. */
void btl_ib_rc_cm_lost(const btl_ib_rc_pipe_t *pipe)
{
    if (pipe->rdma == NULL) {
        pipe->peer->broken = true;
        btl_ib_rc_peer_news(&pipe->rc->peers, pipe->peer);
    }
}

void btl_ib_rc_cm_broke(btl_ib_rc_pipe_t *pipe, const char *why)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_peer_t *peer = pipe->peer;

    if (btl_ib_rc_events_port_down(rc)) { /* it is made anew when the port is up again */
        return;
    }
    btl_ib_rc_cm_tell(rc, peer, pipe->channel, "the connection broke", why);
    pause_after(pipe);
    btl_ib_rc_cm_lost(pipe);
    btl_ib_rc_pipe_close(pipe);
    btl_ib_rc_peer_let_go(&rc->peers, peer);
}

void btl_ib_rc_cm_doubt(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->doubt_until == 0) {
        pipe->doubt_until = btl_ib_rc_now_us() + DOUBT_US;
        pipe->rc->doubted++;
    }
}

void btl_ib_rc_cm_end_doubts(btl_ib_rc_t *rc)
{
    const uint64_t now = btl_ib_rc_now_us();

    for (uint32_t i = 0; i < rc->slots && !btl_ib_rc_events_port_down(rc); i++) {
        btl_ib_rc_pipe_t *pipe = rc->slot[i].pipe;
        if (pipe != NULL && pipe->doubt_until != 0 && now >= pipe->doubt_until) {
            btl_ib_rc_cm_broke(pipe, ibv_wc_status_str(IBV_WC_LOC_QP_OP_ERR));
        }
    }
}

/* What was sent in vain before, as good as lost, is to go again now. */
void btl_ib_rc_cm_opened(btl_ib_rc_pipe_t *pipe, const char *how)
{
    btl_ib_rc_peer_t *peer = pipe->peer;
    btl_ib_rc_link_t *link = &peer->link[pipe->channel];
    char after[32];

    btl_ib_rc_pipe_open(pipe);
    snprintf(after, sizeof(after), "after %.3f s",
             (double) (pipe->opened_at - pipe->begun_at) * 1e-6);
    btl_ib_rc_cm_tell(pipe->rc, peer, pipe->channel, how, after);
    link->failures = 0;
    link->wanted_at = 0;
    if (link->gave_up) {
        link->gave_up = false;
        btl_ib_rc_cm_lost(pipe);
    }
}

void btl_ib_rc_cm_heard(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_cm_opened(pipe, "connected by the peer");
}
