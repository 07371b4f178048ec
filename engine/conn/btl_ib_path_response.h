/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * PATH_RESPONSE: tells the sender of a first contact that its datagram got here, while the sender
 * cannot be looked up. (Named after QUIC's frame: RFC 9000, 8.2.)
 */

#ifndef BTL_IB_PATH_RESPONSE_H
#define BTL_IB_PATH_RESPONSE_H

#include "btl_ib_state.h"

/* Send one to the sender of a datagram that names it. It goes to where the datagram came from,
 * because the sender's address is not known before the lookup. A forged datagram makes us send no
 * more bytes than it had itself. */
void btl_ib_path_response_send(btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival);

/* Does it come from the peer, and is it of this incarnation of the connection? */
bool btl_ib_path_response_is_genuine(const btl_ib_conn_t *conn, const btl_ib_view_t *view);

#endif
