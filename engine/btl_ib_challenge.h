/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Peers behind a router that rewrites the source of what they send (NAT). */

#ifndef BTL_IB_CHALLENGE_H
#define BTL_IB_CHALLENGE_H

#include "btl_ib_engine.h"

/*
 * A datagram with a peer's token comes from an address that the peer never published. A router may
 * have rewritten it; but anybody who saw the datagram can also have sent it again, from anywhere.
 * So it is dropped, and that address gets a challenge (RFC 9000, 8.2 and 9.3), the only answer to
 * which is made with both processes' secrets, and goes to where the peer knows us to be. If an
 * answer comes from that very address, what is for the peer goes there.
 *
 * Nothing is kept of a challenge: it is a hash, under a key that is known to nobody else, of the
 * connection, the address and the time. So a flood of sources takes no memory; and the answer tells
 * for which address it is.
 *
 * A relay that hands the answer on would seem to be such a router, and is one. It does not get far
 * with a peer that is heard from where it should be: then nobody is challenged, and no answer is
 * believed (RFC 9000, 9.3.3).
 *
 * A challenge goes back by the flow that the datagram came by: routers lead back only what answers.
 * By another one it would begin a flow of its own, whose entry in a connection tracker keeps the
 * peer's own flow by those ports from being led back.
 *
 * If routers rewrite the sources of both, one address is enough: what is sent there is led back as
 * an answer, from where its sender should be. So the process with the smaller name lets the other
 * one ask first.
 *
 * Amplification: a challenge is a header, and no datagram is shorter; it is sent for one that had
 * the token, at most one in BTL_IB_CHALLENGE_PAUSE for each connection.
 */

/* us between two challenges of a connection. */
#define BTL_IB_CHALLENGE_PAUSE 20000u

/* us without anything from where the peer should be, until another address is asked. */
#define BTL_IB_CHALLENGE_QUIET 250000u

/* us for which an answer is good, at least; at most twice as long. */
#define BTL_IB_CHALLENGE_VALID (UINT64_C(1) << 20)

/* Challenges an address that is none of the peer's, from which a datagram with the token of `conn`
 * came by `rail`. */
void btl_ib_challenge_send(btl_ib_conn_t *conn, btl_ib_rail_t *rail,
                           const btl_ib_arrival_t *arrival);

/* Takes in a challenge, or the answer to one, that names `conn`; NULL: no connection of ours. */
void btl_ib_challenge_received(btl_ib_conn_t *conn, btl_ib_rail_t *rail,
                               const btl_ib_arrival_t *arrival);

/* Notes that a datagram that passed all checks came from where the peer was before a router had it
 * elsewhere. If nothing is answered that goes to the router's address, that router may be gone:
 * what is for the peer goes to where it was. */
void btl_ib_challenge_inside(btl_ib_conn_t *conn);

/* Sends a datagram of a header alone to an address of that rail, by that flow. What its header says
 * proves it: its receiver may have no key, so the trailer of a keyed protection is zeros. `peer`:
 * the name of the process, for traces. False: it did not leave. */
bool btl_ib_header_send(btl_ib_rail_t *rail, btl_ib_addr_t to, const btl_ib_wire_header_t *header,
                        uint8_t flow, uint64_t peer);

#endif
