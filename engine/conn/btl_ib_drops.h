/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Shows dropped datagrams in the log, for debugging. */

#ifndef BTL_IB_DROPS_H
#define BTL_IB_DROPS_H

#include "btl_ib_state.h"

/* For engine->drops. NULL if config.log wants no details, or without memory: nothing is shown. */
btl_ib_drops_t *btl_ib_drops_new(const btl_ib_engine_t *engine);

/* The rest may be called only where engine->drops is set. */

/* Prints the lines that wait, and frees engine->drops. */
void btl_ib_drops_end(btl_ib_engine_t *engine);

/* A datagram was taken in or dropped. Each drop counter that grew since the last call gets a line,
 * 20 a second at most; in progress by the thread it waits for the application's own. Call it before
 * the datagram's buffer is reposted. */
void btl_ib_drops_note(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* In each turn of the application's own progress: print the lines that wait, and how many datagrams
 * have none. */
void btl_ib_drops_turn(btl_ib_engine_t *engine);

#endif
