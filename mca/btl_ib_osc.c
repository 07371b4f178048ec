/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_osc.h"

#include "btl_ib_ompi_compat.h"
#include "btl_ib_param_parse.h"

bool btl_ib_osc_has_pt2pt(void)
{
    return mca_base_var_find("ompi", "osc", "pt2pt", "no_locks") >= 0;
}

bool btl_ib_osc_takes_us_unasked(void)
{
    const int index = mca_base_var_find("ompi", "osc", "rdma", "btls");
    const char *const *names = NULL;

    return index >= 0 && mca_base_var_get_value(index, &names, NULL, NULL) == OPAL_SUCCESS
           && names != NULL && *names != NULL && btl_ib_value_lists(*names, "ib");
}

/* ---- ranks that osc/rdma mistakes ---- */

uint32_t btl_ib_osc_mistaken_ranks(uint32_t processes, uint32_t hosts, uint32_t *rank,
                                   uint32_t *other)
{
    const uint32_t part = hosts != 0 ? (processes + hosts - 1) / hosts : 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < processes && part != 0; ++i) {
        const uint32_t looks_at = (uint32_t) ((uint64_t) i * hosts / processes);
        const uint32_t reads = looks_at * part + i % part;

        if (reads != i && count++ == 0) {
            *rank = i;
            *other = reads < processes ? reads : 0;
        }
    }
    return count;
}

/* ---- the lock that osc/rdma waits for though it has it ---- */

static bool op_adds(const btl_ib_op_t *op, uint64_t operand)
{
    return op->code == BTL_IB_ATOMIC_ADD && op->type == BTL_IB_ATOMIC_INT64
           && operand == op->operand;
}

/* Notes that 1 was added to the word of `lock`, or taken away again. */
static btl_ib_osc_step_t note_turn(btl_ib_osc_lock_t *lock, pthread_t thread, bool up)
{
    const bool in_turn = pthread_equal(thread, lock->thread) != 0 && up != lock->added;

    lock->added = up;
    if (!in_turn) {
        lock->tries = 0;
    } else if (!up && lock->tries < BTL_IB_OSC_LOCK_TRIES) {
        ++lock->tries;
    }
    return up && lock->tries == BTL_IB_OSC_LOCK_TRIES ? BTL_IB_OSC_HAS : BTL_IB_OSC_OTHER;
}

void btl_ib_osc_locks_start(btl_ib_osc_locks_t *locks, btl_ib_osc_atomic_t *atomic,
                            const btl_ib_op_t *op, const void *peer, uint64_t address,
                            pthread_t thread)
{
    const bool up = op_adds(op, 1), down = op_adds(op, UINT64_MAX);

    atomic->peer = peer;
    atomic->address = address;
    atomic->thread = thread;
    atomic->step = BTL_IB_OSC_OTHER;
    if (op->code == BTL_IB_ATOMIC_CSWAP && op->compare == 0
        && op->operand == BTL_IB_OSC_LOCK_EXCLUSIVE) {
        atomic->step = BTL_IB_OSC_ACQUIRES;
    }
    for (uint32_t i = 0; i < BTL_IB_OSC_LOCKS_MAX; ++i) {
        btl_ib_osc_lock_t *lock = &locks->held[i];

        if (lock->peer == NULL) {
            continue;
        }
        if (peer != lock->peer || address != lock->address) {
            if (pthread_equal(thread, lock->thread)) {
                lock->tries = 0;
            }
        } else if (up || down) {
            atomic->step = note_turn(lock, thread, up);
        } else {
            lock->peer = NULL;
        }
    }
}

static btl_ib_osc_lock_t *find_place(btl_ib_osc_locks_t *locks)
{
    const uint32_t oldest = locks->next;

    for (uint32_t i = 0; i < BTL_IB_OSC_LOCKS_MAX; ++i) {
        if (locks->held[i].peer == NULL) {
            return &locks->held[i];
        }
    }
    locks->next = (oldest + 1) % BTL_IB_OSC_LOCKS_MAX;
    return &locks->held[oldest];
}

uint64_t btl_ib_osc_locks_done(btl_ib_osc_locks_t *locks, const btl_ib_osc_atomic_t *atomic,
                               uint64_t result)
{
    if (atomic->step == BTL_IB_OSC_HAS) {
        return result & ~BTL_IB_OSC_LOCK_EXCLUSIVE;
    }
    if (atomic->step == BTL_IB_OSC_ACQUIRES && result == 0) {
        *find_place(locks) = (btl_ib_osc_lock_t){
            .peer = atomic->peer,
            .address = atomic->address,
            .thread = atomic->thread,
        };
    }
    return result;
}
