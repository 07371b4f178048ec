/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_flow.h"

#include "btl_ib_state.h"
#include "btl_ib_packet.h"
#include "btl_ib_sched.h"

enum {
    PROBES_EACH = 2,       /* unanswered, until the next flow is tried */
    CHECKS = 3,            /* lost in a row, until flow 0 is left */
    TRIAL_MOST = 1000000,  /* us: that another one is used without having been answered */
    RETRY_AFTER = 8000000, /* us: until flow 0 is checked again, the first time */
    DOUBLINGS_MAX = 4,
    ROUNDS_SOON = 2,     /* in which probes come soon: of these each spare flow has another port */
    QUESTION_GAP = 200,  /* us, beyond a round trip: closer ones were sent without waiting */
    COPIES_LOST = 4,     /* of a short segment, one after the other, until its lane is doubted */
    BULK_ASKS = 2,       /* questions without an answer, until the lane of bulk is doubted */
    BULK_ASKS_MOST = 12, /* questions in all; the gaps between further ones double */
    BULK_LATE = 4000,    /* us, at least: until bulk is missed; a queue may hold it for long */
};

/* ---- taking another flow ---- */

static void flow_take(btl_ib_conn_t *conn, uint32_t flow)
{
    btl_ib_paths_usual_moves(conn);
    conn->flow.now = (uint8_t) flow;
    conn->flow.left = 0;
    conn->flow.since = conn->engine->clock.now;
    conn->flow.usual_at = conn->engine->clock.now + TRIAL_MOST;
    conn->flow.on_trial = flow != 0;
    conn->flow.answered = false;
    conn->flow.to_check = false;
    conn->flow.checking = false;
}

/* Returns the number of the first spare flow, behind which those of paths are as good; 0: there is
 * none. */
static uint32_t flow_spare(const btl_ib_conn_t *conn)
{
    const btl_ib_transport_attr_t *attr = &conn->route.via->transport->attr;

    return attr->spare_flow ? attr->flows : 0;
}

/* Returns how many flows there are, the spare ones included. */
static uint32_t flow_count(const btl_ib_conn_t *conn)
{
    const btl_ib_transport_attr_t *attr = &conn->route.via->transport->attr;

    return attr->flows + (attr->spare_flow ? 1u + attr->paths : 0);
}

static bool flow_is_spare(const btl_ib_conn_t *conn, uint32_t flow)
{
    const uint32_t spare = flow_spare(conn);

    return spare != 0 && flow >= spare;
}

bool btl_ib_flow_any_untried(const btl_ib_conn_t *conn)
{
    return flow_spare(conn) != 0 && conn->flow.rounds < ROUNDS_SOON;
}

uint8_t btl_ib_flow_in_turn(const btl_ib_conn_t *conn, uint32_t turn)
{
    return (uint8_t) ((conn->flow.now + turn) % btl_ib_max_u32(flow_count(conn), 1));
}

uint8_t btl_ib_flow_for_next(const btl_ib_conn_t *conn)
{
    const uint64_t since = btl_ib_max_u64(conn->route.moved_at, conn->flow.since);
    const bool answered =
        conn->loss.sample_at >= since
        && btl_ib_clock_stamped_at(&conn->engine->clock, conn->loss.sample_echo) >= since;

    return btl_ib_flow_in_turn(conn, answered ? 0 : 1);
}

void btl_ib_flow_begin_by(btl_ib_conn_t *conn, uint8_t flow)
{
    if (flow != BTL_IB_FLOW_USUAL) {
        flow_take(conn, flow);
        conn->engine->count.flows_tried++;
    }
}

/* Takes flow `next`, or the first again behind the last one, as what was sent by the present one
 * from `doubt_at` on is not answered. */
