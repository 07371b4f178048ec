/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The progress thread (asynchronous progress): runs the engine while the application is "away",
 * that is, does not call MPI's progress, because it computes, or waits inside Open MPI for the
 * runtime (btl_ib_app_watch.h). Without the thread lost segments, acknowledgements that peers wait
 * for, and the rest of long messages would wait until the application comes back.
 *
 * While nothing is due the thread sleeps, and does not wake up by itself. When something is due, it
 * checks every btl_ib_progress_thread_ms, and sooner where the application calls seldom and bulk
 * waits for that, whether progress was called. If not, it runs the engine
 * without callbacks (btl_ib_engine_async_progress()), as often as the engine's timers want, until
 * progress is called. It goes back to sleep only when nothing was due for a while, so that sends
 * seldom have to wake it. It only tries the lock, never waits for it, and never runs a callback of
 * the PML.
 *
 * Where transports allow it (udp) the thread starts with the component, and answers first contacts:
 * it checks whether the application makes progress even if nothing is due, and receives in its
 * place if it does not.
 *
 * While memory is registered for peers (MPI windows) the thread serves them, too, although nothing
 * is due here. When the application is away the thread sleeps until devices wake it (wait_fd). If
 * they cannot, it runs the engine every btl_ib_progress_thread_ms, and every millisecond while
 * peers are being served.
 *
 * Devices wake the thread only while something is waited for here, or just came, or when the
 * application has been away for 0.25 s: then the thread does not wake up by itself. Otherwise the
 * message that the application is about to wait for would wake the thread, too, which would take
 * the processor from the application at the very moment when it calls MPI.
 *
 * With btl_ib_progress deliver the thread makes whole turns, with all calls into the PML, in place
 * of an application that is away: one that has not called progress for 20 us. Then devices wake the
 * thread, at most as often in a second as is configured. If it is woken while the application
 * polls, it steps aside for 20 us, twice as long each time, up to 500 us, in which devices do not
 * wake it.
 * It begins to deliver when the PML is known to be ready (btl_ib_progress_thread_procs_added()).
 *
 * While several threads of the application share a processor (btl_ib_poll_yield_t) the thread wakes
 * up each BTL_IB_POLL_YIELD_TICK, and does nothing: the system then chooses anew which thread runs.
 * Otherwise a thread that spins until another one on the same processor goes on would keep the
 * processor for a time slice of some ms.
 *
 * If the system refuses the thread (a limit on threads or files) it may allow it later. So starting
 * it is tried again while something is due, after 0.1 s, 0.2 s and so on, finally each minute.
 */

#ifndef BTL_IB_PROGRESS_THREAD_H
#define BTL_IB_PROGRESS_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_app_watch.h"
#include "btl_ib_biased_lock.h"
#include "btl_ib_engine.h"
#include "btl_ib_poll_throttle.h"

/* Makes a turn in the application's place, with the lock held. Returns the number of events. */
typedef int (*btl_ib_progress_turn_fn_t)(void);

/* What the thread works with. All that the pointers name outlives the thread. */
typedef struct btl_ib_progress_thread_config {
    bool enabled;
    uint64_t period;                   /* us without progress after which the thread takes over */
    int burst;                         /* datagrams of a turn */
    btl_ib_progress_turn_fn_t deliver; /* makes a whole turn; NULL: no callbacks in the thread */
    uint64_t wakeup_gap;               /* with `deliver`: us between two wake-ups by devices, on
                                        * average */
    uint32_t rank;                     /* of this process, for messages */
    btl_ib_biased_lock_t *lock;        /* guards the engine */
    btl_ib_poll_throttle_t *throttle;  /* knows whether progress was called */
    const btl_ib_poll_yield_t *yield;  /* knows whether threads share a processor */
} btl_ib_progress_thread_config_t;

/* All but `leave` and `app` is guarded by the lock. */
typedef struct btl_ib_progress_thread {
    btl_ib_progress_thread_config_t config;
    btl_ib_engine_t *engine; /* NULL: not attached yet */
    bool asleep;           /* it sleeps until woken, or does not exist yet: to be woken if something
                            * is due */
    bool started;          /* the thread exists */
    bool answers;          /* it answers first contacts; does not change while it exists */
    bool procs_added;      /* the application has added processes */
    uint32_t calls_before; /* calls of progress before that */
    bool at_fork;          /* the handler for fork() is registered, for good */
    bool at_exit;          /* the handler for exit() is registered, for good */
    bool listening;        /* devices wake it */
    bool in_engine;        /* it runs the engine now */
    int wake_fd;           /* an eventfd, to wake it */
    btl_ib_app_watch_t app;
    atomic_bool leave; /* it is to end */
    pthread_t thread;
    uint32_t failures; /* how often the system refused it */
    uint64_t retry_at; /* us: it is not tried again before */
} btl_ib_progress_thread_t;

/* Initializes, without starting the thread. Only one in a process. Called by the application's
 * thread, whose processor time and state tell whether it is away. */
void btl_ib_progress_thread_init(btl_ib_progress_thread_t *self,
                                 const btl_ib_progress_thread_config_t *config);

/*
 * Makes the thread serve an engine whose devices are all open. Starts it at once if the engine can
 * answer first contacts (btl_ib_engine_answers()). Called with the lock held. Returns whether first
 * contacts will be answered whatever the application does, which may then be published.
 */
bool btl_ib_progress_thread_attach(btl_ib_progress_thread_t *self, btl_ib_engine_t *engine);

/*
 * Wakes the thread, or starts it, if something is due. Called with the lock held, and only if
 * `asleep`. If the thread cannot be started, reports that once; `asleep` stays true, so that this
 * is called again.
 */
void btl_ib_progress_thread_wake(btl_ib_progress_thread_t *self);

/* Notes that the application called progress after a pause, as btl_ib_app_watch_waited(). Called
 * with the lock held. */
void btl_ib_progress_thread_waited(btl_ib_progress_thread_t *self, uint64_t now, uint64_t us,
                                   uint64_t datagrams);

/*
 * Notes that the application adds processes: from the next progress call on the PML is ready for
 * messages. In between Open MPI makes its communicators, and a message would find one that is not
 * whole (c_pml_comm). Called with the lock held.
 */
void btl_ib_progress_thread_procs_added(btl_ib_progress_thread_t *self);

/* Ends the thread, and waits until it is gone. Called with the lock held, or when the process ends;
 * but without the lock if the thread delivers, as its callbacks take the lock. */
void btl_ib_progress_thread_stop(btl_ib_progress_thread_t *self);

#endif
