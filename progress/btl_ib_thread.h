/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Creates threads of ib itself. */

#ifndef BTL_IB_THREAD_H
#define BTL_IB_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* The state of a thread that creates another one. */
typedef struct btl_ib_thread_setup {
    pthread_attr_t attr; /* for pthread_create() */
    sigset_t signals;    /* that were blocked before */
} btl_ib_thread_setup_t;

/* Prepares for pthread_create() with setup->attr. Blocks all signals in the calling thread until
 * btl_ib_thread_created(), so that the new thread begins with all blocked: signals are for the
 * application's threads. `small`: the new thread has a small stack, on which no function of the PML
 * may run. Returns 0 or an errno; then there is nothing to restore. */
int btl_ib_thread_prepare(btl_ib_thread_setup_t *setup, bool small);

/* Restores the calling thread's signals, whether the other thread was created or not. */
void btl_ib_thread_created(btl_ib_thread_setup_t *setup);

#endif
