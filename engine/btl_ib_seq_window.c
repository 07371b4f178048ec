/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_seq_window.h"

#include "btl_ib_wire.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- windows ---- */

enum { TX_RING_FIRST = 8, RX_BITS_FIRST = 64 };

int btl_ib_tx_window_grow(btl_ib_tx_window_t *window, const btl_ib_mem_t *mem)
{
    uint32_t size = window->size == 0 ? TX_RING_FIRST : window->size * 2;
    void **ring = btl_ib_zalloc(mem, size * sizeof(*ring));
    if (ring == NULL) {
        return -ENOMEM;
    }
    for (uint32_t seq = window->first; seq != window->next; seq++) {
        ring[seq & (size - 1)] = window->ring[seq & (window->size - 1)];
    }
    btl_ib_free(mem, window->ring);
    window->ring = ring;
    window->size = size;
    return 0;
}

void btl_ib_tx_window_shrink(btl_ib_tx_window_t *window, const btl_ib_mem_t *mem)
{
    if (window->first == window->next) {
        btl_ib_tx_window_drop(window, mem);
    }
}

void btl_ib_tx_window_drop(btl_ib_tx_window_t *window, const btl_ib_mem_t *mem)
{
    btl_ib_free(mem, window->ring);
    window->ring = NULL;
    window->size = 0;
    window->first = window->next;
}

void btl_ib_rx_window_init(btl_ib_rx_window_t *window, uint32_t first)
{
    *window = (btl_ib_rx_window_t){.next = first, .top = first, .bits = RX_BITS_FIRST};
}

static bool is_set(const btl_ib_rx_window_t *window, uint32_t seq)
{
    const uint64_t *map = window->map != NULL ? window->map : &window->small;
    uint32_t bit = seq & (window->bits - 1);
    return (map[bit / 64] >> (bit % 64)) & 1;
}

btl_ib_seq_class_t btl_ib_rx_window_classify(const btl_ib_rx_window_t *window, uint32_t seq)
{
    uint32_t ahead = seq - window->next;

    if (ahead >= BTL_IB_WINDOW_LIMIT) {
        return window->next - seq <= BTL_IB_WINDOW_LIMIT ? BTL_IB_SEQ_DUPLICATE
                                                         : BTL_IB_SEQ_OUTSIDE;
    }
    if (btl_ib_seq_before(seq, window->top) && is_set(window, seq)) {
        return BTL_IB_SEQ_DUPLICATE;
    }
    return BTL_IB_SEQ_NEW;
}

int btl_ib_rx_window_reserve(btl_ib_rx_window_t *window, uint32_t seq, const btl_ib_mem_t *mem)
{
    uint32_t bits = window->bits;

    while (seq - window->next >= bits) {
        bits *= 2;
    }
    if (bits == window->bits) {
        return 0;
    }
    uint64_t *map = btl_ib_zalloc(mem, bits / 8);
    if (map == NULL) {
        return -ENOMEM;
    }
    for (uint32_t s = window->next; s != window->top; s++) {
        if (is_set(window, s)) {
            uint32_t bit = s & (bits - 1);
            map[bit / 64] |= UINT64_C(1) << (bit % 64);
        }
    }
    btl_ib_free(mem, window->map);
    window->map = map;
    window->small = 0;
    window->bits = bits;
    return 0;
}

