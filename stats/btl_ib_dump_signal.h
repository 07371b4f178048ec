/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A signal of the user's choice by which a process is asked what it waits for. The handler only
 * notes that: the next progress call of the application writes the answer. A signal that somebody
 * else handles stays theirs.
 */

#ifndef BTL_IB_DUMP_SIGNAL_H
#define BTL_IB_DUMP_SIGNAL_H

#include <signal.h>
#include <stdbool.h>

/* Set by the handler. */
extern volatile sig_atomic_t btl_ib_dump_signal_came;

/* Handle `number`: SIGUSR1, SIGUSR2 or a real-time signal. Returns NULL, or why not. */
const char *btl_ib_dump_signal_watch(int number);

/* Undo that, unless the application has its own handler by now. */
void btl_ib_dump_signal_ignore(void);

/* Did it come since the last call? */
static inline bool btl_ib_dump_signal_take(void)
{
    if (btl_ib_dump_signal_came == 0) {
        return false;
    }
    btl_ib_dump_signal_came = 0;
    return true;
}

#endif
