/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A connection goes on over another rail when its own fails. It stays what it is: its id, tokens, windows,
 * credits and queues are those of the two rails that it joins. Only what carries its datagrams changes, to
 * the two rails of another connection with the same process. No message is needed for that: whoever gets a
 * good datagram of a connection by another way than before answers by that way.
 */

#include "btl_ib_calls.h"

#include <errno.h>
#include <string.h>

/* us: two processes that chose different ways at once agree in that time. */
enum { DECIDED = 1000 * 1000 };

/* A connection with the process `name` by our rail `rail`; `from`: to that address there, if it is known.
 * NULL: none. */
static btl_ib_conn_t *by_rail(const btl_ib_rail_t *rail, uint64_t name, btl_ib_addr_t from)
{
    for (uint32_t remote = 0; remote < BTL_IB_RAILS_MAX && btl_ib_rail_usable(rail); remote++) {
        btl_ib_conn_t *conn = btl_ib_table_by_name(&rail->engine->table, name, rail->index, remote);
        if (conn != NULL && btl_ib_conn_alive(conn)
            && (from == BTL_IB_ADDR_UNKNOWN || conn->address == from)) {
            return conn;
        }
    }
    return NULL;
}

bool btl_ib_failover_knows(const btl_ib_rail_t *rail, uint64_t name, btl_ib_addr_t from)
{
    return by_rail(rail, name, from) != NULL;
}

/* The connection whose own two rails carry this one now: itself, if it is at home. NULL: that is no more. */
static btl_ib_conn_t *carrier(const btl_ib_conn_t *conn)
{
    return by_rail(conn->via, conn->name, conn->to);
}

void btl_ib_failover_ask_anew(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    for (uint32_t i = 0; i < engine->rail_count; i++) {
        btl_ib_conn_t *other = by_rail(engine->rails[i], conn->name, BTL_IB_ADDR_UNKNOWN);
        if (other != NULL && other != conn && !other->validation.valid) {
            btl_ib_loss_begin_row(other);
            btl_ib_loss_arm(other);
        }
    }
}

/* Is that said of any connection with the same process that has a rail which can be used? */
static bool any(const btl_ib_conn_t *conn, bool (*is_so)(const btl_ib_conn_t *))
{
    const btl_ib_engine_t *engine = conn->engine;
    bool found = is_so(conn);

    for (uint32_t i = 0; i < engine->rail_count && !found; i++) {
        const btl_ib_conn_t *other = by_rail(engine->rails[i], conn->name, BTL_IB_ADDR_UNKNOWN);
        found = other != NULL && is_so(other);
    }
    return found;
}

static bool is_answered(const btl_ib_conn_t *conn)
{
    return conn->validation.answered;
}

static bool leads_there(const btl_ib_conn_t *conn)
{
    return conn->validation.valid && !btl_ib_validation_refuses(conn);
}

bool btl_ib_failover_any_valid(const btl_ib_conn_t *conn)
{
    return any(conn, leads_there);
}

bool btl_ib_failover_any_answered(const btl_ib_conn_t *conn)
{
    return any(conn, is_answered);
}

bool btl_ib_failover_any_refused(const btl_ib_conn_t *conn)
{
    return any(conn, btl_ib_validation_refuses);
}

bool btl_ib_failover_is_valid(const btl_ib_conn_t *conn)
{
    const btl_ib_conn_t *carries = carrier(conn);

    return carries != NULL && carries->validation.valid;
}

void btl_ib_failover_introduce(const btl_ib_conn_t *conn)
{
    btl_ib_conn_t *carries = conn->via == conn->rail ? NULL : carrier(conn);

    if (carries != NULL && !carries->bound && carries->via == carries->rail) {
        btl_ib_ack_send(carries, BTL_IB_FLAG_ACK_NOW);
    }
}

/* What was measured of the old way says nothing of the new one. */
static void measure_anew(btl_ib_conn_t *conn)
{
    btl_ib_rtt_t unknown = {0};

    conn->rtt = unknown;
    btl_ib_loss_begin_row(conn);
    conn->probe_base = conn->engine->now;
    btl_ib_conn_begin_way(conn);
}

