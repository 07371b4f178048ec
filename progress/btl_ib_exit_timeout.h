/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The exit timeout: a process that hangs while it exits reports where it hangs, and ends itself, as
 * a process of GASNet does.
 *
 * The caller begins and ends stages, each a part of an exit with a bound of its own. If a stage
 * lasts longer than its bound and the timeout, the process is ended by the default action of a
 * signal, even if that is handled or blocked. Before that moment nothing of the application's
 * signals is touched.
 *
 * The clock is a thread with all signals blocked. It is created when the first stage begins, and
 * sleeps between stages. It counts only time in which the process could run: not while the process
 * is stopped (SIGSTOP, a frozen cgroup, a suspended virtual machine); nor, unless `debugged`, while
 * a debugger is attached.
 */

#ifndef BTL_IB_EXIT_TIMEOUT_H
#define BTL_IB_EXIT_TIMEOUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Reports that the process hangs in `stage`, and that signal `number` is about to end it. Runs in a
 * thread of its own, for which the process waits a few seconds at most. */
typedef void (*btl_ib_exit_tell_fn_t)(const char *stage, int number);

typedef struct btl_ib_exit_timeout_config {
    uint64_t timeout; /* us beyond the bound of a stage; 0: stages have no end */
    bool debugged;    /* time counts also while a debugger is attached */
    btl_ib_exit_tell_fn_t tell;
} btl_ib_exit_timeout_config_t;

typedef struct btl_ib_exit_timeout {
    btl_ib_exit_timeout_config_t config;
    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t changed;
    bool started; /* the thread exists */
    bool waits;   /* the thread sleeps until a stage begins */
    bool leave;   /* the thread is to end */
    bool reported;
    uint32_t stages;   /* number of stages that have begun and not ended */
    const char *stage; /* the last one that began */
    int number;        /* of the signal */
    uint64_t left;     /* us until the process is ended */
    pid_t pid;         /* the process that has the thread, not its children */
    pthread_t thread;
} btl_ib_exit_timeout_t;

/* Initializes without a thread. Returns 0 or an errno; then it must not be used. */
int btl_ib_exit_timeout_init(btl_ib_exit_timeout_t *self,
                             const btl_ib_exit_timeout_config_t *config);

/* Begins a stage that may take `bound` us; stages that it is part of get as much time. `number` is
 * the signal that is to end the process. Returns 0; or the errno with which the system refused the
 * thread: then nothing watches the stage, which the caller ends all the same. */
int btl_ib_exit_timeout_begin(btl_ib_exit_timeout_t *self, const char *stage, int number,
                              uint64_t bound);

/* Ends the stage that began last. */
void btl_ib_exit_timeout_end(btl_ib_exit_timeout_t *self);

/* Ends the thread, even during a stage, and waits until it is gone. Later stages do nothing. May be
 * called twice, and in a child of fork(), which has no such thread. */
void btl_ib_exit_timeout_fini(btl_ib_exit_timeout_t *self);

#endif
