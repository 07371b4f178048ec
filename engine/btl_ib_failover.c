/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_failover.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_conn.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_rma_initiator.h"
#include "btl_ib_packet.h"
#include "btl_ib_path.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_engine_internal.h"
#include "btl_ib_trace.h"
#include "btl_ib_transmit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- failover ---- */

/*
 * A connection goes on by another rail when its own fails. Its id, tokens, windows, credits and
 * queues remain those of the two rails that it joins. Only the route of its datagrams changes, to
 * the two rails of another connection with the same process. No message is needed for that: a
 * process that gets a valid datagram of a connection by another route than before answers by that
 * route.
 */

enum {
    DECIDED = 1000000,    /* us: two processes that chose different routes at the same time agree
                         * within that time */
    ASK_EACH = 5,         /* the peer is asked by other rails at every fifth probe, */
    ASK_AFTER = 250000,   /* us of silence until it is asked although they were fewer */
    ASK_SOON = 2,         /* on a route that was never validated after so many, and then at each */
    STUCK_PROBES = 40,    /* probes, answered or not, that brought no progress */
    TRY_AFTER = 250000,   /* us of silence until pairs of rails are tried that stand by: the delay
                         * between attempts of RFC 8305, 5 */
    KEEP_OFF_PROBES = 10, /* unanswered: then also rails are good that were left for being slow */
};

