/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rail.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_state.h"
#include "btl_ib_failover.h"
#include "btl_ib_icmp.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_rma_offload.h"
#include "btl_ib_route.h"
#include "btl_ib_validation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    REBIND_TIME = 2000000,      /* us: in which all processes of a host have bound anew */
    LOOK_EACH = 250 * 1000,     /* us between two questions whether its address changed */
    ASK_FIRST = 50 * 1000,      /* us between the first two times that peers are asked, */
    ASK_MAX = 16 * 1000 * 1000, /* and the last two */
    ASKS = 16,                  /* two minutes */
};

/* Returns the next connection after `after` that is open and goes over a rail. After one was killed
 * the search must begin from the start: the callback may have changed everything. */
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

/* Returns the next living connection, behind `after`, that goes to an address. One that is about to
 * take another route loses its place among them. */
static btl_ib_conn_t *living_to(const btl_ib_rail_t *rail, btl_ib_addr_t to,
                                const btl_ib_conn_t *after)
{
    btl_ib_conn_t *conn = btl_ib_route_to(rail, to, after);

    while (conn != NULL && !btl_ib_conn_alive(conn)) {
        conn = btl_ib_route_to(rail, to, conn);
    }
    return conn;
}

/* Returns the next living connection that an event is about: any, if the address is not known. */
static btl_ib_conn_t *concerned(const btl_ib_rail_t *rail, btl_ib_addr_t from, btl_ib_conn_t *after)
{
    return from != BTL_IB_ADDR_UNKNOWN ? living_to(rail, from, after)
                                       : living(rail, after != NULL ? &after->all : NULL);
}

/* Notes the refusal for connections that left this route because of one, and have probed it
 * again. */
static void refused_still(const btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    btl_ib_conn_t *conn = NULL;

    while ((conn = btl_ib_route_of(rail, from, conn)) != NULL) {
        if (!btl_ib_route_is_own(conn) && conn->validation.refused_at != 0) {
            conn->validation.refused_at = conn->engine->clock.now;
        }
    }
}

/* Handles a refusal: the host at `from` says that nobody is there. That is not believed for a while
 * after the own address changed: the host may be this one, whose other processes bind anew at their
 * own time. */
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
        conn = btl_ib_failover_on_refusal(conn) ? next : living_to(rail, from, NULL);
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

/* Gives up the one-sided operations of the device, of whatever connection. If the device may come
 * back (`down`) only those of connections that go over other rails, and not if there are atomics
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

/* Moves the connections of a device that cannot be used to others. Returns how many moved, in *left
 * how many cannot. Connections with the own process are bound to this device and lead to no
 * peer. */
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
        engine->ops->rail_failed(engine->ops_context, rail->index, rail->transport->refused,
                                 rail->health.error, rail->health.moved, rail->health.not_moved);
    }
    while ((conn = living(rail, NULL)) != NULL) {
        btl_ib_conn_kill(conn, BTL_IB_DEATH_DEVICE);
    }
}

/* Handles the failure of the device, which may come back if `returns`. Returns as
 * btl_ib_rail_event(). */
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

/* Handles a port that went down. If some connections have to wait, perhaps for long, the log says
 * so at level 0. They wait for a link only: a rail that lost its address may never have it again.
 * Returns as btl_ib_rail_event() does. */
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

/* Handles a port that is up again: connections that still go by it have lost what they sent since
 * it went down; those whose present rail is not usable may go by it; those whose own rail it is
 * probe it. */
static void came_up(btl_ib_rail_t *rail)
{
    if (!rail->health.down) {
        return;
    }
    BTL_IB_LOG(rail->engine, rail->health.not_moved > 0 || rail->health.failed ? 0 : 1,
               "%s: the port is up again", rail->transport->name);
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
            btl_ib_failover_probe_own(conn);
        }
    }
}

/* ---- another address ---- */

/* Handles another address of the transport. What is in flight cannot be answered; what peers sent
 * is lost, and they come to know where to send to by what they get from there
 * (btl_ib_challenge.h). */
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
            conn->validation.valid = false;
            conn->validation.refused_at = 0;
            conn->validation.question_at = 0;
        }
        if (conn->route.via == rail) {
            btl_ib_loss_disconnected(conn);
        }
    }
}

/* True if the peer has not answered at the address that our rail has now. One that never heard of
 * us comes to know it by the first contact. */
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
            btl_ib_failover_probe_own(conn);
        } else if (btl_ib_route_has_own(conn)) {
            btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
        }
    }
    moves->asks = more ? moves->asks - 1 : 0;
    moves->ask_at = engine->clock.now + moves->ask_pause;
    moves->ask_pause = btl_ib_min_u32(2 * moves->ask_pause, ASK_MAX);
}

/* Reports peers that do not answer there, and are waited for: perhaps theirs changed, too. */
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
                conn->validation.net_error = (uint8_t) event->error;
                conn->validation.net_error_at = btl_ib_clock_awake(&conn->engine->clock);
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
