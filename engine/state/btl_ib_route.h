/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * By which rail and to which address a connection's datagrams go, and which other connections there are with the same process:
 * one for each pair of rails that can reach each other.
 */

#ifndef BTL_IB_ROUTE_H
#define BTL_IB_ROUTE_H

#include "btl_ib_state.h"

/* A new connection goes by its own rail, to the address that the peer published. 0, or -errno of the transport; a device that
 * failed may not be able to take an address: then connections go by other rails only. */
int btl_ib_route_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info);

/* Give all addresses back. */
void btl_ib_route_fini(btl_ib_conn_t *conn);

/* Can its own two rails carry it? */
bool btl_ib_route_has_own(const btl_ib_conn_t *conn);

/* Go by the two rails that `other` joins, whatever route that goes itself; NULL: by the connection's own again. False, and
 * nothing changed, if that cannot be. */
bool btl_ib_route_take(btl_ib_conn_t *conn, const btl_ib_conn_t *other);

/* For one datagram: go by its own rails, without leaving the present route; and back to that, a copy of which was taken before. */
void btl_ib_route_by_own(btl_ib_conn_t *conn);
void btl_ib_route_restore(btl_ib_conn_t *conn, const btl_ib_route_t *before);

/* A living connection with the process `name` by our rail `rail`, if that can be used; `from`: to that address there, if it is
 * known. NULL: none. */
btl_ib_conn_t *btl_ib_route_by_rail(const btl_ib_rail_t *rail, uint64_t name, btl_ib_addr_t from);

/* May its datagrams come from there, by that rail? */
bool btl_ib_route_is_source(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                            btl_ib_addr_t from);

/* The connection whose own two rails carry this one now: itself, if it goes by its own. NULL: that is no more. */
btl_ib_conn_t *btl_ib_route_carrier(const btl_ib_conn_t *conn);

#endif