void btl_ib_failover_validated(btl_ib_conn_t *conn)
{
    btl_ib_trace_conn(conn, BTL_IB_TRACE_validated, BTL_IB_CAUSE_none, 1);
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

/* Use the two rails of a connection with the same process: its own, or those that `other` joins.
 * Segments that are too large for them are refragmented. All in flight is sent again: it may be
 * lost, and the peer recognises what is not. */
static bool go_by(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    char before[ROUTE_TEXT];
    char now[ROUTE_TEXT];

    describe_route(conn->route.via->transport,
                   btl_ib_route_is_own(conn) ? conn : btl_ib_route_carrier(conn), before);
    if (!btl_ib_route_take(conn, other)) {
        return false;
    }
    describe_route(conn->route.via->transport, other, now);
    BTL_IB_LOG(conn->engine, 1, "peer %u.%u: what went by %s goes on by %s",
               BTL_IB_NAME_ARGS(conn->identity.name), before, now);
    conn->engine->count.failovers++;
    btl_ib_trace_conn(conn, BTL_IB_TRACE_moved, BTL_IB_CAUSE_none, 1);
    btl_ib_pmtud_moved(conn, other);
    btl_ib_validation_moved(&conn->validation);
    btl_ib_loss_moved(&conn->loss, conn->engine->clock.now);
    btl_ib_conn_begin_route(conn);
    btl_ib_sentmap_lose_all(conn);
    btl_ib_conn_ready(conn);
    btl_ib_loss_set_timer(conn);
    return true;
}

/* Does the connection go by the two rails of `other`? */
static bool goes_by(const btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    return other->rail == conn->route.via && other->route.address == conn->route.to;
}

/* How good the rails of a connection are as a route to its process. 3: validated and in use; 2:
 * validated; 1: not validated, or slow; 0: refused. A rail that no connection uses any more was
 * left for a reason. */
static int worth(const btl_ib_conn_t *conn)
{
    if (btl_ib_validation_refuses(conn)) {
        return 0;
    }
    return !conn->validation.valid || btl_ib_conn_is_slow(conn) ? 1
           : btl_ib_route_is_own(conn)                          ? 3
                                                                : 2;
}

/* Let the peer answer by the new route. */
static void tell(btl_ib_conn_t *conn)
{
    if (conn->identity.bound || conn->identity.contacted) {
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
}

/* Go by the two rails of a connection with the same process, and tell the peer. False if that is
 * impossible. Runs no callback. */
static bool move_to(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    if (!go_by(conn, other)) {
        return false;
    }
    btl_ib_failover_send_connect(conn);
    tell(conn);
    return true;
}

/* Take a route of that worth, if there is any but the present one. */
static bool move_by_worth(btl_ib_conn_t *conn, int wanted)
{
    const btl_ib_engine_t *engine = conn->engine;
    const uint32_t present = conn->route.via->index;

    for (uint32_t i = 1; i <= engine->rail_count; i++) {
        const uint32_t next = (present + i) % engine->rail_count;
        for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
            if (other->rail->index == next && !goes_by(conn, other) && worth(other) == wanted
                && move_to(conn, other)) {
                return true;
            }
        }
    }
    return false;
}

/* Take the best route worth `least` or more. 0 is for a device that failed or a port that is down:
 * nothing goes by it at all. Among equals the next rail comes first, so that the connections of a
 * failed rail spread over the others. */
static bool take_best_route(btl_ib_conn_t *conn, int least)
{
    for (int wanted = 3; wanted >= least; wanted--) {
        if (move_by_worth(conn, wanted)) {
            return true;
        }
    }
    return false;
}

bool btl_ib_failover(btl_ib_conn_t *conn)
{
    return take_best_route(conn, 0);
}

/* Does it keep off its own rails, because they are slow? Not if the others do not answer. */
static bool keeps_off(const btl_ib_conn_t *conn)
{
    return btl_ib_conn_is_slow(conn) && conn->loss.unanswered_probes < KEEP_OFF_PROBES
           && btl_ib_rail_usable(conn->route.via);
}

void btl_ib_failover_made(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    const btl_ib_conn_t *other = btl_ib_route_by_rail(rail, conn->identity.name, from);

    if (!btl_ib_rail_usable(conn->rail) && rail != conn->rail && other != NULL) {
        (void) go_by(conn, other);
    }
}

/* The peer does not answer, or is refused: let the user make connections by other pairs of rails
 * that may lead to it, once, unless this is progress by the thread. */
static void failover_try(btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    if (!engine->turn.async && engine->ops->alternatives != NULL && !conn->draining
        && btl_ib_validation_set_tried(&conn->validation)) {
        engine->ops->alternatives(engine->ops_context, conn);
    }
}

/* The present route is refused: take another that is not. False if there is none. */
static bool failover_refused(btl_ib_conn_t *conn)
{
    btl_ib_conn_t *carries = btl_ib_route_carrier(conn);

    failover_try(conn);
    if (carries != NULL) {
        btl_ib_validation_refused(&carries->validation, carries->engine->clock.now);
    }
    if (!take_best_route(conn, 1)) {
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
    /* What we send by that rail may be refused although the peer's datagrams come by it. */
    const btl_ib_conn_t *pair = own ? conn : btl_ib_route_by_rail(rail, conn->identity.name, from);
    if (pair != NULL && !goes_by(conn, pair) && !btl_ib_validation_refuses(pair)) {
        go_by(conn, pair);
    }
}

/* Only this datagram takes the connection's own route. If the peer gets it, it follows, and so do
 * we when it answers. */
static void ask_by_own(btl_ib_conn_t *conn)
{
    const btl_ib_route_t before = conn->route;

    btl_ib_route_by_own(conn);
    btl_ib_validation_asked(&conn->validation, conn->engine->clock.now);
    btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    btl_ib_route_restore(conn, &before);
}

void btl_ib_failover_home(btl_ib_conn_t *conn)
{
    btl_ib_route_retry(conn);
    if (btl_ib_route_is_own(conn) || !btl_ib_route_has_own(conn) || keeps_off(conn)) {
        return;
    }
    ask_by_own(conn);
}

/* Ask the same process for a sign of life by all other rails. */
static void failover_ask(btl_ib_conn_t *conn)
{
    for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (goes_by(conn, other)) {
            continue;
        }
        if (btl_ib_route_is_own(other)) {
            btl_ib_ack_send(other, BTL_IB_FLAG_ACK_NOW);
        } else if (btl_ib_route_has_own(other)) {
            ask_by_own(other);
        }
    }
}

/* The same, if another connection heard the peer's process after `since` (engine->clock.awake). */
static bool failover_if_heard(btl_ib_conn_t *conn, uint64_t since)
{
    for (const btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (!goes_by(conn, other) && btl_ib_route_is_own(other) && other->loss.heard_at > since
            && !btl_ib_validation_refuses(other) && go_by(conn, other)) {
            tell(conn);
            return true;
        }
    }
    return false;
}

/* Is the connection whose route it uses validated? */
static bool is_by_valid(const btl_ib_conn_t *conn)
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
    if (!is_by_valid(conn)) {
        /* A process that is not there yet answers by no rail, one that is by those that lead
         * there. */
        const bool closed = !btl_ib_route_is_own(conn) || conn->validation.questions > ASK_SOON;
        if (asked >= ASK_SOON) {
            failover_ask(conn);
        }
        return asked > ASK_SOON && closed && failover_if_heard(conn, since);
    }
    /* Few probes take long where round trips do, or the peer pauses. Then what was heard while the
     * first of them were under way is no sign: the peer may have begun to compute since. */
    const bool slow = conn->loss.unanswered_probes >= BTL_IB_SILENT_PROBES && silence >= ASK_AFTER;
    if (asked >= BTL_IB_ASK_PROBES ? asked % ASK_EACH == 0 : slow) {
        failover_ask(conn);
    }
    return (asked > BTL_IB_ASK_PROBES && failover_if_heard(conn, since))
           || (slow && failover_if_heard(conn, since + ASK_AFTER));
}

