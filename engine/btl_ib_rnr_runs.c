/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rnr_runs.h"

#include <string.h>

#include "btl_ib_window.h"
#include "btl_ib_wire.h"

/* The first run of a space that ends at `seq` or after it; `count` if there is none. */
static uint32_t find_run(const btl_ib_rnr_runs_t *runs, uint32_t space, uint32_t seq)
{
    uint32_t at = 0;

    while (at < runs->count
           && (runs->run[at].space < space
               || (runs->run[at].space == space && btl_ib_seq_before(runs->run[at].end, seq)))) {
        at++;
    }
    return at;
}

static void remove_run(btl_ib_rnr_runs_t *runs, uint32_t at)
{
    runs->count--;
    runs->more = runs->more && runs->count > 0;
    memmove(&runs->run[at], &runs->run[at + 1], (runs->count - at) * sizeof(runs->run[0]));
}

/* Insert a run at `at`, if there is room. */
static void insert_run(btl_ib_rnr_runs_t *runs, uint32_t at, const btl_ib_rnr_run_t *run)
{
    if (runs->count < BTL_IB_RNR_RUNS) {
        memmove(&runs->run[at + 1], &runs->run[at], (runs->count - at) * sizeof(runs->run[0]));
        runs->run[at] = *run;
        runs->count++;
    } else {
        runs->more = true;
    }
}

void btl_ib_rnr_runs_add(btl_ib_rnr_runs_t *runs, uint32_t space, uint32_t seq)
{
    uint32_t at = find_run(runs, space, seq);
    btl_ib_rnr_run_t *run = &runs->run[at];
    bool touches = at < runs->count && run->space == space;

    runs->last_seq = seq;
    runs->last_space = space;
    if (touches && run->end == seq) {
        run->end++;
        if (at + 1 < runs->count && run[1].space == space && run[1].from == run->end) {
            run->end = run[1].end;
            remove_run(runs, at + 1);
        }
    } else if (touches && run->from == seq + 1) {
        run->from--;
    } else {
        insert_run(runs, at, &(btl_ib_rnr_run_t){.from = seq, .end = seq + 1, .space = space});
    }
}

void btl_ib_rnr_runs_take(btl_ib_rnr_runs_t *runs, uint32_t space, uint32_t seq)
{
    uint32_t at = find_run(runs, space, seq + 1);
    btl_ib_rnr_run_t *run = &runs->run[at];

    if (at == runs->count || run->space != space || btl_ib_seq_before(seq, run->from)) {
        return;
    }
    btl_ib_rnr_run_t rest = {.from = seq + 1, .end = run->end, .space = space};
    run->end = seq;
    if (run->from == run->end) {
        remove_run(runs, at--);
    }
    if (rest.from != rest.end) {
        insert_run(runs, at + 1, &rest);
    }
}

/* The sender waits to be told of the segment that was refused last: it may have been a probe. */
uint32_t btl_ib_rnr_runs_first(const btl_ib_rnr_runs_t *runs, uint32_t room)
{
    uint32_t need = 0;

    for (uint32_t i = 0; i < runs->count; i++) {
        const bool begins = i == 0 || runs->run[i].space != runs->run[i - 1].space;
        need += (uint32_t) (sizeof(btl_ib_wire_range_t) + (begins ? sizeof(btl_ib_wire_ack_t) : 0));
    }
    uint32_t last = find_run(runs, runs->last_space, runs->last_seq + 1);
    return need <= room || last == runs->count ? 0 : last;
}
