/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The gate: a lock that costs the one thread that uses it all the time next to nothing.
 *
 * Every BTL call takes the component's lock because of the kicker, which looks a hundred times a second at most,
 * while a message takes it four times: a mutex, with two atomic instructions each time, was a sixth of a small
 * message's time. So the gate is biased to a thread, its owner, which enters by a plain store:
 *
 *     owner                                  any other thread
 *       inside = true                          lock the mutex
 *       (only the compiler is kept from        closed = true
 *        turning these two round)              membarrier: all running threads of the process pass a
 *       closed? no: it is in                     full barrier now
 *               yes: inside = false,           inside? no: it is in
 *                    lock the mutex                    yes: it takes its leave, or waits
 *
 * Either the owner's store came before its barrier: then the other one sees it. Or it comes after it, and so does the
 * look at `closed`: then the owner sees that. That is Dekker's algorithm with one of its two barriers
 * moved to where it is seldom paid (membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED, Linux 4.14).
 *
 * Who only tries (the kicker) opens the gate for the owner again when it leaves. The first other thread that enters
 * and may wait, or calls progress, ends the bias for good: where several threads communicate (MPI_THREAD_MULTIPLE)
 * it is an ordinary mutex. So it is where the system refuses membarrier.
 *
 * The hand-over goes by release and acquire of `inside` and `closed`, so thread sanitizers see it. Knows nothing
 * of Open MPI. Not recursive.
 */

#ifndef BTL_IB_GATE_H
#define BTL_IB_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct btl_ib_gate {
    atomic_bool inside;  /* the owner is in without the mutex, or looks whether it may be */
    atomic_bool closed;  /* even the owner needs the mutex */
    bool by_mutex;       /* whoever is in has the mutex; written by him alone */
    bool biased;         /* the gate is opened again for the owner; mutex */
    pthread_t owner;     /* does not change */
    atomic_uint waiting; /* threads that sleep until they get the mutex */
    pthread_mutex_t mutex;
} btl_ib_gate_t;

/* Of a component that was not initialized: an ordinary mutex. */
#define BTL_IB_GATE_INITIALIZER                                                                    \
    {                                                                                              \
        .closed = true, .mutex = PTHREAD_MUTEX_INITIALIZER                                         \
    }

/*
 * Begin anew, when nobody is in: biased to the calling thread, if `biased` and the system can do it.
 * Returns whether it is.
 */
bool btl_ib_gate_init(btl_ib_gate_t *gate, bool biased);

/* As btl_ib_gate_enter() and _try(), for all but the owner of a gate that is open to it. */
void btl_ib_gate_enter_by_mutex(btl_ib_gate_t *gate);
bool btl_ib_gate_try_by_mutex(btl_ib_gate_t *gate);

void btl_ib_gate_leave_by_mutex(btl_ib_gate_t *gate);

static inline bool btl_ib_gate_enter_as_owner(btl_ib_gate_t *gate)
{
    if (atomic_load_explicit(&gate->closed, memory_order_relaxed)
        || !pthread_equal(gate->owner, pthread_self())) {
        return false;
    }
    atomic_store_explicit(&gate->inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&gate->closed, memory_order_acquire)) {
        return true;
    }
    atomic_store_explicit(&gate->inside, false, memory_order_release);
    return false;
}

/* Enter, and wait for that if need be. */
static inline void btl_ib_gate_enter(btl_ib_gate_t *gate)
{
    if (!btl_ib_gate_enter_as_owner(gate)) {
        btl_ib_gate_enter_by_mutex(gate);
    }
}

/*
 * For progress: enter if nobody is in. Who polls in a loop would take the mutex again and again before a
 * sleeper wakes up, so sleepers go first. Returns whether the caller is in.
 */
static inline bool btl_ib_gate_try(btl_ib_gate_t *gate)
{
    return btl_ib_gate_enter_as_owner(gate) || btl_ib_gate_try_by_mutex(gate);
}

/* For a thread that comes seldom and must not make others wait: as btl_ib_gate_try(), but the bias stays. */
bool btl_ib_gate_visit(btl_ib_gate_t *gate);

static inline void btl_ib_gate_leave(btl_ib_gate_t *gate)
{
    if (gate->by_mutex) {
        btl_ib_gate_leave_by_mutex(gate);
    } else {
        atomic_store_explicit(&gate->inside, false, memory_order_release);
    }
}

#endif
