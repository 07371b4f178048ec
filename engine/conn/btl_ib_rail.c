/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What transports say of peers and of themselves, besides datagrams.
 *
 * A device that failed is gone until the user puts another transport in its place. A port that is
 * down may come up again: its connections go on by other rails or, where there is none, wait, as
 * behind a network that loses everything. When it is up they go back. A port that stays down for
 * `down_limit`, or lacks more than its link, counts as failed: nobody waits for it any more. But
 * its transport is still asked, and when it is back it is used again as after any other time down.
 */

#include "btl_ib_rail.h"

#include "btl_ib_conn.h"
#include "btl_ib_failover.h"
#include "btl_ib_icmp.h"
#include "btl_ib_offload.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_recovery.h"
#include "btl_ib_route.h"
#include "btl_ib_state.h"
#include "btl_ib_validation.h"

#include <errno.h>
#include <string.h>

/* The next connection after `after` that is open and goes by a rail, to any address if `from` is
 * unknown. After one was killed the search must begin from the start: the callback may have changed
 * everything. */
static btl_ib_conn_t *living(const btl_ib_rail_t *rail, btl_ib_addr_t from, btl_ib_list_t *after)
{
    const btl_ib_list_t *conns = &rail->engine->conns;

    for (btl_ib_list_t *item = after != NULL ? btl_ib_list_next(conns, after)
                                             : btl_ib_list_first(conns);
         item != NULL; item = btl_ib_list_next(conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        if (conn->route.via == rail && btl_ib_conn_alive(conn)
            && (from == BTL_IB_ADDR_UNKNOWN || conn->route.to == from)) {
            return conn;
        }
    }
    return NULL;
}

/*
 * The route of a connection is refused. It takes another route if there is one: at once if this one
 * was never validated, else when refusals are believed. Only a peer that is refused by all routes
 * is dead. Returns false if it is: the callback may have changed everything.
 */
static bool refused_one(btl_ib_conn_t *conn)
{
    btl_ib_validation_unreachable(conn, ECONNREFUSED);
    if (conn->draining) {
        btl_ib_conn_reset(conn);
        return true;
    }
    const bool leaves = btl_ib_validation_refused_again(conn);
    const bool dead = btl_ib_recovery_refused(&conn->recovery, conn->engine->clock.now);
    if (!leaves && btl_ib_validation_is_valid(conn)) {
        return true;
    }
    if (btl_ib_failover_refused(conn) || !dead || conn->engine->turn.async) {
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
    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &rail->engine->conns, all) {
        if (conn->rail == rail && conn->route.address == from && !btl_ib_route_is_own(conn)
            && conn->validation.refused_at != 0) {
            btl_ib_validation_refused(conn);
        }
    }
}

/* The host at `from` says that nobody is there. */
static void refused(btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    if (from == BTL_IB_ADDR_UNKNOWN) {
        return;
    }
    refused_still(rail, from);
    btl_ib_conn_t *conn = living(rail, from, NULL);
    while (conn != NULL) {
        btl_ib_list_t *after = &conn->all;
        conn = living(rail, from, refused_one(conn) ? after : NULL);
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

/* Atomics that the device executes, or is to execute: nobody else can. */
static bool has_atomics(const btl_ib_conn_t *conn)
{
    return list_has_atomics(&conn->offload.running) || list_has_atomics(&conn->offload.waiting);
}

/* Give up the one-sided operations of the device, of whatever connection. If the device may come
 * back (`down`) only those of connections that go by other rails, and not if there are atomics
 * among them: they would fail, because nobody would know whether they were executed. */
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
    btl_ib_conn_t *conn = living(rail, BTL_IB_ADDR_UNKNOWN, NULL);

    *left = 0;
    while (conn != NULL) {
        btl_ib_conn_t *next = living(rail, BTL_IB_ADDR_UNKNOWN, &conn->all);
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
                                 rail->health.moved, rail->health.left);
    }
    while ((conn = living(rail, BTL_IB_ADDR_UNKNOWN, NULL)) != NULL) {
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
    withdraw_operations(rail, false);
    rail->health.moved = before + evacuate(rail, &rail->health.left);
    if (!rail->engine->turn.async) {
        btl_ib_rail_report_failure(rail);
    }
    return !rail->health.reported;
}

/* ---- ports ---- */

/* If some connections have to wait, perhaps for long, the log says so at level 0. They wait for a
 * link only: who lost its address may never have it again. Returns as btl_ib_rail_event(). */
static bool went_down(btl_ib_rail_t *rail, int error)
{
    if (rail->health.down) {
        return false;
    }
    if (error != ENETDOWN) {
        return failed(rail, error, true);
    }
    rail->health.down = true;
    rail->health.down_since = rail->engine->clock.awake;
    rail->health.error = error;
    rail->health.moved = evacuate(rail, &rail->health.left);
    withdraw_operations(rail, true);
    BTL_IB_LOG(rail->engine, rail->health.left > 0 ? 0 : 1,
               "%s: the port is down (%s): %u connections go on by other devices, %u wait for it",
               rail->transport->name, strerror(error), rail->health.moved, rail->health.left);
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
            btl_ib_recovery_broken(conn);
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
    BTL_IB_LOG(rail->engine, rail->health.left > 0 || rail->health.failed ? 0 : 1,
               "%s: the port is up again", rail->transport->name);
    use_again(rail);
}

void btl_ib_rail_replaced(btl_ib_rail_t *rail)
{
    BTL_IB_LOG(rail->engine, 0, "%s: the device that failed is there again, and is used",
               rail->transport->name);
    rail->engine->count.replaced++;
    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &rail->engine->conns, all) {
        if (conn->rail == rail) {
            btl_ib_offload_disable(conn);
            btl_ib_validation_renew(conn);
        }
    }
    use_again(rail);
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
        && !btl_ib_icmp_is_genuine(rail, event)) {
        return false;
    }
    switch (event->type) {
    case BTL_IB_EVENT_REFUSED:
        refused(rail, event->from);
        break;
    case BTL_IB_EVENT_BROKEN: /* a connection of the transport's to that address ended */
    case BTL_IB_EVENT_UNREACHABLE:
    case BTL_IB_EVENT_PATH_MTU:
        while ((conn = living(rail, event->from, conn != NULL ? &conn->all : NULL)) != NULL) {
            if (event->type == BTL_IB_EVENT_BROKEN) {
                btl_ib_recovery_broken(conn);
            } else if (event->type == BTL_IB_EVENT_UNREACHABLE) {
                btl_ib_validation_unreachable(conn, event->error);
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
