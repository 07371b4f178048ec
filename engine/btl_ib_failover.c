/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_failover.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_conn.h"
#include "btl_ib_flow.h"
#include "btl_ib_state.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_packet.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_route.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_trace.h"
#include "btl_ib_validation.h"

#include <errno.h>
#include <stdio.h>

enum {
    DECIDED = 1000000,    /* us: two processes that chose different routes at the same time agree
                         * within that time */
    ASK_EACH = 5,         /* the peer is asked over other rails at every fifth probe, */
    ASK_AFTER = 250000,   /* us of silence until it is asked although they were fewer */
    ASK_SOON = 2,         /* on a route that was never validated after so many, and then at each */
    STUCK_PROBES = 40,    /* probes, answered or not, that brought no progress */
    TRY_AFTER = 250000,   /* us of silence until pairs of rails are tried that stand by: the delay
                         * between attempts of RFC 8305, 5 */
    KEEP_OFF_PROBES = 10, /* without progress: then also rails are good that were left as slow */
};

void btl_ib_failover_validated(btl_ib_conn_t *conn)
{
    btl_ib_trace(conn, BTL_IB_TRACE_validated, BTL_IB_CAUSE_none, NULL, 1);
    btl_ib_loss_unblocked(&conn->loss);
    btl_ib_conn_ready(conn);
    /* The peer is there: probe its pairs of rails that are not validated soon. */
    for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (other != conn && !other->validation.valid) {
            btl_ib_loss_restart_pto(&other->loss);
            btl_ib_loss_set_timer(other);
        }
    }
}

void btl_ib_failover_send_connect(const btl_ib_conn_t *conn)
{
    btl_ib_conn_t *carries = btl_ib_route_is_own(conn) ? NULL : btl_ib_route_carrier(conn);

    if (carries != NULL && !carries->identity.bound && btl_ib_route_is_own(carries)) {
        btl_ib_ack_send(carries, BTL_IB_FLAG_ACK_NOW);
    }
}

enum { ROUTE_TEXT = 256 };

/* Writes a rail and both addresses that `carries` joins, for people; of NULL the rail alone. */
static void describe_route(const btl_ib_transport_t *t, const btl_ib_conn_t *carries,
                           char out[ROUTE_TEXT])
{
    char own[64];
    char peer[64];

    if (carries == NULL || t->ops->address_text == NULL
        || !t->ops->address_text(t->address, t->address_len, own, sizeof(own))
        || !btl_ib_conn_address_text(carries, peer, sizeof(peer))) {
        snprintf(out, ROUTE_TEXT, "%s", t->name);
    } else {
        snprintf(out, ROUTE_TEXT, "%s (%s to %s)", t->name, own, peer);
    }
}

/* Uses the two rails of a connection with the same process: its own, or those that `other` joins.
 * Segments that are too large for them are refragmented. All in flight is sent again: it may be
 * lost, and the peer recognises what is not. */
static bool take_route(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    char before[ROUTE_TEXT];
    char now[ROUTE_TEXT];
    btl_ib_conn_t *left = btl_ib_route_carrier(conn);
    const uint8_t flow = btl_ib_flow_for_next(conn);

    describe_route(conn->route.via->transport, btl_ib_route_is_own(conn) ? conn : left, before);
    if (!btl_ib_route_take(conn, other)) {
        return false;
    }
    if (left != NULL) {
        left->validation.flow = flow;
    }
    describe_route(conn->route.via->transport, other, now);
    BTL_IB_LOG(conn->engine, 1, "peer %u.%u: what went by %s goes on by %s",
               BTL_IB_NAME_ARGS(conn->identity.name), before, now);
    conn->engine->count.failovers++;
    btl_ib_trace(conn, BTL_IB_TRACE_moved, BTL_IB_CAUSE_none, NULL, 1);
    btl_ib_pmtud_moved(conn, other);
    conn->validation.route_refused = 0;
    conn->validation.questions = 0;
    btl_ib_validation_sent(&conn->validation); /* what was refused was for another rail */
    btl_ib_loss_moved(&conn->loss, conn->engine->clock.now);
    btl_ib_conn_begin_route(conn);
    btl_ib_flow_begin_by(conn, other->validation.flow);
    btl_ib_sentmap_lose_all(conn);
    btl_ib_conn_ready(conn);
    btl_ib_loss_set_timer(conn);
    return true;
}

/* True if a connection goes over the two rails of `other`. */
static bool goes_by(const btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    return other->rail == conn->route.via && other->route.address == conn->route.to;
}

enum { SCORE_REFUSED, SCORE_DOUBTFUL, SCORE_VALID, SCORE_BEST };

/* Returns how good the rails of a connection are as a route to its process: validated and in use;
 * validated; not validated, or slow; refused. A rail that no connection uses any more was left for
 * a reason. */
static int route_score(const btl_ib_conn_t *conn)
{
    if (btl_ib_validation_refuses(conn)) {
        return SCORE_REFUSED;
    }
    return !conn->validation.valid || btl_ib_conn_is_slow(conn) ? SCORE_DOUBTFUL
           : btl_ib_route_is_own(conn)                          ? SCORE_BEST
                                                                : SCORE_VALID;
}