/* ---- rail ---- */

/*
 * What transports say of peers and of themselves, besides datagrams.
 *
 * A device that failed is gone until the user puts another transport in its place. A port that is
 * down may come up again: its connections go on by other rails or, where there is none, wait, as
 * behind a network that loses everything. When it is up they go back. A port that stays down for
 * `down_limit`, or lacks more than its link, counts as failed: nothing waits for it any more. But
 * its transport is still asked, and when it is back it is used again as after any other time down.
 */

enum {
    REBIND_TIME = 2000000,      /* us: in which all processes of a host have bound anew */
    LOOK_EACH = 250 * 1000,     /* us between two questions whether its address changed */
    ASK_FIRST = 50 * 1000,      /* us between the first two times that peers are asked, */
    ASK_MAX = 16 * 1000 * 1000, /* and the last two */
    ASKS = 16,                  /* two minutes */
};

/* The next connection after `after` that is open and goes by a rail. After one was killed the
 * search must begin from the start: the callback may have changed everything. */
static btl_ib_conn_t *living(const btl_ib_rail_t *rail, btl_ib_list_t *after)
{
    const btl_ib_list_t *conns = &rail->engine->conns;

    for (btl_ib_list_t *item = after != NULL ? btl_ib_list_next(conns, after)
                                             : btl_ib_list_first(conns);
         item != NULL; item = btl_ib_list_next(conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        if (conn->route.via == rail && btl_ib_conn_alive(conn)) {
            return conn;
        }
    }
    return NULL;
}

/* The same of those that go to that address. One that is about to take another route loses its
 * place among them. */
static btl_ib_conn_t *living_to(const btl_ib_rail_t *rail, btl_ib_addr_t to,
                                const btl_ib_conn_t *after)
{
    btl_ib_conn_t *conn = btl_ib_route_to(rail, to, after);

    while (conn != NULL && !btl_ib_conn_alive(conn)) {
        conn = btl_ib_route_to(rail, to, conn);
    }
    return conn;
}

/* The same of those that an event is about: all, if it does not know the address. */
static btl_ib_conn_t *concerned(const btl_ib_rail_t *rail, btl_ib_addr_t from, btl_ib_conn_t *after)
{
    return from != BTL_IB_ADDR_UNKNOWN ? living_to(rail, from, after)
                                       : living(rail, after != NULL ? &after->all : NULL);
}

/*
 * The route of a connection is refused. It takes another route if there is one: at once if this one
 * was never validated, else when refusals are believed. Only a peer that is refused by all routes
 * is dead. Returns false if it is: the callback may have changed everything.
 */
static bool refused_one(btl_ib_conn_t *conn)
{
    btl_ib_validation_unreachable(&conn->validation, ECONNREFUSED,
                                  btl_ib_clock_awake(&conn->engine->clock));
    if (conn->draining) {
        btl_ib_conn_reset(conn);
        return true;
    }
    const bool leaves = btl_ib_validation_refused_again(conn);
    const bool dead = btl_ib_loss_refused(&conn->loss, conn->engine->clock.now);
    if (!leaves && is_by_valid(conn)) {
        return true;
    }
    if (failover_refused(conn) || !dead || conn->engine->turn.async) {
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

/* Connections that left this route because of refusals, and have probed it again. */
static void refused_still(const btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    btl_ib_conn_t *conn = NULL;

    while ((conn = btl_ib_route_of(rail, from, conn)) != NULL) {
        if (!btl_ib_route_is_own(conn) && conn->validation.refused_at != 0) {
            btl_ib_validation_refused(&conn->validation, conn->engine->clock.now);
        }
    }
}

/* The host at `from` says that nobody is there. That is not believed for a while after the own
 * address changed: the host may be this one, whose other processes bind anew at their own time. */
static void refused(btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    const uint64_t changed_at = rail->moves.changed_at;

    if (from == BTL_IB_ADDR_UNKNOWN
        || (changed_at != 0 && rail->engine->clock.awake - changed_at < REBIND_TIME)) {
        return;
    }
    refused_still(rail, from);
    btl_ib_conn_t *conn = living_to(rail, from, NULL);
    while (conn != NULL) {
        btl_ib_conn_t *next = living_to(rail, from, conn);
        conn = refused_one(conn) ? next : living_to(rail, from, NULL);
    }
}

static bool list_has_atomics(const btl_ib_list_t *ops)
{
    BTL_IB_LIST_FOREACH (const btl_ib_op_t, op, ops, out.link) {
        if (op->kind == BTL_IB_OP_ATOMIC) {
            return true;
        }
    }
    return false;
}

/* Atomics that the device executes, or is to execute: nothing else can. */
static bool has_atomics(const btl_ib_conn_t *conn)
{
    return list_has_atomics(&conn->offload.running) || list_has_atomics(&conn->offload.waiting);
}

/* Give up the one-sided operations of the device, of whatever connection. If the device may come
 * back (`down`) only those of connections that go by other rails, and not if there are atomics
 * among them: they would fail, because it would be unknown whether they were executed. */
static void withdraw_operations(const btl_ib_rail_t *rail, bool down)
{
    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &rail->engine->conns, all) {
        if (conn->rail == rail && btl_ib_conn_alive(conn)
            && (!down || (conn->route.via != rail && !has_atomics(conn)))) {
            btl_ib_offload_device_failed(conn, rail->health.error);
        }
    }
}

/* The device cannot be used: move its connections to others. Returns how many moved, in *left how
 * many cannot. Connections with the own process are bound to this device and lead to no peer. */
static uint32_t evacuate(const btl_ib_rail_t *rail, uint32_t *left)
{
    uint32_t moved = 0;
    btl_ib_conn_t *conn = living(rail, NULL);

    *left = 0;
    while (conn != NULL) {
        btl_ib_conn_t *next = living(rail, &conn->all);
        if (conn->identity.name != rail->engine->config.name) {
            const bool goes_on = btl_ib_failover(conn);
            moved += goes_on;
            *left += !goes_on;
        }
        conn = next;
    }
    return moved;
}

void btl_ib_rail_report_failure(btl_ib_rail_t *rail)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_conn_t *conn;

    rail->health.reported = true;
    if (engine->ops->rail_failed != NULL) {
        engine->ops->rail_failed(engine->ops_context, rail->index, rail->health.error,
                                 rail->health.moved, rail->health.not_moved);
    }
    while ((conn = living(rail, NULL)) != NULL) {
        btl_ib_conn_kill(conn, BTL_IB_DEATH_DEVICE);
    }
}

/* The device failed; it may come back if `returns`. Returns as btl_ib_rail_event(). */
static bool failed(btl_ib_rail_t *rail, int error, bool returns)
{
    const uint32_t before = rail->health.down ? rail->health.moved : 0;

    BTL_IB_LOG(rail->engine, 1, "%s: the device failed: %s", rail->transport->name,
               strerror(error));
    rail->health.down = returns;
    rail->health.error = error;
    if (rail->health.failed) {
        return !rail->health.reported;
    }
    rail->health.failed = true;
    btl_ib_work_note(&rail->engine->work);
    withdraw_operations(rail, false);
    rail->health.moved = before + evacuate(rail, &rail->health.not_moved);
    if (!rail->engine->turn.async) {
        btl_ib_rail_report_failure(rail);
    }
    return !rail->health.reported;
}

/* ---- ports ---- */

/* If some connections have to wait, perhaps for long, the log says so at level 0. They wait for a
 * link only: a rail that lost its address may never have it again. Returns as btl_ib_rail_event()
 * does. */
static bool went_down(btl_ib_rail_t *rail, int error)
{
    if (rail->health.down || rail->health.failed) { /* what failed may not come back */
        return false;
    }
    if (error != ENETDOWN) {
        return failed(rail, error, true);
    }
    rail->health.down = true;
    btl_ib_work_note(&rail->engine->work);
    rail->health.down_since = rail->engine->clock.awake;
    rail->health.error = error;
    rail->health.moved = evacuate(rail, &rail->health.not_moved);
    withdraw_operations(rail, true);
    BTL_IB_LOG(rail->engine, rail->health.not_moved > 0 ? 0 : 1,
               "%s: the port is down (%s): %u connections go on by other devices, %u wait for it",
               rail->transport->name, strerror(error), rail->health.moved, rail->health.not_moved);
    return false;
}

/* Connections that still go by it have lost what they sent since it went down; those whose present
 * rail is not usable may go by it; those whose own rail it is probe it. */
static void use_again(btl_ib_rail_t *rail)
{
    rail->health = (btl_ib_rail_health_t){0};
    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &rail->engine->conns, all) {
        if (!btl_ib_conn_alive(conn)) {
            continue;
        }
        if (conn->route.via == rail) {
            btl_ib_loss_disconnected(conn);
        } else if (!btl_ib_rail_usable(conn->route.via)) {
            (void) btl_ib_failover(conn);
        } else if (conn->rail == rail) {
            btl_ib_failover_home(conn);
        }
    }
}

