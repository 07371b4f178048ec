/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * CUBIC (RFC 9438): after a loss the window grows along a cubic curve of time, flat around where
 * the loss was, so that it does not depend on the round trip. Losses reduce it to 7/10, once
 * for each round trip; random losses cost it accordingly. Undone when they turn out to have
 * been none (RFC 9438, 4.9). Windows are in segments, times in us.
 */

#include "btl_ib_cc.h"
#include "btl_ib_list.h"

enum {
    WINDOW_MIN = 2,
    CURVE_TIME = 1000000, /* us: the unit of time of the curve */
};

/* Returns the cube root, rounded down. */
static uint64_t cube_root(uint64_t x)
{
    uint64_t result = 0;

    for (uint64_t bit = UINT64_C(1) << 20; bit != 0; bit >>= 1) {
        uint64_t next = result + bit;
        if (next * next * next <= x) {
            result = next;
        }
    }
    return result;
}

static void set_window(btl_ib_cc_t *cc, uint32_t window)
{
    cc->window = btl_ib_min_u32(btl_ib_max_u32(window, WINDOW_MIN), cc->max);
}

static void cubic_init(btl_ib_cc_t *cc)
{
    cc->cubic.threshold = cc->max;
    set_window(cc, BTL_IB_CC_INIT);
}

/* Begins the first growth after a loss: K = cbrt((W_max - cwnd) / C), C = 0.4 (figure 2 and
 * 4.2). */
static void begin_epoch(btl_ib_cc_t *cc, uint64_t now)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;

    cubic->epoch = now;
    cubic->friendly = cc->window;
    cubic->friendly_acked = 0;
    cubic->top = btl_ib_max_u32(cubic->top, cc->window);
    /* In units of 1/1000 s: cbrt(x / 0.4 * 1e9). */
    cubic->k = cube_root((uint64_t) (cubic->top - cc->window) * 2500000000u) * 1000;
}

/* Computes W_cubic(t) = C (t - K)^3 + W_max (4.2). */
static uint32_t curve(const btl_ib_cc_cubic_t *cubic, uint64_t t)
{
    bool below = t < cubic->k;
    uint64_t ms = (below ? cubic->k - t : t - cubic->k) / (CURVE_TIME / 1000);

    ms = ms < 1000000 ? ms : 1000000;
    uint64_t gap = ms * ms * ms / 2500000000u;
    if (below) {
        return gap < cubic->top ? cubic->top - (uint32_t) gap : 0;
    }
    return cubic->top + (uint32_t) (gap < INT32_MAX ? gap : INT32_MAX);
}

/* Computes the window of a Reno sender in our place: + 3 (1 - beta) / (1 + beta) = 9/17 for each
 * window acknowledged until it is back at W_max, then + 1 (4.3). */
static void reno_friendly(btl_ib_cc_t *cc, uint32_t count)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;
    uint32_t each = cubic->friendly < cubic->top ? cc->window * 17 / 9 : cc->window;

    cubic->friendly_acked += count;
    if (cubic->friendly_acked >= each) {
        cubic->friendly_acked -= each;
        cubic->friendly++;
    }
}

static void avoid(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;

    if (cubic->epoch == 0) {
        begin_epoch(cc, ack->now);
    }
    reno_friendly(cc, ack->count);
    /* The value of the curve one round trip from now, at most 1.5 windows (4.2). */
    uint32_t target = curve(cubic, ack->now - cubic->epoch + cubic->rtt);
    target = btl_ib_min_u32(btl_ib_max_u32(target, cc->window), cc->window + cc->window / 2);
    cubic->acked += ack->count;
    if (target > cc->window) {
        uint32_t each = btl_ib_max_u32(cc->window / (target - cc->window), 1);
        uint32_t more = cubic->acked / each;
        cubic->acked -= more * each;
        set_window(cc, btl_ib_min_u32(cc->window + more, target));
    } else {
        cubic->acked = btl_ib_min_u32(cubic->acked, cc->window);
    }
    if (cubic->friendly > cc->window) {
        set_window(cc, cubic->friendly);
    }
}

static btl_ib_cc_round_t cubic_acked(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;

    if (ack->rtt != 0) {
        cubic->rtt = cubic->rtt == 0 ? ack->rtt : (7 * cubic->rtt + ack->rtt) / 8;
    }
    if (!ack->limited) { /* an unused window says nothing about the path (RFC 9438, 5.8) */
        cubic->epoch = 0;
    } else if (cc->window < cubic->threshold) {
        set_window(cc, cc->window + ack->count);
    } else {
        avoid(cc, ack);
    }
    return BTL_IB_CC_ROUND_NONE;
}

/* Reduces the window to that share of it, in 1/20. */
static void reduce(btl_ib_cc_t *cc, uint32_t share, uint64_t now)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;

    cubic->recovery = now;
    /* Fast convergence (4.7): a sender that had more before leaves room for others. */
    cubic->top = cc->window < cubic->top ? cc->window * 17 / 20 : cc->window;
    set_window(cc, cc->window * share / 20);
    cubic->threshold = cc->window;
    cubic->epoch = 0;
    cubic->acked = 0;
}

static void cubic_lost(btl_ib_cc_t *cc, uint64_t sent_at, uint64_t now)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;

    if (sent_at >= cubic->recovery) {
        cubic->undo = cc->window;
        cubic->undo_threshold = cubic->threshold;
        cubic->undo_top = cubic->top;
        reduce(cc, 14, now);
    }
}

/* Reduces the window by less than a loss does, as queues that mark are shorter than those that drop
 * (RFC 8511). */
static bool cubic_marked(btl_ib_cc_t *cc, const btl_ib_cc_marks_t *marks)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;

    if (marks->ce == 0 || marks->sent_at < cubic->recovery) {
        return false;
    }
    cubic->undo = 0;
    reduce(cc, 17, marks->now);
    return true;
}

static void cubic_undo(btl_ib_cc_t *cc)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;

    if (cubic->undo != 0) {
        set_window(cc, btl_ib_max_u32(cubic->undo, cc->window));
        cubic->threshold = cubic->undo_threshold;
        cubic->top = cubic->undo_top;
        cubic->epoch = 0;
        cubic->undo = 0;
    }
}

static void cubic_restart(btl_ib_cc_t *cc)
{
    btl_ib_cc_cubic_t *cubic = &cc->cubic;

    cubic->epoch = 0;
    if (cc->window > BTL_IB_CC_INIT) {
        cubic->threshold = btl_ib_max_u32(cubic->threshold, cc->window);
        set_window(cc, BTL_IB_CC_INIT);
    }
}

const btl_ib_cc_ops_t btl_ib_cc_cubic = {
    .name = "cubic",
    .init = cubic_init,
    .acked = cubic_acked,
    .lost = cubic_lost,
    .marked = cubic_marked,
    .undo = cubic_undo,
    .restart = cubic_restart,
};
