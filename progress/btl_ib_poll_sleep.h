/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * When a progress call may sleep. An application that waits in MPI calls progress in a loop; if it
 * is to leave its processor to others (mpi_yield_when_idle) and no other BTL has to be polled, it
 * may as well sleep until a device has something: after 1 ms in which nothing came, for at most
 * 1 ms at a time.
 *
 * An application that computes between its calls (MPI_Test now and then) must not sleep. It looks
 * the same but for the processor time that passes from one call to the next: in MPI_Wait some 1 us.
 * So that time is measured, once nothing came for 0.5 ms; all calls in 0.5 ms more, 16 at least,
 * have to be short.
 *
 * For one thread. Knows nothing of Open MPI.
 */

#ifndef BTL_IB_POLL_SLEEP_H
#define BTL_IB_POLL_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

/* us without an event before calls are looked at, and as long again before one sleeps */
#define BTL_IB_POLL_SLEEP_HALF 500
/* ms for which it does at most */
#define BTL_IB_POLL_SLEEP_MAX 1
/* ns of processor time from one call to the next, at most */
#define BTL_IB_POLL_SLEEP_CPU 10000
/* calls looked at, at least */
#define BTL_IB_POLL_SLEEP_CALLS 16

/* Zeroed at first. */
typedef struct btl_ib_poll_sleep {
    uint64_t since; /* us: nothing came since, or all calls since then were looked at */
    uint64_t cpu;   /* ns: processor time of the thread after the last call that was looked at */
    uint32_t calls; /* looked at in a row */
} btl_ib_poll_sleep_t;

/* Something came. */
static inline void btl_ib_poll_sleep_reset(btl_ib_poll_sleep_t *sleep, uint64_t now)
{
    sleep->since = now;
    sleep->calls = 0;
}

/* Is the call to be looked at? */
static inline bool btl_ib_poll_sleep_is_long(const btl_ib_poll_sleep_t *sleep, uint64_t now)
{
    return sleep->calls > 0 || now - sleep->since >= BTL_IB_POLL_SLEEP_HALF;
}

/* Count a call after btl_ib_poll_sleep_is_long(), with the thread's processor time, ns. Returns
 * whether it may sleep. */
bool btl_ib_poll_sleep_count(btl_ib_poll_sleep_t *sleep, uint64_t now, uint64_t cpu);

/* The call ends, perhaps after a sleep. */
static inline void btl_ib_poll_sleep_end(btl_ib_poll_sleep_t *sleep, uint64_t cpu)
{
    sleep->cpu = cpu;
}

#endif
