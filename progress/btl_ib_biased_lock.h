/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A biased lock: a mutex that costs almost nothing to the one thread that takes it all the time
 * (its owner), as the biased locks of Java virtual machines did.
 *
 * Every BTL call takes the component's lock, four times for a message, although only the progress
 * thread competes for it, at most a hundred times a second. A mutex, with two atomic instructions
 * each time, was a sixth of a small message's time. So the owner enters by a plain store:
 *
 *     owner                                  any other thread
 *       owner_inside = true                    lock the mutex
 *       (compiler barrier only)                revoked = true
 *       revoked? no:  it has the lock          membarrier: every running thread of the process
 *                yes: owner_inside = false,      executes a full barrier now
 *                     lock the mutex           owner_inside? no:  it has the lock
 *                                                            yes: it gives up, or waits
 *
 * Either the owner's store precedes its barrier, and the other thread sees it; or it follows, and
 * then so does the owner's load of `revoked`, which sees the revocation. This is Dekker's algorithm
 * with one of its two barriers moved to where it is seldom paid: membarrier(2),
 * MEMBARRIER_CMD_PRIVATE_EXPEDITED, Linux 4.14.
 *
 * A thread that only borrows the lock (the progress thread) gives the bias back when it releases
 * it. One that makes callbacks in between, in which it acquires the lock again, does so when its
 * shift ends (btl_ib_biased_lock_begin_shift()). The first other thread that acquires the lock, or
 * tries to for progress, ends the bias for good: with several communicating threads
 * (MPI_THREAD_MULTIPLE) it is an ordinary mutex. It also is one where the system refuses
 * membarrier.
 *
 * Spin verified it, with the stores that a processor keeps back (engine/model/biased_lock.pml). The
 * lock is handed over by release and acquire of `owner_inside` and `revoked`, so thread sanitizers
 * understand it. It is not recursive and knows nothing of Open MPI.
 */

#ifndef BTL_IB_BIASED_LOCK_H
#define BTL_IB_BIASED_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct btl_ib_biased_lock {
    atomic_bool owner_inside; /* the owner has it without the mutex, or is about to find out */
    atomic_bool revoked;      /* even the owner needs the mutex */
    bool by_mutex;            /* its holder holds the mutex; written by the holder alone */
    bool biased;              /* release() gives the bias back; guarded by the mutex */
    bool in_shift;            /* the bias stays revoked; guarded by the mutex */
    bool shared;              /* several threads communicate; written by its holder */
    pthread_t helper;         /* whose shift it is; guarded by the mutex */
    pthread_t owner;          /* does not change */
    atomic_uint waiting;      /* threads that sleep until they get the mutex */
    pthread_mutex_t mutex;
} btl_ib_biased_lock_t;

/* Without btl_ib_biased_lock_init(): an ordinary mutex. */
#define BTL_IB_BIASED_LOCK_INITIALIZER                                                             \
    {                                                                                              \
        .revoked = true, .mutex = PTHREAD_MUTEX_INITIALIZER                                        \
    }

/*
 * Initializes a lock that no thread has: biased to the calling thread if `biased` and the system
 * allows it. Returns whether it is.
 */
bool btl_ib_biased_lock_init(btl_ib_biased_lock_t *lock, bool biased);

/*
 * Borrows the lock as btl_ib_biased_lock_borrow(), but the caller may release and acquire the lock
 * as often as it likes until it ends its shift: the owner only keeps its bias for later. One thread
 * at most has a shift. End it with the lock held.
 */
bool btl_ib_biased_lock_begin_shift(btl_ib_biased_lock_t *lock);
static inline void btl_ib_biased_lock_end_shift(btl_ib_biased_lock_t *lock)
{
    lock->in_shift = false;
}

/* Takes the slow paths of acquire, try and release. */
void btl_ib_biased_lock_acquire_mutex(btl_ib_biased_lock_t *lock);
bool btl_ib_biased_lock_try_mutex(btl_ib_biased_lock_t *lock);
void btl_ib_biased_lock_release_mutex(btl_ib_biased_lock_t *lock);

/* Takes the fast path: returns whether the caller is the owner and has the lock now. */
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
 * Acquires, for progress, if no thread has it. Returns whether the caller has it. A thread that
 * polls in a loop would take the mutex again before a waiting thread wakes up, so waiting threads
 * go first.
 */
static inline bool btl_ib_biased_lock_try(btl_ib_biased_lock_t *lock)
{
    return btl_ib_biased_lock_acquire_biased(lock) || btl_ib_biased_lock_try_mutex(lock);
}

/*
 * Prepares for a thread that will borrow locks of this process: has the kernel register the process
 * for the barrier. That waits until all processors have been elsewhere, for up to some 10 ms, for
 * which MPI_Init should not wait. Without this the first one that borrows waits so, with the mutex
 * held.
 */
void btl_ib_biased_lock_register_process(void);

/* Acquires as btl_ib_biased_lock_try(), for a thread that comes seldom: the owner keeps its
 * bias. */
bool btl_ib_biased_lock_borrow(btl_ib_biased_lock_t *lock);

/* True if several threads acquire it, not only borrow it. Once they did, for good. For its
 * holder. */
static inline bool btl_ib_biased_lock_shared(const btl_ib_biased_lock_t *lock)
{
    return lock->shared;
}

/* True if threads sleep until they get the lock. */
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
