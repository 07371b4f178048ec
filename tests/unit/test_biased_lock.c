/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component's lock. tools/check builds this program with thread sanitizer, too
 * (tsan/biased_lock). */

#include <sched.h>

#include "btl_ib_biased_lock.h"
#include "unit.h"

enum {
    BORROWS = 200000, /* attempts: without the barrier one in some 10000 goes wrong */
    PAUSE = 64,       /* turns of an empty loop from one to the next, at most */
};

/* What the lock guards: always alike when nobody is in. */
typedef struct guarded {
    uint64_t first, second;
} guarded_t;

static btl_ib_biased_lock_t lock;
static guarded_t guarded;
static atomic_uint torn;  /* times that it was not */
static atomic_bool over;  /* the last attempt to borrow was made */
static atomic_bool stays; /* a thread is to stay in */
static atomic_bool is_in; /* and it is */

static int setup(void **state)
{
    guarded = (guarded_t){0};
    atomic_store(&torn, 0);
    atomic_store(&over, false);
    atomic_store(&stays, true);
    atomic_store(&is_in, false);
    return 0;
}

/* Where the system refuses membarrier the lock is a mutex: there is no bias to test. */
static void begin_biased(void)
{
    if (!btl_ib_biased_lock_init(&lock, true)) {
        skip();
    }
}

static void work(void)
{
    if (guarded.first != guarded.second) {
        atomic_fetch_add(&torn, 1);
    }
    guarded.first++;
    guarded.second++;
}

static pthread_t start(void *(*function)(void *) )
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
    return thread;
}

/* Run `function` in a thread of its own to its end. Returns whether it returned something. */
static bool elsewhere(void *(*function)(void *) )
{
    void *result;

    assert_int_equal(pthread_join(start(function), &result), 0);
    return result != NULL;
}

static void *borrow_once(void *unused)
{
    if (!btl_ib_biased_lock_borrow(&lock)) {
        return NULL;
    }
    btl_ib_biased_lock_release(&lock);
    return &lock;
}

static void *acquire_once(void *unused)
{
    btl_ib_biased_lock_acquire(&lock);
    btl_ib_biased_lock_release(&lock);
    return &lock;
}

static void *try_once(void *unused)
{
    if (!btl_ib_biased_lock_try(&lock)) {
        return NULL;
    }
    btl_ib_biased_lock_release(&lock);
    return &lock;
}

static void stay_until_told(void)
{
    atomic_store(&is_in, true);
    while (atomic_load(&stays)) {
        sched_yield();
    }
    btl_ib_biased_lock_release(&lock);
}

static void *borrow_and_stay(void *unused)
{
    while (!btl_ib_biased_lock_borrow(&lock)) {
    }
    stay_until_told();
    return NULL;
}

static void *acquire_and_stay(void *unused)
{
    btl_ib_biased_lock_acquire(&lock);
    stay_until_told();
    return NULL;
}

static void wait_for(atomic_bool *what)
{
    while (!atomic_load(what)) {
        sched_yield();
    }
}

/* ---- one after the other ---- */

TEST_WITH(test_owner_needs_no_mutex, setup, NULL)
{
    begin_biased();
    btl_ib_biased_lock_acquire(&lock);
    assert_false(lock.by_mutex);
    assert_false(elsewhere(borrow_once));
    assert_false(lock.by_mutex);
    btl_ib_biased_lock_release(&lock);
    assert_true(btl_ib_biased_lock_try(&lock));
    assert_false(lock.by_mutex);
    btl_ib_biased_lock_release(&lock);
}

TEST_WITH(test_a_borrower_keeps_the_owner_out, setup, NULL)
{
    begin_biased();
    pthread_t borrower = start(borrow_and_stay);
    wait_for(&is_in);
    assert_false(btl_ib_biased_lock_try(&lock));
    assert_false(elsewhere(borrow_once));
    atomic_store(&stays, false);
    assert_int_equal(pthread_join(borrower, NULL), 0);
    btl_ib_biased_lock_acquire(&lock);
    assert_false(lock.by_mutex); /* the bias is back */
    btl_ib_biased_lock_release(&lock);
}

