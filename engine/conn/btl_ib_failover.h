/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* By which rail a connection goes on when its own fails. */

#ifndef BTL_IB_FAILOVER_H
#define BTL_IB_FAILOVER_H

#include "btl_ib_state.h"

/* Something of the peer's came by the connection's own two rails for the first time: what waited for
 * that goes, and the peer is asked anew by pairs of rails that are not validated, with short pauses. */
void btl_ib_failover_validated(btl_ib_conn_t *conn);

/* The way that it goes by is refused: go by another that is not. False if there is none. */
bool btl_ib_failover_refused(btl_ib_conn_t *conn);

/* What carries it belongs to a connection that the peer may not know yet: introduce that. */
void btl_ib_failover_introduce(const btl_ib_conn_t *conn);

/* Go on by another rail by which there is a connection with the same process, and tell the peer. False: there
 * is none that carries what is under way. Calls nothing up. */
bool btl_ib_failover(btl_ib_conn_t *conn);

/* The same, if the peer's process was heard by another connection after `since` (of engine->awake). */
bool btl_ib_failover_if_heard(btl_ib_conn_t *conn, uint64_t since);

/* Ask for a sign of life of the same process by all other rails. */
void btl_ib_failover_ask(btl_ib_conn_t *conn);

/* Is its own way well again? */
void btl_ib_failover_home(btl_ib_conn_t *conn);

/* A good datagram came, stamped so, by another way than what we send: if it is news, the peer's way is ours
 * from now on. */
void btl_ib_failover_follow(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from,
                            uint32_t stamp);

#endif
