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

/* us after which a store is visible to all processors, even without a barrier. */
#define STORES_SETTLE 1000

/* Returns whether the system has the barrier that run_barrier() needs; containers may refuse it. */
static bool query_barrier(void)
{
#ifdef SYS_membarrier
    const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

    return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
#else
    return false;
#endif
}

void btl_ib_biased_lock_register_process(void)
{
#ifdef SYS_membarrier
    (void) syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
#endif
}

/* Makes all running threads of the process execute a full barrier now. Returns whether they did. */
static bool run_barrier(void)
{
#ifdef SYS_membarrier
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
        btl_ib_biased_lock_register_process(); /* the process has not registered yet: EPERM */
        return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
    }
    return true;
#else
    return false;
#endif
}

bool btl_ib_biased_lock_init(btl_ib_biased_lock_t *lock, bool biased)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock->owner = pthread_self();
    lock->by_mutex = false;
    lock->in_shift = false;
    lock->shared = false;
    lock->biased = biased && query_barrier();
    atomic_store(&lock->waiting, 0);
    atomic_store(&lock->borrowed, false);
    atomic_store(&lock->owner_inside, false);
    atomic_store(&lock->revoked, !lock->biased);
    return lock->biased;
}

/* Revokes the bias: from now on the owner needs the mutex, which the caller holds. Returns whether
 * the owner has the lock at this moment. */
static bool revoke_bias(btl_ib_biased_lock_t *lock)
{
    atomic_store(&lock->revoked, true);
    if (!run_barrier()) { /* refused now, though query_barrier() found it: a new filter */
        usleep(STORES_SETTLE);
    }
    return atomic_load_explicit(&lock->owner_inside, memory_order_acquire);
}

/* Makes the caller, which has the mutex, the holder of the lock. If the caller is neither the owner
 * nor the thread of the shift, several threads communicate: ends the bias for good. */
static void lock_take_over(btl_ib_biased_lock_t *lock)
{
    if (!lock->shared && !pthread_equal(lock->owner, pthread_self())
        && !(lock->in_shift && pthread_equal(lock->helper, pthread_self()))) {
        const bool biased = lock->biased;
        lock->biased = false;
        while (biased && revoke_bias(lock)) { /* until the owner's present call is over */
            sched_yield();
        }
        lock->shared = true;
    }
    lock->by_mutex = true;
}

void btl_ib_biased_lock_acquire_mutex(btl_ib_biased_lock_t *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0) {
        atomic_fetch_add(&lock->waiting, 1);
        pthread_mutex_lock(&lock->mutex);
        atomic_fetch_sub(&lock->waiting, 1);
    }
    lock_take_over(lock);
}

bool btl_ib_biased_lock_try_mutex(btl_ib_biased_lock_t *lock)
{
    if (atomic_load_explicit(&lock->waiting, memory_order_relaxed) != 0
        || pthread_mutex_trylock(&lock->mutex) != 0) {
        return false;
    }
    lock_take_over(lock);
    return true;
}

/* Unlocks the mutex, after giving the bias back if there is one, and no shift. */
static void lock_give_back(btl_ib_biased_lock_t *lock)
{
    if (lock->biased && !lock->in_shift) {
        atomic_store_explicit(&lock->revoked, false, memory_order_release);
    }
    pthread_mutex_unlock(&lock->mutex);
}

bool btl_ib_biased_lock_borrow(btl_ib_biased_lock_t *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0) {
        return false;
    }
    atomic_store_explicit(&lock->borrowed, true, memory_order_relaxed);
    if (lock->biased && revoke_bias(lock)) {
        atomic_store_explicit(&lock->borrowed, false, memory_order_relaxed);
        lock_give_back(lock); /* leaves by_mutex alone: the owner has the lock */
        return false;
    }
    lock->by_mutex = true;
    return true;
}

bool btl_ib_biased_lock_begin_shift(btl_ib_biased_lock_t *lock)
{
    if (!btl_ib_biased_lock_borrow(lock)) {
        return false;
    }
    lock->in_shift = true;
    lock->helper = pthread_self();
    return true;
}

void btl_ib_biased_lock_release_mutex(btl_ib_biased_lock_t *lock)
{
    lock->by_mutex = false;
    atomic_store_explicit(&lock->borrowed, false, memory_order_relaxed);
    lock_give_back(lock);
}
