/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * By which rail and to which address a connection's datagrams go (conn->route), and which other
 * connections there are with the same process: one for each pair of rails that reach each other.
 */

#ifndef BTL_IB_ROUTE_H
#define BTL_IB_ROUTE_H

#include "btl_ib_state.h"

/* A new connection goes by its own rail, to the address that the peer published. Returns 0, or
 * -errno of the transport. A failed device may not be able to add an address: then 0, and
 * connections go by other rails only. */
int btl_ib_route_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info);

/* Release all addresses. */
void btl_ib_route_fini(btl_ib_conn_t *conn);

/* Another transport took the place of the one of `rail`, whose addresses are no longer valid. A
 * connection of another rail that went by it goes by its own. */
void btl_ib_route_renew(btl_ib_conn_t *conn, const btl_ib_rail_t *rail);

/* The peer tells where its rail is now. False if that is no address of this transport: nothing
 * changed. */
bool btl_ib_route_replace(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Can datagrams be handed to the transport of its present route? Not if the device failed, or the
 * transport did not take the peer's address. A port that is down takes and loses them. */
static inline bool btl_ib_route_leads(const btl_ib_conn_t *conn)
{
    return !conn->route.via->health.failed && conn->route.to != BTL_IB_ADDR_UNKNOWN;
}

/* If its rail did not take the peer's address, for want of memory perhaps: try again. */
void btl_ib_route_retry(btl_ib_conn_t *conn);

/* A rail stands by: no connection goes by it until one is used (btl_ib_route_used()). */
void btl_ib_route_stand_by(btl_ib_rail_t *rail);

/* Somebody sends by this connection, which goes by its own rail. */
void btl_ib_route_used(btl_ib_conn_t *conn);

/* Do its datagrams go by its own two rails? */
static inline bool btl_ib_route_is_own(const btl_ib_conn_t *conn)
{
    return conn->route.via == conn->rail && conn->route.to == conn->route.address;
}

/* Are `rail` and `from` (BTL_IB_ADDR_UNKNOWN: any address) its own two rails? */
static inline bool btl_ib_route_owns(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                                     btl_ib_addr_t from)
{
    return rail == conn->rail && (from == BTL_IB_ADDR_UNKNOWN || from == conn->route.address);
}

/* Can its own two rails carry it? */
bool btl_ib_route_has_own(const btl_ib_conn_t *conn);

/* Take the two rails that `other` joins, whatever its own present route; NULL: back to the
 * connection's own. False, and nothing changed, if that is impossible. */
bool btl_ib_route_take(btl_ib_conn_t *conn, const btl_ib_conn_t *other);

/* For one datagram: switch to its own rails, and back to a copy of the route taken before. */
void btl_ib_route_by_own(btl_ib_conn_t *conn);
void btl_ib_route_restore(btl_ib_conn_t *conn, const btl_ib_route_t *before);

/* An open connection with process `name` by our rail `rail`, if that is usable, to address
 * `from` (BTL_IB_ADDR_UNKNOWN: any). NULL: none. */
btl_ib_conn_t *btl_ib_route_by_rail(const btl_ib_rail_t *rail, uint64_t name, btl_ib_addr_t from);

/* The open connection with the same process after `other`, whose rail is usable; NULL: the first,
 * which may be `conn` itself. NULL if there is none. */
btl_ib_conn_t *btl_ib_route_next(const btl_ib_conn_t *conn, const btl_ib_conn_t *other);

/* May its datagrams come from `from` by that rail? BTL_IB_ADDR_UNKNOWN: any address. */
bool btl_ib_route_is_source(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                            btl_ib_addr_t from);

/* The connection whose own two rails carry this one now: itself, unless it was rerouted. NULL:
 * that connection is gone. */
btl_ib_conn_t *btl_ib_route_carrier(const btl_ib_conn_t *conn);

#endif