static void flow_try(btl_ib_conn_t *conn, uint32_t next, uint64_t doubt_at)
{
    btl_ib_flow_t *flow = &conn->flow;
    btl_ib_transport_t *transport = conn->route.via->transport;
    const uint32_t flows = flow_count(conn);

    flow->doubted = true;
    if (flows <= 1) {
        return;
    }
    if (flow->now == 0) {
        flow->doubt = btl_ib_clip_u32(conn->engine->clock.now - doubt_at, UINT32_MAX);
    } else { /* what was in doubt before still is */
        const uint64_t before = conn->engine->clock.now - flow->since;
        flow->doubt = btl_ib_clip_u32(flow->doubt + before, UINT32_MAX);
        if (flow->now == flow->worked) { /* perhaps the answer is late only */
            flow->worked = 0;
        } else if (flow_is_spare(conn, flow->now)) {
            transport->ops->flow_renew(transport, flow->now, conn->engine->clock.now);
        }
    }
    if (next == flows) {
        flow->rounds = (uint8_t) btl_ib_min_u32(flow->rounds + 1u, UINT8_MAX);
    }
    flow_take(conn, next < flows ? next : 0);
    conn->engine->count.flows_tried++;
}

/* Tries the next flow. If checks of the usual flow were lost the latency lane's is skipped, since
 * they went by it; without a spare flow it is tried again, as there is nothing else. */
static void flow_next(btl_ib_conn_t *conn, uint64_t doubt_at)
{
    const btl_ib_flow_t *flow = &conn->flow;
    const uint32_t spare = flow_spare(conn);
    uint32_t next = flow->now == 0 && flow->worked != 0 ? flow->worked : flow->now + 1u;

    if (spare != 0 && next == BTL_IB_FLOW_LATENCY && flow->lost >= CHECKS) {
        next = spare;
    }
    flow_try(conn, next, doubt_at);
}

void btl_ib_flow_probing(btl_ib_conn_t *conn)
{
    const uint32_t probes = conn->loss.unanswered_probes;

    if (probes > 0 && probes % PROBES_EACH == 0) {
        flow_next(conn, conn->loss.asked_at);
    }
}

/* Returns when the peer asked before, if it has not heard the answer to that; else 0. */
static uint64_t flow_question(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const uint64_t now = conn->engine->clock.now;
    const uint64_t before = conn->flow.question_at;
    const bool heard = before != 0 && (view->flags & BTL_IB_FLAG_ECHO)
                       && btl_ib_clock_stamped_at(&conn->engine->clock, view->echo) >= before;

    if (before != 0 && now - before < QUESTION_GAP + btl_ib_rtt_smoothed(&conn->loss.rtt, 0)) {
        return 0;
    }
    conn->flow.question_at = now;
    if (heard) {
        btl_ib_flow_answered(&conn->flow);
    }
    return heard ? 0 : before;
}

void btl_ib_flow_asked(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const uint64_t before = flow_question(conn, view);

    if (before != 0) {
        flow_next(conn, before);
    }
}

/* Takes the spare flow at once: if both sides went through all their flows in turn, a pair that
 * works in both directions might never be in use at one time. */
void btl_ib_flow_came_by_spare(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const bool asks =
        view->flags & BTL_IB_FLAG_ACK_NOW
        && (view->type == BTL_IB_TYPE_ACK || view->flags & BTL_IB_FLAG_RETRANSMISSION);
    const uint64_t before = asks ? flow_question(conn, view) : 0;
    const uint32_t spare = flow_spare(conn);

    if (before != 0) {
        const bool first = spare != 0 && !flow_is_spare(conn, conn->flow.now);
        flow_try(conn, first ? spare : conn->flow.now + 1u, before);
    }
}

bool btl_ib_flow_unanswered(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    /* An encrypted datagram is not opened yet: what it echoes is not known. */
    const bool answers = !conn->engine->protection.ops->keyed && (view->flags & BTL_IB_FLAG_ECHO)
                         && btl_ib_seq_before(conn->loss.sample_echo, view->echo);

    return conn->flow.rounds > 0 && !answers;
}

/* ---- one lane of two ---- */

/* True if bulk goes by a lane of its own, and nothing is known against either lane. */
static bool flow_has_lanes(const btl_ib_conn_t *conn)
{
    return conn->flow.now == 0 && conn->transmit.bulk_lane
           && conn->route.via->transport->attr.flows > BTL_IB_FLOW_LATENCY;
}

/* Sends everything by one lane, as what goes by the other, flow `left`, gets lost. */
static void flow_take_lane(btl_ib_conn_t *conn, uint32_t lane, uint32_t left)
{
    flow_take(conn, lane);
    conn->flow.left = (uint8_t) left;
    conn->flow.doubt = 0;
    conn->engine->count.flows_tried++;
}