/* The port is up again. */
static void came_up(btl_ib_rail_t *rail)
{
    if (!rail->health.down) {
        return;
    }
    BTL_IB_LOG(rail->engine, rail->health.not_moved > 0 || rail->health.failed ? 0 : 1,
               "%s: the port is up again", rail->transport->name);
    use_again(rail);
}

/* ---- another address ---- */

/* Its transport has another address. What is in flight cannot be answered; what peers sent is
 * lost, and they come to know where to send to by what they get from there (btl_ib_challenge.h). */
static void rebound(btl_ib_rail_t *rail)
{
    btl_ib_engine_t *engine = rail->engine;
    const btl_ib_transport_t *transport = rail->transport;
    char text[64];

    if (transport->ops->address_text == NULL
        || !transport->ops->address_text(transport->address, transport->address_len, text,
                                         sizeof(text))) {
        snprintf(text, sizeof(text), "another one");
    }
    BTL_IB_LOG(engine, 0,
               "%s: its address is gone, it goes on at %s; other processes find it there",
               transport->name, text);
    engine->count.rebound++;
    rail->moves = (btl_ib_rail_moves_t){
        .look_at = engine->clock.now + LOOK_EACH,
        .heard = rail->count.received_datagrams,
        .changed_at = engine->clock.awake,
        .ask_at = engine->clock.now,
        .ask_pause = ASK_FIRST,
        .asks = ASKS,
    };
    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &engine->conns, all) {
        if (!btl_ib_conn_alive(conn)) {
            continue;
        }
        if (conn->rail == rail) {
            btl_ib_validation_renew(&conn->validation);
        }
        if (conn->route.via == rail) {
            btl_ib_loss_disconnected(conn);
        }
    }
}