void btl_ib_rx_window_mark(btl_ib_rx_window_t *window, uint32_t seq)
{
    uint64_t *map = window->map != NULL ? window->map : &window->small;

    assert(seq - window->next < window->bits);
    if (seq != window->next) {
        uint32_t bit = seq & (window->bits - 1);
        map[bit / 64] |= UINT64_C(1) << (bit % 64);
        window->above++;
        if (btl_ib_seq_before(window->top, seq + 1)) {
            window->top = seq + 1;
        }
        return;
    }
    window->next++;
    while (window->above > 0 && is_set(window, window->next)) {
        uint32_t bit = window->next & (window->bits - 1);
        map[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
        window->above--;
        window->next++;
    }
    if (window->above == 0) {
        window->top = window->next;
    }
}

/* Returns the first sequence in [seq, top) whose bit is `value`, or top. */
static uint32_t find_bit(const btl_ib_rx_window_t *window, uint32_t seq, bool value)
{
    const uint64_t *map = window->map != NULL ? window->map : &window->small;

    while (btl_ib_seq_before(seq, window->top)) {
        uint32_t bit = seq & (window->bits - 1);
        uint64_t word = map[bit / 64];
        word = (value ? word : ~word) >> (bit % 64);
        if (word != 0) {
            seq += (uint32_t) __builtin_ctzll(word);
            return btl_ib_seq_before(seq, window->top) ? seq : window->top;
        }
        seq += 64 - bit % 64;
    }
    return window->top;
}

bool btl_ib_rx_window_range(const btl_ib_rx_window_t *window, uint32_t *from, uint32_t *to)
{
    *from = find_bit(window, *from, true);
    if (*from == window->top) {
        return false;
    }
    *to = find_bit(window, *from, false);
    return true;
}

void btl_ib_rx_window_shrink(btl_ib_rx_window_t *window, const btl_ib_mem_t *mem)
{
    if (window->above == 0) {
        btl_ib_rx_window_drop(window, mem);
    }
}

void btl_ib_rx_window_drop(btl_ib_rx_window_t *window, const btl_ib_mem_t *mem)
{
    btl_ib_free(mem, window->map);
    window->map = NULL;
    window->small = 0;
    window->bits = RX_BITS_FIRST;
}

/* ---- runs of RNR ---- */

/* Returns the first run of a channel that ends at `seq` or after it; `count` if there is none. */
static uint32_t find_run(const btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t seq)
{
    uint32_t at = 0;

    while (
        at < runs->count
        && (runs->run[at].channel < channel
            || (runs->run[at].channel == channel && btl_ib_seq_before(runs->run[at].end, seq)))) {
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

/* Inserts a run at `at`, if there is room. */
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

void btl_ib_rnr_runs_add(btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t seq)
{
    uint32_t at = find_run(runs, channel, seq);
    btl_ib_rnr_run_t *run = &runs->run[at];
    bool touches = at < runs->count && run->channel == channel;

    runs->last_seq = seq;
    runs->last_channel = channel;
    if (touches && run->end == seq) {
        run->end++;
        if (at + 1 < runs->count && run[1].channel == channel && run[1].from == run->end) {
            run->end = run[1].end;
            remove_run(runs, at + 1);
        }
    } else if (touches && run->from == seq + 1) {
        run->from--;
    } else {
        insert_run(runs, at, &(btl_ib_rnr_run_t){.from = seq, .end = seq + 1, .channel = channel});
    }
}

void btl_ib_rnr_runs_take(btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t seq)
{
    uint32_t at = find_run(runs, channel, seq + 1);
    btl_ib_rnr_run_t *run = &runs->run[at];

    if (at == runs->count || run->channel != channel || btl_ib_seq_before(seq, run->from)) {
        return;
    }
    btl_ib_rnr_run_t rest = {.from = seq + 1, .end = run->end, .channel = channel};
    run->end = seq;
    if (run->from == run->end) {
        remove_run(runs, at--);
    }
    if (rest.from != rest.end) {
        insert_run(runs, at + 1, &rest);
    }
}

uint32_t btl_ib_rnr_runs_within(const btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t from,
                                uint32_t to)
{
    uint32_t count = 0;

    if (runs->more) {
        return to - from;
    }
    for (uint32_t i = find_run(runs, channel, from + 1); i < runs->count; i++) {
        const btl_ib_rnr_run_t *run = &runs->run[i];
        const uint32_t begin = btl_ib_seq_before(run->from, from) ? from : run->from;
        const uint32_t end = btl_ib_seq_before(run->end, to) ? run->end : to;
        if (run->channel != channel || !btl_ib_seq_before(begin, end)) {
            break;
        }
        count += end - begin;
    }
    return count;
}

/* Begins with the run of the segment that got RNR last: its sender waits to be told of it, as it
 * may have been a probe. */
uint32_t btl_ib_rnr_runs_first(const btl_ib_rnr_runs_t *runs, uint32_t room)
{
    uint32_t need = 0;

    for (uint32_t i = 0; i < runs->count; i++) {
        const bool begins = i == 0 || runs->run[i].channel != runs->run[i - 1].channel;
        need += (uint32_t) (sizeof(btl_ib_wire_range_t) + (begins ? sizeof(btl_ib_wire_ack_t) : 0));
    }
    uint32_t last = find_run(runs, runs->last_channel, runs->last_seq + 1);
    return need <= room || last == runs->count ? 0 : last;
}
