/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_biased_lock.h"

#include <sched.h>
#include <unistd.h>

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/membarrier.h>)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#endif
#endif

/* us: a store that was made so long ago is seen by everybody, whatever its processor buffers. */
#define STORES_SETTLE 1000

/* To be allowed barrier(). Containers may refuse it. */
static bool register_barrier(void)
{
#ifdef SYS_membarrier
    return 0 == syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
#else
    return false;
#endif
}

/* A full memory barrier in each thread of the process that is running now; others pass one when they
 * are scheduled. It was allowed when registered; who has locked himself in since then waits instead. */
static void barrier(void)
{
#ifdef SYS_membarrier
    if (0 == syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)) {
        return;
    }
#endif
    usleep(STORES_SETTLE);
}

bool btl_ib_gate_init(btl_ib_gate_t *gate, bool biased)
{
    pthread_mutex_init(&gate->mutex, NULL);
    gate->owner = pthread_self();
    gate->by_mutex = false;
    gate->biased = biased && register_barrier();
    atomic_store(&gate->waiting, 0);
    atomic_store(&gate->inside, false);
    atomic_store(&gate->closed, !gate->biased);
    return gate->biased;
}

/* The owner enters without the mutex no more. Returns whether it is in now. */
static bool close_gate(btl_ib_gate_t *gate)
{
    atomic_store(&gate->closed, true);
    barrier();
    return atomic_load_explicit(&gate->inside, memory_order_acquire);
}

/* With the mutex: several threads communicate, the bias ends. */
static void end_bias(btl_ib_gate_t *gate)
{
    if (!gate->biased || pthread_equal(gate->owner, pthread_self())) {
        return;
    }
    gate->biased = false;
    while (close_gate(gate)) { /* once in a process, for as long as the owner's call takes */
        sched_yield();
    }
}

void btl_ib_gate_enter_by_mutex(btl_ib_gate_t *gate)
{
    if (0 != pthread_mutex_trylock(&gate->mutex)) {
        atomic_fetch_add(&gate->waiting, 1);
        pthread_mutex_lock(&gate->mutex);
        atomic_fetch_sub(&gate->waiting, 1);
    }
    end_bias(gate);
    gate->by_mutex = true;
}

bool btl_ib_gate_try_by_mutex(btl_ib_gate_t *gate)
{
    if (0 != atomic_load_explicit(&gate->waiting, memory_order_relaxed)
        || 0 != pthread_mutex_trylock(&gate->mutex)) {
        return false;
    }
    end_bias(gate);
    gate->by_mutex = true;
    return true;
}

static void open_gate(btl_ib_gate_t *gate)
{
    if (gate->biased) {
        atomic_store_explicit(&gate->closed, false, memory_order_release);
    }
    pthread_mutex_unlock(&gate->mutex);
}

bool btl_ib_gate_visit(btl_ib_gate_t *gate)
{
    if (0 != pthread_mutex_trylock(&gate->mutex)) {
        return false;
    }
    if (gate->biased && close_gate(gate)) {
        open_gate(gate);
        return false;
    }
    gate->by_mutex = true;
    return true;
}

void btl_ib_gate_leave_by_mutex(btl_ib_gate_t *gate)
{
    gate->by_mutex = false;
    open_gate(gate);
}
