/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The component's lock by schedules of random priorities (PCT: Burckhardt and others, A Randomized
 * Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010). Of the threads that can go
 * on the one of the highest priority does, from one access to what they share to the next; at a few
 * random accesses the one that runs gets the lowest. Stores wait in a buffer of their thread, as
 * processors have it, and become visible when that has the highest priority. All follows from a
 * seed. The lock's source is included with its accesses replaced.
 *
 * BTL_IB_SCHEDULES=N in the environment: so many for each test (2000).
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

enum {
    TASKS = 4,
    CHANGES = 3, /* of priorities in a run, at most */
    STEPS = 250, /* of a run, about */
    BUFFERED = 8,
    SCHEDULES = 2000,
};

typedef struct task {
    void (*run)(void);
    pthread_t thread;
    pthread_cond_t go;
    int priority, buffer_priority;
    bool ended, waits; /* for the lock's mutex */
    struct {
        atomic_bool *at;
        bool value;
    } stored[BUFFERED];
    int count; /* of them */
} task_t;

static pthread_mutex_t baton = PTHREAD_MUTEX_INITIALIZER; /* its holder is the one that runs */
static task_t tasks[TASKS];
static int task_count, running, lowest, steps, change[CHANGES];
static int mutex_of; /* task that has the lock's mutex; -1: none */
static uint64_t seed, numbers;
static _Thread_local int self;

static int below(int n)
{
    numbers = numbers * 6364136223846793005u + 1442695040888963407u;
    return (int) ((numbers >> 33) % (unsigned) n);
}

/* Threads cannot be ended from outside. */
static void broken(const char *what)
{
    printf("schedule %llu: %s\n", (unsigned long long) seed, what);
    fflush(stdout);
    _exit(1);
}

/* ---- the scheduler ---- */

static void flush(task_t *task, int n)
{
    for (; n > 0 && task->count > 0; n--) {
        atomic_store(task->stored[0].at, task->stored[0].value);
        memmove(task->stored, task->stored + 1, sizeof(task->stored[0]) * (size_t) --task->count);
    }
}

/* Lets those buffers become visible whose turn it is. Returns who runs next; -1: nobody can. */
static int choose(void)
{
    for (;;) {
        int best = -1, buffer = -1, most = lowest - 1;

        for (int i = 0; i < task_count; i++) {
            if (!tasks[i].ended && !tasks[i].waits && tasks[i].priority > most) {
                most = tasks[i].priority;
                best = i;
            }
        }
        for (int i = 0; i < task_count; i++) {
            if (tasks[i].count > 0 && tasks[i].buffer_priority > most) {
                most = tasks[i].buffer_priority;
                buffer = i;
            }
        }
        if (buffer < 0) {
            return best;
        }
        flush(&tasks[buffer], 1);
    }
}

/* Hands over to whoever is next, and returns when that is the caller again, or it has ended. */
static void schedule(void)
{
    const int next = choose();

    for (int i = 0; i < task_count && next < 0; i++) {
        if (!tasks[i].ended) {
            broken("nobody can go on");
        }
    }
    if (next >= 0 && next != self) {
        running = next;
        pthread_cond_signal(&tasks[next].go);
    }
    while (running != self && !tasks[self].ended) {
        pthread_cond_wait(&tasks[self].go, &baton);
    }
}

/* Before each access to what threads share. */
static void point(void)
{
    if (task_count == 0) { /* nobody else is there */
        return;
    }
    if (++steps > 100 * STEPS) {
        broken("it does not end");
    }
    for (int i = 0; i < CHANGES; i++) {
        tasks[self].priority = steps == change[i] ? --lowest : tasks[self].priority;
    }
    schedule();
}

static void *task_main(void *index)
{
    self = (int) (intptr_t) index;
    pthread_mutex_lock(&baton);
    while (running != self) {
        pthread_cond_wait(&tasks[self].go, &baton);
    }
    tasks[self].run();
    tasks[self].ended = true;
    schedule();
    pthread_mutex_unlock(&baton);
    return NULL;
}

/* Runs all to their ends, the first one as the thread that has initialized the lock. */
static void run_all(void (*const runs[])(void), int count)
{
    lowest = 0;
    steps = 0;
    for (int i = 0; i < CHANGES; i++) {
        change[i] = below(STEPS);
    }
    for (int i = 0; i < count; i++) {
        tasks[i] = (task_t){.run = runs[i], .go = PTHREAD_COND_INITIALIZER};
        tasks[i].priority = 1 + below(1000);
        tasks[i].buffer_priority = 1 + below(1000);
    }
    task_count = count;
    running = choose();
    for (intptr_t i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&tasks[i].thread, NULL, task_main, (void *) i), 0);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_join(tasks[i].thread, NULL), 0);
    }
    task_count = 0;
}

/* ---- what the lock uses ---- */

static bool load_bool(atomic_bool *at)
{
    point();
    bool value = atomic_load(at);
    for (int i = 0; i < tasks[self].count; i++) {
        value = tasks[self].stored[i].at == at ? tasks[self].stored[i].value : value;
    }
    return value;
}

static unsigned load_uint(atomic_uint *at)
{
    point();
    return atomic_load(at);
}

static void store_bool(atomic_bool *at, bool value, bool barrier)
{
    task_t *task = &tasks[self];

    point();
    flush(task, task->count == BUFFERED);
    task->stored[task->count].at = at;
    task->stored[task->count++].value = value;
    flush(task, barrier ? BUFFERED : 0);
}

