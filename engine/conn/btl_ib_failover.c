/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A connection goes on by another rail when its own fails. Its id, tokens, windows, credits and
 * queues remain those of the two rails that it joins. Only the route of its datagrams changes, to
 * the two rails of another connection with the same process. No message is needed for that: a
 * process that gets a valid datagram of a connection by another route than before answers by that
 * route.
 */

#include "btl_ib_failover.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_address_send.h"
#include "btl_ib_conn.h"
#include "btl_ib_offload.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_recovery.h"
#include "btl_ib_route.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"
#include "btl_ib_validation.h"

#include <errno.h>
#include <string.h>

/* us: two processes that chose different routes at the same time agree within that time */
enum { DECIDED = 1000 * 1000 };

void btl_ib_failover_validated(btl_ib_conn_t *conn)
{
    btl_ib_trace_conn(conn, BTL_IB_TRACE_validated, BTL_IB_CAUSE_none, 1);
    btl_ib_recovery_unblocked(&conn->recovery);
    btl_ib_conn_ready(conn);
    /* The peer is there: probe its pairs of rails that are not validated soon. */
    for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (other != conn && !other->validation.valid) {
            btl_ib_recovery_begin_row(&other->recovery);
            btl_ib_recovery_arm(other);
        }
    }
}

void btl_ib_failover_introduce(const btl_ib_conn_t *conn)
{
    btl_ib_conn_t *carries = btl_ib_route_is_own(conn) ? NULL : btl_ib_route_carrier(conn);

    if (carries != NULL && !carries->identity.bound && btl_ib_route_is_own(carries)) {
        btl_ib_ack_send(carries, BTL_IB_FLAG_ACK_NOW);
    }
}

/* Use the two rails that `other` joins, or (NULL) its own again. Segments that are too large for
 * them are refragmented. All in flight is sent again: it may be lost, and the peer recognises what
 * is not. */
static bool take_route_of(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    const btl_ib_transport_t *before = conn->route.via->transport;

    if (!btl_ib_route_take(conn, other)) {
        return false;
    }
    BTL_IB_LOG(conn->engine, 1, "peer %u.%u: what went by %s goes on by %s",
               BTL_IB_NAME_ARGS(conn->identity.name), before->name,
               conn->route.via->transport->name);
    conn->engine->count.failovers++;
    btl_ib_trace_conn(conn, BTL_IB_TRACE_moved, BTL_IB_CAUSE_none, 1);
    btl_ib_pmtud_moved(conn, other);
    btl_ib_validation_moved(conn);
    btl_ib_recovery_moved(&conn->recovery, conn->engine->clock.now);
    btl_ib_conn_begin_route(conn);
    btl_ib_sentmap_lose_all(conn);
    btl_ib_conn_ready(conn);
    btl_ib_recovery_arm(conn);
    return true;
}

/* Take the two rails of a connection with the same process: its own, or those of another. */
static bool go_by(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    return take_route_of(conn, other == conn ? NULL : other);
}

/* Does the connection go by the two rails of `other`? */
static bool goes_by(const btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    return other->rail == conn->route.via && other->route.address == conn->route.to;
}

/* How good the rails of a connection are as a route to its process. 3: validated and in use; 2:
 * validated; 1: not validated; 0: refused. A rail that no connection uses any more was left for a
 * reason. */
static int worth(const btl_ib_conn_t *conn)
{
    if (btl_ib_validation_refuses(conn)) {
        return 0;
    }
    return !conn->validation.valid ? 1 : btl_ib_route_is_own(conn) ? 3 : 2;
}

