/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Round-trip time estimation: RFC 6298 with the standard gains (1/8, 1/4). Samples come from echoed
 * timestamps with the peer's holding time taken off, so retransmissions give exact ones as well and
 * Karn's rule is not needed.
 */

#ifndef BTL_IB_RTT_H
#define BTL_IB_RTT_H

#include <stdint.h>

typedef struct btl_ib_rtt {
    uint32_t srtt8;   /* 8 * SRTT, us; 0: no sample yet */
    uint32_t rttvar4; /* 4 * RTTVAR, us */
    uint32_t min;     /* the shortest seen, us */
} btl_ib_rtt_t;

/* The variance term never counts for less than this, us: the granularity G of RFC 6298. */
#define BTL_IB_RTT_TICK 50u

/* Forget all samples: they are another path's. */
static inline void btl_ib_rtt_reset(btl_ib_rtt_t *rtt)
{
    *rtt = (btl_ib_rtt_t){0};
}

/* Add a sample of `us` microseconds; 0 counts as 1. In the averages it counts for at most `bound`.
 * */
void btl_ib_rtt_sample(btl_ib_rtt_t *rtt, uint32_t us, uint32_t bound);

/* SRTT in us, or `initial` before the first sample. */
static inline uint32_t btl_ib_rtt_smoothed(const btl_ib_rtt_t *rtt, uint32_t initial)
{
    return rtt->srtt8 == 0 ? initial : rtt->srtt8 / 8;
}

/* SRTT + max(4 * RTTVAR, tick) in us (RFC 6298, 2.3), or `initial` before the first sample. */
static inline uint32_t btl_ib_rtt_timeout(const btl_ib_rtt_t *rtt, uint32_t initial)
{
    if (rtt->srtt8 == 0) {
        return initial;
    }
    return rtt->srtt8 / 8 + (rtt->rttvar4 > BTL_IB_RTT_TICK ? rtt->rttvar4 : BTL_IB_RTT_TICK);
}

#endif
