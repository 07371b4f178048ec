/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Runs of sequences that arrived, were refused, and are still missing. ACKs name them, so that the
 * sender does not take them for lost. */

#ifndef BTL_IB_RNR_RUNS_H
#define BTL_IB_RNR_RUNS_H

#include <stdbool.h>
#include <stdint.h>

/* Most runs that are kept. A further one is not: the sender takes it for lost. */
#define BTL_IB_RNR_RUNS 32

typedef struct btl_ib_rnr_run {
    uint32_t from;
    uint32_t end;
    uint32_t space;
} btl_ib_rnr_run_t;

typedef struct btl_ib_rnr_runs {
    uint32_t count;
    bool more;         /* some were not kept */
    uint32_t last_seq; /* what was refused last */
    uint32_t last_space;
    btl_ib_rnr_run_t run[BTL_IB_RNR_RUNS];
} btl_ib_rnr_runs_t;

/* A sequence that is in no run was refused. */
void btl_ib_rnr_runs_add(btl_ib_rnr_runs_t *runs, uint32_t space, uint32_t seq);

/* A sequence that may be in a run is not missing any more. */
void btl_ib_rnr_runs_take(btl_ib_rnr_runs_t *runs, uint32_t space, uint32_t seq);

/* The run that an ACK with `room` bytes for runs begins with; runs->count if there is none. */
uint32_t btl_ib_rnr_runs_first(const btl_ib_rnr_runs_t *runs, uint32_t room);

#endif
