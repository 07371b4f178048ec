/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_backoff.h"

enum {
    RETRY_US = 10 * 1000, /* after a failure; twice as long after each that follows */
    RETRY_DOUBLINGS = 7,
    CROSSING_US = 100 * 1000,    /* the peer's request is on its way */
    WARN_AFTER = 2,              /* failures without an answer in between */
    SHORT_LIFE_US = 1000 * 1000, /* a connection that breaks sooner is likely to break again */
    /* What waits for longer may as well have been lost. The kernel repeats what the network loses
     * of a request each 4.3 s, and many processes that share a processor are slow to answer. */
    PATIENCE_US = 10 * 1000 * 1000,
};

void btl_ib_rc_backoff_wanted(btl_ib_rc_backoff_t *backoff, uint64_t now)
{
    backoff->wanted_at = backoff->wanted_at == 0 ? now : backoff->wanted_at;
}

bool btl_ib_rc_backoff_hopeless(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t begun_at)
{
    const bool hopeless =
        begun_at != 0 ? now >= begun_at + PATIENCE_US
                      : backoff->failures > 0
                            && (backoff->hopeless || now >= backoff->wanted_at + PATIENCE_US);

    backoff->gave_up = backoff->gave_up || hopeless;
    return hopeless;
}

void btl_ib_rc_backoff_crossed(btl_ib_rc_backoff_t *backoff, uint64_t now)
{
    backoff->retry_at = now + CROSSING_US;
}

void btl_ib_rc_backoff_failed(btl_ib_rc_backoff_t *backoff, uint64_t now, bool passes)
{
    backoff->retry_at = now + ((uint64_t) RETRY_US << backoff->failures);
    backoff->failures += backoff->failures < RETRY_DOUBLINGS;
    backoff->hopeless = !passes;
}

bool btl_ib_rc_backoff_should_warn(const btl_ib_rc_backoff_t *backoff)
{
    return backoff->failures == WARN_AFTER;
}

bool btl_ib_rc_backoff_opened(btl_ib_rc_backoff_t *backoff)
{
    const bool gave_up = backoff->gave_up;

    backoff->failures = 0;
    backoff->wanted_at = 0;
    backoff->gave_up = false;
    return gave_up;
}

/* The next connection comes at once, unless the last ones broke as soon as they were open:
 * connecting and sending all anew must not become a tight loop. */
void btl_ib_rc_backoff_broke(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t opened_at)
{
    if (opened_at != 0 && now - opened_at >= SHORT_LIFE_US) {
        backoff->short_lives = 0;
        return;
    }
    if (backoff->short_lives > 0) {
        backoff->retry_at = now + ((uint64_t) RETRY_US << (backoff->short_lives - 1));
    }
    backoff->short_lives += backoff->short_lives <= RETRY_DOUBLINGS;
}
