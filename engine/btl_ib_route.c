/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_route.h"

#include "btl_ib_state.h"
#include "transport.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { CHAINS_FIRST = 16 }; /* as in btl_ib_table.c */

static struct btl_ib_conn **chain_of(const btl_ib_routes_t *routes, struct btl_ib_conn **table,
                                     const btl_ib_rail_t *rail, btl_ib_addr_t address)
{
    const uint64_t hash = (address ^ ((uint64_t) rail->index << 56)) * UINT64_C(0x9e3779b97f4a7c15);

    return &table[(hash >> 32) & (routes->size - 1)];
}

/* Puts a connection at the end of the chain of its own address, so that those of one address stay
 * in the order in which they came. */
static void chain_own(btl_ib_conn_t *conn)
{
    btl_ib_routes_t *routes = &conn->engine->routes;
    btl_ib_conn_t **at = chain_of(routes, routes->own, conn->rail, conn->route.address);

    while (*at != NULL) {
        at = &(*at)->chains.next_own;
    }
    *at = conn;
    conn->chains.next_own = NULL;
}

static void chain_to(btl_ib_conn_t *conn)
{
    btl_ib_routes_t *routes = &conn->engine->routes;
    btl_ib_conn_t **at = chain_of(routes, routes->to, conn->route.via, conn->route.to);

    while (*at != NULL) {
        at = &(*at)->chains.next_to;
    }
    *at = conn;
    conn->chains.next_to = NULL;
}

/* Notes whether a connection goes over its own two rails, after either end of its route was set. */
static void note_own(btl_ib_conn_t *conn)
{
    conn->route.own = conn->route.via == conn->rail && conn->route.to == conn->route.address;
}

/* Sets a connection's own address, or none any more. */
static void set_address(btl_ib_conn_t *conn, btl_ib_addr_t address)
{
    btl_ib_routes_t *routes = &conn->engine->routes;

    if (conn->route.address != BTL_IB_ADDR_UNKNOWN) {
        btl_ib_conn_t **at = chain_of(routes, routes->own, conn->rail, conn->route.address);
        while (*at != conn) {
            assert(*at != NULL); /* what has an address is in its chain */
            at = &(*at)->chains.next_own;
        }
        *at = conn->chains.next_own;
    }
    conn->route.address = address;
    note_own(conn);
    if (address != BTL_IB_ADDR_UNKNOWN) {
        chain_own(conn);
    }
}

/* Sets the rail and address by which a connection goes. */
static void set_to(btl_ib_conn_t *conn, btl_ib_rail_t *via, btl_ib_addr_t to)
{
    btl_ib_routes_t *routes = &conn->engine->routes;

    if (conn->route.to != BTL_IB_ADDR_UNKNOWN) {
        btl_ib_conn_t **at = chain_of(routes, routes->to, conn->route.via, conn->route.to);
        while (*at != conn) {
            assert(*at != NULL);
            at = &(*at)->chains.next_to;
        }
        *at = conn->chains.next_to;
    }
    conn->route.via = via;
    conn->route.to = to;
    note_own(conn);
    if (to != BTL_IB_ADDR_UNKNOWN) {
        chain_to(conn);
    }
}

/* Makes room for one more. Without memory chains become longer. */
static int grow_chains(btl_ib_engine_t *engine)
{
    btl_ib_routes_t *routes = &engine->routes;
    const uint32_t size = routes->size == 0 ? CHAINS_FIRST : 2 * routes->size;

    if (routes->count < routes->size) {
        return 0;
    }
    btl_ib_conn_t **own = btl_ib_zalloc(&engine->mem, size * sizeof(btl_ib_conn_t *));
    btl_ib_conn_t **to = btl_ib_zalloc(&engine->mem, size * sizeof(btl_ib_conn_t *));
    if (own == NULL || to == NULL) {
        btl_ib_free(&engine->mem, own);
        btl_ib_free(&engine->mem, to);
        return routes->size == 0 ? -ENOMEM : 0;
    }
    const btl_ib_routes_t old = *routes;
    routes->own = own;
    routes->to = to;
    routes->size = size;
    for (uint32_t i = 0; i < old.size; i++) {
        for (btl_ib_conn_t *conn = old.own[i], *next; conn != NULL; conn = next) {
            next = conn->chains.next_own;
            chain_own(conn);
        }
        for (btl_ib_conn_t *conn = old.to[i], *next; conn != NULL; conn = next) {
            next = conn->chains.next_to;
            chain_to(conn);
        }
    }
    btl_ib_free(&engine->mem, old.own);
    btl_ib_free(&engine->mem, old.to);
    return 0;
}

