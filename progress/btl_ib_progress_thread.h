/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The progress thread (asynchronous progress): serves the engine while the application does not
 * call MPI's progress, because it computes, or waits inside Open MPI for the runtime. Without it
 * lost segments, and acknowledgements that peers wait for, would wait until the application comes
 * back.
 *
 * While nothing is due it sleeps and never wakes up. When something is, it checks every
 * btl_ib_progress_thread_ms whether progress was called meanwhile. If not, it runs the engine
 * quietly (btl_ib_engine_async_progress()), as often as the engine's timers want, until progress
 * is called. It goes back to sleep only after a while with nothing due, so that the fast path need
 * not wake it. It only ever tries the lock, and never runs a callback of the PML.
 *
 * Where transports allow it (udp) it starts with the component and answers first contacts: it
 * checks whether the application makes progress even if nothing is due. If not, the devices wake
 * it, and it never wakes up by itself.
 *
 * While memory is registered for peers (MPI windows) it serves them too, although nothing is due
 * here. Once the application is away the devices wake it if they can (wait_fd), and it sleeps until
 * then; else it runs the engine every btl_ib_progress_thread_ms, and every millisecond while peers
 * are being served.
 *
 * An application that waits for a processor is not away: where it gets less than an eighth of one
 * it is left alone until it sleeps, or has used btl_ib_progress_thread_ms of processor time since
 * it was last attended, for a second at most.
 *
 * If it delivers (btl_ib_progress deliver) it makes whole turns, with all calls into the PML, in
 * the place of an application that is away: once that made no progress for 20 us, the devices wake
 * it, as often in a second as configured at most. Woken while the application polls it steps aside,
 * for 20 us, twice as long each time, up to 250 us, in which devices do not wake it. It begins when
 * the PML is known to be ready (btl_ib_progress_thread_procs_added()).
 *
 * While several threads of the application share a processor (btl_ib_poll_yield_t) it wakes up each
 * BTL_IB_POLL_YIELD_TICK, and does nothing else: the system then chooses anew which thread runs. A
 * thread that spins until another one goes on, on the same processor, would keep that for a time
 * slice, of ms.
 *
 * A system that refuses the thread (a limit on threads or files) may allow it later: it is tried
 * again while something is due, after 0.1 s, 0.2 s and so on, finally each minute.
 */

#ifndef BTL_IB_PROGRESS_THREAD_H
#define BTL_IB_PROGRESS_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "btl_ib_biased_lock.h"
#include "btl_ib_engine.h"
#include "btl_ib_poll_throttle.h"

/* Makes a turn in the application's place, with the lock held. Returns how much was done. */
typedef int (*btl_ib_progress_turn_fn_t)(void);

/* Things that the thread works with, all of which outlive it. */
typedef struct btl_ib_progress_thread_config {
    bool enabled;
    uint64_t period;                   /* us without progress after which it takes over */
    int burst;                         /* datagrams at a time */
    btl_ib_progress_turn_fn_t deliver; /* NULL: it only serves */
    uint64_t wakeup_gap;               /* us between two wake-ups by devices then, on average */
    uint32_t rank;                     /* of this process, for messages */
    btl_ib_biased_lock_t *lock;        /* guards the engine */
    btl_ib_poll_throttle_t *throttle;  /* knows whether progress was called */
    const btl_ib_poll_yield_t *yield;  /* knows whether threads share a processor */
} btl_ib_progress_thread_config_t;

/* All but `leave` is guarded by the lock. */
typedef struct btl_ib_progress_thread {
    btl_ib_progress_thread_config_t config;
    btl_ib_engine_t *engine; /* NULL: not attached yet */
    bool asleep;           /* until woken, or it does not exist yet: wake it if something is due */
    bool started;          /* the thread exists */
    bool answers;          /* first contacts; does not change while it exists */
    bool procs_added;      /* the application has added processes */
    uint32_t calls_before; /* of progress, when it did */
    bool at_fork;          /* the handler for fork() is registered, for good */
    bool at_exit;          /* the same for exit() */
    bool listening;        /* devices wake it */
    bool in_engine;        /* it runs the engine now */
    int wake_fd;           /* an eventfd */
    struct {               /* the application's thread, which called MPI_Init */
        long id;
        clockid_t clock; /* of its processor time */
        bool has_clock;
        int stat_fd; /* tells its state; -1: that is not known */
    } app;
    atomic_bool leave; /* it is to end */
    pthread_t thread;
    uint32_t failures; /* the system refused it so often */
    uint64_t retry_at; /* us: not again before then */
} btl_ib_progress_thread_t;

/* Initializes it: from now on there may be one, if enabled. There can be one in a process. Called
 * by the application's thread: if that waits for a processor it is not away. */
void btl_ib_progress_thread_init(btl_ib_progress_thread_t *self,
                                 const btl_ib_progress_thread_config_t *config);

/*
 * Makes the thread serve an engine, all of whose devices are open; starts it at once if the engine
 * can answer first contacts (btl_ib_engine_answers()). Called with the lock held. Returns whether
 * they are answered whatever the application does: that may be published.
 */
bool btl_ib_progress_thread_attach(btl_ib_progress_thread_t *self, btl_ib_engine_t *engine);

/*
 * Wakes the thread, or starts it, if something is due. Called with the lock held, if it is asleep.
 * If it cannot be started the user is told once; it stays asleep, so that this is called again.
 */
void btl_ib_progress_thread_wake(btl_ib_progress_thread_t *self);

/*
 * Notes that the application adds processes: the PML takes messages from the next progress call on.
 * Open MPI adds its communicators between the two, and what came in between would find one that is
 * not whole (c_pml_comm). Called with the lock held.
 */
void btl_ib_progress_thread_procs_added(btl_ib_progress_thread_t *self);

/* Ends the thread; returns when it is gone. Called with the lock held, or when the process ends;
 * without the lock if it delivers, as its callbacks take it. */
void btl_ib_progress_thread_stop(btl_ib_progress_thread_t *self);

#endif