/* Let the peer answer by the new route. */
static void tell(btl_ib_conn_t *conn)
{
    if (conn->identity.bound || conn->identity.contacted) {
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
}

/* Take a route of that worth, if there is any but the present one. */
static bool go_by_worth(btl_ib_conn_t *conn, int wanted)
{
    const btl_ib_engine_t *engine = conn->engine;
    const uint32_t present = conn->route.via->index;

    for (uint32_t i = 1; i <= engine->rail_count; i++) {
        const uint32_t next = (present + i) % engine->rail_count;
        for (btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
            if (other->rail->index == next && !goes_by(conn, other) && worth(other) == wanted
                && go_by(conn, other)) {
                return true;
            }
        }
    }
    return false;
}

/* Take the best route worth `least` or more. 0 is for a device that failed or a port that is down:
 * nothing goes by it at all. Among equals the next rail comes first, so that the connections of a
 * failed rail spread over the others. */
static bool go_on(btl_ib_conn_t *conn, int least)
{
    for (int wanted = 3; wanted >= least; wanted--) {
        if (go_by_worth(conn, wanted)) {
            btl_ib_failover_introduce(conn);
            tell(conn);
            return true;
        }
    }
    return false;
}

bool btl_ib_failover(btl_ib_conn_t *conn)
{
    return go_on(conn, 0);
}

void btl_ib_failover_made(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    const btl_ib_conn_t *other = btl_ib_route_by_rail(rail, conn->identity.name, from);

    if (!btl_ib_rail_usable(conn->rail) && rail != conn->rail && other != NULL) {
        (void) go_by(conn, other);
    }
}

void btl_ib_failover_try(btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    if (!engine->turn.async && engine->ops->alternatives != NULL && !conn->draining
        && btl_ib_validation_tries(conn)) {
        engine->ops->alternatives(engine->ops_context, conn);
    }
}

bool btl_ib_failover_refused(btl_ib_conn_t *conn)
{
    btl_ib_conn_t *carries = btl_ib_route_carrier(conn);

    btl_ib_failover_try(conn);
    if (carries != NULL) {
        btl_ib_validation_refused(carries);
    }
    if (!go_on(conn, 1)) {
        return false;
    }
    btl_ib_recovery_refusals_over(&conn->recovery);
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
    /* What we send by that rail may be refused although the peer's datagrams come by it. */
    const btl_ib_conn_t *pair = btl_ib_route_owns(conn, rail, from)
                                    ? conn
                                    : btl_ib_route_by_rail(rail, conn->identity.name, from);
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
    btl_ib_validation_asked(conn);
    btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    btl_ib_route_restore(conn, &before);
}

void btl_ib_failover_home(btl_ib_conn_t *conn)
{
    btl_ib_route_retry(conn);
    if (btl_ib_route_is_own(conn) || !btl_ib_route_has_own(conn)) {
        return;
    }
    /* Where our rail is now the peer may not know: then it asks. */
    if (conn->rail->generation == 0 || !btl_ib_address_send(conn)) {
        ask_by_own(conn);
    }
}

bool btl_ib_failover_is_told(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    return view->where.proof
           == btl_ib_token_of_address(&conn->engine->config.secret, view->token,
                                      view->where.generation, view->payload, view->size);
}

void btl_ib_failover_told(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (view->where.generation < conn->route.generation) { /* late */
        return;
    }
    if (view->where.generation > conn->route.generation) {
        btl_ib_offload_device_failed(conn, ENODEV); /* the peer's; it uses the address up to now */
        btl_ib_offload_disable(conn);
        if (!btl_ib_route_replace(conn, view)) {
            return;
        }
        btl_ib_validation_renew(conn);
        BTL_IB_LOG(conn->engine, 1, "peer %u.%u: its rail %u is at another address now",
                   BTL_IB_NAME_ARGS(conn->identity.name), conn->identity.remote_rail);
    }
    if (btl_ib_route_has_own(conn)) {
        ask_by_own(conn);
    }
}

void btl_ib_failover_ask(btl_ib_conn_t *conn)
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

bool btl_ib_failover_if_heard(btl_ib_conn_t *conn, uint64_t since)
{
    for (const btl_ib_conn_t *other = NULL; (other = btl_ib_route_next(conn, other)) != NULL;) {
        if (!goes_by(conn, other) && btl_ib_route_is_own(other) && other->recovery.heard_at > since
            && !btl_ib_validation_refuses(other) && go_by(conn, other)) {
            tell(conn);
            return true;
        }
    }
    return false;
}
