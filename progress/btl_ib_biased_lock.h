/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A biased lock: a mutex that costs almost nothing to the one thread that takes it all the time
 * (its owner), as the biased locks of Java virtual machines did.
 *
 * Every BTL call takes the component's lock, which makes four times for a message, although only
 * the progress thread competes for it, at most a hundred times a second. A mutex takes two atomic
 * instructions each time, in all a sixth of a small message's time. So the owner enters by a plain
 * store:
 *
 *     owner                                  any other thread
 *       owner_inside = true                    lock the mutex
 *       (compiler barrier only)                revoked = true
 *       revoked? no:  it has the lock          membarrier: every running thread of the process
 *                yes: owner_inside = false,      executes a full barrier now
 *                     lock the mutex           owner_inside? no:  it has the lock
 *                                                            yes: it gives up, or waits
 *
 * If the owner's store to owner_inside precedes the barrier that membarrier makes the owner
 * execute, the other thread sees it. If it follows, so does the owner's load of `revoked`, which
 * sees the revocation. This is Dekker's algorithm with one of its two barriers moved to the side
 * that seldom comes: membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED, Linux 4.14.
 *
 * A thread that only borrows the lock (the progress thread) gives the bias back when it releases
 * the lock; or, if it makes callbacks in between, in which it acquires the lock again, when its
 * shift ends (btl_ib_biased_lock_begin_shift()). The first other thread that acquires the lock, or
 * tries to for progress, ends the bias for good: with several communicating threads
 * (MPI_THREAD_MULTIPLE) the lock is an ordinary mutex. So it is where the system refuses
 * membarrier.
 *
 * Spin verified the lock, with store buffers of processors (engine/model/biased_lock.pml). It is
 * handed over by release and acquire of `owner_inside` and `revoked`, so thread sanitizers
 * understand it. It is not recursive, and knows nothing of Open MPI.
 */

#ifndef BTL_IB_BIASED_LOCK_H
#define BTL_IB_BIASED_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct btl_ib_biased_lock {
    atomic_bool owner_inside; /* the owner has it without the mutex, or is about to find out */
    atomic_bool revoked;      /* even the owner needs the mutex */
    bool by_mutex;        /* the holder of the lock has the mutex; written by the holder alone */
    bool biased;          /* release() gives the bias back; guarded by the mutex */
    bool in_shift;        /* the bias stays revoked meanwhile; guarded by the mutex */
    bool shared;          /* several threads communicate; written by the holder of the lock */
    pthread_t helper;     /* the thread whose shift it is; guarded by the mutex */
    pthread_t owner;      /* does not change */
    atomic_uint waiting;  /* number of threads that sleep until they get the mutex */
    atomic_bool borrowed; /* a thread borrows the lock, or is about to find out whether it can */
    pthread_mutex_t mutex;
} btl_ib_biased_lock_t;

/* Initializes a lock without btl_ib_biased_lock_init(), as an ordinary mutex. */
#define BTL_IB_BIASED_LOCK_INITIALIZER                                                             \
    {                                                                                              \
        .revoked = true, .mutex = PTHREAD_MUTEX_INITIALIZER                                        \
    }

/*
 * Initializes a lock that no thread has. It is biased to the calling thread if `biased` is true and
 * the system has membarrier. Returns whether it is biased.
 */
bool btl_ib_biased_lock_init(btl_ib_biased_lock_t *lock, bool biased);

/*
 * Borrows the lock as btl_ib_biased_lock_borrow(), for a shift: until its end the caller may
 * release and acquire the lock as often as it likes, and the owner, which needs the mutex
 * meanwhile, still gets its bias back later. Only one thread may have shifts.
 */
bool btl_ib_biased_lock_begin_shift(btl_ib_biased_lock_t *lock);

/* Ends the shift. Called with the lock held. */
static inline void btl_ib_biased_lock_end_shift(btl_ib_biased_lock_t *lock)
{
    lock->in_shift = false;
}

/* Takes the slow paths of acquire, try and release. */
void btl_ib_biased_lock_acquire_mutex(btl_ib_biased_lock_t *lock);
bool btl_ib_biased_lock_try_mutex(btl_ib_biased_lock_t *lock);
void btl_ib_biased_lock_release_mutex(btl_ib_biased_lock_t *lock);

/* Takes the fast path of acquire and try. Returns true if the caller is the owner and has the
 * lock. */
static inline bool btl_ib_biased_lock_acquire_biased(btl_ib_biased_lock_t *lock)
{
    if (atomic_load_explicit(&lock->revoked, memory_order_relaxed)
        || !pthread_equal(lock->owner, pthread_self())) {
        return false;
    }
    atomic_store_explicit(&lock->owner_inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&lock->revoked, memory_order_acquire)) {
        return true;
    }
    atomic_store_explicit(&lock->owner_inside, false, memory_order_release);
    return false;
}

/* Acquires the lock, waiting if need be. */
static inline void btl_ib_biased_lock_acquire(btl_ib_biased_lock_t *lock)
{
    if (!btl_ib_biased_lock_acquire_biased(lock)) {
        btl_ib_biased_lock_acquire_mutex(lock);
    }
}

/*
 * Acquires the lock, for progress, if no thread has it and none waits for it. Returns whether the
 * caller has it now. (Without the latter a thread that polls in a loop would always take the mutex
 * again before a waiting thread wakes up.)
 */
static inline bool btl_ib_biased_lock_try(btl_ib_biased_lock_t *lock)
{
    return btl_ib_biased_lock_acquire_biased(lock) || btl_ib_biased_lock_try_mutex(lock);
}

/*
 * Registers this process with the kernel for the barrier. Called by the thread that will borrow
 * locks, as it takes up to some 10 ms (the kernel waits for all processors), for which MPI_Init
 * should not wait. Without this call the first borrower would wait, with the mutex held.
 */
void btl_ib_biased_lock_register_process(void);

/* Acquires the lock if no thread has it, for a thread that comes seldom: the owner keeps its bias.
 * Returns whether the caller has the lock now. */
bool btl_ib_biased_lock_borrow(btl_ib_biased_lock_t *lock);

/* True if a thread borrows the lock, which gives it back soon. A hint, for others. */
static inline bool btl_ib_biased_lock_borrowed(btl_ib_biased_lock_t *lock)
{
    return atomic_load_explicit(&lock->borrowed, memory_order_relaxed);
}

/* True once several threads have acquired the lock, not only borrowed it. Called by its holder. */
static inline bool btl_ib_biased_lock_shared(const btl_ib_biased_lock_t *lock)
{
    return lock->shared;
}

/* True if any thread sleeps until it gets the lock. */
static inline bool btl_ib_biased_lock_wanted(btl_ib_biased_lock_t *lock)
{
    return atomic_load_explicit(&lock->waiting, memory_order_relaxed) != 0;
}

static inline void btl_ib_biased_lock_release(btl_ib_biased_lock_t *lock)
{
    if (lock->by_mutex) {
        btl_ib_biased_lock_release_mutex(lock);
    } else {
        atomic_store_explicit(&lock->owner_inside, false, memory_order_release);
    }
}

#endif
