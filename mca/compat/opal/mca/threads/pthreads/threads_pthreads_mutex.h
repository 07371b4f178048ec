/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * opal_config.h of Open MPI 5.0 and 6.0 names this header, and some packages leave it out (Debian
 * 13). This one takes its place there, and only there: configure looks for the installed one
 * first, and compares the sizes of the structures that follow from it with those of libopen-pal,
 * as the component does again when it is opened. What it has to declare is fixed by what
 * includes it, opal/mca/threads/{mutex,condition,wait_sync}.h: locks are those of POSIX threads.
 */

#ifndef BTL_IB_COMPAT_THREADS_PTHREADS_MUTEX_H
#define BTL_IB_COMPAT_THREADS_PTHREADS_MUTEX_H

#include "opal_config.h"

#include <pthread.h>
#include <stdbool.h>

#include "opal/class/opal_object.h"
#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER

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

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
}

/* 1 if another thread has it */
static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return 0 != pthread_mutex_trylock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_destroy(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *cond)
{
    return 0 == pthread_cond_init(cond, NULL) ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

static inline void opal_thread_internal_cond_wait(opal_thread_internal_cond_t *cond,
                                                  opal_thread_internal_mutex_t *mutex)
{
    pthread_cond_wait(cond, mutex);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *cond)
{
    pthread_cond_signal(cond);
}

static inline void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t *cond)
{
    pthread_cond_broadcast(cond);
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *cond)
{
    pthread_cond_destroy(cond);
}

#endif
