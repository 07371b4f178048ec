/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The poll throttle: decides which progress calls poll the devices. A poll that finds nothing costs
 * a system call, some 300 ns. If ib is alone every call polls. But Open MPI calls the progress
 * functions of all BTLs in turn. Beside a BTL that polls memory (vader: 130 ns for a message, a
 * tenth of that for a call), polling devices would take nearly all of the time. There only every
 * n-th call polls:
 *
 *   n is 1 after a poll that found something, and after a send; it doubles with each poll that
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
 * Threads that call progress at the same time may count two calls as one, as atomic additions would
 * cost more than all the rest. Members that are not atomic are guarded by the component's lock.
 * Knows nothing of Open MPI.
 */

#ifndef BTL_IB_POLL_THROTTLE_H
#define BTL_IB_POLL_THROTTLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* us between two polls, at most, if calls come that often */
#define BTL_IB_POLL_PERIOD 10
/* us for which an arrival counts as recent */
#define BTL_IB_POLL_RECENT 1000
/* each 32nd call reads the clock */
#define BTL_IB_POLL_CLOCK 32

/* the largest n in each state */
#define BTL_IB_POLL_CALLS_BUSY   16
#define BTL_IB_POLL_CALLS_RECENT 128
#define BTL_IB_POLL_CALLS_IDLE   512

typedef struct btl_ib_poll_throttle {
    atomic_int to_clock;             /* calls until one reads the clock, or polls */
    atomic_int after_clock;          /* calls from then on until one polls */
    atomic_uint calls;               /* calls that were not skipped; wraps */
    atomic_uint_least64_t polled_at; /* us: the last poll */
    uint64_t arrived_at;             /* us: the last poll that found something */
    uint32_t interval;               /* n: calls from the last poll to the next */
    bool alone;                      /* no other BTL polls, so every call does */
} btl_ib_poll_throttle_t;

/* Initializes the throttle, with ib alone at first. */
void btl_ib_poll_throttle_init(btl_ib_poll_throttle_t *throttle);

/* Notes a call of progress. Returns true if it is to return at once; else the caller calls
 * btl_ib_poll_throttle_count(). */
static inline bool btl_ib_poll_throttle_skip(btl_ib_poll_throttle_t *throttle)
{
    const int left = atomic_load_explicit(&throttle->to_clock, memory_order_relaxed) - 1;

    atomic_store_explicit(&throttle->to_clock, left, memory_order_relaxed);
    return left > 0;
}

/* Counts a call that was not skipped. Returns whether it is to poll. */
bool btl_ib_poll_throttle_count(btl_ib_poll_throttle_t *throttle, uint64_t now);

/* Makes the next call poll. Called after a send. */
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

/* Notes an empty poll beside other BTLs. `busy`: something is under way. */
void btl_ib_poll_throttle_empty(btl_ib_poll_throttle_t *throttle, uint64_t now, bool busy);

/* Notes a poll. `arrived`: it found something. `busy`: something is under way; not read if
 * something arrived, or if no other BTL polls. */
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
 * An application that waits in MPI calls progress in a loop. If it is to leave its processor to
 * others (mpi_yield_when_idle), and no other BTL has to be polled, progress may as well sleep until
 * a device has something: after 1 ms in which nothing arrived, for at most 1 ms at a time.
 *
 * An application that computes between its calls (MPI_Test now and then) must not sleep. What tells
 * it from one that waits is the processor time from one call to the next, which is some 1 us in
 * MPI_Wait. So when nothing has arrived for 0.5 ms that time is measured: in the next 0.5 ms all
 * intervals, of at least 16 calls, have to be short.
 *
 * For one thread. Knows nothing of Open MPI.
 */

/* us without an event until calls are measured, and as long again until one sleeps */
#define BTL_IB_POLL_SLEEP_HALF 500
/* ms of a sleep, at most */
#define BTL_IB_POLL_SLEEP_MAX 1
/* ns of processor time from one call to the next, at most */
#define BTL_IB_POLL_SLEEP_CPU 10000
/* calls to be measured, at least */
#define BTL_IB_POLL_SLEEP_CALLS 16