/* All that is on the way may be lost with it: what arrived is recognised as such at the other end. */
static void send_all_again(btl_ib_conn_t *conn)
{
    btl_ib_flight_lose(conn);
    btl_ib_conn_ready(conn);
    btl_ib_loss_arm(conn);
}

void btl_ib_failover_leave(btl_ib_conn_t *conn)
{
    if (conn->via != conn->rail) {
        conn->via->transport->ops->addr_remove(conn->via->transport, conn->to);
        conn->via = conn->rail;
        conn->to = conn->address;
        conn->via_queues = conn->peer_queues;
    }
}

/* Where it went before is over. */
static void moved(btl_ib_conn_t *conn, const btl_ib_conn_t *other, const btl_ib_transport_t *before)
{
    BTL_IB_LOG(conn->engine, 1, "peer %u.%u: what went by %s goes on by %s",
               BTL_IB_NAME_ARGS(conn->name), before->name, conn->via->transport->name);
    btl_ib_path_moved(conn, other);
    btl_ib_validation_moved(conn);
    conn->moved_at = conn->engine->now;
    conn->engine->count.failovers++;
    measure_anew(conn);
    send_all_again(conn);
}

/* Go by the two rails that `other` joins, whatever way that goes itself. What is too large for it goes in parts.
 * False if there is no memory. */
static bool take_way_of(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    const btl_ib_transport_t *before = conn->via->transport;
    btl_ib_transport_t *transport = other->rail->transport;
    btl_ib_addr_t to;

    if (transport->ops->addr_add(transport, other->published, other->published_len, &to) != 0) {
        return false;
    }
    btl_ib_failover_leave(conn);
    conn->via = other->rail;
    conn->to = to;
    conn->via_queues = other->peer_queues;
    moved(conn, other, before);
    return true;
}

static bool has_home(const btl_ib_conn_t *conn)
{
    return btl_ib_rail_usable(conn->rail) && conn->address != BTL_IB_ADDR_UNKNOWN;
}

/* False if there is no way there. */
static bool go_home(btl_ib_conn_t *conn)
{
    const btl_ib_transport_t *before = conn->via->transport;

    if (!has_home(conn)) {
        return false;
    }
    btl_ib_failover_leave(conn);
    moved(conn, NULL, before);
    return true;
}

/* Go by a rail other than now, its own or that of another connection with the same process. */
static bool go_by(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    if (rail == conn->rail) {
        return go_home(conn);
    }
    const btl_ib_conn_t *other = by_rail(rail, conn->name, from);
    return other != NULL && take_way_of(conn, other);
}

/* How good a way to that process a rail is: 3: something goes by it, and it is validated; 2: it is validated; 1: it is
 * not; 0: it is refused, or there is none. Where nothing goes there was a reason. */
static int worth(const btl_ib_rail_t *rail, uint64_t name)
{
    const btl_ib_conn_t *conn = by_rail(rail, name, BTL_IB_ADDR_UNKNOWN);

    if (conn == NULL || btl_ib_validation_refuses(conn)) {
        return 0;
    }
    return !conn->validation.valid ? 1 : conn->via == rail ? 3 : 2;
}

/* Of those that are worth as much the next rail first, so that the connections of one that fails are spread over the
 * others. */
static bool take_next_way(btl_ib_conn_t *conn, int least)
{
    const btl_ib_engine_t *engine = conn->engine;

    for (int wanted = 3; wanted >= least; wanted--) {
        for (uint32_t i = 1; i < engine->rail_count; i++) {
            const btl_ib_rail_t *rail = engine->rails[(conn->via->index + i) % engine->rail_count];
            if (worth(rail, conn->name) == wanted && go_by(conn, rail, BTL_IB_ADDR_UNKNOWN)) {
                return true;
            }
        }
    }
    return false;
}

