/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What transports say of peers, and of the device itself. */

#ifndef BTL_IB_RAIL_H
#define BTL_IB_RAIL_H

#include "btl_ib_state.h"

/* Neither a datagram nor the end of a send or operation, but news of a peer, or of the device. True if
 * the device failed and the owner is still to be told (btl_ib_rail_report_failure()), because this is a kick. */
bool btl_ib_rail_event(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* A port that is down: has it been for too long? Then the device failed. Returns as above. */
bool btl_ib_rail_check_down(btl_ib_rail_t *rail);

/* A device failed: the owner is told, and the connections that could not go on are dead. Not in a kick. */
void btl_ib_rail_report_failure(btl_ib_rail_t *rail);

#endif
