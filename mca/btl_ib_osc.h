/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Open MPI's components for windows (framework osc): how they use ib, and what protects users from
 * two of their faults. Their parameters are registered after BTLs are initialized, and before
 * processes are added.
 */

#ifndef BTL_IB_OSC_H
#define BTL_IB_OSC_H

#include <stdbool.h>
#include <pthread.h>
#include <stdint.h>

#include "btl_ib_rma.h"

/* True if osc/pt2pt is loaded, which makes windows of messages, over any BTL. It is gone since Open
 * MPI 5.0, and Debian 12 turns it off. (Even if it is loaded it refuses MPI_THREAD_MULTIPLE.) */
bool btl_ib_osc_has_pt2pt(void);

/* True if osc_rdma_btls names ib. Then osc/rdma uses ib for each window without asking which
 * processes it reaches, and does not add the processes of a window. */
bool btl_ib_osc_takes_us_unasked(void);

/* ---- ranks that osc/rdma mistakes ---- */

/*
 * osc/rdma of Open MPI 4.1.0 to 4.1.4 reads the location of a rank from a table that is spread over
 * the hosts: host n has the part of the ranks from n * part on, where `part` is processes / hosts,
 * rounded up. But ompi_osc_rdma_peer_setup() of osc_rdma_peer.c asks host rank * hosts / processes
 * (4.1.5: rank / part). With three hosts or more that is another host for some ranks, unless all
 * parts have the same size. The entry that it reads there belongs to another rank; behind the last
 * one it is zero, which means rank 0. osc/rdma then uses the window of that other rank: it accesses
 * the wrong memory (MPI_Win_allocate), or asks the right rank with the other's handle and is
 * rejected (MPI_Win_create). A BTL sees addresses and handles only, and cannot tell wrong ones.
 */

/* Returns how many ranks of a window over so many processes on so many hosts (0: not known)
 * osc/rdma mistakes for others. If there are any, *rank is the first of them, and *other the rank
 * that it is mistaken for. */
uint32_t btl_ib_osc_mistaken_ranks(uint32_t processes, uint32_t hosts, uint32_t *rank,
                                   uint32_t *other);

/* ---- the lock that osc/rdma waits for though it has it ---- */

/*
 * The lock of dynamic windows: osc/rdma of Open MPI 4.1.1 to 4.1.4 waits for itself there.
 *
 * Before each access to memory of another process that is attached to a window, osc/rdma takes the
 * exclusive lock of that process's list of regions (ompi_osc_rdma_find_dynamic_region() of
 * osc_rdma_dynamic.c, gone in 4.1.5: a compare-and-swap of 0 by the EXCLUSIVE bit). If the list has
 * changed, it then takes the shared lock of the same word, to read the list: it adds 1, finds
 * EXCLUSIVE set, which is its own, takes the 1 away and tries again, for ever. That thread has the
 * lock already. So ib returns the result of such an addition without EXCLUSIVE, and osc/rdma goes
 * on as intended. The word itself always has the value that osc/rdma gives it, so another process
 * that wants the lock waits until it is released.
 *
 * Atomics of users may look alike. To count as osc/rdma's, one thread must have replaced 0 by
 * EXCLUSIVE and then have added 1 and -1 in turns, BTL_IB_OSC_LOCK_TRIES times each, and nothing
 * else: no other atomic of that thread on any word, and none of this process on that word. (Between
 * a user's accumulates there are always the atomics of the lock by which osc/rdma keeps them
 * apart.)
 */

#define BTL_IB_OSC_LOCK_EXCLUSIVE (UINT64_C(1) << 63)
#define BTL_IB_OSC_LOCK_TRIES     8
#define BTL_IB_OSC_LOCKS_MAX      16 /* held at the same time; beyond that some are forgotten */

typedef struct btl_ib_osc_lock {
    const void *peer; /* identifies the process that has the word; NULL: this place is free */
    uint64_t address; /* of the word, in that process */
    pthread_t thread; /* that has the lock */
    uint32_t tries;   /* how often 1 was added and taken away again */
    bool added;       /* 1 was added, and not yet taken away */
} btl_ib_osc_lock_t;

/* Words that this process set to EXCLUSIVE, and not to anything else since. All zero: none. */
typedef struct btl_ib_osc_locks {
    btl_ib_osc_lock_t held[BTL_IB_OSC_LOCKS_MAX];
    uint32_t next; /* place to be reused when all are taken */
} btl_ib_osc_locks_t;

/* The effect of an atomic on a lock of a window. */
typedef enum btl_ib_osc_step {
    BTL_IB_OSC_OTHER = 0,
    BTL_IB_OSC_ACQUIRES, /* acquires it, if the result is 0 */
    BTL_IB_OSC_HAS       /* would wait for it, though its thread has it */
} btl_ib_osc_step_t;

/* An atomic under way. */
typedef struct btl_ib_osc_atomic {
    const void *peer;
    uint64_t address;
    pthread_t thread;
    btl_ib_osc_step_t step;
} btl_ib_osc_atomic_t;

/* Notes that `thread` is about to start `op`, an atomic of the word at `address` of `peer`. Fills
 * in *atomic. */
void btl_ib_osc_locks_start(btl_ib_osc_locks_t *locks, btl_ib_osc_atomic_t *atomic,
                            const btl_ib_op_t *op, const void *peer, uint64_t address,
                            pthread_t thread);

/* Notes that an atomic was executed. Returns the result for its caller: `result`, which is
 * op->result, without EXCLUSIVE if the caller has the lock. */
uint64_t btl_ib_osc_locks_done(btl_ib_osc_locks_t *locks, const btl_ib_osc_atomic_t *atomic,
                               uint64_t result);

#endif