/* Lets the peer answer by the new route. */
static void tell_peer(btl_ib_conn_t *conn)
{
    if (conn->identity.bound || conn->identity.contacted) {
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
}

bool btl_ib_failover_to(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    if (!take_route(conn, other)) {
        return false;
    }
    btl_ib_failover_send_connect(conn);
    tell_peer(conn);
    return true;
}

/* Chooses another route for a connection, and takes it: the one of the highest score, `least` or
 * more. SCORE_REFUSED is for a device that failed or a port that is down: nothing goes by it at
 * all. Among equals the next rail comes first, so that the connections of a failed rail spread over
 * the others. False: there is none. */
static bool choose_route(btl_ib_conn_t *conn, int least)
{
    const btl_ib_engine_t *engine = conn->engine;
    const uint32_t present = conn->route.via->index;

    for (int score = SCORE_BEST; score >= least; score--) {
        for (uint32_t i = 1; i <= engine->rail_count; i++) {
            const uint32_t next = (present + i) % engine->rail_count;
            btl_ib_conn_t *other = NULL;
            while ((other = btl_ib_route_next(conn, other)) != NULL) {
                if (other->rail->index == next && !goes_by(conn, other)
                    && route_score(other) == score && btl_ib_failover_to(conn, other)) {
                    return true;
                }
            }
        }
    }
    return false;
}

bool btl_ib_failover(btl_ib_conn_t *conn)
{
    return choose_route(conn, SCORE_REFUSED);
}

/* True if a connection keeps off its own rails, because they are slow. Not if nothing was
 * acknowledged for long: its own rail may be the only one that answers. */
static bool keeps_off(const btl_ib_conn_t *conn)
{
    return btl_ib_conn_is_slow(conn) && conn->loss.probes < KEEP_OFF_PROBES
           && btl_ib_rail_usable(conn->route.via);
}

void btl_ib_failover_made(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    const btl_ib_conn_t *other = btl_ib_route_by_rail(rail, conn->identity.name, from);

    if (!btl_ib_rail_usable(conn->rail) && rail != conn->rail && other != NULL) {
        (void) take_route(conn, other);
    }
}

/* Lets the user make connections over other pairs of rails that may lead to a peer that does not
 * answer, or is refused: once, unless this is progress by the thread. */
static void failover_try(btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    if (!engine->turn.async && engine->ops->alternatives != NULL && !conn->draining
        && !conn->validation.tried) {
        conn->validation.tried = true;
        engine->ops->alternatives(engine->ops_context, conn);
    }
}

/* Leaves the present route, which is refused, for another that is not. Returns false if there is
 * none. */
static bool failover_leave_refused(btl_ib_conn_t *conn)
{
    btl_ib_conn_t *carries = btl_ib_route_carrier(conn);

    failover_try(conn);
    if (carries != NULL) {
        carries->validation.refused_at = carries->engine->clock.now;
    }
    if (!choose_route(conn, SCORE_DOUBTFUL)) {
        return false;
    }
    btl_ib_loss_refusals_over(&conn->loss);
    return true;
}

void btl_ib_failover_follow(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from,
                            uint32_t stamp)
{
    const btl_ib_engine_t *engine = conn->engine;
    bool late = conn->ack.echo_valid && !btl_ib_seq_before(conn->ack.echo, stamp)
                && engine->clock.now - conn->ack.echo_at <= BTL_IB_STAMP_AGE;
    bool ours = engine->config.name < conn->identity.name && conn->route.moved_at != 0
                && btl_ib_rail_usable(conn->route.via)
                && engine->clock.now - conn->route.moved_at < DECIDED;

    if (!btl_ib_rail_usable(rail) || late || ours) {
        return;
    }
    const bool own = btl_ib_route_owns(conn, rail, from);
    if (own && keeps_off(conn)) { /* the peer does not know, and asks by them now and then */
        return;
    }
    /* What we send over that rail may be refused although the peer's datagrams come by it. */
    const btl_ib_conn_t *pair = own ? conn : btl_ib_route_by_rail(rail, conn->identity.name, from);
    if (pair != NULL && !goes_by(conn, pair) && !btl_ib_validation_refuses(pair)) {
        take_route(conn, pair);
    }
}

/* Sends one datagram that asks, by a flow that `turn` names (btl_ib_flow_in_turn()). */
static void ask_by_flow(btl_ib_conn_t *conn, uint32_t turn)
{
    const uint8_t now = btl_ib_flow_lend(&conn->flow, btl_ib_flow_in_turn(conn, turn));

    btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    btl_ib_flow_give_back(&conn->flow, now);
}

/* Sends one datagram by the connection's own route, which asks. If the peer gets it, it follows,
 * and so do we when it answers. */
static void ask_by_own(btl_ib_conn_t *conn, uint32_t turn)
{
    const btl_ib_route_t before = conn->route;

    btl_ib_route_by_own(conn);
    btl_ib_validation_asked(&conn->validation, conn->engine->clock.now);
    ask_by_flow(conn, turn);
    btl_ib_route_restore(conn, &before);
}

void btl_ib_failover_probe_own(btl_ib_conn_t *conn)
{
    btl_ib_route_retry(conn);
    if (btl_ib_route_is_own(conn) || !btl_ib_route_has_own(conn) || keeps_off(conn)) {
        return;
    }
    ask_by_own(conn, 0);
}

/* Asks the same process for a sign of life over all other rails, by another flow each time: the
 * usual one may be dead there. `asked`: probes without an answer. */
static void failover_ask(btl_ib_conn_t *conn, uint32_t asked)
{
    const uint32_t turn =
        asked < BTL_IB_ASK_PROBES ? asked - ASK_SOON : (asked - BTL_IB_ASK_PROBES) / ASK_EACH;

    for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (goes_by(conn, other)) {
            continue;
        }
        if (btl_ib_route_is_own(other)) {
            ask_by_flow(other, turn);
        } else if (btl_ib_route_has_own(other)) {
            ask_by_own(other, turn);
        }
    }
}

