/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A small congestion window, in segments: slow start, then one more for each window that was
 * acknowledged; a quarter less for each round trip with losses, but never below what a local
 * network holds in flight anyway, so that random loss costs little. Undone when a retransmission turns out to have been
 * spurious.
 */

#ifndef BTL_IB_CWND_H
#define BTL_IB_CWND_H

#include <stdbool.h>
#include <stdint.h>

#define BTL_IB_CWND_INIT 64u
#define BTL_IB_CWND_MIN  16u

typedef struct btl_ib_cwnd {
    uint32_t window; /* segments that may be in flight */
    uint32_t max;
    uint32_t threshold; /* slow start below it */
    uint32_t acked;     /* since the window last grew */
    uint32_t undo;      /* the window before the last cut; 0: nothing to undo */
    uint32_t undo_threshold;
    uint64_t recovery; /* us: losses of segments sent before this belong to the last cut */
} btl_ib_cwnd_t;

/* `max`: segments, at least 1. */
void btl_ib_cwnd_init(btl_ib_cwnd_t *cwnd, uint32_t max);

/* `count` segments were acknowledged; `limited`: the window was what held the sender back. */
void btl_ib_cwnd_acked(btl_ib_cwnd_t *cwnd, uint32_t count, bool limited);

/* A segment sent at `sent_at` was lost. */
void btl_ib_cwnd_lost(btl_ib_cwnd_t *cwnd, uint64_t sent_at, uint64_t now);

/* The last cut was for nothing. */
void btl_ib_cwnd_undo(btl_ib_cwnd_t *cwnd);

#endif
