/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_route.h"

#include "btl_ib_min.h"

#include <assert.h>
#include <string.h>

static_assert(BTL_IB_ADDRESS_MAX == BTL_IB_ADDR_BYTES, "an ADDRESS holds that of any transport");

void btl_ib_route_by_own(btl_ib_conn_t *conn)
{
    conn->route.via = conn->rail;
    conn->route.to = conn->route.address;
    conn->route.queues = conn->peer_queues;
}

void btl_ib_route_restore(btl_ib_conn_t *conn, const btl_ib_route_t *before)
{
    conn->route = *before;
}

/* Release the address on another rail. */
static void leave(btl_ib_conn_t *conn)
{
    if (!btl_ib_route_is_own(conn)) {
        conn->route.via->transport->ops->addr_remove(conn->route.via->transport, conn->route.to);
        btl_ib_route_by_own(conn);
    }
}

void btl_ib_route_fini(btl_ib_conn_t *conn)
{
    leave(conn);
    if (conn->route.address != BTL_IB_ADDR_UNKNOWN) {
        conn->rail->transport->ops->addr_remove(conn->rail->transport, conn->route.address);
    }
}

/* The address on the own rail that was published or told last. Returns 0 or what the transport
 * says. */
static int add_own(btl_ib_conn_t *conn)
{
    btl_ib_transport_t *transport = conn->rail->transport;
    btl_ib_route_t *route = &conn->route;
    const int rc = transport->ops->addr_add(transport, route->published, route->published_len,
                                            &route->address);

    if (rc != 0) {
        route->address = BTL_IB_ADDR_UNKNOWN;
    }
    return rc;
}

int btl_ib_route_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info)
{
    conn->engine->routes.remote = btl_ib_max_u32(conn->engine->routes.remote, info->rail + 1);
    conn->route.published_len = info->address_len;
    memcpy(conn->route.published, info->address, info->address_len);
    const int rc = add_own(conn);
    btl_ib_route_by_own(conn);
    return conn->rail->health.failed ? 0 : rc;
}

void btl_ib_route_stand_by(btl_ib_rail_t *rail)
{
    rail->use.stands_by = true;
}

void btl_ib_route_used(btl_ib_conn_t *conn)
{
    conn->rail->use.stands_by = false;
}

void btl_ib_route_renew(btl_ib_conn_t *conn, const btl_ib_rail_t *rail)
{
    if (conn->rail == rail) {
        (void) add_own(conn);
    }
    if (conn->route.via == rail) {
        btl_ib_route_by_own(conn);
    }
}

void btl_ib_route_retry(btl_ib_conn_t *conn)
{
    if (conn->route.address == BTL_IB_ADDR_UNKNOWN && !conn->rail->health.failed
        && add_own(conn) == 0 && conn->route.via == conn->rail) {
        btl_ib_route_by_own(conn);
    }
}

bool btl_ib_route_replace(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_route_t *route = &conn->route;
    const btl_ib_route_t before = *route;
    const bool own = btl_ib_route_is_own(conn);

    route->published_len = view->size;
    memcpy(route->published, view->payload, view->size);
    const int rc = add_own(conn);
    if (rc != 0 && !conn->rail->health.failed) {
        *route = before;
        return false;
    }
    route->generation = view->where.generation;
    if (before.address != BTL_IB_ADDR_UNKNOWN) {
        conn->rail->transport->ops->addr_remove(conn->rail->transport, before.address);
    }
    if (own) {
        btl_ib_route_by_own(conn);
    }
    return true;
}

bool btl_ib_route_has_own(const btl_ib_conn_t *conn)
{
    return btl_ib_rail_usable(conn->rail) && conn->route.address != BTL_IB_ADDR_UNKNOWN;
}

static bool join(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    btl_ib_transport_t *transport = other->rail->transport;
    btl_ib_addr_t to;

    if (transport->ops->addr_add(transport, other->route.published, other->route.published_len, &to)
        != 0) {
        return false;
    }
    leave(conn);
    other->rail->use.stands_by = false;
    conn->route.via = other->rail;
    conn->route.to = to;
    conn->route.queues = other->peer_queues;
    return true;
}

bool btl_ib_route_take(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    if (other != NULL ? !join(conn, other) : !btl_ib_route_has_own(conn)) {
        return false;
    }
    if (other == NULL) {
        leave(conn);
    }
    conn->route.moved_at = conn->engine->clock.now;
    return true;
}

btl_ib_conn_t *btl_ib_route_by_rail(const btl_ib_rail_t *rail, uint64_t name, btl_ib_addr_t from)
{
    const uint32_t remotes = btl_ib_rail_usable(rail) ? rail->engine->routes.remote : 0;

    for (uint32_t remote = 0; remote < remotes; remote++) {
        btl_ib_conn_t *conn = btl_ib_table_by_name(&rail->engine->table, name, rail->index, remote);
        if (conn != NULL && btl_ib_conn_alive(conn)
            && (from == BTL_IB_ADDR_UNKNOWN || conn->route.address == from)) {
            return conn;
        }
    }
    return NULL;
}

btl_ib_conn_t *btl_ib_route_next(const btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    const btl_ib_engine_t *engine = conn->engine;
    const uint32_t remotes = engine->routes.remote;
    uint32_t rail = other != NULL ? other->rail->index : 0;

    for (uint32_t remote = other != NULL ? other->identity.remote_rail + 1 : 0;
         rail < engine->rail_count; rail++, remote = 0) {
        for (; remote < remotes && btl_ib_rail_usable(engine->rails[rail]); remote++) {
            btl_ib_conn_t *next =
                btl_ib_table_by_name(&engine->table, conn->identity.name, rail, remote);
            if (next != NULL && btl_ib_conn_alive(next)) {
                return next;
            }
        }
    }
    return NULL;
}

bool btl_ib_route_is_source(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                            btl_ib_addr_t from)
{
    const btl_ib_route_t *route = &conn->route;
    const bool any = from == BTL_IB_ADDR_UNKNOWN;

    return (rail == conn->rail && (any || from == route->address))
           || (rail == route->via && (any || from == route->to))
           || btl_ib_route_by_rail(rail, conn->identity.name, from) != NULL;
}

btl_ib_conn_t *btl_ib_route_carrier(const btl_ib_conn_t *conn)
{
    return btl_ib_route_by_rail(conn->route.via, conn->identity.name, conn->route.to);
}
