/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rtt.h"

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

void btl_ib_pauses_add(btl_ib_pauses_t *pauses, uint32_t poll_gap, uint64_t now)
{
    const uint32_t pause = poll_gap < LONGEST ? poll_gap : LONGEST;

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
