/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_reasm.h"

#include "btl_ib_burst.h"
#include "btl_ib_seq_window.h"
#include "btl_ib_list.h"

#include <string.h>

enum {
    IDLE_MAX = 16,   /* buffers of the largest size kept, or as much memory in smaller ones */
    SMALLEST = 8192, /* bytes that the smallest buffer holds; each next size holds twice as many */
    UNIT_MIN = 4,    /* bytes of the smallest chunk that the smallest queue makes */
};

/* Returns the bytes of the bitmap behind the data of a buffer. */
static uint32_t map_bytes(uint32_t total, uint32_t unit)
{
    return (total / unit + 64) / 64 * 8;
}

static uint32_t data_bytes(uint32_t size)
{
    return (size + 7) / 8 * 8;
}

uint64_t btl_ib_reasm_bytes(uint32_t size)
{
    return sizeof(btl_ib_reasm_t) + data_bytes(size) + map_bytes(size, UNIT_MIN);
}

/* Returns the bytes that a buffer of `kind` holds, where `longest` is the longest message. */
static uint32_t capacity(uint32_t longest, uint32_t kind)
{
    return kind == BTL_IB_REASM_KINDS - 1 ? longest
                                          : btl_ib_min_u32((uint32_t) SMALLEST << kind, longest);
}

uint64_t btl_ib_reasm_bytes_least(uint32_t longest)
{
    return btl_ib_reasm_bytes(capacity(longest, 0));
}

void btl_ib_reasm_pool_fini(btl_ib_reasm_pool_t *pool)
{
    btl_ib_reasm_t *reasm;

    for (uint32_t kind = 0; kind < BTL_IB_REASM_KINDS; kind++) {
        while ((reasm = BTL_IB_LIST_POP(btl_ib_reasm_t, &pool->idle[kind], link)) != NULL) {
            btl_ib_free(pool->mem, reasm);
        }
    }
    pool->idle_bytes = 0;
}

static btl_ib_reasm_t *take_buffer(btl_ib_reasm_pool_t *pool, uint32_t total)
{
    uint32_t kind = 0;

    while (capacity(pool->size, kind) < total) {
        kind++;
    }
    btl_ib_reasm_t *reasm = BTL_IB_LIST_POP(btl_ib_reasm_t, &pool->idle[kind], link);
    const uint32_t size = capacity(pool->size, kind);
    const uint64_t bytes = btl_ib_reasm_bytes(size);

    if (reasm != NULL) {
        pool->idle_bytes -= bytes;
        return reasm;
    }
    reasm = btl_ib_zalloc(pool->mem, (size_t) bytes);
    if (reasm != NULL) {
        btl_ib_list_init(&reasm->link);
        reasm->kind = (uint8_t) kind;
        reasm->have = (uint64_t *) (void *) (reasm->data + data_bytes(size));
    }
    return reasm;
}

static btl_ib_reasm_t *find_fragment(const btl_ib_list_t *fragments, uint32_t fragment)
{
    BTL_IB_LIST_FOREACH (btl_ib_reasm_t, reasm, fragments, link) {
        if (reasm->fragment == fragment) {
            return reasm;
        }
    }
    return NULL;
}

/* True if one of the fragments uses the peer's own buffer. */
static bool has_own(const btl_ib_list_t *fragments)
{
    BTL_IB_LIST_FOREACH (const btl_ib_reasm_t, reasm, fragments, link) {
        if (!reasm->extra) {
            return true;
        }
    }
    return false;
}

/* True if this fragment may have the peer's own buffer: that is free, and the fragment the
 * oldest. */
static bool may_have_own(const btl_ib_reasm_peer_t *peer, uint32_t fragment)
{
    return fragment == peer->finished.next && !has_own(&peer->fragments)
           && !has_own(&peer->of_ended);
}

static uint32_t count_extra(const btl_ib_list_t *fragments)
{
    uint32_t extra = 0;

    BTL_IB_LIST_FOREACH (const btl_ib_reasm_t, reasm, fragments, link) {
        extra += reasm->extra;
    }
    return extra;
}

/* True if a fragment of this peer may have one of the buffers that all share. What is being handed
 * up is not counted any more. */
static bool may_have_extra(const btl_ib_reasm_pool_t *pool, const btl_ib_reasm_peer_t *peer)
{
    return pool->extra < pool->extra_max
           && (pool->peer_max == 0
               || count_extra(&peer->fragments) + count_extra(&peer->of_ended) < pool->peer_max);
}

bool btl_ib_reasm_room(const btl_ib_reasm_pool_t *pool, const btl_ib_reasm_peer_t *peer,
                       uint32_t fragment)
{
    return may_have_extra(pool, peer) || may_have_own(peer, fragment)
           || find_fragment(&peer->fragments, fragment) != NULL;
}

static btl_ib_reasm_t *begin_fragment(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer,
                                      const btl_ib_view_t *view)
{
    bool own = may_have_own(peer, view->chunk.fragment);
    btl_ib_reasm_t *reasm;

    if ((!own && !may_have_extra(pool, peer))
        || btl_ib_rx_window_reserve(&peer->finished, view->chunk.fragment, pool->mem) != 0
        || (reasm = take_buffer(pool, view->chunk.total)) == NULL) {
        return NULL;
    }
    reasm->extra = !own;
    pool->extra += reasm->extra;
    reasm->fragment = view->chunk.fragment;
    reasm->total = view->chunk.total;
    reasm->unit = view->chunk.unit;
    reasm->missing = (reasm->total - 1) / reasm->unit + 1;
    memset(reasm->have, 0, map_bytes(reasm->total, reasm->unit));
    btl_ib_list_push_tail(&peer->fragments, &reasm->link);
    return reasm;
}

