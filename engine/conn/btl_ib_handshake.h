/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which connection does a datagram belong to? First contact, reopened connections, restarted processes.
 *
 * Every segment carries a CONNECT block until its sender knows that the peer has its id, so the first
 * datagram can carry data and losing any one of them loses nothing else. Both sides may begin at once:
 * each finds the other's name in its table and takes down the id.
 */

#ifndef BTL_IB_HANDSHAKE_H
#define BTL_IB_HANDSHAKE_H

#include "btl_ib_state.h"

/*
 * Whose is this datagram? NULL if it is nobody's we know, its token is wrong or its key does not
 * open it (counted). Makes a passive connection if it is a good first contact. With a keyed guard it comes with
 * btl_ib_wire_peek()'s part of the view, and returns with all of it. What it says of an earlier life of
 * ours is taken out of the view.
 */
btl_ib_conn_t *btl_ib_handshake_accept(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival);

#endif
