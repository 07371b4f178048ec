/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * For how long a peer's process is away between polls: a program that computes between its messages
 * is silent for milliseconds though nothing was lost, again and again. Timeouts shorter than that
 * are spurious, so they wait for it. Not where losses are frequent: there the second copy of a
 * segment may be lost, too, and its repair would wait.
 */

#ifndef BTL_IB_PAUSES_H
#define BTL_IB_PAUSES_H

#include <stdbool.h>
#include <stdint.h>

/* us without a poll from which on that process did something else, or had no processor */
#define BTL_IB_PAUSE_MIN 100u

typedef struct btl_ib_pauses {
    uint64_t until;   /* us: when `longest` is no longer expected */
    uint32_t longest; /* us: bounded, see btl_ib_pauses.c */
    uint32_t lossy;   /* grows with series of probes that repaired a loss, shrinks with others */
} btl_ib_pauses_t;

/* `away` us, if that is a pause; else 0. */
static inline uint32_t btl_ib_pause_of(uint32_t away)
{
    return away > BTL_IB_PAUSE_MIN ? away : 0;
}

/* At `now` (us) the peer told that it had not polled for `away` us, more than BTL_IB_PAUSE_MIN. */
void btl_ib_pauses_add(btl_ib_pauses_t *pauses, uint32_t away, uint64_t now);

/* The same for any `away`. */
static inline void btl_ib_pauses_note(btl_ib_pauses_t *pauses, uint32_t away, uint64_t now)
{
    if (away > BTL_IB_PAUSE_MIN) {
        btl_ib_pauses_add(pauses, away, now);
    }
}

/* A series of probes is over; `repaired`: the peer did not have all that they carried. */
void btl_ib_pauses_judge(btl_ib_pauses_t *pauses, bool repaired);

/* How long the peer may be silent at `now` without a loss, us; 0: nothing is known. */
uint32_t btl_ib_pauses_expected(const btl_ib_pauses_t *pauses, uint64_t now);

#endif