/* Has the peer not answered at the address that our rail has now? One that never heard of us comes
 * to know it by the first contact. */
static bool is_unanswered(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail)
{
    return conn->rail == rail && btl_ib_conn_alive(conn) && !conn->validation.valid
           && conn->identity.name != rail->engine->config.name
           && (conn->identity.bound || conn->identity.contacted);
}

/* Sends something from there to all that have not answered yet. */
static void ask_all(btl_ib_rail_t *rail)
{
    btl_ib_rail_moves_t *moves = &rail->moves;
    const btl_ib_engine_t *engine = rail->engine;
    bool more = false;

    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &engine->conns, all) {
        if (!is_unanswered(conn, rail)) {
            continue;
        }
        more = true;
        if (!btl_ib_route_is_own(conn)) {
            btl_ib_failover_home(conn);
        } else if (btl_ib_route_has_own(conn)) {
            btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
        }
    }
    moves->asks = more ? moves->asks - 1 : 0;
    moves->ask_at = engine->clock.now + moves->ask_pause;
    moves->ask_pause = btl_ib_min_u32(2 * moves->ask_pause, ASK_MAX);
}

/* Report peers that do not answer there, and are waited for: perhaps theirs changed, too. */
static void check_answers(btl_ib_rail_t *rail)
{
    const btl_ib_engine_t *engine = rail->engine;

    if (rail->moves.told || engine->turn.async || engine->ops->moved_unanswered == NULL
        || engine->clock.awake - rail->moves.changed_at < engine->config.unanswered_after) {
        return;
    }
    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &engine->conns, all) {
        if (is_unanswered(conn, rail) && btl_ib_route_is_own(conn)
            && btl_ib_loss_waiting_since(conn) != UINT64_MAX) {
            rail->moves.told = true;
            engine->ops->moved_unanswered(engine->ops_context, conn);
            return;
        }
    }
}

