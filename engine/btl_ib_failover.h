/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Failover: a connection goes on over the rails of another one with the same process. */

#ifndef BTL_IB_FAILOVER_H
#define BTL_IB_FAILOVER_H

#include "btl_ib_engine.h"

/*
 * A connection goes on over another rail when its own fails. Its id, tokens, windows, credits and
 * queues remain those of the two rails that it joins. Only the route of its datagrams changes, to
 * the two rails of another connection with the same process. No message is needed for that: a
 * process that gets a valid datagram of a connection over another route than before answers by that
 * route.
 */

/* Notes that something came from the peer by the connection's own two rails for the first time.
 * What waited for that may leave. Pairs of rails to the same peer that are not validated are probed
 * again, with short intervals. */
void btl_ib_failover_validated(btl_ib_conn_t *conn);

/* Sends a CONNECT over the rails of another connection, if its datagrams go by these and the peer
 * may not know the connection yet. */
void btl_ib_failover_send_connect(const btl_ib_conn_t *conn);

/* Goes on over another rail by which there is a connection with the same process, and tells the
 * peer. Returns false if none carries what is in flight. Runs no callback. */
bool btl_ib_failover(btl_ib_conn_t *conn);

/* Notes that a peer made this connection, for a rail that cannot be used here, by a datagram from
 * `from` that came by `rail`: it goes by that one. */
void btl_ib_failover_made(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from);

/* Probes the connection's own route, if it uses another: it may work again. */
void btl_ib_failover_probe_own(btl_ib_conn_t *conn);

/* Takes the peer's route, by which a valid datagram with time stamp `stamp` came, if it is another
 * than the one in use and the datagram is not late. */
void btl_ib_failover_follow(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from,
                            uint32_t stamp);

/* Looks for another route before a silent peer is probed. Silence alone is no reason to move: it
 * may compute. But if its process answers over another rail, this route is broken. A peer that
 * answers over this route needs no other as a rule: what does not get through is too large
 * (btl_ib_pmtud.h), or was deferred. Returns true if the connection goes on over another rail. */
bool btl_ib_failover_on_silence(btl_ib_conn_t *conn);

/* Takes another route, if there is one, for a connection whose present route is refused: at once if
 * that was never validated, else after refusals of BTL_IB_REFUSED_LONG. Only a peer that is refused
 * over all routes is dead. Refusals of an address that a router has for the peer change nothing:
 * the router may have forgotten it. False if it is dead: the callback may have changed everything.
 * */
bool btl_ib_failover_on_refusal(btl_ib_conn_t *conn);

/* Goes over the two rails of a connection with the same process, and tells the peer. Returns false
 * if that is impossible. Runs no callback. */
bool btl_ib_failover_to(btl_ib_conn_t *conn, const btl_ib_conn_t *other);

#endif
