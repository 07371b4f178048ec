/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which progress calls poll the devices. A poll that finds nothing costs a system call, some 300
 * ns. With ib alone every call polls. But Open MPI calls the progress functions of all BTLs in
 * turn, and beside a BTL that polls memory (vader: 130 ns for a message, a tenth of that for a
 * call) polling devices would take nearly all of the time. There only every n-th call polls:
 *
 *   n = 1 right after a poll that found something, or after a send; it doubles with each poll that
 *   finds nothing, up to
 *     BTL_IB_POLL_CALLS_BUSY    while something is under way: unacknowledged data, answers due,
 *                               ACKs to be sent
 *     BTL_IB_POLL_CALLS_RECENT  within 1 ms after something arrived
 *     BTL_IB_POLL_CALLS_IDLE    later
 *   but never more calls than are made in 10 us.
 *
 * Calls are counted, since reading the clock in each would cost vader a sixth. Every 32nd call
 * reads it, and polls if 10 us have passed, so that an application that computes between its calls
 * need not make n of them.
 *
 * Threads that call progress at the same time may count two calls as one: atomic additions would
 * cost more than all else. What progress calls do not count down is guarded by the component's
 * lock. Knows nothing of Open MPI.
 */

#ifndef BTL_IB_POLL_THROTTLE_H
#define BTL_IB_POLL_THROTTLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* us between two polls at most, if calls come that often */
#define BTL_IB_POLL_PERIOD 10
/* us for which an arrival counts as recent */
#define BTL_IB_POLL_RECENT 1000
/* calls after which one reads the clock */
#define BTL_IB_POLL_CLOCK 32

/* progress calls for each poll, at most */
#define BTL_IB_POLL_CALLS_BUSY   16
#define BTL_IB_POLL_CALLS_RECENT 128
#define BTL_IB_POLL_CALLS_IDLE   512

typedef struct btl_ib_poll_throttle {
    atomic_int to_clock;             /* calls until one polls or reads the clock */
    atomic_int after_clock;          /* further calls until one polls */
    atomic_uint calls;               /* that were not skipped; wraps */
    atomic_uint_least64_t polled_at; /* us */
    uint64_t arrived_at;             /* us: the last poll that found something */
    uint32_t interval;               /* calls between the last poll and the next */
    bool alone;                      /* no other BTL polls: every call polls */
} btl_ib_poll_throttle_t;

/* Initializes it, alone at first. */
void btl_ib_poll_throttle_init(btl_ib_poll_throttle_t *throttle);

/* Notes that progress was called. Returns whether there is nothing to do; else call
 * btl_ib_poll_throttle_count(). */
static inline bool btl_ib_poll_throttle_skip(btl_ib_poll_throttle_t *throttle)
{
    const int left = atomic_load_explicit(&throttle->to_clock, memory_order_relaxed) - 1;

    atomic_store_explicit(&throttle->to_clock, left, memory_order_relaxed);
    return left > 0;
}

/* Counts a call that was not skipped. Returns whether it is to poll. */
bool btl_ib_poll_throttle_count(btl_ib_poll_throttle_t *throttle, uint64_t now);

/* Lets the next call poll, as something was sent. */
static inline void btl_ib_poll_throttle_reset(btl_ib_poll_throttle_t *throttle)
{
    throttle->interval = 1;
    atomic_store_explicit(&throttle->after_clock, 0, memory_order_relaxed);
    atomic_store_explicit(&throttle->to_clock, 1, memory_order_relaxed);
}

/* Sets whether no other BTL polls. */
static inline void btl_ib_poll_throttle_set_alone(btl_ib_poll_throttle_t *throttle, bool alone)
{
    throttle->alone = alone;
}

/* Returns how often btl_ib_poll_throttle_count() was called; wraps. For other threads. */
static inline uint32_t btl_ib_poll_throttle_calls(btl_ib_poll_throttle_t *throttle)
{
    return atomic_load_explicit(&throttle->calls, memory_order_relaxed);
}

/* Returns when the last call polled, us, or 0. For other threads. */
static inline uint64_t btl_ib_poll_throttle_polled_at(btl_ib_poll_throttle_t *throttle)
{
    return atomic_load_explicit(&throttle->polled_at, memory_order_relaxed);
}