TEST_WITH(test_others_end_the_bias, setup, NULL)
{
    static void *(*const ways[])(void *) = {acquire_once, try_once};

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        begin_biased();
        assert_true(elsewhere(borrow_once));
        assert_false(btl_ib_biased_lock_shared(&lock));
        assert_true(elsewhere(ways[i]));
        assert_true(elsewhere(borrow_once));
        btl_ib_biased_lock_acquire(&lock);
        assert_true(lock.by_mutex);
        assert_true(btl_ib_biased_lock_shared(&lock));
        assert_false(elsewhere(try_once));
        assert_false(elsewhere(borrow_once));
        btl_ib_biased_lock_release(&lock);
        assert_true(elsewhere(try_once));
    }
}

static void *begin_shift(void *unused)
{
    if (!btl_ib_biased_lock_begin_shift(&lock)) {
        return NULL;
    }
    for (int i = 0; i < 3; i++) { /* callbacks, in which others may have the lock */
        btl_ib_biased_lock_release(&lock);
        btl_ib_biased_lock_acquire(&lock);
    }
    btl_ib_biased_lock_end_shift(&lock);
    btl_ib_biased_lock_release(&lock);
    return &lock;
}

static void *begin_shift_and_leave(void *unused)
{
    while (!btl_ib_biased_lock_begin_shift(&lock)) {
    }
    btl_ib_biased_lock_release(&lock);
    atomic_store(&is_in, true);
    while (atomic_load(&stays)) {
        sched_yield();
    }
    btl_ib_biased_lock_acquire(&lock);
    btl_ib_biased_lock_end_shift(&lock);
    btl_ib_biased_lock_release(&lock);
    return NULL;
}

TEST_WITH(test_bias_is_back_after_a_shift, setup, NULL)
{
    begin_biased();
    btl_ib_biased_lock_acquire(&lock);
    assert_false(elsewhere(begin_shift)); /* the owner is in */
    btl_ib_biased_lock_release(&lock);
    assert_true(elsewhere(begin_shift));
    btl_ib_biased_lock_acquire(&lock);
    assert_false(lock.by_mutex);
    assert_false(btl_ib_biased_lock_shared(&lock));
    btl_ib_biased_lock_release(&lock);
}

TEST_WITH(test_the_owner_enters_during_a_shift, setup, NULL)
{
    begin_biased();
    pthread_t helper = start(begin_shift_and_leave);
    wait_for(&is_in);
    btl_ib_biased_lock_acquire(&lock);
    assert_true(lock.by_mutex);
    btl_ib_biased_lock_release(&lock);
    atomic_store(&stays, false);
    assert_int_equal(pthread_join(helper, NULL), 0);
    btl_ib_biased_lock_acquire(&lock);
    assert_false(lock.by_mutex);
    btl_ib_biased_lock_release(&lock);
}

TEST_WITH(test_without_bias_it_is_a_mutex, setup, NULL)
{
    assert_false(btl_ib_biased_lock_init(&lock, false));
    assert_true(elsewhere(borrow_once));
    btl_ib_biased_lock_acquire(&lock);
    assert_true(lock.by_mutex);
    assert_false(elsewhere(borrow_once));
    assert_false(elsewhere(try_once));
    assert_false(btl_ib_biased_lock_shared(&lock));
    btl_ib_biased_lock_release(&lock);
    assert_true(elsewhere(acquire_once));
    assert_true(btl_ib_biased_lock_shared(&lock));
}

/* A thread that waited must not be overtaken by one that polls. */
TEST_WITH(test_waiting_threads_go_first, setup, NULL)
{
    assert_false(btl_ib_biased_lock_init(&lock, false));
    btl_ib_biased_lock_acquire(&lock);
    pthread_t sleeper = start(acquire_and_stay);
    while (atomic_load(&lock.waiting) == 0) {
        sched_yield();
    }
    btl_ib_biased_lock_release(&lock);
    assert_false(btl_ib_biased_lock_try(&lock));
    wait_for(&is_in);
    assert_false(btl_ib_biased_lock_try(&lock));
    atomic_store(&stays, false);
    assert_int_equal(pthread_join(sleeper, NULL), 0);
    assert_true(btl_ib_biased_lock_try(&lock));
    btl_ib_biased_lock_release(&lock);
}

