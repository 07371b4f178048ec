/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Datagrams that were dropped, one line each. Which of them and why is found by comparing the
 * counters before and after, so that nothing need be logged where one is dropped. engine->drops is
 * NULL if nobody listens.
 */

#ifndef BTL_IB_DROPS_H
#define BTL_IB_DROPS_H

#include "btl_ib_engine.h"

/* The log of an engine. */
typedef struct btl_ib_drops btl_ib_drops_t;

/* Makes engine->drops. Returns NULL if config.log wants no details, or without memory: nothing is
 * shown. */
btl_ib_drops_t *btl_ib_drops_new(const btl_ib_engine_t *engine);

/* The rest may be called only where engine->drops is set. */

/* Prints how many datagrams have no line, and frees engine->drops. */
void btl_ib_drops_end(btl_ib_engine_t *engine);

/* Notes a datagram that was taken in or dropped. Each drop counter that grew since the last call
 * gets a line, 20 a second at most. Call it before the datagram's buffer is reposted. */
void btl_ib_drops_note(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* Prints how many datagrams have no line; called in each turn of the application's own progress. */
void btl_ib_drops_turn(btl_ib_engine_t *engine);

#endif
