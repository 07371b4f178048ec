/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rtt.h"

/* ---- rtt ---- */

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

/* ---- pauses ---- */

enum {
    REMEMBERED = 1000000, /* us */
    LONGEST = 10000,      /* us: then the peer's progress thread has answered */
    /* Of a lossy network's probes half are duplicates, because the acknowledgement was lost; of a
     * clean network's one in 20 seems to have repaired something, as the count of duplicates came
     * after the next series had begun. */
    REPAIRED = 4,
    LOSSY = 2 * REPAIRED,
    LOSSY_MAX = 4 * REPAIRED,
};

void btl_ib_pauses_add(btl_ib_pauses_t *pauses, uint32_t away, uint64_t now)
{
    const uint32_t pause = away < LONGEST ? away : LONGEST;

    if (pause >= pauses->longest || now >= pauses->until) {
        pauses->longest = pause;
        pauses->until = now + REMEMBERED;
    }
}

void btl_ib_pauses_judge(btl_ib_pauses_t *pauses, bool repaired)
{
    if (repaired) {
        pauses->lossy += REPAIRED;
        pauses->lossy = pauses->lossy < LOSSY_MAX ? pauses->lossy : LOSSY_MAX;
    } else if (pauses->lossy > 0) {
        pauses->lossy--;
    }
}

uint32_t btl_ib_pauses_expected(const btl_ib_pauses_t *pauses, uint64_t now)
{
    return now < pauses->until && pauses->lossy < LOSSY ? pauses->longest : 0;
}
