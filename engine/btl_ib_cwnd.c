/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_cwnd.h"

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void btl_ib_cwnd_init(btl_ib_cwnd_t *cwnd, uint32_t max)
{
    *cwnd = (btl_ib_cwnd_t){
        .window = min_u32(BTL_IB_CWND_INIT, max),
        .max = max,
        .threshold = max,
    };
}

void btl_ib_cwnd_acked(btl_ib_cwnd_t *cwnd, uint32_t count, bool limited)
{
    if (!limited || cwnd->window >= cwnd->max) {
        return;
    }
    if (cwnd->window < cwnd->threshold) {
        cwnd->window = min_u32(cwnd->window + count, cwnd->max);
        return;
    }
    cwnd->acked += count;
    if (cwnd->acked >= cwnd->window) {
        cwnd->acked -= cwnd->window;
        cwnd->window++;
    }
}

void btl_ib_cwnd_lost(btl_ib_cwnd_t *cwnd, uint64_t sent_at, uint64_t now)
{
    if (sent_at < cwnd->recovery) {
        return;
    }
    cwnd->recovery = now;
    cwnd->undo = cwnd->window;
    cwnd->undo_threshold = cwnd->threshold;
    uint32_t window = cwnd->window - cwnd->window / 4;
    cwnd->threshold = window;
    if (window < BTL_IB_CWND_MIN) {
        window = min_u32(BTL_IB_CWND_MIN, cwnd->max);
    }
    cwnd->window = min_u32(window, cwnd->window);
    cwnd->acked = 0;
}

void btl_ib_cwnd_undo(btl_ib_cwnd_t *cwnd)
{
    if (cwnd->undo != 0) {
        cwnd->window = cwnd->undo > cwnd->window ? cwnd->undo : cwnd->window;
        cwnd->threshold = cwnd->undo_threshold;
        cwnd->undo = 0;
    }
}
