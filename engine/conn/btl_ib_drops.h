/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Datagrams that were dropped, for whoever looks for a fault. */

#ifndef BTL_IB_DROPS_H
#define BTL_IB_DROPS_H

#include "btl_ib_state.h"

/* Sets engine->drops if config.log wants details; without memory nothing is shown. */
void btl_ib_drops_init(btl_ib_engine_t *engine);

/* Prints what waits. */
void btl_ib_drops_fini(btl_ib_engine_t *engine);

/* The rest only where engine->drops is set. */

/* A datagram was taken in, or dropped: of a counter that grew since the last one there is a line, 20 a second at
 * most, in a kick with the next turn. The datagram's buffer is not reposted yet. */
void btl_ib_drops_note(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* In each turn of the owner's: what kicks left, and how many have no line. */
void btl_ib_drops_turn(btl_ib_engine_t *engine);

#endif