void btl_ib_flow_leave_for(btl_ib_conn_t *conn, uint8_t to)
{
    flow_take_lane(conn, to, BTL_IB_FLOW_USUAL);
}

void btl_ib_flow_lost(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    if (segment->copies >= COPIES_LOST && !btl_ib_segment_is_bulk(segment)
        && flow_has_lanes(conn)) {
        flow_take_lane(conn, BTL_IB_FLOW_BULK, 0);
    }
}

/* Returns since when bulk in flight waits for its acknowledgement: the time it was sent, or that
 * other bulk was acknowledged last; UINT64_MAX: none is in flight. Copies that ask for one do not
 * count. */
static uint64_t flow_bulk_awaited_since(const btl_ib_conn_t *conn)
{
    const btl_ib_segment_t *oldest =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_BULK], link);

    if (oldest == NULL) {
        return UINT64_MAX;
    }
    const uint64_t sent_at =
        oldest->probe ? btl_ib_clock_stamped_at(&conn->engine->clock, oldest->unprobed_stamp)
                      : oldest->last_sent;
    return btl_ib_max_u64(sent_at, conn->loss.rack[BTL_IB_RACK_BULK].at);
}

bool btl_ib_flow_misses_bulk(btl_ib_conn_t *conn)
{
    btl_ib_flow_t *flow = &conn->flow;
    const btl_ib_clock_t *clock = &conn->engine->clock;

    if (!conn->route.via->transport->attr.bulk_lane) {
        return false;
    }
    const uint64_t since = flow_bulk_awaited_since(conn);
    const uint64_t late =
        btl_ib_max_u32(BULK_LATE, 2 * btl_ib_path_timeout(conn, 0) + conn->identity.peer_ack_delay);
    if (since == UINT64_MAX || clock->now < since + late) {
        flow->bulk_asked = 0;
        return false;
    }
    /* Probes ask without end, and find out whether the peer is dead; these questions must end. */
    if (flow->bulk_asked == BULK_ASKS_MOST) {
        return false;
    }
    const uint32_t waits =
        flow->bulk_asked <= BULK_ASKS ? flow->bulk_asked + 1u : 1u << flow->bulk_asked;
    const uint64_t due = since + late * waits;
    const uint64_t answered_from = due - late / 2;
    /* The stamp of the newest answer wraps, so the answer must have come since, too. */
    if (clock->now < due || conn->loss.sample_at < answered_from
        || btl_ib_clock_stamped_at(clock, conn->loss.sample_echo) < answered_from) {
        return false;
    }
    flow->bulk_asked++;
    if (flow->bulk_asked > BULK_ASKS && flow_has_lanes(conn)) {
        flow_take_lane(conn, BTL_IB_FLOW_LATENCY, BTL_IB_FLOW_BULK);
    }
    return true;
}

/* ---- checks of the flow that was left ---- */

bool btl_ib_flow_is_check(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    const btl_ib_flow_t *flow = &conn->flow;

    return flow->checking && segment->channel == flow->check_channel
           && segment->seq == flow->check_seq;
}

void btl_ib_flow_check_left(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    conn->flow.to_check = false;
    conn->flow.checking = true;
    conn->flow.check_channel = segment->channel;
    conn->flow.check_seq = segment->seq;
}

/* Returns when the check that is out was sent; UINT64_MAX: it is acknowledged. */
static uint64_t flow_checked_at(const btl_ib_conn_t *conn)
{
    const btl_ib_segment_t *check = btl_ib_tx_window_at(
        &conn->tx[conn->flow.check_channel].sentmap.window, conn->flow.check_seq);

    return check != NULL ? check->last_sent : UINT64_MAX;
}

bool btl_ib_conn_flow_text(const btl_ib_conn_t *conn, bool usual, char *out, size_t len)
{
    const btl_ib_transport_t *transport = conn->route.via->transport;

    return transport->ops->flow_text != NULL && conn->route.to != BTL_IB_ADDR_UNKNOWN
           && transport->ops->flow_text(transport, conn->route.to,
                                        usual ? conn->flow.left : conn->flow.now, out, len);
}