/* Notes that a call has polled for nothing beside other BTLs, and whether anything is under way. */
void btl_ib_poll_throttle_empty(btl_ib_poll_throttle_t *throttle, uint64_t now, bool busy);

/* Notes that a call has polled, and whether something arrived and anything is under way. (Nobody
 * asks the latter if something did, or no other BTL polls.) */
static inline void btl_ib_poll_throttle_polled(btl_ib_poll_throttle_t *throttle, uint64_t now,
                                               bool arrived, bool busy)
{
    if (arrived) {
        throttle->arrived_at = now;
    }
    if (throttle->alone || arrived) {
        atomic_store_explicit(&throttle->polled_at, now, memory_order_relaxed);
        btl_ib_poll_throttle_reset(throttle);
    } else {
        btl_ib_poll_throttle_empty(throttle, now, busy);
    }
}

/* ---- when a progress call may sleep ---- */

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

/* Notes that something came. */
static inline void btl_ib_poll_sleep_reset(btl_ib_poll_sleep_t *sleep, uint64_t now)
{
    sleep->since = now;
    sleep->calls = 0;
}

/* True if the call is to be looked at. */
static inline bool btl_ib_poll_sleep_is_long(const btl_ib_poll_sleep_t *sleep, uint64_t now)
{
    return sleep->calls > 0 || now - sleep->since >= BTL_IB_POLL_SLEEP_HALF;
}

/* Counts a call after btl_ib_poll_sleep_is_long(), with the thread's processor time, ns. Returns
 * whether it may sleep. */
bool btl_ib_poll_sleep_count(btl_ib_poll_sleep_t *sleep, uint64_t now, uint64_t cpu);

/* Notes that the call ends, perhaps after a sleep. */
static inline void btl_ib_poll_sleep_end(btl_ib_poll_sleep_t *sleep, uint64_t cpu)
{
    sleep->cpu = cpu;
}

/* ---- when several threads leave the processor to each other ---- */

/*
 * What a thread does after an empty poll if several communicate: another one may be about to send,
 * without a processor of its own. It yields; where it finds that others use its processor it sleeps
 * instead, until a device has something.
 *
 * Yields alone do harm there. Of several threads that wait in MPI one calls progress, and wakes the
 * others by conditions. The thread that was woken spins until the one that woke it goes on
 * (WAIT_SYNC_RELEASE of Open MPI). Linux gives it the processor at once if the other one has used
 * up its share, which a yield gives away, and then for a time slice, of ms. A thread that slept
 * keeps the processor more often. The progress thread ends the slices of those that spin.
 *
 * A yield that takes long has let another thread run. Two within 10 ms are no accident.
 * Knows nothing of Open MPI.
 */

/* us that a yield takes at least if another thread ran, not just an interrupt */
#define BTL_IB_POLL_YIELD_LONG 20
/* us from one of these to the next, at most */
#define BTL_IB_POLL_YIELD_AGAIN 10000
/* us for which they count */
#define BTL_IB_POLL_YIELD_CROWDED 100000
/* ns that a thread then sleeps instead, at most; Linux adds 50 us */
#define BTL_IB_POLL_YIELD_SLEEP 20000
/* us between two wake-ups of the progress thread meanwhile */
#define BTL_IB_POLL_YIELD_TICK 250

/* Zeroed at first. Of all threads together. */
typedef struct btl_ib_poll_yield {
    atomic_uint_least64_t long_at;       /* us: when the last long one ended */
    atomic_uint_least64_t crowded_until; /* us */
} btl_ib_poll_yield_t;

/* True if others use the processor: a thread is to sleep. */
static inline bool btl_ib_poll_yield_is_crowded(const btl_ib_poll_yield_t *yield, uint64_t now)
{
    return now < atomic_load_explicit(&yield->crowded_until, memory_order_relaxed);
}

/* Notes how long a yield took. */
void btl_ib_poll_yield_took(btl_ib_poll_yield_t *yield, uint64_t begun, uint64_t ended);

#endif
