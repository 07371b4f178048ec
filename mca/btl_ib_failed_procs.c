/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_failed_procs.h"

#include <stdlib.h>

#include "btl_ib_help.h"

#define FIRST_CAPACITY 16

void btl_ib_failed_procs_added(btl_ib_failed_procs_t *failed, uint64_t name)
{
    for (uint32_t i = 0; i < failed->reported; ++i) {
        if (failed->names[i] == name) {
            failed->reported = i;
            return;
        }
    }
}

/* Returns false if there is no memory for it. */
static bool remember(btl_ib_failed_procs_t *failed, uint64_t name)
{
    if (failed->count == failed->capacity) {
        const uint32_t capacity = failed->capacity == 0 ? FIRST_CAPACITY : 2 * failed->capacity;
        uint64_t *names = realloc(failed->names, capacity * sizeof(*names));

        if (names == NULL) {
            return false;
        }
        failed->names = names;
        failed->capacity = capacity;
    }
    failed->names[failed->count++] = name;
    return true;
}

bool btl_ib_failed_procs_next(btl_ib_failed_procs_t *failed, opal_jobid_t jobid, uint64_t *name)
{
    opal_process_name_t proc;

    while (btl_ib_compat_failures_next(&proc)) {
        BTL_IB_VERBOSE(1, "the runtime says that %s failed", opal_process_name_print(proc));
        /* 6.0 says so of processes of connected jobs that ended well, too. */
        if (proc.jobid == jobid) {
            *name = btl_ib_name_pack(proc);
            if (!remember(failed, *name)) {
                return true;
            }
        }
    }
    if (failed->reported == failed->count) {
        return false;
    }
    *name = failed->names[failed->reported++];
    return true;
}

void btl_ib_failed_procs_fini(btl_ib_failed_procs_t *failed)
{
    free(failed->names);
    *failed = (btl_ib_failed_procs_t){0};
}
