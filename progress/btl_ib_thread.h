/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Threads of ib itself, beside the application's. */

#ifndef BTL_IB_THREAD_H
#define BTL_IB_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* What pthread_create() is called with, and what is restored after it. */
typedef struct btl_ib_thread_setup {
    pthread_attr_t attr;
    sigset_t signals; /* that were blocked before */
} btl_ib_thread_setup_t;

/* Prepares for pthread_create() with setup->attr: the thread has all signals blocked, which are for
 * the application's threads, as they are in this one until btl_ib_thread_created(). `small`: with a
 * small stack, on which none of the PML's functions may run. Returns 0 or an errno: then there is
 * nothing to restore. */
int btl_ib_thread_prepare(btl_ib_thread_setup_t *setup, bool small);

/* Restores this thread's signals, whether the other one was created or not. */
void btl_ib_thread_created(btl_ib_thread_setup_t *setup);

#endif
