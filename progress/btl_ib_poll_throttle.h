/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * How often progress calls look at the devices. A look that finds nothing takes a system call, some
 * 300 ns; with ib alone each call looks. But Open MPI calls the progress functions of all BTLs in turn,
 * and beside one that polls memory (vader: a message takes 130 ns, a call a tenth of that) such looks
 * would be nearly all that is done. So there only each n-th call looks:
 *
 *   n = 1 right after a look that found something, or after a send; then twice as many with each look
 *   in vain, up to
 *     poll_busy    while something is under way: unacknowledged data, answers due, ACKs to be sent
 *     poll_recent  within 1 ms after something came
 *     poll_idle    later
 *   but no more than are called in 10 us.
 *
 * Calls are counted, because reading the clock at each would cost vader a sixth; but each 32nd call
 * reads it, and looks after 10 us: an application that computes between its calls is not made to wait
 * for n of them. Knows nothing of Open MPI.
 *
 * Threads that call progress at the same time may count one call for two: additions that cannot be
 * lost would cost more than all else. What is not counted down by progress calls is changed under the
 * component's lock.
 */

#ifndef BTL_IB_PACE_H
#define BTL_IB_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The longest time between two looks, if calls come often enough, us. */
#define BTL_IB_PACE_PATIENCE 10
/* How long what came counts as recent, us. */
#define BTL_IB_PACE_RECENT 1000
/* Each so manyth call reads the clock. */
#define BTL_IB_PACE_CLOCK 32

/* Up to how many calls for one look. */
typedef struct btl_ib_pace_limits {
    uint32_t busy;
    uint32_t recent;
    uint32_t idle;
} btl_ib_pace_limits_t;

typedef struct btl_ib_pace {
    atomic_int left;                 /* calls, until one looks or reads the clock */
    atomic_int rest;                 /* calls after those, until one looks */
    atomic_uint turns;               /* calls that were not skipped; wraps */
    atomic_uint_least64_t looked_at; /* us */
    uint64_t came_at;                /* us: something last came */
    uint32_t stride;                 /* calls between the last look and the next one */
    bool alone;                      /* no other BTL polls: each call looks */
    btl_ib_pace_limits_t limits;
} btl_ib_pace_t;

/* Alone at first. */
void btl_ib_pace_init(btl_ib_pace_t *pace, const btl_ib_pace_limits_t *limits);

/* Progress was called. Returns whether it has nothing to do: else btl_ib_pace_due() is next. */
static inline bool btl_ib_pace_skip(btl_ib_pace_t *pace)
{
    const int left = atomic_load_explicit(&pace->left, memory_order_relaxed) - 1;

    atomic_store_explicit(&pace->left, left, memory_order_relaxed);
    return left > 0;
}

/* Is this call to look? `clock` reads the clock, us; it is called only if need be. */
bool btl_ib_pace_due(btl_ib_pace_t *pace, uint64_t (*clock)(void));

/* Something was sent: the next call looks. */
static inline void btl_ib_pace_hurry(btl_ib_pace_t *pace)
{
    pace->stride = 1;
    atomic_store_explicit(&pace->rest, 0, memory_order_relaxed);
    atomic_store_explicit(&pace->left, 1, memory_order_relaxed);
}

/* A call has looked: did something come, and is anything under way? */
void btl_ib_pace_looked(btl_ib_pace_t *pace, uint64_t now, bool came, bool busy);

#endif
