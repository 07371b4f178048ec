/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Processes of our job of which the runtime says that they ended without leaving MPI: their
 * connections are dead at once, however silent their hosts are. What it says is carried out by
 * progress; who ended before it was added, as soon as it is.
 */

#ifndef BTL_IB_ENDED_H
#define BTL_IB_ENDED_H

#include "btl_ib_compat.h"

/* All zero: none yet. Under the component's lock. */
typedef struct btl_ib_ended {
    uint64_t *names; /* as the engine knows them */
    uint32_t count;
    uint32_t room;
    uint32_t done; /* of these no connection is left, as far as they were added */
} btl_ib_ended_t;

/* `name` was added, and may have ended before. */
void btl_ib_ended_added(btl_ib_ended_t *ended, uint64_t name);

/* Is there something to carry out? For progress. */
static inline bool btl_ib_ended_any(const btl_ib_ended_t *ended)
{
    return ended->done < ended->count || btl_ib_compat_ends_any();
}

/* Carry it out: report whom we talked to. Not while processes are deleted: who ends in
 * MPI_Finalize is no news. Called by progress with the lock held, which is released around calls
 * into the PML. */
void btl_ib_ended_report(uint64_t now);

/* The runtime is not listened to any more: forget all. */
void btl_ib_ended_fini(btl_ib_ended_t *ended);

#endif