/* ---- at the same time ---- */

static void *borrow_often(void *unused)
{
    uint64_t borrows = 0;

    for (int i = 0; i < BORROWS; i++) {
        for (volatile int pause = i % PAUSE; pause > 0; pause--) {
        }
        if (btl_ib_biased_lock_borrow(&lock)) {
            work();
            borrows++;
            btl_ib_biased_lock_release(&lock);
        }
    }
    atomic_store(&over, true);
    return (void *) (uintptr_t) borrows;
}

/* The same in shifts, within which the lock is given back and taken again. */
static void *help_often(void *unused)
{
    uint64_t entered = 0;

    for (int i = 0; i < BORROWS / 4; i++) {
        for (volatile int pause = i % PAUSE; pause > 0; pause--) {
        }
        if (btl_ib_biased_lock_begin_shift(&lock)) {
            for (int turn = i % 4; turn > 0; turn--) {
                work();
                entered++;
                btl_ib_biased_lock_release(&lock);
                btl_ib_biased_lock_acquire(&lock);
            }
            btl_ib_biased_lock_end_shift(&lock);
            btl_ib_biased_lock_release(&lock);
        }
    }
    atomic_store(&over, true);
    return (void *) (uintptr_t) entered;
}

static uint64_t acquire_or_try(uint64_t turn)
{
    if (turn % 2 == 0) {
        btl_ib_biased_lock_acquire(&lock);
    } else if (!btl_ib_biased_lock_try(&lock)) {
        sched_yield();
        return 0;
    }
    work();
    btl_ib_biased_lock_release(&lock);
    return 1;
}

static void *acquire_often(void *unused)
{
    uint64_t entered = 0;

    for (uint64_t turn = 0; !atomic_load(&over); turn++) {
        entered += acquire_or_try(turn);
    }
    return (void *) (uintptr_t) entered;
}

/* The owner acquires and releases while another thread borrows; `other`, unless NULL, starts half
 * way. No thread sees what another has half done, and nothing is lost. */
static void expect_exclusion(void *(*borrowing)(void *), void *(*other)(void *) )
{
    pthread_t borrower = start(borrowing), second = borrower;
    void *borrows, *others = NULL;
    uint64_t entered = 0;

    for (uint64_t turn = 0; !atomic_load(&over) || turn < BORROWS; turn++) {
        if (turn == BORROWS / 2 && other != NULL) {
            second = start(other);
        }
        entered += acquire_or_try(turn);
    }
    assert_int_equal(pthread_join(borrower, &borrows), 0);
    if (other != NULL) {
        assert_int_equal(pthread_join(second, &others), 0);
    }
    assert_int_equal(atomic_load(&torn), 0);
    assert_int_equal(guarded.first, entered + (uintptr_t) borrows + (uintptr_t) others);
    assert_int_equal(guarded.second, guarded.first);
}

TEST_WITH(test_owner_and_borrower_exclude_each_other, setup, NULL)
{
    begin_biased();
    expect_exclusion(borrow_often, NULL);
}

TEST_WITH(test_owner_and_helper_exclude_each_other, setup, NULL)
{
    begin_biased();
    expect_exclusion(help_often, NULL);
    btl_ib_biased_lock_acquire(&lock);
    assert_false(lock.by_mutex);
    btl_ib_biased_lock_release(&lock);
}

TEST_WITH(test_a_second_thread_joins_a_helper, setup, NULL)
{
    begin_biased();
    expect_exclusion(help_often, acquire_often);
}

TEST_WITH(test_a_second_thread_joins, setup, NULL)
{
    begin_biased();
    expect_exclusion(borrow_often, acquire_often);
}

TEST_WITH(test_exclusion_by_mutex_only, setup, NULL)
{
    assert_false(btl_ib_biased_lock_init(&lock, false));
    expect_exclusion(borrow_often, acquire_often);
}

UNIT_MAIN(NULL, NULL)
