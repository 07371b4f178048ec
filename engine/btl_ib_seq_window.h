/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Windows of sequences, of one channel: the ring of segments in flight, the bitmap of what was
 * received, and runs that got RNR. Congestion windows are in btl_ib_cc.h, credits in
 * btl_ib_credit.h. */

#ifndef BTL_IB_SEQ_WINDOW_H
#define BTL_IB_SEQ_WINDOW_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_pool.h"

/* ---- windows ---- */

/*
 * The two ends of a sequence space. Sequences are 32 bits and wrap; comparisons hold as long as the
 * numbers compared are less than 2^31 apart (RFC 1982), which the window limit guarantees.
 */

static inline bool btl_ib_seq_before(uint32_t a, uint32_t b)
{
    return (int32_t) (a - b) < 0;
}

/* ---- the sending side: what is in flight, by sequence ---- */

typedef struct btl_ib_tx_window {
    uint32_t first; /* the oldest sequence not acknowledged */
    uint32_t next;  /* the next new one */
    uint32_t size;  /* places in the ring: 0 or a power of two */
    void **ring;
} btl_ib_tx_window_t;

static inline void btl_ib_tx_window_init(btl_ib_tx_window_t *window, uint32_t first)
{
    *window = (btl_ib_tx_window_t){.first = first, .next = first};
}

/* Does the part of btl_ib_tx_window_reserve() that needs memory. */
int btl_ib_tx_window_grow(btl_ib_tx_window_t *window, const btl_ib_mem_t *mem);

/* Reserves places for the next `count` sequences, all but the last of which have one already.
 * Returns 0 or -ENOMEM. */
static inline int btl_ib_tx_window_reserve(btl_ib_tx_window_t *window, uint32_t count,
                                           const btl_ib_mem_t *mem)
{
    return window->next - window->first + count <= window->size
               ? 0
               : btl_ib_tx_window_grow(window, mem);
}

/* Returns the number of sequences for which there are places. */
static inline uint32_t btl_ib_tx_window_room(const btl_ib_tx_window_t *window)
{
    return window->size - (window->next - window->first);
}

/* Gives the next `count` sequences to segments; places were reserved. Each is then to be put there.
 * Returns the first. */
static inline uint32_t btl_ib_tx_window_extend(btl_ib_tx_window_t *window, uint32_t count)
{
    const uint32_t first = window->next;

    assert(first - window->first + count <= window->size);
    window->next += count;
    return first;
}

/* Puts `segment` (not NULL) in the place of its sequence. */
static inline void btl_ib_tx_window_put(const btl_ib_tx_window_t *window, uint32_t seq,
                                        void *segment)
{
    window->ring[seq & (window->size - 1)] = segment;
}

static inline void *btl_ib_tx_window_get(const btl_ib_tx_window_t *window, uint32_t seq)
{
    return window->ring[seq & (window->size - 1)];
}

/* Takes the newest sequence back: it was never sent. */
static inline void btl_ib_tx_window_unpush(btl_ib_tx_window_t *window)
{
    assert(window->next != window->first);
    window->next--;
    window->ring[window->next & (window->size - 1)] = NULL;
}

/* Skips `count` sequences for good (negative: take that back). Only while nothing is in flight. */
static inline void btl_ib_tx_window_jump(btl_ib_tx_window_t *window, int32_t count)
{
    assert(window->first == window->next);
    window->first += (uint32_t) count;
    window->next += (uint32_t) count;
}

/* Returns the segment that is in flight under `seq`, or NULL (acknowledged, or never sent). */
static inline void *btl_ib_tx_window_at(const btl_ib_tx_window_t *window, uint32_t seq)
{
    return seq - window->first < window->next - window->first ? btl_ib_tx_window_get(window, seq)
                                                              : NULL;
}

/* Removes the segments of `count` sequences from `seq` on, which were acknowledged, selectively or
 * not. All of them are there. */
static inline void btl_ib_tx_window_clear(btl_ib_tx_window_t *window, uint32_t seq, uint32_t count)
{
    void **ring = window->ring;
    const uint32_t mask = window->size - 1;
    uint32_t first = window->first;

    if (seq == first) { /* outside of the window places are not looked at */
        first += count;
    } else {
        for (uint32_t i = 0; i < count; i++) {
            ring[(seq + i) & mask] = NULL;
        }
    }
    while (first != window->next && ring[first & mask] == NULL) {
        first++;
    }
    window->first = first;
}

