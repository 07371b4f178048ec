/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What transports say of peers and of themselves, beside datagrams.
 *
 * A device that failed is gone for good. A port that is down may come back: its connections go on by other rails, or,
 * where there is none, wait, as behind a network that loses everything. When it is up again they take it back.
 * Only a port that stays down for `down_limit` counts as failed.
 */

#include "btl_ib_rail.h"

#include "btl_ib_conn.h"
#include "btl_ib_failover.h"
#include "btl_ib_icmp.h"
#include "btl_ib_offload.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_recovery.h"
#include "btl_ib_state.h"
#include "btl_ib_validation.h"

#include <errno.h>
#include <string.h>

/* The next living connection that goes by a rail, to any address if `from` is unknown. Whoever gives one up
 * must ask again from the start: the callback may have changed everything. */
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

/* A process of another job may leave when it likes, and nobody waits for anything of it: that is no death. But it may as
 * well be there, and have something for us on the way: all is kept for that. */
static bool may_leave(const btl_ib_conn_t *conn)
{
    return conn->identity.name >> 32 != conn->engine->config.name >> 32
           && btl_ib_conn_is_quiet(conn);
}

/*
 * The way of a connection is refused. Who has another way takes that: at once if this one never led anywhere, else when
 * refusals are believed. Only who is refused by all is dead. Returns false if it is: the callback may have
 * changed everything.
 */
static bool refused_one(btl_ib_conn_t *conn)
{
    if (conn->draining) {
        btl_ib_conn_reset(conn);
        return true;
    }
    const bool leaves = btl_ib_validation_refused_again(conn);
    const bool dead = btl_ib_recovery_refused(&conn->recovery, conn->engine->clock.now);
    if (!leaves && btl_ib_validation_is_valid(conn)) {
        return true;
    }
    if (btl_ib_failover_refused(conn) || !dead || conn->engine->turn.async || may_leave(conn)) {
        return true;
    }
    btl_ib_conn_kill(conn, BTL_IB_DEATH_REFUSED);
    return false;
}