void btl_ib_routes_fini(btl_ib_engine_t *engine)
{
    btl_ib_free(&engine->mem, engine->routes.own);
    btl_ib_free(&engine->mem, engine->routes.to);
    engine->routes = (btl_ib_routes_t){.remote = 0};
}

uint64_t btl_ib_routes_bytes(uint32_t connections)
{
    return btl_ib_estimate_doubled(CHAINS_FIRST, connections) * 2 * sizeof(btl_ib_conn_t *);
}

btl_ib_conn_t *btl_ib_route_to(const btl_ib_rail_t *rail, btl_ib_addr_t to,
                               const btl_ib_conn_t *after)
{
    const btl_ib_routes_t *routes = &rail->engine->routes;
    btl_ib_conn_t *conn = after != NULL       ? after->chains.next_to
                          : routes->size == 0 ? NULL
                                              : *chain_of(routes, routes->to, rail, to);

    while (conn != NULL && (conn->route.via != rail || conn->route.to != to)) {
        conn = conn->chains.next_to;
    }
    return conn;
}

btl_ib_conn_t *btl_ib_route_of(const btl_ib_rail_t *rail, btl_ib_addr_t address,
                               const btl_ib_conn_t *after)
{
    const btl_ib_routes_t *routes = &rail->engine->routes;
    btl_ib_conn_t *conn = after != NULL       ? after->chains.next_own
                          : routes->size == 0 ? NULL
                                              : *chain_of(routes, routes->own, rail, address);

    while (conn != NULL && (conn->rail != rail || conn->route.address != address)) {
        conn = conn->chains.next_own;
    }
    return conn;
}

void btl_ib_route_by_own(btl_ib_conn_t *conn)
{
    set_to(conn, conn->rail, conn->route.address);
    conn->route.queues = conn->peer_queues;
}

void btl_ib_route_restore(btl_ib_conn_t *conn, const btl_ib_route_t *before)
{
    set_address(conn, before->address);
    set_to(conn, before->via, before->to);
    conn->route = *before;
}

/* Releases the address on another rail. */
static void release_address(btl_ib_conn_t *conn)
{
    if (!btl_ib_route_is_own(conn)) {
        conn->route.via->transport->ops->addr_remove(conn->route.via->transport, conn->route.to);
        btl_ib_route_by_own(conn);
    }
}

/* Releases the address that a router's took the place of. */
static void release_inside(btl_ib_conn_t *conn)
{
    btl_ib_transport_t *transport = conn->rail->transport;
    btl_ib_inside_t *inside = conn->route.inside;

    if (inside != NULL && inside->address != BTL_IB_ADDR_UNKNOWN) {
        transport->ops->addr_remove(transport, inside->address);
    }
    btl_ib_free(&conn->engine->mem, inside);
    conn->route.inside = NULL;
}

void btl_ib_route_fini(btl_ib_conn_t *conn)
{
    const btl_ib_addr_t address = conn->route.address;

    release_address(conn);
    release_inside(conn);
    set_to(conn, conn->rail, BTL_IB_ADDR_UNKNOWN);
    set_address(conn, BTL_IB_ADDR_UNKNOWN);
    conn->engine->routes.count--;
    if (address != BTL_IB_ADDR_UNKNOWN) {
        conn->rail->transport->ops->addr_remove(conn->rail->transport, address);
    }
}

/* Adds the address on the own rail that was published. Returns 0 or what the transport says. */
static int add_own(btl_ib_conn_t *conn)
{
    btl_ib_transport_t *transport = conn->rail->transport;
    btl_ib_addr_t address;
    const int rc = transport->ops->addr_add(transport, conn->route.published,
                                            conn->route.published_len, &address);

    set_address(conn, rc == 0 ? address : BTL_IB_ADDR_UNKNOWN);
    return rc;
}

int btl_ib_route_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info)
{
    btl_ib_routes_t *routes = &conn->engine->routes;

    conn->route.address = BTL_IB_ADDR_UNKNOWN;
    conn->route.to = BTL_IB_ADDR_UNKNOWN;
    conn->route.published_len = info->address_len;
    memcpy(conn->route.published, info->address, info->address_len);
    int rc = grow_chains(conn->engine);
    if (rc == 0) {
        routes->remote = btl_ib_max_u32(routes->remote, info->rail + 1);
        rc = add_own(conn);
        btl_ib_route_by_own(conn);
        rc = conn->rail->health.failed ? 0 : rc;
    }
    if (rc == 0) {
        routes->count++;
    }
    return rc;
}

void btl_ib_engine_rail_stands_by(btl_ib_engine_t *engine, uint32_t rail)
{
    engine->rails[rail]->use.stands_by = true;
    btl_ib_work_note(&engine->work);
}

