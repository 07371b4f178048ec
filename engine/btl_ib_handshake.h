/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of a datagram that arrives: its connection is found, or made by a handshake, and
 * it is checked and taken in. */

#ifndef BTL_IB_HANDSHAKE_H
#define BTL_IB_HANDSHAKE_H

#include "btl_ib_engine_internal.h"

/* The receive path of a datagram: parse it, find its connection, check it, take it in. */

/* A datagram came by `rail`, and `count` - 1 other events behind it. Returns how many of them were
 * handled: it, and the datagrams that continue it (btl_ib_reasm.h). May run callbacks, and end
 * connections. */
int btl_ib_recv(btl_ib_rail_t *rail, const btl_ib_event_t *event, int count);

#endif
