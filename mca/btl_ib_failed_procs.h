/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Processes of our job that the runtime reports as failed. Their connections are dead at once,
 * however silent their hosts are. A process that failed before it was added is remembered, and
 * reported again when it is added.
 */

#ifndef BTL_IB_FAILED_PROCS_H
#define BTL_IB_FAILED_PROCS_H

#include "btl_ib_compat.h"

/* All zero: none yet. Guarded by the component's lock. */
typedef struct btl_ib_failed_procs {
    uint64_t *names; /* as the engine knows them */
    uint32_t count;
    uint32_t capacity;
    uint32_t reported; /* how many of them were returned by btl_ib_failed_procs_next() */
} btl_ib_failed_procs_t;

/* `name` was added, and may have failed before. */
void btl_ib_failed_procs_added(btl_ib_failed_procs_t *failed, uint64_t name);

/* Is there one to report? For progress. */
static inline bool btl_ib_failed_procs_any(const btl_ib_failed_procs_t *failed)
{
    return failed->reported < failed->count || btl_ib_compat_failures_any();
}

/* The next process of job `jobid` whose connections are dead. Returns whether there is one. */
bool btl_ib_failed_procs_next(btl_ib_failed_procs_t *failed, opal_jobid_t jobid, uint64_t *name);

/* The runtime is not listened to any more: forget all. */
void btl_ib_failed_procs_fini(btl_ib_failed_procs_t *failed);

#endif