/* Frees the ring if nothing is in flight. */
void btl_ib_tx_window_shrink(btl_ib_tx_window_t *window, const btl_ib_mem_t *mem);

/* Frees the ring in any case: its segments are freed elsewhere. */
void btl_ib_tx_window_drop(btl_ib_tx_window_t *window, const btl_ib_mem_t *mem);

/* ---- the receiving side: what arrived ahead of a gap, as a ring of bits ---- */

typedef struct btl_ib_rx_window {
    uint32_t next;  /* the oldest sequence still missing */
    uint32_t top;   /* one above the highest received; `next` if nothing is ahead of a gap */
    uint32_t above; /* how many arrived ahead of a gap */
    uint32_t bits;  /* size of the map: 64 or a larger power of two */
    uint64_t small; /* the map while 64 bits are enough */
    uint64_t *map;
} btl_ib_rx_window_t;

typedef enum btl_ib_seq_class {
    BTL_IB_SEQ_NEW,
    BTL_IB_SEQ_DUPLICATE,
    BTL_IB_SEQ_OUTSIDE, /* further away than BTL_IB_WINDOW_LIMIT in either direction */
} btl_ib_seq_class_t;

void btl_ib_rx_window_init(btl_ib_rx_window_t *window, uint32_t first);

btl_ib_seq_class_t btl_ib_rx_window_classify(const btl_ib_rx_window_t *window, uint32_t seq);

/* Reserves a place for a NEW `seq`. Returns 0 or -ENOMEM (the segment must then get RNR). */
int btl_ib_rx_window_reserve(btl_ib_rx_window_t *window, uint32_t seq, const btl_ib_mem_t *mem);

/* Marks a NEW `seq`, for which a place was reserved, as received. */
void btl_ib_rx_window_mark(btl_ib_rx_window_t *window, uint32_t seq);

/* Notes that the next `count` sequences, too, were received. If there are any, nothing is ahead of
 * a gap. */
static inline void btl_ib_rx_window_advance(btl_ib_rx_window_t *window, uint32_t count)
{
    assert(count == 0 || window->above == 0);
    if (count > 0) {
        window->next += count;
        window->top = window->next;
    }
}

/*
 * Finds the first run of received sequences [*from, *to) that starts at or after `*from`, which
 * must not be before window->next. Returns false if there is none.
 */
bool btl_ib_rx_window_range(const btl_ib_rx_window_t *window, uint32_t *from, uint32_t *to);

/* Frees a large map if nothing is ahead of a gap. */
void btl_ib_rx_window_shrink(btl_ib_rx_window_t *window, const btl_ib_mem_t *mem);

/* Frees a large map in any case. */
void btl_ib_rx_window_drop(btl_ib_rx_window_t *window, const btl_ib_mem_t *mem);

/* ---- runs of RNR ---- */

/* Runs of sequences that arrived, got RNR, and are still missing. ACKs name them, so that the
 * sender does not take them for lost. */

/* Most runs that are kept. A further one is not: the sender takes it for lost. */
#define BTL_IB_RNR_RUNS 32

typedef struct btl_ib_rnr_run {
    uint32_t from;
    uint32_t end;
    uint32_t channel;
} btl_ib_rnr_run_t;

typedef struct btl_ib_rnr_runs {
    uint32_t count;
    bool more;         /* some were not kept */
    uint32_t last_seq; /* what got RNR last */
    uint32_t last_channel;
    btl_ib_rnr_run_t run[BTL_IB_RNR_RUNS];
} btl_ib_rnr_runs_t;

/* Adds a sequence that is in no run and got RNR. */
void btl_ib_rnr_runs_add(btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t seq);

/* Removes a sequence that may be in a run and is not missing any more. */
void btl_ib_rnr_runs_take(btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t seq);

/* Returns how many sequences of a channel from `from` on and before `to` got RNR; all, if some were
 * not kept. */
uint32_t btl_ib_rnr_runs_within(const btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t from,
                                uint32_t to);

/* Returns the run that an ACK with `room` bytes for runs begins with; runs->count if there is
 * none. */
uint32_t btl_ib_rnr_runs_first(const btl_ib_rnr_runs_t *runs, uint32_t room);

#endif
