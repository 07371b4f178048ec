/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* First contact, known peers, restarted ones: which connection a datagram belongs to. */

#ifndef BTL_IB_CONTACT_H
#define BTL_IB_CONTACT_H

#include "btl_ib_state.h"

/*
 * Whose is this datagram? NULL if it is nobody's we know, its token is wrong or its key does not
 * open it (counted). Makes a passive connection if it is a good first contact. With a keyed guard it comes with
 * btl_ib_wire_peek()'s part of the view, and returns with all of it. What it says of an earlier life of
 * ours is taken out of the view.
 */
btl_ib_conn_t *btl_ib_contact(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival);

/* Our token on what goes to the peer, for the connection's current epoch. */
void btl_ib_contact_begin(btl_ib_conn_t *conn);

#endif
