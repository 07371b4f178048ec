/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Flows: by which of the transport's flows (5-tuples of udp) datagrams go between two addresses. */

#ifndef BTL_IB_FLOW_H
#define BTL_IB_FLOW_H

#include <stdbool.h>
#include <stdint.h>

struct btl_ib_conn;
struct btl_ib_view;

/*
 * One 5-tuple may be dead while the path is healthy: a stale entry of a connection tracker, a
 * policer, one link of many (ECMP). The sender of each direction finds that out for its own:
 *
 * - After two timeouts, or if a question of the peer comes again and it has not heard the answer,
 *   the next flow is tried, for all datagrams.
 * - Its first answer proves little, as the peer may have computed: flow 0 has one more chance. If
 *   it fails again and the other one is answered again, that is taken.
 * - Flow 0 is tried again after 8 s, then after twice as long each time, up to two minutes: two
 *   timeouts are lost each time that it still leads nowhere.
 *
 * What proves that a flow leads there is the peer's echo of a stamp that was sent by it.
 */
typedef struct btl_ib_flow {
    uint8_t now;          /* btl_ib_tx_t.flow of what is sent */
    uint8_t worked;       /* the last one other than 0 that was answered; 0: none */
    uint8_t strikes;      /* times in a row that another one was answered, and flow 0 was not */
    bool on_trial : 1;    /* whether `now`, which is not 0, is answered is not known yet */
    bool untold : 1;      /* it is to be logged that flow 0 was left */
    bool doubted : 1;     /* something sent by this route was not answered in time */
    uint32_t asked;       /* stamp: what the peer has heard since answers what was in doubt */
    uint64_t since;       /* us: when `now` was taken */
    uint64_t home_at;     /* us: when flow 0 is tried again, if `now` is another one */
    uint64_t question_at; /* us: when a question of the peer came last; 0: none did */
} btl_ib_flow_t;

/* The route changed: nothing is known of its flows. */
static inline void btl_ib_flow_begin_route(btl_ib_flow_t *flow)
{
    *flow = (btl_ib_flow_t){.now = 0};
}

/* A probe is due. After two that nothing answered it takes the next flow, and so does all else. */
void btl_ib_flow_probing(struct btl_ib_conn *conn);

/* The peer asks with a datagram that it has sent before, or with an ACK: if it has not heard the
 * last answer the next flow is taken. */
void btl_ib_flow_asked(struct btl_ib_conn *conn, const struct btl_ib_view *view);

/* A flow is on trial, and a datagram with an echo of that stamp came. */
void btl_ib_flow_heard(struct btl_ib_conn *conn, uint32_t echo);

/* Does what is due of a flow other than 0: takes flow 0 again, tells that it was left. */
void btl_ib_flow_expire(struct btl_ib_conn *conn);

#endif
