/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Several threads in one engine: one at a time, as its owner has a lock, but that is free while a
 * callback runs. So turns do not only lie within each other, as in test_reentry.c: the one that
 * began first may end first. Here a baton takes the place of the lock, so that each run is the
 * same.
 */

#include <pthread.h>
#include <stdlib.h>

#include "hostile.h"
#include "support.h"
#include "unit.h"

enum { THREADS = 3 }; /* number 0 is that of the test, which moves time and datagrams */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    uint32_t holder;
    bool calm; /* whoever has it goes on to the end of its call, and gives it back to 0 */
    bool over;
} baton = {.mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static _Thread_local uint32_t self;
static bool in_call[THREADS];
static uint64_t overlaps; /* calls that ended while one that began later had not */
static uint64_t begun[THREADS], calls;
static test_random_t numbers;
static bench_t *bench;

static uint32_t some(uint32_t below)
{
    return test_random_below(&numbers, below);
}

static void wait_for_baton(void)
{
    pthread_mutex_lock(&baton.mutex);
    while (baton.holder != self) {
        pthread_cond_wait(&baton.moved, &baton.mutex);
    }
    pthread_mutex_unlock(&baton.mutex);
}

static void hand_to(uint32_t other)
{
    pthread_mutex_lock(&baton.mutex);
    baton.holder = other;
    pthread_cond_broadcast(&baton.moved);
    pthread_mutex_unlock(&baton.mutex);
}

static void give_to(uint32_t other)
{
    hand_to(other);
    wait_for_baton();
}

/* The lock is free: somebody else has it for a while. */
static void in_callback(bench_host_t *host)
{
    if (!baton.calm && some(3) == 0) {
        give_to((self + 1 + some(THREADS - 1)) % THREADS);
    }
}

static void begin_call(void)
{
    in_call[self] = true;
    begun[self] = ++calls;
}

static void end_call(void)
{
    in_call[self] = false;
    for (uint32_t i = 0; i < THREADS; i++) {
        overlaps += in_call[i] && begun[i] > begun[self];
    }
}

static void *turns(void *number)
{
    self = *(const uint32_t *) number;
    wait_for_baton();
    while (!baton.over) {
        btl_ib_engine_t *engine = bench->hosts[some(2)].engine;
        const int burst = 1 + (int) some(2 * BTL_IB_BATCH);
        begin_call();
        if (some(4) == 0) {
            btl_ib_engine_async_progress(engine, bench->now, burst);
        } else {
            btl_ib_engine_progress(engine, bench->now, burst);
        }
        end_call();
        give_to(baton.calm ? 0 : some(THREADS));
    }
    hand_to(0);
    return NULL;
}

/* All calls of the others come to their ends. */
static void calm_down(void)
{
    baton.calm = true;
    for (uint32_t i = 1; i < THREADS; i++) {
        while (in_call[i]) {
            give_to(i);
        }
    }
    baton.calm = false;
}

/* Until all is delivered and done. What others have in hand waits for them. */
static void settle(void)
{
    for (int i = 0; i < 10000; i++) {
        if (bench_settle(bench, 300)) {
            return;
        }
        give_to(1 + some(THREADS - 1));
    }
    fail();
}

static void converse(uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        const uint32_t from = some(2);
        bench_send(bench, from, 1 - from, 20 + some(some(2) == 0 ? 100 : 9000), 1);
        if (some(3) == 0) {
            bench_op(bench, from, 1 - from, (btl_ib_op_kind_t) some(3), 1 + some(3000));
        }
        if (some(8) == 0) {
            bench_run(bench, some(200));
        }
    }
}

/* Everything is delivered once, each buffer given back once (bench_fini() asks for that), and
 * nothing is left in hand. */
TEST(test_turns_overlap)
{
    uint32_t number[THREADS];
    pthread_t threads[THREADS];

    overlaps = 0;
    for (uint32_t seed = 1; seed <= 30; seed++) {
        numbers = (test_random_t) TEST_RANDOM_SEED;
        for (uint32_t i = 0; i < seed; i++) {
            (void) some(2);
        }
        bench = new_bench();
        bench->rails = 1 + seed % 2;
        acquaint(bench);
        baton.over = false;
        for (uint32_t i = 1; i < THREADS; i++) {
            number[i] = i;
            assert_int_equal(pthread_create(&threads[i], NULL, turns, &number[i]), 0);
        }
        bench->called = in_callback;
        for (uint32_t i = 0; i < 4; i++) {
            begin_call();
            converse(60);
            settle();
            end_call();
            calm_down();
            bench_check_accounts(&bench->hosts[0]);
            bench_check_accounts(&bench->hosts[1]);
        }
        bench->called = NULL;
        baton.over = true;
        for (uint32_t i = 1; i < THREADS; i++) {
            give_to(i);
            pthread_join(threads[i], NULL);
        }
        end_working(bench);
    }
    assert_true(overlaps > 100);
}

UNIT_MAIN(NULL, NULL)
