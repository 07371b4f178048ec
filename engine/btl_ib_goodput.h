/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Rails that are too slow, by their goodput. */

#ifndef BTL_IB_GOODPUT_H
#define BTL_IB_GOODPUT_H

#include "btl_ib_engine.h"

/*
 * Finds connections whose two rails carry far less than others to the same process. A user of
 * several rails divides its messages by what devices claim, so one that claims 10 Gbit/s and
 * carries 20 Mbit/s holds all of them up. Sampled, because counting would cost each message.
 */

/* us between two samples. */
#define BTL_IB_GOODPUT_EACH 2000u

/* What a connection carries over its own two rails, in a period common to all connections with the
 * same process. */
typedef struct btl_ib_goodput {
    uint64_t bytes;      /* count.sent_bytes when the period began */
    uint64_t slow_until; /* us: until then it goes by others, as those carry far more */
    uint64_t sampled_at; /* us: the last sample */
    uint32_t acked;      /* segments, by the last sample; wraps */
    uint16_t busy;       /* samples in the period in which something waited for the network */
    uint8_t waited;      /* samples in which something waited, since ACKs came; 0: nothing waits */
    uint8_t times_left : 7; /* times in a row that it was found slow, as far as that counts */
    bool rerouted : 1;      /* it went by others at the last sample */
} btl_ib_goodput_t;

/* Samples connections, at most 64 in a call. One that is found slow goes over the rails of a better
 * one, for 10 s, and twice as long each time that it is found slow again. May call up. */
void btl_ib_goodput_sample(btl_ib_engine_t *engine);

#endif
