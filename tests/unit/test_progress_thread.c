/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* When the progress thread runs the engine in the application's place, how long it sleeps, and what
 * may wake it. The thread is real, and goes on only when a test says why its sleep ends; time and
 * the application's processor time are ours. */

#define _GNU_SOURCE /* ppoll */

#include <poll.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lone_component.h"
#include "unit.h"

enum {
    SELF = 0,
    PERIOD = 10000,     /* us: progress_thread_ms */
    AWAY = PERIOD / 64, /* us: after which an application that calls seldom is away */
    BURST = 44,         /* datagrams, which are bulk */
    DEVICE_FD = 1000,   /* none that is open */
};

typedef enum sleep_end { BY_TIME, BY_DEVICE, BY_CALLER } sleep_end_t;

static btl_ib_transport_t transport;
static btl_ib_transport_ops_t ops;

static struct {
    atomic_uint_least64_t now; /* us */
    atomic_uint_least64_t cpu; /* us: of the application's thread */
    atomic_bool runnable;      /* the application's thread */
} system_tells;

static struct {
    atomic_int datagrams; /* that the network brings */
    atomic_int call_at;   /* the application calls progress when so many are left */
} network;

static struct {
    sem_t sleeps, goes_on; /* the thread */
    sleep_end_t end;       /* of its present sleep */
    int64_t us;            /* that it sleeps; -1: until woken */
    bool listens;          /* devices may wake it */
} thread_is;

/* ---- instead of the system's ---- */

int clock_gettime(clockid_t clock, struct timespec *time)
{
    const uint64_t us = clock == mca_btl_ib_component.progress_thread.app.thread.clock
                                && mca_btl_ib_component.progress_thread.started
                            ? atomic_load(&system_tells.cpu)
                            : atomic_load(&system_tells.now);

    *time = (struct timespec){.tv_sec = (time_t) (us / 1000000),
                              .tv_nsec = (long) (us % 1000000) * 1000};
    return 0;
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    return snprintf(buffer, size, "1 (name) %c 1", atomic_load(&system_tells.runnable) ? 'R' : 'S');
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    thread_is.us = time == NULL ? -1 : (int64_t) time->tv_sec * 1000000 + time->tv_nsec / 1000;
    thread_is.listens = count > 1;
    sem_post(&thread_is.sleeps);
    while (sem_wait(&thread_is.goes_on) != 0) {
        continue;
    }
    for (nfds_t i = 0; i < count; i++) {
        fds[i].revents = 0;
    }
    if (thread_is.end == BY_CALLER) {
        fds[0].revents = POLLIN;
    } else if (thread_is.end == BY_DEVICE) {
        fds[1].revents = POLLIN;
    }
    return thread_is.end == BY_TIME ? 0 : 1;
}

/* ---- a network ---- */

/* Brings datagrams that are none of the protocol's. */
static int poll_network(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    static uint64_t nothing[16];
    const int left = atomic_load(&network.datagrams);
    const int n = left < max ? left : max;

    for (int i = 0; i < n; i++) {
        events[i] = (btl_ib_event_t){.type = BTL_IB_EVENT_RECV,
                                     .size = sizeof(nothing),
                                     .from = BTL_IB_ADDR_UNKNOWN,
                                     .data = (uint8_t *) nothing,
                                     .buffer = nothing};
    }
    atomic_fetch_sub(&network.datagrams, n);
    if (left - n == atomic_load(&network.call_at)) {
        atomic_fetch_add(&mca_btl_ib_component.throttle.calls, 1);
    }
    return n;
}

static int device_descriptor(btl_ib_transport_t *t)
{
    return DEVICE_FD;
}

static uint32_t no_source(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                          uint8_t address[BTL_IB_ADDR_BYTES])
{
    return 0;
}

/* ---- the thread, step by step ---- */

static btl_ib_progress_thread_t *thread(void)
{
    return &mca_btl_ib_component.progress_thread;
}

static btl_ib_engine_t *engine(void)
{
    return mca_btl_ib_component.engine;
}

static uint64_t async_turns(void)
{
    return engine()->count.async_turns;
}

static void wait_for_sleep(void)
{
    while (sem_wait(&thread_is.sleeps) != 0) {
        continue;
    }
}

/* Ends the thread's sleep, and waits for the next one. */
static void end_sleep(sleep_end_t end)
{
    thread_is.end = end;
    sem_post(&thread_is.goes_on);
    wait_for_sleep();
}

/* The application computes for so long. */
static void compute(uint64_t us)
{
    atomic_fetch_add(&system_tells.now, us);
    atomic_fetch_add(&system_tells.cpu, us);
}

/* The thread's sleep passes while the application computes. */
static void sleep_passes(void)
{
    assert_true(thread_is.us >= 0);
    compute((uint64_t) thread_is.us);
    end_sleep(BY_TIME);
}

