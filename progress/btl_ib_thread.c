/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_thread.h"

#include <unistd.h>

/* Bytes of a small stack, which also holds the thread-local data of all libraries. */
#define STACK_SIZE (256 * 1024)

int btl_ib_thread_prepare(btl_ib_thread_setup_t *setup, bool small)
{
    const long least = sysconf(_SC_THREAD_STACK_MIN);
    const int rc = pthread_attr_init(&setup->attr);
    sigset_t all;

    if (rc != 0) {
        return rc;
    }
    if (small) {
        pthread_attr_setstacksize(&setup->attr, (size_t) (least > STACK_SIZE ? least : STACK_SIZE));
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &setup->signals);
    return 0;
}

void btl_ib_thread_created(btl_ib_thread_setup_t *setup)
{
    pthread_sigmask(SIG_SETMASK, &setup->signals, NULL);
    pthread_attr_destroy(&setup->attr);
}