/* Those that left this way for it, and have asked by it again. */
static void refused_still(const btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    const btl_ib_list_t *conns = &rail->engine->conns;

    for (btl_ib_list_t *item = btl_ib_list_first(conns); item != NULL;
         item = btl_ib_list_next(conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        if (conn->rail == rail && conn->route.address == from && conn->route.via != rail
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

/* A connection of the transport's to `from` ended. */
static void broken(btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    btl_ib_conn_t *conn = NULL;

    while ((conn = living(rail, from, conn != NULL ? &conn->all : NULL)) != NULL) {
        btl_ib_recovery_broken(conn);
    }
}

/* The path to `from` carries less than the rails at its ends. */
static void narrowed(btl_ib_rail_t *rail, btl_ib_addr_t from, uint32_t size)
{
    btl_ib_conn_t *conn = NULL;

    while ((conn = living(rail, from, conn != NULL ? &conn->all : NULL)) != NULL) {
        btl_ib_pmtud_narrowed(conn, size);
    }
}

static bool has_atomics(const btl_ib_conn_t *conn)
{
    const btl_ib_list_t *running = &conn->offload.running;
    const btl_ib_list_t *item = btl_ib_list_first(running);

    while (item != NULL
           && BTL_IB_CONTAINER(item, btl_ib_op_t, out.link)->kind != BTL_IB_OP_ATOMIC) {
        item = btl_ib_list_next(running, item);
    }
    return item != NULL;
}

/* What the device was to do by itself, for whatever connection. Where it may come back (`down`) only for those that go
 * by others, and not if that would make errors of atomics, of which nobody knows whether they were executed. */
static void withdraw_operations(const btl_ib_rail_t *rail, bool down)
{
    const btl_ib_list_t *conns = &rail->engine->conns;

    for (btl_ib_list_t *item = btl_ib_list_first(conns); item != NULL;
         item = btl_ib_list_next(conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        if (conn->rail == rail && btl_ib_conn_alive(conn)
            && (!down || (conn->route.via != rail && !has_atomics(conn)))) {
            btl_ib_offload_device_failed(conn);
        }
    }
}

/* The device cannot be used. Its connections go on by others, as far as there are any. Returns how many do, in *left how many
 * cannot. One with the own process is for this device only, and leads to no peer. */
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

/* Returns as btl_ib_rail_event(). */
static bool failed(btl_ib_rail_t *rail, int error)
{
    const uint32_t before = rail->health.down ? rail->health.moved : 0;

    BTL_IB_LOG(rail->engine, 1, "%s: the device failed: %s", rail->transport->name,
               strerror(error));
    rail->health.failed = true;
    rail->health.error = error;
    withdraw_operations(rail, false);
    rail->health.moved = before + evacuate(rail, &rail->health.left);
    if (!rail->engine->turn.async) {
        btl_ib_rail_report_failure(rail);
    }
    return !rail->health.reported;
}

/* ---- ports ---- */

/* Who has no other way waits, and may wait for long: he is told by a line that nobody has to ask for. */
static void went_down(btl_ib_rail_t *rail, int error)
{
    if (rail->health.down) {
        return;
    }
    rail->health.down = true;
    rail->health.down_since = rail->engine->clock.awake;
    rail->health.error = error;
    rail->health.moved = evacuate(rail, &rail->health.left);
    withdraw_operations(rail, true);
    BTL_IB_LOG(rail->engine, rail->health.left > 0 ? 0 : 1,
               "%s: the port is down (%s): %u connections go on by other devices, %u wait for it",
               rail->transport->name, strerror(error), rail->health.moved, rail->health.left);
}

/* Those that were on their way by it when it went down have lost what they sent since; those that could go nowhere
 * may go by it; those whose own it is ask for it. */
static void take_back(btl_ib_conn_t *conn, const btl_ib_rail_t *rail)
{
    if (conn->route.via == rail) {
        btl_ib_recovery_broken(conn);
    } else if (!btl_ib_rail_usable(conn->route.via)) {
        (void) btl_ib_failover(conn);
    } else if (conn->rail == rail) {
        btl_ib_failover_home(conn);
    }
}

static void came_up(btl_ib_rail_t *rail)
{
    btl_ib_list_t *conns = &rail->engine->conns;

    if (!rail->health.down) {
        return;
    }
    rail->health.down = false;
    BTL_IB_LOG(rail->engine, rail->health.left > 0 ? 0 : 1, "%s: the port is up again",
               rail->transport->name);
    for (btl_ib_list_t *item = btl_ib_list_first(conns); item != NULL;
         item = btl_ib_list_next(conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        if (btl_ib_conn_alive(conn)) {
            take_back(conn, rail);
        }
    }
}

bool btl_ib_rail_check_down(btl_ib_rail_t *rail)
{
    const btl_ib_engine_t *engine = rail->engine;

    return rail->health.down && engine->config.down_limit != 0
           && engine->clock.awake - rail->health.down_since >= engine->config.down_limit
           && failed(rail, rail->health.error);
}

static bool is_of_a_peer(const btl_ib_event_t *event)
{
    return event->type == BTL_IB_EVENT_REFUSED || event->type == BTL_IB_EVENT_PATH_MTU;
}

bool btl_ib_rail_event(btl_ib_rail_t *rail, const btl_ib_event_t *event)
{
    if (is_of_a_peer(event) && !btl_ib_icmp_is_genuine(rail, event)) {
        return false;
    }
    switch (event->type) {
    case BTL_IB_EVENT_REFUSED:
        refused(rail, event->from);
        break;
    case BTL_IB_EVENT_BROKEN:
        broken(rail, event->from);
        break;
    case BTL_IB_EVENT_PATH_MTU:
        narrowed(rail, event->from, event->size);
        break;
    case BTL_IB_EVENT_DOWN:
        went_down(rail, event->error);
        break;
    case BTL_IB_EVENT_UP:
        came_up(rail);
        break;
    default:
        return failed(rail, event->error);
    }
    return false;
}
