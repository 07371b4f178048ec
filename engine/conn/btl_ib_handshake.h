/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Finds the connection of a datagram: first contact, reopened connections, restarted processes.
 *
 * Every segment carries a CONNECT block until its sender knows that the peer has its id. So the
 * first datagram can carry data, and the loss of any one of them loses nothing else. Both sides may
 * begin at once: each finds the other's name in its table and takes the id from the block.
 */

#ifndef BTL_IB_HANDSHAKE_H
#define BTL_IB_HANDSHAKE_H

#include "btl_ib_state.h"

/*
 * The connection of a datagram. NULL (and counted) if it has none that we know, its token is wrong
 * or its key does not open it. A valid first contact makes a passive connection. With a keyed guard
 * the view has only what btl_ib_wire_peek() read, and is complete on return. What the datagram says
 * of an earlier incarnation of ours is removed from the view.
 */
btl_ib_conn_t *btl_ib_handshake_accept(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival);

#endif