/* The peer is to answer by this way. */
static void tell(btl_ib_conn_t *conn)
{
    if (conn->bound || conn->contacted) {
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
}

/* By a way worth `least` or more; by a device that failed, or a port that is down, nothing goes at all. */
static bool go_on(btl_ib_conn_t *conn, int least)
{
    if (!take_next_way(conn, least)) {
        return false;
    }
    btl_ib_failover_introduce(conn);
    tell(conn);
    return true;
}

bool btl_ib_failover(btl_ib_conn_t *conn)
{
    return go_on(conn, 0);
}

bool btl_ib_failover_refused(btl_ib_conn_t *conn)
{
    btl_ib_conn_t *carries = carrier(conn);

    if (carries != NULL) {
        btl_ib_validation_refused(carries);
    }
    conn->refused_since = 0;
    return go_on(conn, 1);
}

static bool is_address(btl_ib_addr_t from, btl_ib_addr_t address)
{
    return from == address || from == BTL_IB_ADDR_UNKNOWN;
}

bool btl_ib_failover_is_way(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                            btl_ib_addr_t from)
{
    return (rail == conn->rail && is_address(from, conn->address))
           || (rail == conn->via && is_address(from, conn->to))
           || by_rail(rail, conn->name, from) != NULL;
}

/* Is what we send by that rail refused, although the peer's comes by it? */
static bool is_refused(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    const btl_ib_conn_t *pair = rail == conn->rail ? conn : by_rail(rail, conn->name, from);

    return pair != NULL && btl_ib_validation_refuses(pair);
}

void btl_ib_failover_follow(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from,
                            uint32_t stamp)
{
    const btl_ib_engine_t *engine = conn->engine;
    bool late = conn->echo_valid && !btl_ib_seq_before(conn->echo, stamp)
                && engine->now - conn->echo_at <= BTL_IB_STAMP_AGE;
    bool ours = engine->config.name < conn->name && conn->moved_at != 0
                && btl_ib_rail_usable(conn->via) && engine->now - conn->moved_at < DECIDED;

    if (rail != conn->via && btl_ib_rail_usable(rail) && !late && !ours
        && !is_refused(conn, rail, from)) {
        go_by(conn, rail, from);
    }
}

/* Ask by its own two rails, without going there: if the peer gets that it follows, and so do we when it
 * answers. */
static void ask_home(btl_ib_conn_t *conn)
{
    btl_ib_rail_t *via = conn->via;
    const btl_ib_addr_t to = conn->to;
    const btl_ib_queue_table_t *queues = conn->via_queues;

    conn->via = conn->rail;
    conn->to = conn->address;
    conn->via_queues = conn->peer_queues;
    btl_ib_validation_asked(conn);
    btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    conn->via = via;
    conn->to = to;
    conn->via_queues = queues;
}

void btl_ib_failover_home(btl_ib_conn_t *conn)
{
    if (conn->via != conn->rail && has_home(conn)) {
        ask_home(conn);
    }
}

void btl_ib_failover_ask(btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    for (uint32_t i = 0; i < engine->rail_count; i++) {
        const btl_ib_rail_t *rail = engine->rails[i];
        btl_ib_conn_t *other =
            rail == conn->via ? NULL : by_rail(rail, conn->name, BTL_IB_ADDR_UNKNOWN);
        if (other != NULL && other->via == rail) {
            btl_ib_ack_send(other, BTL_IB_FLAG_ACK_NOW);
        } else if (other != NULL) {
            btl_ib_failover_home(other);
        }
    }
}

bool btl_ib_failover_if_heard(btl_ib_conn_t *conn, uint64_t since)
{
    const btl_ib_engine_t *engine = conn->engine;

    for (uint32_t i = 0; i < engine->rail_count; i++) {
        const btl_ib_rail_t *rail = engine->rails[i];
        const btl_ib_conn_t *other =
            rail == conn->via ? NULL : by_rail(rail, conn->name, BTL_IB_ADDR_UNKNOWN);
        if (other != NULL && other->via == rail && other->heard_at > since
            && !btl_ib_validation_refuses(other) && go_by(conn, rail, BTL_IB_ADDR_UNKNOWN)) {
            tell(conn);
            return true;
        }
    }
    return false;
}
