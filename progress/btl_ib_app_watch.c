/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_app_watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* us without progress after which an application that calls seldom is away: longer than most calls
 * of MPI take; or a 64th of the period, if that is longer */
#define SELDOM_AWAY 150
#define SELDOM_PART 64
/* datagrams of bulk, at least: a burst */
#define SELDOM_BULK 44
/* pauses in a row without bulk after which an application does not call seldom any more */
#define SELDOM_PAUSES 8
/* us for which it cannot become one again, at first and at most */
#define SELDOM_NOT_FIRST 20000
#define SELDOM_NOT_MOST  1000000
/* It waits for a processor if it gets less than a quarter of one in a pause; and it computes if it
 * gets more than three. */
#define SELDOM_SHARE 4
/* An application is squeezed if it gets less than an eighth of a processor: then it waits for it
 * most of its time. */
#define SQUEEZED_SHARE 8
/* us for which a squeezed application is left alone, at most */
#define QUEUED_MAX 1000000
/* us between two looks at a squeezed application, at most */
#define QUEUED_PAUSE 80000

void btl_ib_app_watch_init(btl_ib_app_watch_t *watch, uint64_t period,
                           btl_ib_poll_throttle_t *throttle)
{
    *watch = (btl_ib_app_watch_t){
        .period = period,
        .throttle = throttle,
        .thread.id = syscall(SYS_gettid),
        .thread.stat_fd = -1,
        .seldom.not_for = SELDOM_NOT_FIRST,
    };
    watch->thread.has_clock = pthread_getcpuclockid(pthread_self(), &watch->thread.clock) == 0;
}

void btl_ib_app_watch_begin(btl_ib_app_watch_t *watch, uint64_t now)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", watch->thread.id);
    watch->thread.stat_fd = open(path, O_RDONLY | O_CLOEXEC);
    btl_ib_app_watch_attended(watch, now);
}

void btl_ib_app_watch_end(btl_ib_app_watch_t *watch)
{
    if (watch->thread.stat_fd >= 0) {
        close(watch->thread.stat_fd);
    }
}

bool btl_ib_app_watch_note_calls(btl_ib_app_watch_t *watch)
{
    const uint32_t calls = btl_ib_poll_throttle_calls(watch->throttle);
    const bool called = calls != watch->calls;

    watch->calls = calls;
    return called;
}

uint64_t btl_ib_app_watch_since_poll(const btl_ib_app_watch_t *watch, uint64_t now)
{
    const uint64_t polled_at = btl_ib_poll_throttle_polled_at(watch->throttle);

    return polled_at < now ? now - polled_at : 0;
}

/* Returns the processor time of the application's thread, us; 0: it is not known. */
static uint64_t app_cpu(const btl_ib_app_watch_t *watch)
{
    struct timespec time = {0};

    if (!watch->thread.has_clock || clock_gettime(watch->thread.clock, &time) != 0) {
        return 0;
    }
    return (uint64_t) time.tv_sec * 1000000u + (uint64_t) time.tv_nsec / 1000u;
}

/* True if the application's thread runs, or waits for a processor (proc_pid_stat(5): R). */
static bool is_runnable(const btl_ib_app_watch_t *watch)
{
    char text[64];
    const ssize_t got = pread(watch->thread.stat_fd, text, sizeof(text) - 1, 0);

    if (got <= 0) {
        return false;
    }
    text[got] = '\0';
    const char *end = strrchr(text, ')'); /* of the thread's name; its state follows */
    return end != NULL && strncmp(end, ") R", 3) == 0;
}

static void set_attended(btl_ib_app_watch_t *watch, uint64_t now, uint64_t cpu)
{
    watch->attended.at = now;
    watch->attended.cpu = cpu;
}

void btl_ib_app_watch_attended(btl_ib_app_watch_t *watch, uint64_t now)
{
    set_attended(watch, now, app_cpu(watch));
}

/* ---- one that waits for a processor ---- */

/* Measures which share of a processor the application's thread got, and sets `squeezed`. */
static void note_share(btl_ib_app_watch_t *watch, uint64_t now, uint64_t cpu)
{
    const uint64_t elapsed = now - watch->share.at;

    if (elapsed >= 2 * watch->period) {
        watch->share.squeezed =
            watch->share.cpu != 0 && (cpu - watch->share.cpu) * SQUEEZED_SHARE < elapsed;
        watch->share.at = now;
        watch->share.cpu = cpu;
    }
}

/* Returns for how long to leave the application alone, us, because it waits for a processor; 0: it
 * does not wait, or has `called` progress. */
static uint64_t check_squeezed(btl_ib_app_watch_t *watch, uint64_t now, bool called)
{
    const uint64_t cpu = app_cpu(watch);
    const uint64_t waited = now - watch->attended.at;

    note_share(watch, now, cpu);
    if (called || !watch->share.squeezed || cpu - watch->attended.cpu >= watch->period
        || waited >= QUEUED_MAX || !is_runnable(watch)) {
        set_attended(watch, now, cpu);
        return 0;
    }
    const uint64_t pause = waited > watch->period ? waited : watch->period;
    return pause < QUEUED_PAUSE ? pause : QUEUED_PAUSE;
}

bool btl_ib_app_watch_is_preempted(const btl_ib_app_watch_t *watch, uint64_t now, uint64_t us)
{
    return watch->thread.has_clock && app_cpu(watch) - watch->attended.cpu < us
           && now - watch->attended.at < QUEUED_MAX && is_runnable(watch);
}