void btl_ib_route_used(btl_ib_conn_t *conn)
{
    conn->rail->use.stands_by = false;
}

void btl_ib_route_retry(btl_ib_conn_t *conn)
{
    if (conn->route.address == BTL_IB_ADDR_UNKNOWN && !conn->rail->health.failed
        && add_own(conn) == 0 && conn->route.via == conn->rail) {
        btl_ib_route_by_own(conn);
    }
}

/* Exchanges the address of `other` and the connection's own. */
static void swap_inside(btl_ib_conn_t *conn, btl_ib_inside_t *other)
{
    btl_ib_route_t *route = &conn->route;
    const bool own = btl_ib_route_is_own(conn);
    btl_ib_inside_t before = {.address = route->address, .published_len = route->published_len};

    memcpy(before.published, route->published, before.published_len);
    set_address(conn, other->address);
    route->published_len = other->published_len;
    memcpy(route->published, other->published, other->published_len);
    *other = before;
    if (own) {
        btl_ib_route_by_own(conn);
    }
}

bool btl_ib_route_rewritten(btl_ib_conn_t *conn, const uint8_t *address, uint32_t len)
{
    btl_ib_transport_t *transport = conn->rail->transport;
    btl_ib_inside_t *inside = btl_ib_zalloc(&conn->engine->mem, sizeof(*inside));

    if (inside == NULL
        || transport->ops->addr_add(transport, address, len, &inside->address) != 0) {
        btl_ib_free(&conn->engine->mem, inside);
        return false;
    }
    inside->published_len = len;
    memcpy(inside->published, address, len);
    swap_inside(conn, inside);
    release_inside(conn);
    conn->route.inside = inside;
    return true;
}

bool btl_ib_route_return(btl_ib_conn_t *conn)
{
    if (conn->route.inside == NULL || conn->route.inside->address == BTL_IB_ADDR_UNKNOWN) {
        return false;
    }
    swap_inside(conn, conn->route.inside);
    return true;
}

bool btl_ib_route_has_own(const btl_ib_conn_t *conn)
{
    return btl_ib_rail_usable(conn->rail) && conn->route.address != BTL_IB_ADDR_UNKNOWN;
}

static bool join_route(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    btl_ib_transport_t *transport = other->rail->transport;
    btl_ib_addr_t to;

    if (transport->ops->addr_add(transport, other->route.published, other->route.published_len, &to)
        != 0) {
        return false;
    }
    release_address(conn);
    other->rail->use.stands_by = false;
    set_to(conn, other->rail, to);
    conn->route.queues = other->peer_queues;
    return true;
}

bool btl_ib_route_take(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    if (other != conn ? !join_route(conn, other) : !btl_ib_route_has_own(conn)) {
        return false;
    }
    if (other == conn) {
        release_address(conn);
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
            && (from == BTL_IB_ADDR_UNKNOWN || conn->route.address == from
                || btl_ib_route_is_inside(conn, from))) {
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

    return (rail == conn->rail
            && (any || from == route->address || btl_ib_route_is_inside(conn, from)))
           || (rail == route->via && (any || from == route->to))
           || btl_ib_route_by_rail(rail, conn->identity.name, from) != NULL;
}

/* True if a datagram came from the host of the address of a connection, by which its peer was heard
 * before. Not if a router has that: it may have a new port for the peer. */
static bool is_at_host(const btl_ib_conn_t *conn, const btl_ib_event_t *event)
{
    const btl_ib_transport_t *transport = conn->rail->transport;

    return btl_ib_conn_alive(conn) && conn->validation.valid && conn->route.inside == NULL
           && conn->route.address != BTL_IB_ADDR_UNKNOWN
           && transport->ops->from_host(transport, event, conn->route.address);
}

btl_ib_addr_t btl_ib_route_at_host(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                                   const btl_ib_event_t *event)
{
    const bool tells = rail->transport->ops->from_host != NULL && event->buffer != NULL;
    const btl_ib_conn_t *other =
        tells && rail == conn->route.via ? btl_ib_route_carrier(conn) : NULL;

    if (other != NULL && is_at_host(other, event)) { /* several addresses may be of one host */
        return other->route.address;
    }
    for (uint32_t remote = 0; tells && remote < rail->engine->routes.remote; remote++) {
        other =
            btl_ib_table_by_name(&rail->engine->table, conn->identity.name, rail->index, remote);
        if (other != NULL && is_at_host(other, event)) {
            return other->route.address;
        }
    }
    return BTL_IB_ADDR_UNKNOWN;
}

btl_ib_conn_t *btl_ib_route_carrier(const btl_ib_conn_t *conn)
{
    return btl_ib_route_by_rail(conn->route.via, conn->identity.name, conn->route.to);
}