/* The application calls progress; so many datagrams are there. */
static void call_progress(int datagrams)
{
    atomic_store(&network.datagrams, datagrams);
    mca_btl_ib_component.throttle.to_clock = 1;
    (void) mca_btl_ib_component.super.btl_progress();
    assert_int_equal(atomic_load(&network.datagrams), 0);
}

/* The application computes while an operation is under way, and two calls find bulk: from the first
 * to the second it had a processor. */
static void find_bulk_waiting(void)
{
    engine()->op_ids.running = 1;
    for (int i = 0; i < 2; i++) {
        compute(1000);
        call_progress(BURST);
    }
}

static int set_up(void **state)
{
    btl_ib_queue_table_t queues;

    assert_non_null(begin_on_rail(SELF, &transport, &queues));
    ops = *transport.ops;
    ops.poll = poll_network;
    ops.wait_fd = device_descriptor;
    ops.source = no_source;
    transport.ops = &ops;
    mca_btl_ib_component.stats.due = UINT64_MAX;
    atomic_store(&system_tells.now, 5000000);
    sem_init(&thread_is.sleeps, 0, 0);
    sem_init(&thread_is.goes_on, 0, 0);
    return 0;
}

/* Starts the thread, which finds that the application has just called progress. */
static int begin(void **state)
{
    btl_ib_progress_thread_config_t config = thread()->config;

    engine()->op_ids.running = 0;
    atomic_store(&network.datagrams, 0);
    atomic_store(&network.call_at, -1);
    atomic_store(&system_tells.runnable, true);
    config.enabled = true;
    config.period = PERIOD;
    config.burst = 64;
    btl_ib_progress_thread_init(thread(), &config);
    btl_ib_lock();
    assert_true(btl_ib_progress_thread_attach(thread(), engine()));
    btl_ib_unlock();
    wait_for_sleep();
    call_progress(0);
    sleep_passes();
    return 0;
}

static int end(void **state)
{
    atomic_store(&thread()->leave, true);
    thread_is.end = BY_CALLER;
    sem_post(&thread_is.goes_on);
    btl_ib_lock();
    btl_ib_progress_thread_stop(thread());
    btl_ib_unlock();
    return 0;
}

#define THREAD_TEST(name) TEST_WITH(name, begin, end)

/* ---- an application that computes for long ---- */

THREAD_TEST(takes_over_after_a_period)
{
    const uint64_t turns = async_turns();

    call_progress(0);
    sleep_passes();
    assert_int_equal(async_turns(), turns);
    assert_int_equal(thread_is.us, PERIOD);
    sleep_passes();
    assert_int_equal(async_turns(), turns + 1);
}

/* What comes while nothing is waited for would wake the thread when the application is about to
 * receive it. */
THREAD_TEST(does_not_listen_for_nothing)
{
    sleep_passes();
    assert_false(thread_is.listens);
    assert_int_equal(thread_is.us, PERIOD);
}

/* It does not wake up by itself for ever. */
THREAD_TEST(listens_when_the_application_is_away_for_long)
{
    const uint64_t began = atomic_load(&system_tells.now);

    while (!thread_is.listens) {
        assert_int_equal(thread_is.us, PERIOD);
        sleep_passes();
    }
    assert_int_equal(thread_is.us, -1);
    assert_in_range(atomic_load(&system_tells.now) - began, 200000, 260000);
}

THREAD_TEST(listens_while_an_operation_runs)
{
    engine()->op_ids.running = 1;
    sleep_passes();
    assert_true(thread_is.listens);
}

THREAD_TEST(listens_while_memory_is_registered)
{
    engine()->regions.used = 1;
    sleep_passes();
    engine()->regions.used = 0;
    assert_true(thread_is.listens);
}

THREAD_TEST(listens_while_segments_are_unacknowledged)
{
    engine()->budget.unacked = 1;
    sleep_passes();
    engine()->budget.unacked = 0;
    assert_true(thread_is.listens);
}

THREAD_TEST(listens_for_a_moment_after_an_arrival)
{
    atomic_store(&network.datagrams, 1);
    sleep_passes();
    assert_true(thread_is.listens);
    assert_true(thread_is.us < 1000);
    atomic_store(&network.datagrams, 1);
    end_sleep(BY_DEVICE);
    assert_true(thread_is.listens);
    sleep_passes();
    assert_false(thread_is.listens);
    assert_int_equal(thread_is.us, PERIOD);
}

/* All that is there is read at once. */
THREAD_TEST(reads_until_nothing_comes)
{
    atomic_store(&network.datagrams, 64 * 5);
    sleep_passes();
    assert_int_equal(atomic_load(&network.datagrams), 0);
}