/* Goes by another connection that heard the peer's process after `since` (engine->clock.awake). */
static bool failover_if_heard(btl_ib_conn_t *conn, uint64_t since)
{
    for (const btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (!goes_by(conn, other) && btl_ib_route_is_own(other) && other->loss.heard_at > since
            && !btl_ib_validation_refuses(other) && take_route(conn, other)) {
            tell_peer(conn);
            return true;
        }
    }
    return false;
}

/* True if the connection whose route `conn` uses is validated. */
static bool route_is_valid(const btl_ib_conn_t *conn)
{
    const btl_ib_conn_t *carries = btl_ib_route_carrier(conn);

    return carries != NULL && carries->validation.valid;
}

bool btl_ib_failover_on_silence(btl_ib_conn_t *conn)
{
    btl_ib_route_retry(conn);
    if (!btl_ib_rail_usable(conn->route.via) || !btl_ib_route_leads(conn)) {
        /* made when its rail could not be used already, or before there was another */
        return conn->identity.name != conn->engine->config.name && btl_ib_failover(conn);
    }
    const bool stuck = conn->loss.probes >= STUCK_PROBES && conn->sentmap.deferred_count == 0;
    const uint32_t asked = stuck ? conn->loss.probes : conn->loss.unanswered_probes;
    const uint64_t since = conn->loss.silent_since;
    const uint64_t silence = conn->engine->clock.awake - since;

    const bool put_off = !btl_ib_list_empty(&conn->loss.in_line);

    if ((conn->loss.unanswered_probes >= ASK_SOON || put_off) && silence >= TRY_AFTER) {
        failover_try(conn);
    }
    if (!route_is_valid(conn)) {
        /* A process that is not there yet answers over no rail, one that is by those that lead
         * there. */
        const bool closed = !btl_ib_route_is_own(conn) || conn->validation.questions > ASK_SOON;
        if (asked >= ASK_SOON) {
            failover_ask(conn, asked);
        }
        return asked > ASK_SOON && closed && failover_if_heard(conn, since);
    }
    /* Few probes take long where round trips do, or the peer pauses. Then what was heard while the
     * first of them were under way is no sign: the peer may have begun to compute since. */
    const bool slow = conn->loss.unanswered_probes >= BTL_IB_SILENT_PROBES && silence >= ASK_AFTER;
    if (asked >= BTL_IB_ASK_PROBES ? asked % ASK_EACH == 0 : slow) {
        failover_ask(conn, asked);
    }
    return (asked > BTL_IB_ASK_PROBES && failover_if_heard(conn, since))
           || (slow && failover_if_heard(conn, since + ASK_AFTER));
}

/* True if the present path leads to an address that a router has, or had, for the peer. */
static bool is_by_router(const btl_ib_conn_t *conn)
{
    const btl_ib_conn_t *carries = btl_ib_route_carrier(conn);

    return carries != NULL && carries->route.inside != NULL;
}

bool btl_ib_failover_on_refusal(btl_ib_conn_t *conn)
{
    conn->validation.net_error = ECONNREFUSED;
    conn->validation.net_error_at = btl_ib_clock_awake(&conn->engine->clock);
    if (conn->draining) {
        btl_ib_conn_reset(conn);
        return true;
    }
    /* The router itself refuses if it forgot the peer while that sent nothing. Probes go on: what
     * the peer sends opens the way again. */
    if (is_by_router(conn)) {
        return true;
    }
    const bool leaves = btl_ib_validation_refused_again(conn);
    const bool dead = btl_ib_loss_refused(&conn->loss, conn->engine->clock.now);
    if (!leaves && route_is_valid(conn)) {
        return true;
    }
    if (failover_leave_refused(conn) || !dead || conn->engine->turn.async) {
        return true;
    }
    /* A process of another job that has nothing to wait for may leave when it likes: that is no
     * death. It may also be there still and have something for us, so its connection stays. */
    if (conn->identity.name >> 32 != conn->engine->config.name >> 32
        && btl_ib_conn_is_quiet(conn)) {
        return true;
    }
    btl_ib_conn_kill(conn, BTL_IB_DEATH_REFUSED);
    return false;
}
