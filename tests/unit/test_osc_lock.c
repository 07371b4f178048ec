/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The lock in which osc/rdma of Open MPI 4.1.1 to 4.1.4 waits for itself: it gets it, and no
 * other that waits in the same way.
 */

#include <string.h>

#include "btl_ib_osc.h"
#include "unit.h"

#define EXCLUSIVE BTL_IB_OSC_LOCK_EXCLUSIVE
#define TRIES     BTL_IB_OSC_LOCK_TRIES
#define WORDS     64

static btl_ib_osc_locks_t locks;
static uint64_t values[WORDS]; /* the words of all peers */
static int peers[2];
static pthread_t threads[2];

static int setup(void **state)
{
    memset(&locks, 0, sizeof(locks));
    memset(values, 0, sizeof(values));
    threads[0] = pthread_self();
    memset(&threads[1], 0x5a, sizeof(threads[1]));
    return 0;
}

/* Execute an atomic of one of the threads, on word `index`; returns the result as it is told. */
static uint64_t execute(uint32_t thread, uint32_t index, btl_ib_op_t op)
{
    btl_ib_osc_atomic_t atomic;
    const uint64_t before = values[index];

    btl_ib_osc_locks_start(&locks, &atomic, &op, &peers[index % 2], 0x1000 + index / 2 * 8,
                           threads[thread]);
    if (op.code != BTL_IB_ATOMIC_CSWAP) {
        values[index] = before + op.operand;
    } else if (before == op.compare) {
        values[index] = op.operand;
    }
    return btl_ib_osc_locks_done(&locks, &atomic, before);
}

static uint64_t add(uint32_t thread, uint32_t index, uint64_t operand)
{
    return execute(thread, index,
                   (btl_ib_op_t){.kind = BTL_IB_OP_ATOMIC,
                                 .code = BTL_IB_ATOMIC_ADD,
                                 .type = BTL_IB_ATOMIC_INT64,
                                 .operand = operand});
}

static uint64_t swap(uint32_t thread, uint32_t index, uint64_t compare, uint64_t value)
{
    return execute(thread, index,
                   (btl_ib_op_t){.kind = BTL_IB_OP_ATOMIC,
                                 .code = BTL_IB_ATOMIC_CSWAP,
                                 .type = BTL_IB_ATOMIC_INT64,
                                 .compare = compare,
                                 .operand = value});
}

static uint64_t acquire(uint32_t thread, uint32_t index)
{
    return swap(thread, index, 0, EXCLUSIVE);
}

static void release(uint32_t thread, uint32_t index)
{
    add(thread, index, EXCLUSIVE);
}

/* Wait for the shared lock as osc/rdma does, at most so many times; returns how many it took, 0: it
 * was not got. */
static uint32_t wait_shared(uint32_t thread, uint32_t index, uint32_t most)
{
    for (uint32_t i = 1; i <= most; ++i) {
        if ((add(thread, index, 1) & EXCLUSIVE) == 0) {
            return i;
        }
        add(thread, index, UINT64_MAX);
    }
    return 0;
}

TEST_WITH(test_holder_gets_it, setup, NULL)
{
    for (uint32_t round = 0; round < 3 * BTL_IB_OSC_LOCKS_MAX; ++round) {
        const uint32_t index = round % WORDS;

        assert_int_equal(acquire(0, index), 0);
        assert_int_equal(wait_shared(0, index, 100), TRIES + 1);
        assert_int_equal(values[index], EXCLUSIVE + 1);
        assert_int_equal(acquire(0, index), EXCLUSIVE + 1);
        add(0, index, UINT64_MAX);
        release(0, index);
        assert_int_equal(values[index], 0);
    }
}

/* Only EXCLUSIVE in place of a 0 takes it: not another value, nor in place of another one, nor an
 * atomic of another kind. */
TEST_WITH(test_other_atomics_take_nothing, setup, NULL)
{
    swap(0, 0, 0, 5);
    values[0] = EXCLUSIVE;
    assert_int_equal(wait_shared(0, 0, 100), 0);
    values[2] = 5;
    swap(0, 2, 5, EXCLUSIVE);
    assert_int_equal(wait_shared(0, 2, 100), 0);
    values[4] = 0;
    swap(0, 4, 7, EXCLUSIVE);
    values[4] = EXCLUSIVE;
    assert_int_equal(wait_shared(0, 4, 100), 0);
    add(0, 6, EXCLUSIVE);
    assert_int_equal(wait_shared(0, 6, 100), 0);
}

TEST_WITH(test_others_wait, setup, NULL)
{
    /* Another thread has it, another process, or nobody any more. */
    acquire(0, 2);
    assert_int_equal(wait_shared(1, 2, 100), 0);
    values[4] = EXCLUSIVE;
    assert_int_equal(acquire(0, 4), EXCLUSIVE);
    assert_int_equal(wait_shared(0, 4, 100), 0);
    acquire(0, 6);
    release(0, 6);
    values[6] = EXCLUSIVE;
    assert_int_equal(wait_shared(0, 6, 100), 0);
    acquire(0, 8);
    swap(1, 8, EXCLUSIVE, 0);
    values[8] = EXCLUSIVE;
    assert_int_equal(wait_shared(0, 8, 100), 0);
    /* The same address of another process. */
    acquire(0, 10);
    values[11] = EXCLUSIVE;
    assert_int_equal(wait_shared(0, 11, 100), 0);
}

/* A user's numbers: each addition goes by osc/rdma's lock of accumulates, or is no waiting. */
TEST_WITH(test_users_are_told_the_truth, setup, NULL)
{
    acquire(0, 0);
    for (uint32_t i = 0; i < 100; ++i) {
        assert_int_equal(acquire(0, 1), 0);
        assert_int_equal(add(0, 0, 1), EXCLUSIVE);
        release(0, 1);
        add(0, 0, UINT64_MAX);
    }
    for (uint64_t i = 0; i < 100; ++i) {
        assert_int_equal(add(0, 0, 1), EXCLUSIVE + i);
    }
    acquire(0, 2);
    for (uint32_t i = 0; i < 100; ++i) {
        assert_int_equal(add(0, 2, 1), EXCLUSIVE);
        assert_int_equal(add(0, 2, UINT64_MAX), EXCLUSIVE + 1);
        assert_int_equal(add(1, 2, 1), EXCLUSIVE);
        assert_int_equal(add(1, 2, UINT64_MAX), EXCLUSIVE + 1);
    }
}

/* Several threads, each with a lock of its own, beside more than there are places for. */
TEST_WITH(test_many, setup, NULL)
{
    for (uint32_t i = 2; i < 2 + 2 * BTL_IB_OSC_LOCKS_MAX; ++i) {
        acquire(0, i);
    }
    acquire(0, 0);
    acquire(1, 1);
    for (uint32_t i = 0; i < TRIES; ++i) {
        assert_int_equal(add(0, 0, 1), EXCLUSIVE);
        assert_int_equal(add(1, 1, 1), EXCLUSIVE);
        add(1, 1, UINT64_MAX);
        add(0, 0, UINT64_MAX);
    }
    assert_int_equal(add(0, 0, 1), 0);
    assert_int_equal(add(1, 1, 1), 0);
}

UNIT_MAIN(NULL, NULL)