/* ---- one that calls seldom ---- */

/* Returns after how long without progress an application that calls seldom is away, us. */
static uint64_t seldom_away(const btl_ib_app_watch_t *watch)
{
    const uint64_t part = watch->period / SELDOM_PART;

    return part > SELDOM_AWAY ? part : SELDOM_AWAY;
}

static void set_seldom(btl_ib_app_watch_t *watch, unsigned pauses)
{
    atomic_store_explicit(&watch->seldom.pauses, pauses, memory_order_relaxed);
}

/* Ends that the application counts as one that calls seldom: for longer each time. */
static void end_seldom(btl_ib_app_watch_t *watch, uint64_t now)
{
    const uint64_t twice = 2 * watch->seldom.not_for;

    /* Before the other: the application's thread must not find that it may begin again at once. */
    atomic_store_explicit(&watch->seldom.not_before, now + watch->seldom.not_for,
                          memory_order_relaxed);
    atomic_store_explicit(&watch->seldom.pauses, 0, memory_order_release);
    watch->seldom.not_for = twice < SELDOM_NOT_MOST ? twice : SELDOM_NOT_MOST;
    watch->seldom.ran = false;
    watch->seldom.moved = 0;
}

/* Notes, as the application called progress, whether bulk was moved in the pause before. */
static void end_pause(btl_ib_app_watch_t *watch, uint64_t now)
{
    const unsigned pauses = atomic_load_explicit(&watch->seldom.pauses, memory_order_relaxed);

    if (watch->seldom.moved >= SELDOM_BULK) {
        watch->seldom.not_for = SELDOM_NOT_FIRST;
        set_seldom(watch, SELDOM_PAUSES);
    } else if (watch->seldom.ran && pauses > 1) {
        set_seldom(watch, pauses - 1);
    } else if (watch->seldom.ran) {
        end_seldom(watch, now);
    }
    watch->seldom.ran = false;
    watch->seldom.moved = 0;
}

/* Notes that the application called progress `since` us ago. Returns for how long to leave it
 * alone, us: longer each time in a row, as it may wait in MPI. */
static uint64_t note_present(btl_ib_app_watch_t *watch, uint64_t since)
{
    const uint64_t away = seldom_away(watch);
    const uint64_t pause = watch->seldom.present == 0 ? away - since : watch->seldom.present;
    const uint64_t next = watch->seldom.present == 0 ? 2 * away : 2 * pause;

    watch->seldom.present = next < watch->period ? next : watch->period;
    return pause;
}

/* Returns for how long to leave an application alone that calls seldom, us; 0: it is away. */
static uint64_t check_seldom(btl_ib_app_watch_t *watch, uint64_t now, bool called, bool woke)
{
    const uint64_t cpu = app_cpu(watch);
    const uint64_t since = woke ? 0 : btl_ib_app_watch_since_poll(watch, now);
    const uint64_t elapsed = now - watch->attended.at;

    if (called || woke) {
        end_pause(watch, now);
    } else if (elapsed < seldom_away(watch)) {
        return 0; /* too short a time to tell whether it computes; the thread has just run */
    } else if (watch->thread.has_clock && (cpu - watch->attended.cpu) * SELDOM_SHARE < elapsed
               && is_runnable(watch)) {
        end_seldom(watch, now);
        return watch->period;
    }
    set_attended(watch, now, cpu);
    if ((called || woke) && since < seldom_away(watch)) {
        return note_present(watch, since);
    }
    return 0;
}

uint64_t btl_ib_app_watch_in_call(btl_ib_app_watch_t *watch)
{
    return btl_ib_app_watch_is_seldom(watch) ? note_present(watch, 0) : watch->period;
}

void btl_ib_app_watch_ran(btl_ib_app_watch_t *watch, uint64_t now, uint64_t datagrams)
{
    if (btl_ib_app_watch_is_seldom(watch)) {
        watch->seldom.ran = true;
        watch->seldom.moved += datagrams;
        watch->seldom.present = 0;
    }
    btl_ib_app_watch_attended(watch, now);
}

/* Notes that bulk waited for the application. Returns whether it had a processor most of the time
 * since bulk waited before: ranks that share one are away while others run, and a thread would make
 * all of them slower. */
static bool note_bulk(btl_ib_app_watch_t *watch, uint64_t now)
{
    const uint64_t cpu = app_cpu(watch);
    const uint64_t used = cpu - watch->seldom.bulk_cpu;
    const uint64_t elapsed = now - watch->seldom.bulk_at;

    watch->seldom.bulk_at = now;
    watch->seldom.bulk_cpu = cpu;
    return used >= elapsed - elapsed / SELDOM_SHARE;
}

bool btl_ib_app_watch_waited(btl_ib_app_watch_t *watch, uint64_t now, uint64_t us,
                             uint64_t datagrams)
{
    if (us < seldom_away(watch) || datagrams < SELDOM_BULK || btl_ib_app_watch_is_seldom(watch)
        || now < atomic_load_explicit(&watch->seldom.not_before, memory_order_relaxed)
        || !note_bulk(watch, now)) {
        return false;
    }
    set_seldom(watch, SELDOM_PAUSES);
    return true;
}

uint64_t btl_ib_app_watch_check(btl_ib_app_watch_t *watch, uint64_t now, bool called, bool woke)
{
    return btl_ib_app_watch_is_seldom(watch) ? check_seldom(watch, now, called, woke)
                                             : check_squeezed(watch, now, called);
}
