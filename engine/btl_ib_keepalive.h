/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Questions to connected peers that are silent while nothing waits for them: else a process that
 * only receives would never learn that a peer is no more. Its host answers for a process that has
 * ended (REFUSED). Of a host that is gone the network says that it is unreachable: that counts
 * after four questions without an answer. Silence alone never does: a process that computes, is
 * stopped or suspended is silent, too.
 */

#ifndef BTL_IB_KEEPALIVE_H
#define BTL_IB_KEEPALIVE_H

#include <stdint.h>

#include "btl_ib_engine.h"

/* us between two looks. Each asks one silent peer for the first time, and one again that has not
 * answered. With thousands of peers it asks more, so that 16 pauses reach all. */
#define BTL_IB_KEEPALIVE_EACH 250000u

/* Keepalive of one connection. */
typedef struct btl_ib_keepalive {
    uint64_t asked_at; /* us */
    uint64_t awake;    /* the same by the engine's `awake` */
    uint32_t asked;    /* questions since it was heard; more are not counted */
} btl_ib_keepalive_t;

/* Looks at connections, when that is due; not in progress by the thread. May end a connection. */
void btl_ib_keepalive_look(btl_ib_engine_t *engine);

#endif
