/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Watches the application's thread for the progress thread, which works in its place while it is
 * away: does not call progress, because it computes, sleeps, or waits inside Open MPI for the
 * runtime. Three kinds of applications differ in when that is:
 *
 *   most                 after a period (progress_thread_ms) without a call.
 *
 *   one that calls       after 150 us. A program that computes between calls of MPI_Test, for less
 *   seldom               than a period each time, keeps long messages waiting: a call reads what
 *                        lies in the socket, and sends one window. A call that finds that bulk of
 *                        operations waited for it makes an application one of these
 *                        (btl_ib_app_watch_waited()). Work in its place costs it several switches
 *                        of context in each pause, so it is none any more after eight pauses in
 *                        which no bulk was moved, and not again for a while, longer each time.
 *
 *   one that waits for   only if it sleeps, or has used its processor for a period. A rank that
 *   a processor          shares its processor with a hundred others may wait a second for it. It
 *                        does not call progress then, but will as soon as it runs. If the progress
 *                        thread, which the system lets run sooner, did the work instead, all ranks
 *                        would wait still longer.
 *
 * For the progress thread, unless a function says otherwise. Knows neither engine nor Open MPI.
 */

#ifndef BTL_IB_APP_WATCH_H
#define BTL_IB_APP_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "btl_ib_poll_throttle.h"

typedef struct btl_ib_app_watch {
    uint64_t period;                  /* us without progress after which most are away */
    btl_ib_poll_throttle_t *throttle; /* knows whether progress was called */
    struct {                          /* the application's thread */
        long id;
        clockid_t clock; /* of its processor time, if has_clock */
        bool has_clock;
        int stat_fd; /* /proc/self/task/ID/stat, for its state; -1: none */
    } thread;
    uint32_t calls; /* number of progress calls at the last check */
    struct {
        uint64_t at;  /* us: when progress was last called, or the engine run in its place, */
        uint64_t cpu; /* us: and the thread's processor time at that moment */
    } attended;
    struct {           /* one that waits for a processor */
        bool squeezed; /* it got less than an eighth of a processor lately */
        uint64_t at;   /* us: when the present measurement of its share began, */
        uint64_t cpu;  /* us: and its thread's processor time at that moment */
    } share;
    struct {                /* one that calls seldom; atomic: for both threads */
        atomic_uint pauses; /* without bulk until it is none any more; 0: it is none */
        atomic_uint_least64_t not_before; /* us: it cannot become one before */
        uint64_t not_for;  /* us: it cannot become one again for so long, once it is none */
        bool ran;          /* the thread took its place since its last call, */
        uint64_t moved;    /* and received and sent so many datagrams */
        uint64_t present;  /* us: how long to leave it alone while it calls; 0: it did not */
        uint64_t bulk_at;  /* us: when bulk last waited for it; of the application's thread, */
        uint64_t bulk_cpu; /* us: and its processor time at that moment */
    } seldom;
} btl_ib_app_watch_t;

/* Initializes. Called by the application's thread, which will be watched. */
void btl_ib_app_watch_init(btl_ib_app_watch_t *watch, uint64_t period,
                           btl_ib_poll_throttle_t *throttle);

/* Begins to watch, before the progress thread starts. If the system refuses what that takes (no
 * /proc), an application that waits for a processor counts as away. */
void btl_ib_app_watch_begin(btl_ib_app_watch_t *watch, uint64_t now);

void btl_ib_app_watch_end(btl_ib_app_watch_t *watch);

/* Notes how often progress was called. Returns whether it was since the last check. */
bool btl_ib_app_watch_note_calls(btl_ib_app_watch_t *watch);

/* Returns how long before `now` the application last polled, us; 0, too, if it has polled since. */
uint64_t btl_ib_app_watch_since_poll(const btl_ib_app_watch_t *watch, uint64_t now);

/*
 * Checks the application at `now`. It has `called` progress since the last check, or is about to,
 * as it has just woken the progress thread (`woke`). Returns for how long to leave it alone, us; 0:
 * it is away; or, if it does not call seldom, it has called.
 */
uint64_t btl_ib_app_watch_check(btl_ib_app_watch_t *watch, uint64_t now, bool called, bool woke);

/* Notes that the application called progress, or that the engine was run in its place, at `now`. */
void btl_ib_app_watch_attended(btl_ib_app_watch_t *watch, uint64_t now);

/* Notes that the thread took the application's place until `now`, and received and sent so many
 * datagrams. */
void btl_ib_app_watch_ran(btl_ib_app_watch_t *watch, uint64_t now, uint64_t datagrams);

/*
 * Notes that the application called progress after a pause of `us`, while operations were under way
 * or memory was registered for peers, and until `now` received and sent so many datagrams. Called
 * by the application's thread. Returns whether it counts as one that calls seldom from now on, and
 * did not before: when bulk waited twice in a row, between which it had a processor.
 */
bool btl_ib_app_watch_waited(btl_ib_app_watch_t *watch, uint64_t now, uint64_t us,
                             uint64_t datagrams);

/* True if the application only waits for a processor: it is runnable, and has computed for less
 * than `us` since it was last attended. False after a second, as peers must not wait for ever. */
bool btl_ib_app_watch_is_preempted(const btl_ib_app_watch_t *watch, uint64_t now, uint64_t us);

/* Notes that the application is in a call, as it has the lock. Returns for how long to leave it
 * alone, us: longer each time in a row, as a call may take longer than most pauses. */
uint64_t btl_ib_app_watch_in_call(btl_ib_app_watch_t *watch);

static inline bool btl_ib_app_watch_is_seldom(const btl_ib_app_watch_t *watch)
{
    return atomic_load_explicit(&watch->seldom.pauses, memory_order_acquire) > 0;
}

#endif
