/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The kicker: a small thread that looks after the engine while the application does not call MPI's
 * progress: it computes, or waits inside Open MPI for the runtime. What was sent before and got lost
 * would wait until it comes back, and so would acknowledgements.
 *
 * It sleeps without ever waking up while nothing is due. When something is, it looks every
 * btl_ib_kicker_ms whether progress was called meanwhile; if not, it kicks (btl_ib_engine_kick), again
 * and again as the engine's timers want it, until progress is called. It goes back to its deep sleep
 * only after a while without anything due, so that waking it costs nothing in the fast path. It only
 * ever tries the lock, calls nothing of Open MPI, and never runs a callback of the PML.
 *
 * Where transports can (udp), it is made at the start and answers first contacts: when nothing was due for a second it looks
 * each second whether the application is there. If not, the devices wake it, and it never wakes up by itself.
 *
 * While memory is registered for peers (MPI windows) it serves them, too, though nothing is due here:
 * once the application is away, the devices wake it if they can (wait_fd), and it sleeps deeply until
 * one does; else it kicks every btl_ib_kicker_ms, and every millisecond while somebody is served.
 *
 * A system that refuses the thread (a limit on threads or files) may let it be later: it is asked
 * again as long as something is due, after 0.1 s, 0.2 s, and so on, at last each minute.
 */

#ifndef BTL_IB_KICKER_H
#define BTL_IB_KICKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct btl_ib_kicker {
    bool on;           /* wanted; does not change while there are modules */
    bool asleep;       /* deeply, or not born yet: wake it when something is due; lock */
    bool started;      /* there is a thread; lock */
    bool answers;      /* it looks for peers that nobody here knows of; does not change once it runs */
    bool for_fork;     /* prepared for that, as long as the component is loaded; lock */
    bool for_exit;     /* the same; lock */
    bool listening;    /* devices wake it; lock */
    bool kicking;      /* lock */
    int wake_fd;       /* an eventfd */
    atomic_bool leave; /* it is to end */
    pthread_t thread;
    /* The system did not let it be made: */
    uint32_t failures; /* so often; lock */
    uint64_t retry_at; /* us: not again before then; lock */
} btl_ib_kicker_t;

/* From now on there may be a kicker, if the parameters want it. */
void btl_ib_kicker_prepare(void);

/*
 * Make it, and let it answer peers that were never heard whatever the application does (btl_ib_engine_answers()). Called
 * with the lock held, when all devices are open. Returns whether it will: that may be published.
 */
bool btl_ib_kicker_answer(void);

/* Wake it, or make it, if something is due. Called with the lock held, if it is asleep. If it
 * cannot be made the user is told once, and it stays asleep: this tries again, after a pause that
 * grows. */
void btl_ib_kicker_wake(void);

/* End it. Called with the lock held, or when the process ends; returns when the thread is gone. */
void btl_ib_kicker_stop(void);

#endif
