/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What Open MPI's components for windows (its framework osc) do with ib, as far as their parameters
 * tell: they are registered after BTLs are initialized, and before processes are added.
 */

#ifndef BTL_IB_OSC_H
#define BTL_IB_OSC_H

#include <stdbool.h>
#include <pthread.h>
#include <stdint.h>

#include "btl_ib_rma.h"

/* True if there is osc/pt2pt, which makes windows of messages and serves any BTL. It is gone since
 * Open MPI 5.0, and Debian 12 turns it off. Whether it may be used is another question: it refuses
 * MPI_THREAD_MULTIPLE. */
bool btl_ib_osc_has_pt2pt(void);

/* True if osc_rdma_btls names ib. Then osc/rdma takes ib for each window without asking which
 * processes it reaches, so that those of a window are not added. */
bool btl_ib_osc_takes_us_unasked(void);

/* ---- ranks that it takes for others ---- */

/*
 * osc/rdma of Open MPI 4.1.0 to 4.1.4 finds where a rank is in a table, of which each host has a
 * part: host n that of the ranks from n * part on, where `part` is processes / hosts, rounded up.
 * ompi_osc_rdma_peer_setup() of osc_rdma_peer.c looks at host rank * hosts / processes (4.1.5: rank
 * / part). With three hosts or more that is another one for some ranks, unless all hosts have parts
 * of the same size. What it reads there is about another rank, or zero, which is rank 0, behind the
 * last one. The window of that one is then used: what is meant for the rank is done there
 * (MPI_Win_allocate), or asked of the rank with the handle of the other one, and rejected
 * (MPI_Win_create). A BTL sees addresses and handles, and cannot tell these from right ones.
 */

/* Returns how many ranks of a window over so many processes on so many hosts (0: not known) it
 * takes for others; *rank is the first of them, *other the one that it is taken for. */
uint32_t btl_ib_osc_mistaken_ranks(uint32_t processes, uint32_t hosts, uint32_t *rank,
                                   uint32_t *other);

/* ---- its lock ---- */

/*
 * The lock of dynamic windows, in which osc/rdma of Open MPI 4.1.1 to 4.1.4 waits for itself.
 *
 * Before each access to memory of another process that is attached to a window, osc/rdma takes the
 * exclusive lock of that process's list of regions (ompi_osc_rdma_find_dynamic_region() of
 * osc_rdma_dynamic.c, gone in 4.1.5: a compare-and-swap of 0 by the EXCLUSIVE bit). If the list has
 * changed it then takes the shared lock of the same word, to read it: it adds 1, finds EXCLUSIVE
 * set, which is its own, takes the 1 away and tries again, for ever. The thread that does so has
 * the lock already: so the result of such an addition is told without EXCLUSIVE, and all goes on as
 * intended. The word itself has at any time what osc/rdma would have made of it, so another
 * process that wants the lock waits until it is given back.
 *
 * Atomics of users may come in the same way. To be taken for osc/rdma's, one thread must have put
 * EXCLUSIVE in place of a 0 and then have added 1 and -1 in turns, BTL_IB_OSC_LOCK_TRIES times
 * each, without anything else: no other atomic of that thread, whichever word it is about, and none
 * of this process to that word. Between a user's atomics come those of the lock by which osc/rdma
 * keeps accumulates apart.
 */

#define BTL_IB_OSC_LOCK_EXCLUSIVE (UINT64_C(1) << 63)
#define BTL_IB_OSC_LOCK_TRIES     8
#define BTL_IB_OSC_LOCKS_MAX      16 /* at the same time; beyond that some are forgotten */

typedef struct btl_ib_osc_lock {
    const void *peer; /* whose word it is; only compared; NULL: this place is free */
    uint64_t address; /* of the word, there */
    pthread_t thread; /* that has the lock */
    uint32_t tries;   /* 1 was added and taken away again */
    bool added;       /* 1 was added */
} btl_ib_osc_lock_t;

/* Words that this process made EXCLUSIVE, and has not made anything else since. All zero: none. */
typedef struct btl_ib_osc_locks {
    btl_ib_osc_lock_t held[BTL_IB_OSC_LOCKS_MAX];
    uint32_t next; /* to be forgotten if all places are taken */
} btl_ib_osc_locks_t;

/* The effect of an atomic on a lock of a window. */
typedef enum btl_ib_osc_step {
    BTL_IB_OSC_OTHER = 0,
    BTL_IB_OSC_ACQUIRES, /* takes it, if its result is 0 */
    BTL_IB_OSC_HAS       /* would wait for it, and has it */
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

/* Notes that it was executed. Returns what its caller is to be told of op->result. */
uint64_t btl_ib_osc_locks_done(btl_ib_osc_locks_t *locks, const btl_ib_osc_atomic_t *atomic,
                               uint64_t result);

#endif
