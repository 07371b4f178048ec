/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files of the connection manager share, nobody else's business:
 *
 *   verbs_rc_cm.c         where peers can ask; what the library says
 *   verbs_rc_cm_ask.c     our requests
 *   verbs_rc_cm_answer.c  requests of peers
 *   verbs_rc_cm_ends.c    pipes open and end: what is told of that, and when the next one is asked for
 *
 * All of it is done by rdma_cm, alike on InfiniBand, RoCE and iWARP.
 *
 *      who has something to send                    the other
 *      RESOLVING  address
 *      ROUTING    route; queue pair, buffers
 *      ASKING     request --------------------->    queue pair, buffers
 *      OPEN       <-------------------- reply       ACCEPTED
 *                 empty first message ---------->   OPEN
 *
 * The first message is there for iWARP, where the side that accepted must not be the first to send (RFC 6581);
 * it does no harm elsewhere.
 *
 * Both at once: each request names both sides by their cookies. Who has a request of his own on its way when one
 * comes in refuses it if his cookie is the smaller one (CROSSING), else gives up his own and accepts. Requests
 * are numbered (`attempt`), and a reply says which of its sender's are void: one that was given up, and comes late, is
 * told from the next one.
 */

#ifndef BTL_IB_VERBS_RC_CM_H
#define BTL_IB_VERBS_RC_CM_H

#include "verbs_rc_rail.h"

/* An event that was taken in and acknowledged: nothing of it is the library's any more. */
typedef struct btl_ib_rc_news {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    size_t len;
} btl_ib_rc_news_t;

/* ---- verbs_rc_cm_ends.c ---- */

/* A line about a link, for those who look: `detail` may be empty. */
void btl_ib_rc_cm_tell(const btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer, uint8_t channel,
                       const char *what, const char *detail);

/* A pipe opened. */
void btl_ib_rc_cm_opened(btl_ib_rc_pipe_t *pipe, const char *how);

/* An attempt came to nothing: the pipe is closed. `refused`: because nobody is there. */
void btl_ib_rc_cm_failed(btl_ib_rc_pipe_t *pipe, bool refused, const char *what, int error);

/* What was sent over a pipe may be lost: tell the peer's owner. */
void btl_ib_rc_cm_lost(const btl_ib_rc_pipe_t *pipe);

/* Those that were doubted for long enough are broken; all of them wait if the port is down. */
void btl_ib_rc_cm_end_doubts(btl_ib_rc_t *rc);

/* ---- verbs_rc_cm_ask.c ---- */

/* What request and reply say of a pipe, beside `bytes` of private data. */
struct rdma_conn_param btl_ib_rc_cm_params(const btl_ib_rc_pipe_t *pipe, const uint8_t *bytes);

/* What becomes of a request of ours, step by step. */
void btl_ib_rc_cm_address_resolved(btl_ib_rc_pipe_t *pipe);
void btl_ib_rc_cm_route_resolved(btl_ib_rc_pipe_t *pipe);
void btl_ib_rc_cm_accepted(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_news_t *news);
void btl_ib_rc_cm_rejected(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_news_t *news);

/* The system knows no way to the peer. */
void btl_ib_rc_cm_no_way(btl_ib_rc_pipe_t *pipe, const char *what, int error);

/* ---- verbs_rc_cm_answer.c ---- */

/* A peer asks for a connection. */
void btl_ib_rc_cm_requested(btl_ib_rc_t *rc, const btl_ib_rc_news_t *news);

#endif