void btl_ib_rail_look(btl_ib_rail_t *rail)
{
    btl_ib_rail_moves_t *moves = &rail->moves;
    btl_ib_transport_t *transport = rail->transport;
    const uint64_t now = rail->engine->clock.now;

    if (transport->ops->rebind == NULL || !btl_ib_rail_usable(rail)) {
        return;
    }
    if (now >= moves->look_at) {
        const uint64_t heard = rail->count.received_datagrams;
        const bool silent = heard == moves->heard;
        moves->look_at = now + LOOK_EACH;
        moves->heard = heard;
        if (silent && transport->ops->rebind(transport)) {
            rebound(rail);
        }
    }
    if (moves->asks > 0 && now >= moves->ask_at) {
        ask_all(rail);
    }
    if (moves->changed_at != 0) {
        check_answers(rail);
    }
}

bool btl_ib_rail_check_down(btl_ib_rail_t *rail)
{
    const btl_ib_engine_t *engine = rail->engine;

    return rail->health.down && engine->config.down_limit != 0
           && engine->clock.awake - rail->health.down_since >= engine->config.down_limit
           && failed(rail, rail->health.error, true);
}

bool btl_ib_rail_event(btl_ib_rail_t *rail, const btl_ib_event_t *event)
{
    btl_ib_conn_t *conn = NULL;

    if ((event->type == BTL_IB_EVENT_REFUSED || event->type == BTL_IB_EVENT_UNREACHABLE
         || event->type == BTL_IB_EVENT_PATH_MTU)
        && !btl_ib_icmp_check(rail, event)) {
        return false;
    }
    switch (event->type) {
    case BTL_IB_EVENT_REFUSED:
        refused(rail, event->from);
        break;
    case BTL_IB_EVENT_BROKEN: /* a connection of the transport's to that address ended */
    case BTL_IB_EVENT_UNREACHABLE:
    case BTL_IB_EVENT_PATH_MTU:
        while ((conn = concerned(rail, event->from, conn)) != NULL) {
            if (event->type == BTL_IB_EVENT_BROKEN) {
                btl_ib_loss_disconnected(conn);
            } else if (event->type == BTL_IB_EVENT_UNREACHABLE) {
                btl_ib_validation_unreachable(&conn->validation, event->error,
                                              btl_ib_clock_awake(&conn->engine->clock));
            } else {
                btl_ib_pmtud_narrowed(conn, event->size);
            }
        }
        break;
    case BTL_IB_EVENT_DOWN:
        return went_down(rail, event->error);
    case BTL_IB_EVENT_UP:
        came_up(rail);
        break;
    default:
        return failed(rail, event->error, false);
    }
    return false;
}

