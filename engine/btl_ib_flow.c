/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_flow.h"

#include "btl_ib_engine_internal.h"

enum {
    PROBES_EACH = 2,       /* unanswered, until the next flow is tried */
    STRIKES = 2,           /* until flow 0 is left */
    TRIAL_MOST = 1000000,  /* us: that another one is used without having been answered */
    RETRY_AFTER = 8000000, /* us: until flow 0 is tried again, the first time */
    DOUBLINGS_MAX = 4,
    QUESTION_GAP = 200, /* us, beyond a round trip: closer ones were sent without waiting */
};

static void flow_take(btl_ib_conn_t *conn, uint32_t flow)
{
    conn->flow.now = (uint8_t) flow;
    conn->flow.since = conn->engine->clock.now;
    conn->flow.on_trial = flow != 0;
    conn->flow.home_at = conn->engine->clock.now + TRIAL_MOST;
}

/* Was anything answered that was sent by the present flow? What left in the turn that took it may
 * have gone by the one before. */
static bool flow_is_answered(const btl_ib_conn_t *conn)
{
    const btl_ib_loss_t *loss = &conn->loss;

    return loss->sample_at > conn->flow.since
           && btl_ib_clock_stamped_at(&conn->engine->clock, loss->sample_echo) > conn->flow.since;
}

/* What was sent by the present flow is not answered, from stamp `asked` on: take the next one. */
static void flow_next(btl_ib_conn_t *conn, uint32_t asked)
{
    btl_ib_flow_t *flow = &conn->flow;
    const uint32_t flows = conn->route.via->transport->attr.flows;
    uint32_t next = flow->now + 1u;

    flow->doubted = true;
    if (flows <= 1) {
        return;
    }
    if (flow->now == 0) {
        flow->asked = asked;
        flow->strikes = flow_is_answered(conn) ? 0 : flow->strikes;
        next = flow->worked != 0 ? flow->worked : next;
    } else if (flow->now == flow->worked) {
        flow->worked = 0;
    }
    flow_take(conn, next < flows ? next : 0);
    conn->engine->count.flows_tried++;
}

void btl_ib_flow_probing(btl_ib_conn_t *conn)
{
    const uint32_t probes = conn->loss.unanswered_probes;

    if (probes > 0 && probes % PROBES_EACH == 0) {
        flow_next(conn, (uint32_t) conn->loss.asked_at);
    }
}

void btl_ib_flow_asked(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const uint64_t now = conn->engine->clock.now;
    const uint64_t before = conn->flow.question_at;
    const bool heard = (view->flags & BTL_IB_FLAG_ECHO)
                       && btl_ib_clock_stamped_at(&conn->engine->clock, view->echo) >= before;

    if (before != 0 && now - before < QUESTION_GAP + btl_ib_rtt_smoothed(&conn->loss.rtt, 0)) {
        return;
    }
    conn->flow.question_at = now;
    if (before != 0 && !heard) {
        flow_next(conn, (uint32_t) before);
    }
}

bool btl_ib_conn_flow_text(const btl_ib_conn_t *conn, bool usual, char *out, size_t len)
{
    const btl_ib_transport_t *transport = conn->route.via->transport;

    return transport->ops->flow_text != NULL && conn->route.to != BTL_IB_ADDR_UNKNOWN
           && transport->ops->flow_text(transport, conn->route.to, usual ? 0 : conn->flow.now, out,
                                        len);
}

/* Tell that the usual flow was left; later if the thread that makes this turn cannot. */
static void flow_tell(btl_ib_conn_t *conn)
{
    char usual[128] = "the usual ports";
    char now[128] = "other ports";

    if (!conn->flow.untold || conn->engine->turn.async) {
        return;
    }
    conn->flow.untold = false;
    (void) btl_ib_conn_flow_text(conn, true, usual, sizeof(usual));
    (void) btl_ib_conn_flow_text(conn, false, now, sizeof(now));
    BTL_IB_LOG(conn->engine, 1,
               "peer %u.%u: %s: nothing is answered that goes from %s; what goes from %s is, so "
               "that is used. A stale entry of a firewall or NAT, a policer, one link of several?",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->route.via->transport->name, usual, now);
}

static void flow_settle(btl_ib_conn_t *conn)
{
    btl_ib_flow_t *flow = &conn->flow;
    const uint32_t doublings = btl_ib_min_u32(flow->strikes - STRIKES, DOUBLINGS_MAX);

    flow->on_trial = false;
    flow->home_at = conn->engine->clock.now + ((uint64_t) RETRY_AFTER << doublings);
    if (flow->strikes == STRIKES) {
        conn->engine->count.flows_left++;
        flow->untold = true;
    }
    flow_tell(conn);
}

void btl_ib_flow_heard(btl_ib_conn_t *conn, uint32_t echo)
{
    btl_ib_flow_t *flow = &conn->flow;

    if (btl_ib_seq_before(echo, flow->asked)) { /* no answer */
        return;
    }
    if (btl_ib_seq_before(echo, (uint32_t) flow->since)) { /* late, but by an earlier flow */
        flow_take(conn, 0);
        return;
    }
    flow->worked = flow->now;
    flow->strikes = (uint8_t) btl_ib_min_u32(flow->strikes + 1u, UINT8_MAX);
    if (flow->strikes < STRIKES) {
        flow_take(conn, 0);
    } else {
        flow_settle(conn);
    }
}

void btl_ib_flow_expire(btl_ib_conn_t *conn)
{
    if (conn->flow.now == 0) {
        return;
    }
    flow_tell(conn);
    if (conn->engine->clock.now >= conn->flow.home_at) {
        flow_take(conn, 0);
    }
}
