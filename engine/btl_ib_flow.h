/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Flows: by which of the transport's flows (5-tuples: UDP ports) datagrams go between two
 * addresses, and by which other one if that is dead. Several at once: btl_ib_paths.h. */

#ifndef BTL_IB_FLOW_H
#define BTL_IB_FLOW_H

#include <stdbool.h>
#include <stdint.h>

struct btl_ib_conn;
struct btl_ib_segment;
struct btl_ib_view;

/*
 * One 5-tuple may be dead while the path is healthy: a stale entry of a connection tracker, a
 * policer, one link of many (ECMP). The sender of each direction finds that out for its own:
 *
 * - After two timeouts, or if a question of the peer comes again and it has not heard the answer,
 *   the next flow is tried, for all datagrams. The spare one comes last, and those of paths
 *   (btl_ib_paths.h), each time by another port: of two links, one of them dead, half of the ports
 *   of each side lead nowhere. Until all were tried probes come soon.
 * - Where flow 0 uses two lanes, and what goes by one of them is lost again and again or never
 *   acknowledged while what goes by the other is, everything takes that other one.
 * - Its first answer proves little, as the peer may have computed: all stays with the new flow, and
 *   checks (a VOID each) ask whether flow 0 leads there. The first that arrives brings all back; if
 *   three in a row do not, though later datagrams are answered, flow 0 is left.
 * - Then one check asks again after 8 s, the next after twice as long, up to two minutes.
 *
 * What proves that a flow leads there is the peer's echo of a stamp that was sent by it.
 */
typedef struct btl_ib_flow {
    uint8_t now;        /* btl_ib_tx_t.flow of what is sent */
    uint8_t left;       /* if `now` is not 0: the one that may lead nowhere; checks go by it */
    uint8_t worked;     /* the last one other than 0 that was answered; 0: none */
    uint8_t lost;       /* checks in a row that were lost */
    uint8_t bulk_asked; /* copies that asked for bulk since some was acknowledged */
    uint8_t rounds;     /* times that all were tried since something was answered; 255: or more */
    uint8_t check_channel; /* of the check that is out... */
    bool on_trial : 1;     /* whether `left` leads there is being found out: echoes matter */
    bool answered : 1;     /* something that went by `now` was answered */
    bool to_check : 1;     /* a check is to be sent */
    bool checking : 1;     /* a check is out */
    bool doubted : 1;      /* something sent over this route was not answered in time */
    bool unreported : 1;   /* it is to be logged that a flow was left */
    bool spare_told : 1;   /* it was logged that the spare one is used */
    bool lent : 1;         /* `now` is of one datagram only */
    uint32_t check_seq;    /* ...and its sequence */
    uint32_t doubt;        /* us before `since`: when what was in doubt was sent, or later */
    uint64_t since;        /* us: when `now` was taken */
    uint64_t usual_at;     /* us: when flow 0 is tried again, if `now` is another one */
    uint64_t question_at;  /* us: when a question of the peer came last; 0: none did */
} btl_ib_flow_t;

/* Begins anew with a changed route, of whose flows nothing is known. */
static inline void btl_ib_flow_begin_route(btl_ib_flow_t *flow)
{
    *flow = (btl_ib_flow_t){.now = 0};
}

/* Returns the flow by which the next user of the present route begins: the present one if something
 * sent by it was answered, else the one behind it. So a connection that moves to and fro between
 * two routes, as it follows its peer, gets past a dead flow all the same. */
uint8_t btl_ib_flow_for_next(const struct btl_ib_conn *conn);

/* Begins a route by that flow. */
void btl_ib_flow_begin_by(struct btl_ib_conn *conn, uint8_t flow);

/* Notes that something that was sent is answered, by whatever flow. */
static inline void btl_ib_flow_answered(btl_ib_flow_t *flow)
{
    flow->rounds = 0;
}

/* Sends what follows by flow `to`, for one datagram only. Returns the present one, for
 * btl_ib_flow_give_back(). */
static inline uint8_t btl_ib_flow_lend(btl_ib_flow_t *flow, uint8_t to)
{
    const uint8_t now = flow->now;

    flow->now = to;
    flow->lent = true;
    return now;
}

static inline void btl_ib_flow_give_back(btl_ib_flow_t *flow, uint8_t now)
{
    flow->now = now;
    flow->lent = false;
}

/* Returns the flow of a question over a route that other connections may use: the present one for
 * `turn` 0, then each in turn, as nothing but answers would tell that it is dead. */
uint8_t btl_ib_flow_in_turn(const struct btl_ib_conn *conn, uint32_t turn);

/* Sends all but bulk of other paths by flow `to`, as what goes by the usual one gets lost: checks
 * ask for the way back. */
void btl_ib_flow_leave_for(struct btl_ib_conn *conn, uint8_t to);

/* Called when a probe is due. After two without an answer the probe takes the next flow, and so
 * does all else. */
void btl_ib_flow_probing(struct btl_ib_conn *conn);

/* Called when the peer asks with a datagram that it has sent before, or with an ACK: takes the next
 * flow if the peer has not heard the last answer. */
void btl_ib_flow_asked(struct btl_ib_conn *conn, const struct btl_ib_view *view);

/* Called when a datagram came by the peer's spare flow: takes the own spare one if it is a question
 * whose sender has not heard the last answer, as all other flows may be dead here as well. */
void btl_ib_flow_came_by_spare(struct btl_ib_conn *conn, const struct btl_ib_view *view);

/* True if some flow was not tried yet since something was answered, and there are so many that the
 * time between probes must not double for each. */
bool btl_ib_flow_any_untried(const struct btl_ib_conn *conn);

/* True if every flow was tried since something was answered, and this datagram answers nothing. */
bool btl_ib_flow_unanswered(const struct btl_ib_conn *conn, const struct btl_ib_view *view);

/* Called when later segments show that a copy of a segment that is no bulk was lost: after a few in
 * a row everything takes the lane of bulk, if there is one. */
void btl_ib_flow_lost(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

/* Called when the loss timer expires. Returns true if bulk in flight was not acknowledged for long
 * though what was sent later is answered: the caller sends a copy of it that asks; before the third
 * one everything takes the latency lane. */
bool btl_ib_flow_misses_bulk(struct btl_ib_conn *conn);

/* Called for each datagram with an echo while a flow is on trial. */
void btl_ib_flow_heard(struct btl_ib_conn *conn, uint32_t echo);

/* Called when a VOID that was sent once is acknowledged, or is about to be sent again: if it is the
 * check, it shows that flow 0 leads there, or does not. */
void btl_ib_flow_arrived(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);
void btl_ib_flow_retransmitting(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

/* True if it is the check, of which no copy may go by another flow: that would show nothing. */
bool btl_ib_flow_is_check(const struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

/* Notes that the check that was due is sent as `segment`, by flow `left`. */
void btl_ib_flow_check_left(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

/* Does what is due of a flow other than 0: checks flow 0 again, tells that it was left. */
void btl_ib_flow_expire(struct btl_ib_conn *conn);

#endif