static void store_uint(atomic_uint *at, unsigned value, bool barrier)
{
    atomic_store(at, value);
}

static unsigned add(atomic_uint *at, unsigned n)
{
    point();
    flush(&tasks[self], BUFFERED);
    return atomic_fetch_add(at, n);
}

static int lock_mutex(bool waits)
{
    point();
    flush(&tasks[self], BUFFERED);
    while (mutex_of >= 0 && waits) {
        tasks[self].waits = true;
        schedule();
    }
    const bool taken = mutex_of >= 0;
    mutex_of = taken ? mutex_of : self;
    return taken;
}

static int unlock_mutex(void)
{
    point();
    flush(&tasks[self], BUFFERED);
    if (mutex_of != self) {
        broken("a mutex is unlocked by a thread that has not locked it");
    }
    mutex_of = -1;
    for (int i = 0; i < task_count; i++) {
        tasks[i].waits = false;
    }
    point();
    return 0;
}

/* A thread that waits in a loop lets all others go on. */
static int yield(void)
{
    tasks[self].priority = --lowest;
    point();
    return 0;
}

/* membarrier(2): all threads have a barrier. Returns what query and barrier return. */
static long barrier_of_all(int command)
{
    point();
    for (int i = 0; i < task_count; i++) {
        flush(&tasks[i], BUFFERED);
    }
    return command == 0 ? 0xff : 0;
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_store
#undef atomic_fetch_add
#undef atomic_fetch_sub
#define atomic_load_explicit(at, order)                                                            \
    _Generic((at), atomic_bool * : load_bool, atomic_uint * : load_uint)(at)
#define atomic_store_explicit(at, value, order)                                                    \
    store_bool(at, value, (order) == memory_order_seq_cst)
#define atomic_store(at, value)                                                                    \
    _Generic((at), atomic_bool * : store_bool, atomic_uint * : store_uint)(at, value, true)
#define atomic_fetch_add(at, n)       add(at, n)
#define atomic_fetch_sub(at, n)       add(at, (unsigned) -(n))
#define pthread_mutex_lock(mutex)     lock_mutex(true)
#define pthread_mutex_trylock(mutex)  lock_mutex(false)
#define pthread_mutex_unlock(mutex)   unlock_mutex()
#define pthread_self()                ((pthread_t) (uintptr_t) (self + 1))
#define sched_yield()                 yield()
#define syscall(number, command, ...) barrier_of_all(command)

#include "../../progress/btl_ib_biased_lock.c"

/* ---- threads that use it ---- */

static btl_ib_biased_lock_t lock;
static int inside;

static void work(void)
{
    if (inside++ != 0) {
        broken("two threads have the lock");
    }
    point();
    inside--;
}

static void acquire(void)
{
    for (int i = 0; i < 3; i++) {
        if (i % 2 == 0) {
            btl_ib_biased_lock_acquire(&lock);
        } else if (!btl_ib_biased_lock_try(&lock)) {
            continue;
        }
        work();
        btl_ib_biased_lock_release(&lock);
    }
}

static void borrow(void)
{
    for (int i = 0; i < 2; i++) {
        if (btl_ib_biased_lock_borrow(&lock)) {
            work();
            btl_ib_biased_lock_release(&lock);
        }
    }
}

static void help(void)
{
    for (int i = 0; i < 2; i++) {
        if (btl_ib_biased_lock_begin_shift(&lock)) {
            work();
            btl_ib_biased_lock_release(&lock);
            btl_ib_biased_lock_acquire(&lock);
            work();
            btl_ib_biased_lock_end_shift(&lock);
            btl_ib_biased_lock_release(&lock);
        }
    }
}

/* Runs schedules of the owner and others; `shared`: some of these acquire, so that the bias ends.
 * At the end of each nobody has the lock or waits for it. */
static void run_schedules(void (*const runs[])(void), int count, bool shared)
{
    const char *wanted = getenv("BTL_IB_SCHEDULES");
    const uint64_t last = wanted != NULL ? strtoull(wanted, NULL, 10) : SCHEDULES;

    for (seed = 1; seed <= last; seed++) {
        numbers = seed * UINT64_C(0x9e3779b97f4a7c15);
        mutex_of = -1;
        inside = 0;
        assert_true(btl_ib_biased_lock_init(&lock, true));
        run_all(runs, count);
        assert_int_equal(mutex_of, -1);
        assert_int_equal(lock.waiting, 0);
        assert_false(lock.owner_inside);
        assert_int_equal(lock.shared, shared);
        assert_int_equal(lock.biased, !shared);
        assert_int_equal(lock.revoked, shared);
    }
}

TEST(owner_and_borrower)
{
    run_schedules((void (*const[])(void)){acquire, borrow}, 2, false);
}

TEST(owner_and_helper)
{
    run_schedules((void (*const[])(void)){acquire, help}, 2, false);
}

TEST(owner_and_two_others)
{
    run_schedules((void (*const[])(void)){acquire, acquire, acquire}, 3, true);
}

TEST(owner_borrower_and_another)
{
    run_schedules((void (*const[])(void)){acquire, borrow, acquire}, 3, true);
}

TEST(owner_helper_and_two_others)
{
    run_schedules((void (*const[])(void)){acquire, help, acquire, acquire}, 4, true);
}

UNIT_MAIN(NULL, NULL)
