/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How threads leave the processor to each other: by yields, by sleeps where others use it, and with
 * the progress thread's wake-ups meanwhile. The system's calls for that are ours here. */

#define _GNU_SOURCE /* ppoll */

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "lone_component.h"
#include "unit.h"

enum { SELF = 0, SHORT = 1, PATIENCE = 20000 /* ms */ };

static btl_ib_transport_t transport;
static btl_ib_transport_ops_t ops;
static atomic_bool yields_are_long;
static atomic_uint yields, sleeps, ticks;

/* Instead of the system's: others run meanwhile, or nobody. */
int sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    if (atomic_load(&yields_are_long)) {
        usleep(2 * BTL_IB_POLL_YIELD_LONG);
    }
    return 0;
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    if (time != NULL && time->tv_sec == 0 && time->tv_nsec == BTL_IB_POLL_YIELD_SLEEP) {
        atomic_fetch_add(&sleeps, 1);
        return 0;
    }
    if (time != NULL && time->tv_sec == 0 && time->tv_nsec == 1000 * BTL_IB_POLL_YIELD_TICK) {
        atomic_fetch_add(&ticks, 1);
    }
    return poll(fds, count, 1);
}

static int no_descriptor(btl_ib_transport_t *t)
{
    return -1;
}

static int set_up(void **state)
{
    btl_ib_queue_table_t queues;

    assert_non_null(begin_on_rail(SELF, &transport, &queues));
    ops = *transport.ops;
    ops.wait_fd = no_descriptor;
    transport.ops = &ops;
    mca_btl_ib_component.stats.due = UINT64_MAX;
    return 0;
}

static int set_up_each(void **state)
{
    mca_btl_ib_component.poll_yield = (btl_ib_poll_yield_t){0};
    atomic_store(&yields_are_long, false);
    atomic_store(&yields, 0);
    atomic_store(&sleeps, 0);
    return 0;
}

static void *take_lock(void *unused)
{
    btl_ib_lock();
    btl_ib_unlock();
    return unused;
}

/* Another thread communicates, too. */
static void share_lock(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, take_lock, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void call_progress(int times)
{
    for (int i = 0; i < times; i++) {
        mca_btl_ib_component.throttle.to_clock = SHORT;
        (void) mca_btl_ib_component.super.btl_progress();
    }
}

/* ---- the rule ---- */

TEST_WITH(test_two_long_yields_are_a_crowd, set_up_each, NULL)
{
    btl_ib_poll_yield_t yield = {0};
    uint64_t now = 5000000;

    btl_ib_poll_yield_took(&yield, now, now + BTL_IB_POLL_YIELD_LONG);
    assert_false(btl_ib_poll_yield_is_crowded(&yield, now + BTL_IB_POLL_YIELD_LONG));
    now += 2 * BTL_IB_POLL_YIELD_LONG;
    btl_ib_poll_yield_took(&yield, now, now + BTL_IB_POLL_YIELD_LONG - 1); /* an interrupt */
    assert_false(btl_ib_poll_yield_is_crowded(&yield, now + BTL_IB_POLL_YIELD_LONG));
    now += 2 * BTL_IB_POLL_YIELD_LONG + BTL_IB_POLL_YIELD_AGAIN;
    btl_ib_poll_yield_took(&yield, now, now + BTL_IB_POLL_YIELD_LONG); /* too late */
    assert_false(btl_ib_poll_yield_is_crowded(&yield, now + BTL_IB_POLL_YIELD_LONG));
    now += BTL_IB_POLL_YIELD_LONG + BTL_IB_POLL_YIELD_AGAIN;
    btl_ib_poll_yield_took(&yield, now, now + BTL_IB_POLL_YIELD_LONG);
    now += BTL_IB_POLL_YIELD_LONG;
    assert_true(btl_ib_poll_yield_is_crowded(&yield, now));
    assert_true(btl_ib_poll_yield_is_crowded(&yield, now + BTL_IB_POLL_YIELD_CROWDED - 1));
    assert_false(btl_ib_poll_yield_is_crowded(&yield, now + BTL_IB_POLL_YIELD_CROWDED));
}

/* ---- progress ---- */

/* First: the lock is not shared yet. */
TEST_WITH(test_one_thread_does_not_yield, set_up_each, NULL)
{
    mca_btl_ib_component.mpi_threads = true;
    call_progress(10);
    assert_int_equal(yields, 0);
    assert_int_equal(sleeps, 0);
}

TEST_WITH(test_several_threads_yield, set_up_each, NULL)
{
    share_lock();
    call_progress(10);
    assert_int_equal(yields + sleeps, 10); /* on a busy machine this may be a crowd */
    assert_int_not_equal(yields, 0);
}

/* A yield may always take long here, but not each of several within 10 ms does. */
TEST_WITH(test_those_of_a_crowd_sleep, set_up_each, NULL)
{
    share_lock();
    atomic_store(&yields_are_long, true);
    for (int i = 0; i < PATIENCE && atomic_load(&sleeps) == 0; i++) {
        call_progress(1);
    }
    assert_int_not_equal(sleeps, 0);
    usleep(BTL_IB_POLL_YIELD_CROWDED);
    atomic_store(&yields, 0);
    call_progress(1);
    assert_int_equal(yields, 1); /* others may be gone */
}

TEST_WITH(test_a_lock_that_is_taken_is_yielded_for, set_up_each, NULL)
{
    mca_btl_ib_component.mpi_threads = true;
    share_lock();
    btl_ib_lock();
    call_progress(10); /* as another thread would */
    btl_ib_unlock();
    assert_int_equal(yields, 10);
    mca_btl_ib_component.mpi_threads = false; /* then the progress thread has it, for a moment */
    btl_ib_lock();
    call_progress(10);
    btl_ib_unlock();
    assert_int_equal(yields, 10);
}

/* ---- the progress thread ---- */

static int do_nothing(void)
{
    return 0;
}

static bool ticks_come(int ms)
{
    atomic_store(&ticks, 0);
    for (int i = 0; i < ms && atomic_load(&ticks) == 0; i++) {
        usleep(1000);
    }
    return atomic_load(&ticks) > 0;
}

TEST_WITH(test_the_progress_thread_ticks_in_a_crowd, set_up_each, NULL)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_progress_thread_t *thread = &component->progress_thread;
    btl_ib_progress_thread_config_t config = thread->config;

    config.enabled = true;
    config.period = 10000;
    config.deliver = do_nothing;
    config.wakeup_gap = 1000;
    btl_ib_progress_thread_init(thread, &config);
    btl_ib_lock();
    (void) btl_ib_progress_thread_attach(thread, component->engine);
    btl_ib_unlock();
    assert_false(ticks_come(50));
    atomic_store(&component->poll_yield.crowded_until, UINT64_MAX);
    assert_true(ticks_come(PATIENCE));
    atomic_store(&component->poll_yield.crowded_until, 0);
    btl_ib_progress_thread_stop(thread);
}

UNIT_MAIN(set_up, NULL)
