/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* In the place of an installed one that is missing: see threads_pthreads_mutex.h beside it. */

#ifndef BTL_IB_COMPAT_THREADS_PTHREADS_THREADS_H
#define BTL_IB_COMPAT_THREADS_PTHREADS_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>

/* opal/mca/threads/threads.h declares it. */
static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