/* Zeroed at first. */
typedef struct btl_ib_poll_sleep {
    uint64_t since; /* us: when something last arrived; or, with `calls`, when measuring began */
    uint64_t cpu;   /* ns: processor time of the thread at the end of the last measured call */
    uint32_t calls; /* calls measured in a row, up to BTL_IB_POLL_SLEEP_CALLS */
} btl_ib_poll_sleep_t;

/* Notes that something arrived. */
static inline void btl_ib_poll_sleep_reset(btl_ib_poll_sleep_t *sleep, uint64_t now)
{
    sleep->since = now;
    sleep->calls = 0;
}

/* True if the call is to be measured. */
static inline bool btl_ib_poll_sleep_is_long(const btl_ib_poll_sleep_t *sleep, uint64_t now)
{
    return sleep->calls > 0 || now - sleep->since >= BTL_IB_POLL_SLEEP_HALF;
}

/* Measures a call, if btl_ib_poll_sleep_is_long(). `cpu` is the thread's processor time, ns.
 * Returns whether the call may sleep. */
bool btl_ib_poll_sleep_count(btl_ib_poll_sleep_t *sleep, uint64_t now, uint64_t cpu);

/* Notes that a measured call ends, perhaps after a sleep. */
static inline void btl_ib_poll_sleep_end(btl_ib_poll_sleep_t *sleep, uint64_t cpu)
{
    sleep->cpu = cpu;
}

/* ---- when several threads leave the processor to each other ---- */

/*
 * If several threads communicate, a thread leaves its processor to others after an empty poll, as
 * another one may be about to send, and have no processor of its own. It yields; or, if it finds
 * that its processor is crowded (others use it), it sleeps instead, until a device has something.
 *
 * Yields alone do harm on a crowded processor. Of several threads that wait in MPI one calls
 * progress, and wakes the others by conditions. A thread that was woken spins until the one that
 * woke it goes on (WAIT_SYNC_RELEASE of Open MPI). If the latter has used up its share of the
 * processor, which a yield gives away, Linux runs the spinning thread at once, for a time slice of
 * some ms. A thread that sleeps instead keeps its share, and is more often the one that runs. The
 * progress thread's wake-ups end the slices of threads that spin.
 *
 * A processor is crowded if two yields within 10 ms took long: another thread ran meanwhile.
 * Knows nothing of Open MPI.
 */

/* us that a yield takes at least if another thread ran, and not just an interrupt: a long one */
#define BTL_IB_POLL_YIELD_LONG 20
/* us from one long yield to the next, at most, for the processor to be crowded */
#define BTL_IB_POLL_YIELD_AGAIN 10000
/* us for which the processor counts as crowded then */
#define BTL_IB_POLL_YIELD_CROWDED 100000
/* ns of a sleep on a crowded processor, at most; Linux adds 50 us */
#define BTL_IB_POLL_YIELD_SLEEP 20000
/* us between two wake-ups of the progress thread while the processor is crowded */
#define BTL_IB_POLL_YIELD_TICK 250

/* Of all threads together. Zeroed at first. */
typedef struct btl_ib_poll_yield {
    atomic_uint_least64_t long_at;       /* us: when the last long yield ended */
    atomic_uint_least64_t crowded_until; /* us */
} btl_ib_poll_yield_t;

/* True if the processor is crowded, so that a thread is to sleep instead of yielding. */
static inline bool btl_ib_poll_yield_is_crowded(const btl_ib_poll_yield_t *yield, uint64_t now)
{
    return now < atomic_load_explicit(&yield->crowded_until, memory_order_relaxed);
}

/* Notes a yield, from `begun` to `ended`, us. */
void btl_ib_poll_yield_took(btl_ib_poll_yield_t *yield, uint64_t begun, uint64_t ended);

#endif