/* One that calls meanwhile, and cannot have the lock, has it after the present turn. */
THREAD_TEST(reads_until_the_application_calls)
{
    atomic_store(&network.datagrams, 64 * 5);
    atomic_store(&network.call_at, 64 * 3);
    sleep_passes();
    assert_int_equal(atomic_load(&network.datagrams), 64 * 3);
    atomic_store(&network.datagrams, 0);
}

/* ---- one that calls seldom ---- */

THREAD_TEST(takes_over_sooner_where_bulk_waits)
{
    uint64_t turns;

    find_bulk_waiting();
    end_sleep(BY_CALLER);
    assert_int_equal(thread_is.us, AWAY);
    turns = async_turns();
    sleep_passes();
    assert_true(async_turns() > turns);
}

/* It is woken for that at once, not when its sleep of a period is over. */
THREAD_TEST(is_woken_when_bulk_waited)
{
    uint64_t woken = 0;

    find_bulk_waiting();
    assert_int_equal(read(thread()->wake_fd, &woken, sizeof(woken)), sizeof(woken));
}

static void must_not_take_over_sooner(void)
{
    uint64_t woken = 0;

    assert_true(read(thread()->wake_fd, &woken, sizeof(woken)) < 0);
    sleep_passes();
    assert_int_equal(thread_is.us, PERIOD);
}

/* Makes the calls of find_bulk_waiting() with other pauses, operations, and datagrams. */
static void find_waiting(uint32_t operations, uint64_t pause, int datagrams)
{
    call_progress(0);
    engine()->op_ids.running = operations;
    for (int i = 0; i < 3; i++) {
        compute(pause);
        call_progress(datagrams);
    }
    engine()->op_ids.running = 0;
}

THREAD_TEST(not_where_no_operation_runs)
{
    find_waiting(0, 1000, BURST);
    must_not_take_over_sooner();
}

THREAD_TEST(not_where_little_waits)
{
    find_waiting(1, 1000, BURST - 1);
    must_not_take_over_sooner();
}

THREAD_TEST(not_after_short_pauses)
{
    find_waiting(1, AWAY - 1, BURST);
    must_not_take_over_sooner();
}

/* Ranks that share a processor are away while others run. */
THREAD_TEST(not_where_others_had_the_processor)
{
    engine()->op_ids.running = 1;
    for (int i = 0; i < 3; i++) {
        compute(700);
        atomic_fetch_add(&system_tells.now, 300);
        call_progress(BURST);
    }
    engine()->op_ids.running = 0;
    must_not_take_over_sooner();
}

/* An application that waits in MPI is left alone for longer each time. */
THREAD_TEST(wakes_up_less_often_beside_one_that_polls)
{
    int64_t sleep = AWAY;

    find_bulk_waiting();
    end_sleep(BY_CALLER);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(thread_is.us, sleep);
        compute((uint64_t) sleep);
        call_progress(0);
        end_sleep(BY_TIME);
        sleep = 2 * sleep < PERIOD ? 2 * sleep : PERIOD;
    }
    assert_int_equal(thread_is.us, PERIOD);
}

/* The time of the last poll may be later than that of the thread's look. */
THREAD_TEST(one_that_polls_at_this_moment_is_present)
{
    uint64_t turns;

    find_bulk_waiting();
    end_sleep(BY_CALLER);
    turns = async_turns();
    compute((uint64_t) thread_is.us);
    call_progress(0);
    atomic_store(&mca_btl_ib_component.throttle.polled_at, atomic_load(&system_tells.now) + 1);
    end_sleep(BY_TIME);
    assert_int_equal(async_turns(), turns);
    assert_int_equal(thread_is.us, 2 * AWAY);
}

/* A call that takes long has the lock, and is left alone for longer each time. */
THREAD_TEST(one_that_is_in_a_call_is_present)
{
    const uint64_t turns = async_turns();

    find_bulk_waiting();
    end_sleep(BY_CALLER);
    btl_ib_lock();
    for (int64_t sleep = 2 * AWAY; sleep < PERIOD; sleep *= 2) {
        compute((uint64_t) thread_is.us);
        end_sleep(BY_TIME);
        assert_int_equal(thread_is.us, sleep);
    }
    btl_ib_unlock();
    assert_int_equal(async_turns(), turns);
}

/* What is left of the first pause says nothing about how long the next ones are. */
THREAD_TEST(next_pauses_do_not_follow_a_rest)
{
    find_bulk_waiting();
    compute(AWAY - 1);
    call_progress(0);
    compute(AWAY - 1);
    end_sleep(BY_TIME);
    assert_int_equal(thread_is.us, 1);
    compute(1);
    call_progress(0);
    end_sleep(BY_TIME);
    assert_int_equal(thread_is.us, 2 * AWAY);
}

