/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * opal_config.h of Open MPI 5.0 and 6.0 names this header and the two beside it, and some packages
 * leave them out (Debian 13). These take their place there, and only there: configure looks for the
 * installed ones first, and compares the sizes of the structures that follow from them with those
 * of libopen-pal, as the component does again when it is opened. They have what the headers use
 * that include them, opal/mca/threads/{mutex,condition,wait_sync,threads,tsd}.h, of 5.0 and of 6.0:
 * locks are those of POSIX threads.
 */

#ifndef BTL_IB_COMPAT_THREADS_PTHREADS_H
#define BTL_IB_COMPAT_THREADS_PTHREADS_H

#include "opal_config.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>

#include "opal/class/opal_object.h"
#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;
typedef pthread_key_t opal_tsd_key_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER

/* 1 if another thread has it */
#define opal_thread_internal_mutex_trylock(mutex) (0 != pthread_mutex_trylock(mutex))
#define opal_thread_internal_mutex_lock(mutex)    pthread_mutex_lock(mutex)
#define opal_thread_internal_mutex_unlock(mutex)  pthread_mutex_unlock(mutex)
#define opal_thread_internal_mutex_destroy(mutex) pthread_mutex_destroy(mutex)
#define opal_thread_internal_cond_init(cond)      pthread_cond_init(cond, NULL)
#define opal_thread_internal_cond_signal(cond)    pthread_cond_signal(cond)
#define opal_thread_internal_cond_destroy(cond)   pthread_cond_destroy(cond)
#define opal_tsd_get(key, value)                  (*(value) = pthread_getspecific(key))

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex,
                                                  bool recursive)
{
    pthread_mutexattr_t attributes;
    int rc;

    if (0 != pthread_mutexattr_init(&attributes)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    pthread_mutexattr_settype(&attributes,
                              recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_DEFAULT);
    rc = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return 0 == rc ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

/* Declares what opal/mca/threads/threads.h does. */
static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
