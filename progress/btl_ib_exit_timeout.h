/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The exit timeout: a process that is about to end, and does not come to an end, says where it
 * hangs and ends itself, as a process of GASNet does.
 *
 * Its user begins and ends stages, each a part of an exit that has a bound of its own. A stage that
 * lasts longer than its bound and the timeout ends the process by the default action of a signal,
 * whoever handles or blocks that: only then, and in no other way, is anything of the application's
 * signals touched.
 *
 * The clock is a thread that takes no signals. There is none until a first stage begins, and
 * between stages it sleeps until the next one. It counts what it was awake for: not the time in
 * which the process was stopped (SIGSTOP, a frozen cgroup, a virtual machine that was suspended);
 * and inside a debugger it stands still, if wanted.
 */

#ifndef BTL_IB_EXIT_TIMEOUT_H
#define BTL_IB_EXIT_TIMEOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Says where the process hangs, which the signal is about to end: in `stage`. Called in a thread of
 * its own, which the process does not wait for longer than a few seconds. */
typedef void (*btl_ib_exit_tell_fn_t)(const char *stage, int number);

typedef struct btl_ib_exit_timeout_config {
    uint64_t timeout; /* us, 0: none */
    bool debugged;    /* also inside a debugger */
    btl_ib_exit_tell_fn_t tell;
} btl_ib_exit_timeout_config_t;

typedef struct btl_ib_exit_timeout {
    btl_ib_exit_timeout_config_t config;
    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t changed;
    bool started; /* the thread exists */
    bool waits;   /* until a stage begins */
    bool leave;   /* it is to end */
    bool told;
    uint32_t stages;   /* that go on */
    const char *stage; /* the last one that began */
    int number;        /* of the signal */
    uint64_t left;     /* us of it */
    pid_t pid;         /* that has the thread */
    pthread_t thread;
} btl_ib_exit_timeout_t;

/* Initializes it; there is no thread yet. Returns 0 or an errno: then it must not be used. */
int btl_ib_exit_timeout_init(btl_ib_exit_timeout_t *self,
                             const btl_ib_exit_timeout_config_t *config);

/* Begins a stage that may take `bound` us, and gives all stages that go on as long. `number` is the
 * signal that ends the process. Returns 0 or the errno with which the system refused the thread:
 * then nothing watches the stage, which is ended all the same. */
int btl_ib_exit_timeout_begin(btl_ib_exit_timeout_t *self, const char *stage, int number,
                              uint64_t bound);
void btl_ib_exit_timeout_end(btl_ib_exit_timeout_t *self);

/* Ends the thread, whatever stages go on; returns when it is gone. From then on stages do nothing.
 * May be called twice, and in a child of fork(), which has no such thread. */
void btl_ib_exit_timeout_fini(btl_ib_exit_timeout_t *self);

#endif
