/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The route of a connection: over which rail and to which address its datagrams go. */

#ifndef BTL_IB_ROUTE_H
#define BTL_IB_ROUTE_H

#include "btl_ib_engine.h"

/*
 * Routes: over which rail and to which address a connection's datagrams go (conn->route), and which
 * other connections there are with the same process: one for each pair of rails that reach each
 * other.
 */

/* The peer's address until a router's took its place, from which datagrams may come still. */
typedef struct btl_ib_inside {
    btl_ib_addr_t address;
    uint32_t published_len;
    uint8_t published[BTL_IB_ADDR_BYTES]; /* `address` as the peer, or a router, had it */
} btl_ib_inside_t;

/* Over which rail and to which address datagrams go. */
typedef struct btl_ib_route {
    struct btl_ib_rail *via;            /* sends its datagrams: conn->rail, unless that failed */
    btl_ib_addr_t to;                   /* the peer's address on `via` */
    const btl_ib_queue_table_t *queues; /* the peer's, by `via` */
    uint64_t moved_at;                  /* us: last change of route */
    /* The peer's address on conn->rail; BTL_IB_ADDR_UNKNOWN if the rail did not take it. */
    btl_ib_addr_t address;
    bool own; /* whether `via` is conn->rail and `to` is `address`, as note_own() keeps it */
    uint32_t published_len;
    uint8_t published[BTL_IB_ADDR_BYTES]; /* `address` as the peer published it, or as a router
                                           * has it */
    btl_ib_inside_t *inside;              /* NULL: no router's address took the place of its own */
} btl_ib_route_t;

/* A connection's neighbours in two hash chains of `btl_ib_routes_t`. */
typedef struct btl_ib_route_chains {
    struct btl_ib_conn *next_own; /* by `rail` and route.address */
    struct btl_ib_conn *next_to;  /* by route.via and route.to */
} btl_ib_route_chains_t;

/* Connections by the addresses of their peers: what a network, or a device, says of an address must
 * not cost more because there are many others. */
typedef struct btl_ib_routes {
    uint32_t remote; /* no connection is with a peer's rail of this number, or a higher one */
    uint32_t count;  /* connections */
    uint32_t size;   /* of both tables: 0 or a power of two */
    struct btl_ib_conn **own, **to; /* the first of each chain */
} btl_ib_routes_t;

/* Begins with the connection's own rail, and the address that the peer published. Returns 0, or
 * -errno of the transport. A failed device may not be able to add an address: then 0, and
 * connections go over other rails only. */
int btl_ib_route_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info);

/* Releases all addresses. */
void btl_ib_route_fini(btl_ib_conn_t *conn);

/* Takes an address that a router has for the peer, where it has answered, as the peer's from now
 * on. Returns false if the transport does not take it: nothing changed. */
bool btl_ib_route_rewritten(btl_ib_conn_t *conn, const uint8_t *address, uint32_t len);

/* Goes back to the address before the router's, to which nothing gets: the two change places.
 * Returns false if there is none. */
bool btl_ib_route_return(btl_ib_conn_t *conn);

/* Tries again to add the peer's address, if its rail did not take it, for want of memory
 * perhaps. */
void btl_ib_route_retry(btl_ib_conn_t *conn);

/* Frees the tables of an engine without connections; and returns the bytes of those of so many. */
void btl_ib_routes_fini(btl_ib_engine_t *engine);
uint64_t btl_ib_routes_bytes(uint32_t connections);

/* Returns the first connection that goes by `rail` to that address, or, for the second, whose own
 * rail and address these are; after `after` if that is not NULL. In any state. */
btl_ib_conn_t *btl_ib_route_to(const btl_ib_rail_t *rail, btl_ib_addr_t to,
                               const btl_ib_conn_t *after);
btl_ib_conn_t *btl_ib_route_of(const btl_ib_rail_t *rail, btl_ib_addr_t address,
                               const btl_ib_conn_t *after);

/* Notes that something is sent by this connection, which goes over its own rail. */
void btl_ib_route_used(btl_ib_conn_t *conn);

/* True if a connection's own two rails can carry it. */
bool btl_ib_route_has_own(const btl_ib_conn_t *conn);

/* Takes the two rails that `other` joins, whatever its own present route: those of another
 * connection, or the connection's own again. False, and nothing changed, if that is impossible. */
bool btl_ib_route_take(btl_ib_conn_t *conn, const btl_ib_conn_t *other);

/* Switches a connection to its own rails for one datagram, and back to a copy of the route taken
 * before. */
void btl_ib_route_by_own(btl_ib_conn_t *conn);
void btl_ib_route_restore(btl_ib_conn_t *conn, const btl_ib_route_t *before);

/* Returns an open connection with process `name` over our rail `rail`, if that is usable, to
 * address `from` (BTL_IB_ADDR_UNKNOWN: any). NULL: none. */
btl_ib_conn_t *btl_ib_route_by_rail(const btl_ib_rail_t *rail, uint64_t name, btl_ib_addr_t from);

/* Returns the open connection with the same process after `other`, whose rail is usable; NULL: the
 * first, which may be `conn` itself. NULL if there is none. */
btl_ib_conn_t *btl_ib_route_next(const btl_ib_conn_t *conn, const btl_ib_conn_t *other);

/* True if a connection's datagrams may come from `from` over that rail. BTL_IB_ADDR_UNKNOWN: any
 * address. */
bool btl_ib_route_is_source(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                            btl_ib_addr_t from);

/* Returns the peer's address on `rail` at whose host a datagram of an unknown source began: it came
 * by the peer's spare flow then. BTL_IB_ADDR_UNKNOWN: there is none by which the peer was heard
 * before, or that a router has for it. */
btl_ib_addr_t btl_ib_route_at_host(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                                   const btl_ib_event_t *event);

/* Returns the connection whose own two rails carry this one now: itself, unless it was rerouted.
 * NULL: that connection is gone. */
btl_ib_conn_t *btl_ib_route_carrier(const btl_ib_conn_t *conn);

#endif