/* ---- rails that are too slow, by their goodput ---- */

enum {
    SAMPLED_MOST = 64,        /* connections in a call */
    PERIOD = 128,             /* samples in which something waited: 0.26 s at least */
    PERIOD_MOST = 8 * PERIOD, /* the same, if nothing could be compared */
    WAITED_MOST = 33,         /* samples in a row, one more than may count */
    TIMES_SLOW = 3,           /* so many times faster would the other carry the bytes of both */
    BYTES_LEAST = 32 * 1024,  /* that the other must have carried */
    LEFT_FOR = 10,            /* s that a slow one is left for, the first time, */
    DOUBLED_MOST = 4,         /* and how often that is doubled */
};

/* Can what it carries by its own two rails be measured, and compared? The queue of a reliable
 * transport is not ours. */
static bool is_measured(const btl_ib_conn_t *conn)
{
    return btl_ib_conn_alive(conn) && btl_ib_route_is_own(conn) && !conn->goodput.away
           && !conn->rail->transport->attr.reliable
           && conn->identity.name != conn->engine->config.name;
}

/* Segments that are acknowledged; wraps. */
static uint32_t acked_segments(const btl_ib_conn_t *conn)
{
    uint64_t sent = 0;

    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        sent += conn->tx[i].sentmap.sent;
    }
    return (uint32_t) sent - conn->sentmap.unacked;
}

/* Was something sent at `since` or before, and not acknowledged till now? */
static bool is_under_way(const btl_ib_conn_t *conn, uint64_t since)
{
    bool found = false;

    for (int i = 0; !found && i < BTL_IB_SENT_LISTS; i++) {
        const btl_ib_segment_t *oldest =
            BTL_IB_LIST_FIRST(const btl_ib_segment_t, &conn->sentmap.sent[i], link);
        found = oldest != NULL && oldest->last_sent <= since;
    }
    return found;
}

/* For how many of the last samples did something wait for the network? Known when ACKs come: a peer
 * that computes sends none, and then acknowledges all that arrived. What waits to be sent may wait
 * for such a peer, for its memory or for its credits, so that counts once at most. */
static uint32_t held_up(btl_ib_conn_t *conn)
{
    btl_ib_goodput_t *goodput = &conn->goodput;
    const bool pending = btl_ib_pending_any(conn);
    const uint32_t before = goodput->acked;
    const bool waited = goodput->waited > 0;

    const uint64_t since = goodput->sampled_at;

    goodput->sampled_at = conn->engine->clock.now;
    goodput->acked = acked_segments(conn);
    if (conn->sentmap.in_flight == 0 && !pending) {
        goodput->waited = 0;
        return 0;
    }
    if (goodput->waited < WAITED_MOST) {
        goodput->waited++;
    }
    if (!waited || goodput->acked == before || conn->sentmap.deferred_count > 0) {
        return 0;
    }
    const uint32_t count = goodput->waited - 1u;
    goodput->waited = 1;
    if (is_under_way(conn, since)) {
        return count;
    }
    return pending && conn->coalesce.held == 0 && conn->loss.blocked_since == 0;
}

static uint64_t bytes_waiting(const btl_ib_conn_t *conn)
{
    return conn->count.sent_bytes - conn->goodput.bytes;
}

/* Would the other have carried the bytes of both in a fraction of the time in which this one was
 * busy? Then a message that waits for both waits for this one. Two that are as fast as they claim,
 * and share the load by that, are busy equally long. */
static bool is_far_better(const btl_ib_conn_t *other, const btl_ib_conn_t *conn)
{
    const uint64_t bytes = bytes_waiting(conn);
    const uint64_t carried = bytes_waiting(other);

    return carried >= BYTES_LEAST && carried >= bytes / 2
           && (other->goodput.busy + 1) * (bytes + carried) * TIMES_SLOW
                  <= conn->goodput.busy * carried;
}