/* The application computes for a ms, in which so many datagrams come, and calls progress. */
static void pass_pause(int datagrams)
{
    sleep_passes(); /* the thread takes over */
    if (datagrams > 0) {
        atomic_store(&network.datagrams, datagrams);
        end_sleep(BY_DEVICE);
    }
    compute(1000);
    call_progress(0);
    end_sleep(thread_is.listens ? BY_DEVICE : BY_TIME);
}

static bool takes_over_soon(void)
{
    return atomic_load(&thread()->app.seldom.pauses) > 0;
}

THREAD_TEST(goes_on_while_it_moves_bulk)
{
    find_bulk_waiting();
    end_sleep(BY_CALLER);
    for (int i = 0; i < 40; i++) {
        pass_pause(i % 8 == 0 ? BURST : 1);
        assert_true(takes_over_soon());
    }
}

/* Bulk that comes little by little, so that each datagram wakes the thread, is bulk as well. */
THREAD_TEST(goes_on_while_bulk_trickles)
{
    find_bulk_waiting();
    end_sleep(BY_CALLER);
    for (int i = 0; i < 20; i++) {
        sleep_passes();
        for (int j = 0; j < BURST; j++) {
            atomic_store(&network.datagrams, 1);
            end_sleep(BY_DEVICE);
        }
        compute(1000);
        call_progress(0);
        end_sleep(BY_DEVICE);
        assert_true(takes_over_soon());
    }
}

/* What it moved before the application called seldom does not count. */
THREAD_TEST(does_not_count_what_it_moved_before)
{
    atomic_store(&network.datagrams, BURST);
    sleep_passes();
    find_bulk_waiting();
    end_sleep(BY_CALLER);
    for (int i = 0; i < 8; i++) {
        assert_true(takes_over_soon());
        pass_pause(0);
    }
    assert_false(takes_over_soon());
}

THREAD_TEST(ends_when_it_moves_none)
{
    find_bulk_waiting();
    end_sleep(BY_CALLER);
    for (int i = 0; i < 8; i++) {
        assert_true(takes_over_soon());
        pass_pause(BURST - 1);
    }
    assert_false(takes_over_soon());
}

/* Bulk that waits again does not wake it again at once: for twice as long each time. */
THREAD_TEST(begins_again_later_each_time)
{
    for (uint64_t pause = 20000; pause <= 80000; pause *= 2) {
        find_bulk_waiting();
        end_sleep(BY_CALLER);
        for (int i = 0; i < 8; i++) {
            assert_true(takes_over_soon());
            pass_pause(0);
        }
        const uint64_t ended = atomic_load(&system_tells.now);
        while (atomic_load(&system_tells.now) + 2000 < ended + pause) {
            find_bulk_waiting();
            assert_false(takes_over_soon());
        }
        compute(2000);
    }
}

/* An application that is runnable, but does not run, waits for a processor: a thread would only make
 * it wait for longer. */
THREAD_TEST(leaves_one_that_waits_for_a_processor)
{
    uint64_t turns;

    find_bulk_waiting();
    end_sleep(BY_CALLER);
    turns = async_turns();
    atomic_fetch_add(&system_tells.now, (uint64_t) thread_is.us); /* others compute */
    end_sleep(BY_TIME);
    assert_int_equal(async_turns(), turns);
    assert_false(takes_over_soon());
}

/* One that sleeps does not wait for a processor. */
THREAD_TEST(takes_over_for_one_that_sleeps)
{
    uint64_t turns;

    find_bulk_waiting();
    end_sleep(BY_CALLER);
    turns = async_turns();
    atomic_store(&system_tells.runnable, false);
    atomic_fetch_add(&system_tells.now, (uint64_t) thread_is.us);
    end_sleep(BY_TIME);
    assert_true(async_turns() > turns);
}

/* ---- the lock ---- */

/* A call of progress while the thread has the lock waits for its present turn, and is not lost. */
static void *hold_lock(void *unused)
{
    assert_true(btl_ib_biased_lock_borrow(&mca_btl_ib_component.lock));
    sem_post(&thread_is.sleeps);
    while (!btl_ib_biased_lock_wanted(&mca_btl_ib_component.lock)) {
        (void) sched_yield();
    }
    btl_ib_biased_lock_release(&mca_btl_ib_component.lock);
    return unused;
}

TEST(call_waits_for_a_borrower)
{
    pthread_t holder;

    assert_int_equal(pthread_create(&holder, NULL, hold_lock, NULL), 0);
    wait_for_sleep();
    call_progress(3); /* which are received */
    assert_int_equal(pthread_join(holder, NULL), 0);
}

int main(void)
{
    return unit_run(set_up, NULL);
}