/* Tells that the usual flow was left; later if the thread that makes this turn cannot. */
static void flow_tell(btl_ib_conn_t *conn)
{
    char usual[128] = "the usual ports";
    char now[128] = "other ports";

    if (!conn->flow.unreported || conn->engine->turn.async) {
        return;
    }
    conn->flow.unreported = false;
    conn->flow.spare_told |= flow_is_spare(conn, conn->flow.now);
    (void) btl_ib_conn_flow_text(conn, true, usual, sizeof(usual));
    (void) btl_ib_conn_flow_text(conn, false, now, sizeof(now));
    BTL_IB_LOG(conn->engine, 1,
               "peer %u.%u: %s: nothing is answered that goes from %s; what goes from %s is, so "
               "that is used. A stale entry of a firewall or NAT, a policer, one link of several?",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->route.via->transport->name, usual, now);
}

/* Counts a check that was lost, which after a few in a row ends the trial. */
static void flow_check_lost(btl_ib_conn_t *conn)
{
    btl_ib_flow_t *flow = &conn->flow;

    flow->checking = false;
    flow->lost = (uint8_t) btl_ib_min_u32(flow->lost + 1u, UINT8_MAX);
    if (flow->lost < CHECKS) {
        return;
    }
    const uint32_t doublings = btl_ib_min_u32(flow->lost - CHECKS, DOUBLINGS_MAX);
    flow->on_trial = false;
    flow->usual_at = conn->engine->clock.now + ((uint64_t) RETRY_AFTER << doublings);
    if (flow->lost == CHECKS) {
        conn->engine->count.flows_left++;
        flow->unreported = true;
    }
    flow_tell(conn);
}

void btl_ib_flow_heard(btl_ib_conn_t *conn, uint32_t echo)
{
    btl_ib_flow_t *flow = &conn->flow;
    const uint64_t sent_at = btl_ib_clock_stamped_at(&conn->engine->clock, echo);

    if (sent_at + flow->doubt < flow->since) { /* no answer */
        return;
    }
    if (sent_at < flow->since) { /* late, but by an earlier flow */
        flow_take(conn, 0);
        return;
    }
    flow->worked = flow->now;
    btl_ib_flow_answered(flow);
    if (!flow->answered) {
        flow->answered = true;
        /* The usual one was left for another before, which is no use now either. */
        flow->unreported |=
            flow->lost >= CHECKS && flow_is_spare(conn, flow->now) && !flow->spare_told;
        flow->usual_at = conn->engine->clock.now + RETRY_AFTER;
    }
    /* What was sent a timeout later was answered, so the check should have been acknowledged. */
    const uint64_t late = conn->identity.peer_ack_delay
                          + btl_ib_rtt_timeout(&conn->loss.rtt, conn->engine->config.rto_initial);
    if (flow->checking && sent_at > late && sent_at - late >= flow_checked_at(conn)) {
        flow_check_lost(conn);
    }
    if (flow->on_trial && !flow->checking) {
        flow->to_check = true;
        btl_ib_conn_ready(conn);
    }
}

void btl_ib_flow_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    if (!btl_ib_flow_is_check(conn, segment)) {
        return;
    }
    if (conn->flow.lost >= CHECKS) {
        btl_ib_paths_usual_found(conn);
    }
    conn->flow.lost = 0;
    flow_take(conn, 0);
}

void btl_ib_flow_retransmitting(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    if (!btl_ib_flow_is_check(conn, segment)) {
        return;
    }
    if (btl_ib_segment_got_rnr(segment)) {
        btl_ib_flow_arrived(conn, segment);
    } else {
        flow_check_lost(conn);
    }
}

void btl_ib_flow_expire(btl_ib_conn_t *conn)
{
    btl_ib_flow_t *flow = &conn->flow;

    if (flow->now == 0 || flow->lent) {
        return;
    }
    flow_tell(conn);
    if (conn->engine->clock.now < flow->usual_at) {
        return;
    }
    if (flow->answered) {
        flow->on_trial = true; /* the next echo sends a check */
        flow->usual_at = conn->engine->clock.now + RETRY_AFTER;
    } else {
        flow_take(conn, 0);
    }
}