/* The best of them, or NULL. *compared: another had enough to carry to be compared. */
static btl_ib_conn_t *find_better(const btl_ib_conn_t *conn, bool *compared)
{
    btl_ib_conn_t *best = NULL;

    *compared = false;
    for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (other == conn || !is_measured(other) || !other->validation.valid
            || btl_ib_validation_refuses(other)) {
            continue;
        }
        *compared |=
            bytes_waiting(other) >= bytes_waiting(conn) / 2 && bytes_waiting(other) >= BYTES_LEAST;
        if (is_far_better(other, conn)
            && (best == NULL
                || bytes_waiting(other) * (best->goodput.busy + 1)
                       > bytes_waiting(best) * (other->goodput.busy + 1))) {
            best = other;
        }
    }
    return best;
}

/* All connections with that process. */
static void begin_period(btl_ib_conn_t *conn)
{
    for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        other->goodput.bytes = other->count.sent_bytes;
        other->goodput.busy = 0;
    }
}

static void leave_route(btl_ib_conn_t *conn, const btl_ib_conn_t *better)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_goodput_t *goodput = &conn->goodput;
    const btl_ib_slow_rail_t found = {
        .bytes = bytes_waiting(conn),
        .time = (uint64_t) goodput->busy * BTL_IB_GOODPUT_EACH,
        .better_bytes = bytes_waiting(better),
        .better_time = (uint64_t) (better->goodput.busy + 1) * BTL_IB_GOODPUT_EACH,
        .left_for = (uint64_t) LEFT_FOR * 1000 * 1000 << goodput->times_left,
    };

    begin_period(conn);
    if (!move_to(conn, better)) {
        return;
    }
    if (goodput->times_left < DOUBLED_MOST) {
        goodput->times_left++;
    }
    goodput->slow_until = engine->clock.now + found.left_for;
    engine->count.slow_rails++;
    BTL_IB_LOG(engine, 1,
               "peer %u.%u: %s carried %llu bytes in %llu ms, %s %llu in less than %llu ms: it is "
               "left for %llu s",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->rail->transport->name,
               (unsigned long long) found.bytes, (unsigned long long) found.time / 1000,
               better->rail->transport->name, (unsigned long long) found.better_bytes,
               (unsigned long long) found.better_time / 1000,
               (unsigned long long) found.left_for / 1000000);
    if (engine->ops->slow_rail != NULL) {
        engine->ops->slow_rail(engine->ops_context, conn, better, &found);
    }
}

static void judge(btl_ib_conn_t *conn)
{
    bool compared;
    btl_ib_conn_t *better = find_better(conn, &compared);

    if (better == NULL && !compared && conn->goodput.busy < PERIOD_MOST) {
        return;
    }
    if (better == NULL) {
        conn->goodput.times_left = compared ? 0 : conn->goodput.times_left;
        begin_period(conn);
    } else {
        leave_route(conn, better);
    }
}

static void sample(btl_ib_conn_t *conn)
{
    const bool away = !btl_ib_route_is_own(conn);

    if (conn->goodput.away != away) { /* its bytes, or a part of them, went by others' rails */
        conn->goodput.away = away;
        begin_period(conn);
    }
    const uint32_t count = held_up(conn);
    if (count > 0 && is_measured(conn)) {
        conn->goodput.busy = (uint16_t) (conn->goodput.busy + count);
        if (conn->goodput.busy >= PERIOD) {
            judge(conn);
        }
    }
}

void btl_ib_goodput_sample(btl_ib_engine_t *engine)
{
    const uint32_t count = btl_ib_min_u32(engine->table.size, SAMPLED_MOST);

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = engine->goodput.next & (engine->table.size - 1);
        btl_ib_conn_t *conn = btl_ib_table_at(&engine->table, slot);
        engine->goodput.next = slot + 1;
        if (conn != NULL && btl_ib_conn_alive(conn)) {
            sample(conn);
        }
    }
}
