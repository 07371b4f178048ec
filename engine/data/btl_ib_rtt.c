/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rtt.h"

/* Longer samples say nothing more; bounding them keeps 8 * SRTT within 32 bits. */
enum { SAMPLE_MAX = 60 * 1000 * 1000 };

void btl_ib_rtt_sample(btl_ib_rtt_t *rtt, uint32_t us, uint32_t bound)
{
    us = us == 0 ? 1 : us > SAMPLE_MAX ? SAMPLE_MAX : us;
    if (rtt->srtt8 == 0 || us < rtt->min) {
        rtt->min = us;
    }
    us = us < bound ? us : bound;
    if (rtt->srtt8 == 0) { /* RFC 6298, 2.2 */
        rtt->srtt8 = us * 8;
        rtt->rttvar4 = us * 2;
        return;
    }
    /* RFC 6298, 2.3: RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R'|; then SRTT = 7/8 SRTT + 1/8 R' */
    uint32_t srtt = rtt->srtt8 / 8;
    uint32_t error = srtt > us ? srtt - us : us - srtt;
    rtt->rttvar4 += error - rtt->rttvar4 / 4;
    rtt->srtt8 += us - rtt->srtt8 / 8;
    if (rtt->srtt8 < 8) {
        rtt->srtt8 = 8;
    }
}
