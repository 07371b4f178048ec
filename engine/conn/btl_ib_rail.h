/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Handles what transports say of peers, and of the device itself. Writes rail->health. */

#ifndef BTL_IB_RAIL_H
#define BTL_IB_RAIL_H

#include "btl_ib_state.h"

/* Handle an event that is neither a datagram nor the end of a send or operation. True if the device
 * failed and btl_ib_rail_report_failure() is still to be called, because this is progress by the
 * thread. */
bool btl_ib_rail_event(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* Another transport is in the place of the one that failed: connections go by it again. Peers are
 * told, by other rails, where it is. */
void btl_ib_rail_replaced(btl_ib_rail_t *rail);

/* Has a port been down for too long? Then the device counts as failed. Returns as above. */
bool btl_ib_rail_check_down(btl_ib_rail_t *rail);

/* A device failed: report it, and end the connections that could not go on. Not in progress by the
 * thread. */
void btl_ib_rail_report_failure(btl_ib_rail_t *rail);

#endif
