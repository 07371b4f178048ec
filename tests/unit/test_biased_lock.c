/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component's lock. tools/check builds this program with thread sanitizer, too (tsan/biased_lock). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>

#include "btl_ib_biased_lock.h"

enum {
    VISITS = 200000, /* attempts: without the barrier one in some 10000 goes wrong */
    PAUSE = 64,      /* turns of an empty loop from one to the next, at most */
};

/* What the gate guards: always alike when nobody is in. */
typedef struct guarded {
    uint64_t first, second;
} guarded_t;

static btl_ib_gate_t gate;
static guarded_t guarded;
static atomic_uint torn;  /* times that it was not */
static atomic_bool over;  /* the last visit was made */
static atomic_bool stays; /* a thread is to stay in */
static atomic_bool is_in; /* and it is */

static int setup(void **state)
{
    (void) state;
    guarded = (guarded_t){0};
    atomic_store(&torn, 0);
    atomic_store(&over, false);
    atomic_store(&stays, true);
    atomic_store(&is_in, false);
    return 0;
}

/* Where the system refuses membarrier the gate is a mutex, and there is nothing to test of the bias. */
static void begin_biased(void)
{
    if (!btl_ib_gate_init(&gate, true)) {
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

static void *visit_once(void *unused)
{
    (void) unused;
    if (!btl_ib_gate_visit(&gate)) {
        return NULL;
    }
    btl_ib_gate_leave(&gate);
    return &gate;
}

static void *enter_once(void *unused)
{
    (void) unused;
    btl_ib_gate_enter(&gate);
    btl_ib_gate_leave(&gate);
    return &gate;
}

static void *try_once(void *unused)
{
    (void) unused;
    if (!btl_ib_gate_try(&gate)) {
        return NULL;
    }
    btl_ib_gate_leave(&gate);
    return &gate;
}

static void stay_until_told(void)
{
    atomic_store(&is_in, true);
    while (atomic_load(&stays)) {
        sched_yield();
    }
    btl_ib_gate_leave(&gate);
}

static void *visit_and_stay(void *unused)
{
    (void) unused;
    while (!btl_ib_gate_visit(&gate)) {
    }
    stay_until_told();
    return NULL;
}

static void *enter_and_stay(void *unused)
{
    (void) unused;
    btl_ib_gate_enter(&gate);
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

static void test_owner_needs_no_mutex(void **state)
{
    (void) state;
    begin_biased();
    btl_ib_gate_enter(&gate);
    assert_false(gate.by_mutex);
    assert_false(elsewhere(visit_once));
    assert_false(gate.by_mutex);
    btl_ib_gate_leave(&gate);
    assert_true(btl_ib_gate_try(&gate));
    assert_false(gate.by_mutex);
    btl_ib_gate_leave(&gate);
}

static void test_a_visit_shuts_the_owner_out(void **state)
{
    (void) state;
    begin_biased();
    pthread_t visitor = start(visit_and_stay);
    wait_for(&is_in);
    assert_false(btl_ib_gate_try(&gate));
    assert_false(elsewhere(visit_once));
    atomic_store(&stays, false);
    assert_int_equal(pthread_join(visitor, NULL), 0);
    btl_ib_gate_enter(&gate);
    assert_false(gate.by_mutex); /* it was a visit only */
    btl_ib_gate_leave(&gate);
}

static void test_others_end_the_bias(void **state)
{
    static void *(*const ways[])(void *) = {enter_once, try_once};

    (void) state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        begin_biased();
        assert_true(elsewhere(ways[i]));
        assert_true(elsewhere(visit_once));
        btl_ib_gate_enter(&gate);
        assert_true(gate.by_mutex);
        assert_false(elsewhere(try_once));
        assert_false(elsewhere(visit_once));
        btl_ib_gate_leave(&gate);
        assert_true(elsewhere(try_once));
    }
}

static void test_without_bias_it_is_a_mutex(void **state)
{
    (void) state;
    assert_false(btl_ib_gate_init(&gate, false));
    assert_true(elsewhere(visit_once));
    btl_ib_gate_enter(&gate);
    assert_true(gate.by_mutex);
    assert_false(elsewhere(visit_once));
    assert_false(elsewhere(try_once));
    btl_ib_gate_leave(&gate);
    assert_true(elsewhere(enter_once));
}

/* Who waited must not be overtaken by who polls. */
static void test_sleepers_go_first(void **state)
{
    (void) state;
    assert_false(btl_ib_gate_init(&gate, false));
    btl_ib_gate_enter(&gate);
    pthread_t sleeper = start(enter_and_stay);
    while (atomic_load(&gate.waiting) == 0) {
        sched_yield();
    }
    btl_ib_gate_leave(&gate);
    assert_false(btl_ib_gate_try(&gate));
    wait_for(&is_in);
    assert_false(btl_ib_gate_try(&gate));
    atomic_store(&stays, false);
    assert_int_equal(pthread_join(sleeper, NULL), 0);
    assert_true(btl_ib_gate_try(&gate));
    btl_ib_gate_leave(&gate);
}

/* ---- at the same time ---- */

static void *visit_often(void *unused)
{
    uint64_t visits = 0;

    (void) unused;
    for (int i = 0; i < VISITS; i++) {
        for (volatile int pause = i % PAUSE; pause > 0; pause--) {
        }
        if (btl_ib_gate_visit(&gate)) {
            work();
            visits++;
            btl_ib_gate_leave(&gate);
        }
    }
    atomic_store(&over, true);
    return (void *) (uintptr_t) visits;
}

static uint64_t enter_or_try(uint64_t turn)
{
    if (turn % 2 == 0) {
        btl_ib_gate_enter(&gate);
    } else if (!btl_ib_gate_try(&gate)) {
        sched_yield();
        return 0;
    }
    work();
    btl_ib_gate_leave(&gate);
    return 1;
}

static void *enter_often(void *unused)
{
    uint64_t entered = 0;

    (void) unused;
    for (uint64_t turn = 0; !atomic_load(&over); turn++) {
        entered += enter_or_try(turn);
    }
    return (void *) (uintptr_t) entered;
}

/* The owner goes in and out while somebody visits, and `other` comes in the middle, if it is not NULL: nobody
 * sees what another one has half done, and nothing is lost. */
static void expect_exclusion(void *(*other)(void *) )
{
    pthread_t visitor = start(visit_often), second = visitor;
    void *visits, *others = NULL;
    uint64_t entered = 0;

    for (uint64_t turn = 0; !atomic_load(&over) || turn < VISITS; turn++) {
        if (turn == VISITS / 2 && other != NULL) {
            second = start(other);
        }
        entered += enter_or_try(turn);
    }
    assert_int_equal(pthread_join(visitor, &visits), 0);
    if (other != NULL) {
        assert_int_equal(pthread_join(second, &others), 0);
    }
    assert_int_equal(atomic_load(&torn), 0);
    assert_int_equal(guarded.first, entered + (uintptr_t) visits + (uintptr_t) others);
    assert_int_equal(guarded.second, guarded.first);
}

static void test_owner_and_visitor_exclude_each_other(void **state)
{
    (void) state;
    begin_biased();
    expect_exclusion(NULL);
}

static void test_a_second_thread_joins(void **state)
{
    (void) state;
    begin_biased();
    expect_exclusion(enter_often);
}

static void test_all_by_mutex(void **state)
{
    (void) state;
    assert_false(btl_ib_gate_init(&gate, false));
    expect_exclusion(enter_often);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_owner_needs_no_mutex, setup),
        cmocka_unit_test_setup(test_a_visit_shuts_the_owner_out, setup),
        cmocka_unit_test_setup(test_others_end_the_bias, setup),
        cmocka_unit_test_setup(test_without_bias_it_is_a_mutex, setup),
        cmocka_unit_test_setup(test_sleepers_go_first, setup),
        cmocka_unit_test_setup(test_owner_and_visitor_exclude_each_other, setup),
        cmocka_unit_test_setup(test_a_second_thread_joins, setup),
        cmocka_unit_test_setup(test_all_by_mutex, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
