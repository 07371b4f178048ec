/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_poll_sleep.h"

bool btl_ib_poll_sleep_count(btl_ib_poll_sleep_t *sleep, uint64_t now, uint64_t cpu)
{
    if (sleep->calls == 0) { /* it may have computed before: from now on its time is measured */
        sleep->since = now;
    } else if (cpu - sleep->cpu > BTL_IB_POLL_SLEEP_CPU) {
        btl_ib_poll_sleep_reset(sleep, now);
        return false;
    }
    if (sleep->calls < BTL_IB_POLL_SLEEP_CALLS) {
        ++sleep->calls;
    }
    return sleep->calls == BTL_IB_POLL_SLEEP_CALLS && now - sleep->since >= BTL_IB_POLL_SLEEP_HALF;
}
