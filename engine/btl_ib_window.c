/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_window.h"

#include <assert.h>
#include <errno.h>

#include "btl_ib_wire.h"

enum { TX_RING_FIRST = 8, RX_BITS_FIRST = 64 };

void btl_ib_tx_window_init(btl_ib_tx_window_t *window, uint32_t first)
{
    *window = (btl_ib_tx_window_t){.first = first, .next = first};
}

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

void btl_ib_tx_window_unpush(btl_ib_tx_window_t *window)
{
    assert(window->next != window->first);
    window->next--;
    window->ring[window->next & (window->size - 1)] = NULL;
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

/* The first sequence in [seq, top) whose bit is `value`, or top. */
static uint32_t find(const btl_ib_rx_window_t *window, uint32_t seq, bool value)
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
    *from = find(window, *from, true);
    if (*from == window->top) {
        return false;
    }
    *to = find(window, *from, false);
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
