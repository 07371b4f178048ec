/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* In the place of an installed one that is missing: see threads_pthreads_mutex.h beside it. */

#ifndef BTL_IB_COMPAT_THREADS_PTHREADS_TSD_H
#define BTL_IB_COMPAT_THREADS_PTHREADS_TSD_H

#include <pthread.h>

#include "opal/constants.h"

typedef pthread_key_t opal_tsd_key_t;

static inline int opal_tsd_get(opal_tsd_key_t key, void **value)
{
    *value = pthread_getspecific(key);
    return OPAL_SUCCESS;
}

static inline int opal_tsd_set(opal_tsd_key_t key, void *value)
{
    return 0 == pthread_setspecific(key, value) ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

static inline int opal_tsd_key_delete(opal_tsd_key_t key)
{
    return 0 == pthread_key_delete(key) ? OPAL_SUCCESS : OPAL_ERR_BAD_PARAM;
}

#endif