btl_ib_reasm_t *btl_ib_reasm_next(btl_ib_reasm_peer_t *peer)
{
    if (peer->busy) {
        return NULL;
    }
    btl_ib_reasm_t *reasm = BTL_IB_LIST_POP(btl_ib_reasm_t, &peer->of_ended, link);
    if (reasm != NULL) {
        return reasm;
    }
    reasm = find_fragment(&peer->fragments, peer->finished.next);
    if (reasm == NULL || reasm->missing > 0) {
        return NULL;
    }
    btl_ib_list_remove(&reasm->link);
    btl_ib_rx_window_mark(&peer->finished, reasm->fragment);
    return reasm;
}

/* ---- the bitmap of chunks that are there ---- */

/* Returns the bits of a word of the bitmap that are of chunks `first` to `last`. */
static uint64_t bits_of(uint32_t word, uint32_t first, uint32_t last)
{
    const uint64_t above = word == first / 64 ? UINT64_MAX << (first % 64) : UINT64_MAX;
    const uint64_t below = word == last / 64 ? UINT64_MAX >> (63 - last % 64) : UINT64_MAX;

    return above & below;
}

static bool any_set(const btl_ib_reasm_t *reasm, uint32_t first, uint32_t last)
{
    for (uint32_t word = first / 64; word <= last / 64; word++) {
        if (reasm->have[word] & bits_of(word, first, last)) {
            return true;
        }
    }
    return false;
}

static void set_bits(btl_ib_reasm_t *reasm, uint32_t first, uint32_t last)
{
    for (uint32_t word = first / 64; word <= last / 64; word++) {
        reasm->have[word] |= bits_of(word, first, last);
    }
}

btl_ib_reasm_result_t btl_ib_reasm_add(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer,
                                       const btl_ib_view_t *view)
{
    if (view->chunk.total > pool->size || view->chunk.unit < UNIT_MIN
        || btl_ib_rx_window_classify(&peer->finished, view->chunk.fragment) != BTL_IB_SEQ_NEW) {
        return BTL_IB_REASM_WRONG;
    }
    btl_ib_reasm_t *reasm = find_fragment(&peer->fragments, view->chunk.fragment);
    if (reasm == NULL && (reasm = begin_fragment(pool, peer, view)) == NULL) {
        return BTL_IB_REASM_RNR;
    }
    const uint32_t last = view->chunk.index + btl_ib_burst_count(view) - 1;
    if (reasm->total != view->chunk.total || reasm->unit != view->chunk.unit
        || any_set(reasm, view->chunk.index, last)) {
        return BTL_IB_REASM_WRONG;
    }
    set_bits(reasm, view->chunk.index, last);
    (void) btl_ib_burst_place(view, reasm->data + view->chunk.offset);
    reasm->missing -= btl_ib_burst_count(view);
    if (reasm->missing > 0) {
        return BTL_IB_REASM_STORED;
    }
    reasm->tag = view->tag;
    return reasm->fragment == peer->finished.next ? BTL_IB_REASM_COMPLETE : BTL_IB_REASM_STORED;
}

void btl_ib_reasm_put(btl_ib_reasm_pool_t *pool, btl_ib_reasm_t *reasm)
{
    const uint64_t bytes = btl_ib_reasm_bytes(capacity(pool->size, reasm->kind));

    pool->extra -= reasm->extra;
    if (pool->idle_bytes + bytes > IDLE_MAX * btl_ib_reasm_bytes(pool->size)) {
        btl_ib_free(pool->mem, reasm);
    } else {
        btl_ib_list_push_head(&pool->idle[reasm->kind], &reasm->link);
        pool->idle_bytes += bytes;
    }
}

void btl_ib_reasm_peer_init(btl_ib_reasm_peer_t *peer)
{
    btl_ib_list_init(&peer->fragments);
    btl_ib_list_init(&peer->of_ended);
    btl_ib_rx_window_init(&peer->finished, 0);
    peer->busy = false;
}

/* Returns the oldest fragment; NULL if there is none. */
static btl_ib_reasm_t *oldest(const btl_ib_list_t *fragments)
{
    btl_ib_reasm_t *first = NULL;

    BTL_IB_LIST_FOREACH (btl_ib_reasm_t, reasm, fragments, link) {
        if (first == NULL || btl_ib_seq_before(reasm->fragment, first->fragment)) {
            first = reasm;
        }
    }
    return first;
}

/* Gives up what is not complete. `busy` stays: the fragment that is being delivered was not
 * returned yet. */
void btl_ib_reasm_end(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer)
{
    btl_ib_reasm_t *reasm;

    while ((reasm = oldest(&peer->fragments)) != NULL) {
        btl_ib_list_remove(&reasm->link);
        if (reasm->missing > 0) {
            btl_ib_reasm_put(pool, reasm);
        } else {
            btl_ib_list_push_tail(&peer->of_ended, &reasm->link);
        }
    }
    btl_ib_rx_window_drop(&peer->finished, pool->mem);
    btl_ib_rx_window_init(&peer->finished, 0);
}

void btl_ib_reasm_drop(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer)
{
    btl_ib_reasm_t *reasm;

    btl_ib_reasm_end(pool, peer);
    while ((reasm = BTL_IB_LIST_POP(btl_ib_reasm_t, &peer->of_ended, link)) != NULL) {
        btl_ib_reasm_put(pool, reasm);
    }
}
