/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_reasm.h"

#include "btl_ib_seq_window.h"
#include "btl_ib_list.h"

#include <string.h>

/* ---- bursts: segments that arrive as one call's ---- */

/* So many segments may follow before the message or operation ends, each as long as the first. A
 * shorter one at the end does not count. */
static uint32_t segments_left(const btl_ib_view_t *view)
{
    uint64_t bytes;

    switch (view->type) {
    case BTL_IB_TYPE_CHUNK:
        bytes = view->size == view->chunk.unit ? view->chunk.total - view->chunk.offset : 0;
        break;
    case BTL_IB_TYPE_PUT:
        bytes = view->op.end - view->op.offset;
        break;
    case BTL_IB_TYPE_GOT: /* its end is checked with the operation */
        return UINT32_MAX;
    default:
        return 0;
    }
    return view->size == 0 || bytes <= view->size
               ? 0
               : btl_ib_clip_u32(bytes / view->size - 1, UINT32_MAX);
}

/* The 64 bits there, as a number. */
static inline uint64_t word_at(const uint8_t *header, size_t offset)
{
    uint64_t word;

    memcpy(&word, header + offset, sizeof(word));
    return BTL_IB_LE64(word);
}

/* Of `size` bytes of two headers: 0 if they are the same, but that the last 64 bits of the second
 * are `more` higher. */
static inline uint64_t difference(const uint8_t *first, const uint8_t *other, size_t size,
                                  uint64_t more)
{
    const size_t last = size - sizeof(uint64_t); /* may overlap the word before */
    uint64_t all = word_at(other, last) ^ (word_at(first, last) + more);

    for (size_t at = 0; at < last; at += sizeof(uint64_t)) {
        all |= word_at(other, at) ^ word_at(first, at);
    }
    return all;
}

/* Everything in the header is the same, but the sequence, which is `n` higher. */
static inline bool continues(const uint8_t *first, const uint8_t *other, uint32_t n)
{
    const size_t end = offsetof(btl_ib_wire_header_t, seq) + sizeof(uint32_t);

    return (difference(first, other, end, (uint64_t) n << 32)
            | difference(first + end, other + end, sizeof(btl_ib_wire_header_t) - end, 0))
           == 0;
}

/* The index is the lower part of the upper half. */
static inline bool chunk_continues(const uint8_t *first, const uint8_t *other, uint32_t n)
{
    return difference(first, other, sizeof(btl_ib_wire_chunk_t), (uint64_t) n << 32) == 0;
}

static bool target_continues(const uint8_t *first, const uint8_t *other, uint64_t bytes)
{
    const size_t end = offsetof(btl_ib_wire_target_t, offset) + sizeof(uint64_t);

    return (difference(first, other, end, bytes)
            | difference(first + end, other + end, sizeof(btl_ib_wire_target_t) - end, 0))
           == 0;
}

static bool got_continues(const btl_ib_view_t *view, const uint8_t *other, uint64_t bytes)
{
    btl_ib_wire_got_t b;

    memcpy(&b, other, sizeof(b));
    return BTL_IB_LE32(b.operation) == view->op.id
           && ((uint64_t) BTL_IB_LE32(b.offset_high) << 32 | BTL_IB_LE32(b.offset_low))
                  == view->op.offset + bytes;
}

/* Does the header of its type, too, say that these are the bytes `n` segments behind the first? */
static bool body_continues(const btl_ib_view_t *view, const uint8_t *first, const uint8_t *other,
                           uint32_t n)
{
    const uint64_t bytes = (uint64_t) n * view->size;

    return view->type == BTL_IB_TYPE_CHUNK ? chunk_continues(first, other, n)
           : view->type == BTL_IB_TYPE_PUT ? target_continues(first, other, bytes)
                                           : got_continues(view, other, bytes);
}

uint64_t btl_ib_burst_place(const btl_ib_view_t *view, uint8_t *to)
{
    const btl_ib_burst_t more = view->more;
    const uint32_t size = view->size;

    memcpy(to, view->payload, size);
    for (uint32_t i = 0; i < more.count; i++) {
        to += size;
        memcpy(to, more.events[i].data + more.head, size);
    }
    return btl_ib_burst_bytes(view);
}

void btl_ib_burst_find(btl_ib_view_t *view, const btl_ib_event_t *first, uint32_t most)
{
    const size_t header = sizeof(btl_ib_wire_header_t);
    uint32_t n = 0;

    most = btl_ib_min_u32(most, segments_left(view));
    while (n < most) {
        const btl_ib_event_t *next = first + n + 1;
        if (next->type != BTL_IB_EVENT_RECV || next->size != first->size
            || next->from != first->from || !continues(first->data, next->data, n + 1)
            || !body_continues(view, first->data + header, next->data + header, n + 1)) {
            break;
        }
        n++;
    }
    view->more = (btl_ib_burst_t){
        .events = first + 1,
        .count = n,
        .head = (uint32_t) (view->payload - first->data),
    };
}

/* ---- fragments and backlog ---- */

enum {
    IDLE_MAX = 16,   /* buffers of the largest size kept, or as much memory in smaller ones */
    SMALLEST = 8192, /* bytes that the smallest buffer holds; each next size holds twice as many */
    UNIT_MIN = 4,    /* bytes of the smallest chunk that the smallest queue makes */
};

/* Bytes of the bitmap behind the data of a buffer. */
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

/* Bytes that a buffer of `kind` holds, where `longest` is the longest message. */
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

/* Does one of them use the peer's own buffer? */
static bool has_own(const btl_ib_list_t *fragments)
{
    BTL_IB_LIST_FOREACH (const btl_ib_reasm_t, reasm, fragments, link) {
        if (!reasm->extra) {
            return true;
        }
    }
    return false;
}

/* May this fragment have the peer's own buffer: is it free, and the fragment the oldest? */
static bool may_have_own(const btl_ib_reasm_peer_t *peer, uint32_t fragment)
{
    return fragment == peer->finished.next && !has_own(&peer->fragments)
           && !has_own(&peer->of_ended);
}

bool btl_ib_reasm_room(const btl_ib_reasm_pool_t *pool, const btl_ib_reasm_peer_t *peer,
                       uint32_t fragment)
{
    return pool->extra < pool->extra_max || may_have_own(peer, fragment)
           || find_fragment(&peer->fragments, fragment) != NULL;
}

static btl_ib_reasm_t *begin_fragment(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer,
                                      const btl_ib_view_t *view)
{
    bool own = may_have_own(peer, view->chunk.fragment);
    btl_ib_reasm_t *reasm;

    if ((!own && pool->extra >= pool->extra_max)
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

/* The bits of a word of it that are of chunks `first` to `last`. */
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

/* The oldest fragment; NULL if there is none. */
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

/* `busy` stays: the fragment that is being delivered was not returned yet. */
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

/* ---- backlog ---- */

void btl_ib_backlog_fini(btl_ib_backlog_t *backlog)
{
    btl_ib_backlog_entry_t *entry;

    while ((entry = btl_ib_backlog_pop(backlog)) != NULL) {
        btl_ib_backlog_put(backlog, entry);
    }
}

btl_ib_backlog_entry_t *btl_ib_backlog_get(btl_ib_backlog_t *backlog, struct btl_ib_conn *conn,
                                           uint8_t tag, uint32_t size)
{
    /* Rounded up to 16 bytes, as a receive buffer is: Open MPI's callbacks copy headers by vector
     * instructions, which read beyond the end of a short one. */
    uint64_t cost = sizeof(btl_ib_backlog_entry_t) + ((uint64_t) size + 15) / 16 * 16;

    if (backlog->bytes + cost > backlog->bytes_max) {
        return NULL;
    }
    btl_ib_backlog_entry_t *entry = btl_ib_zalloc(backlog->mem, (size_t) cost);
    if (entry != NULL) {
        btl_ib_list_init(&entry->link);
        entry->conn = conn;
        entry->tag = tag;
        entry->size = size;
        entry->cost = (uint32_t) cost;
    }
    return entry;
}

btl_ib_backlog_entry_t *btl_ib_backlog_pop(btl_ib_backlog_t *backlog)
{
    btl_ib_backlog_entry_t *entry =
        BTL_IB_LIST_POP(btl_ib_backlog_entry_t, &backlog->messages, link);

    if (entry != NULL) {
        backlog->bytes -= entry->cost;
    }
    return entry;
}

void btl_ib_backlog_drop(btl_ib_backlog_t *backlog, const struct btl_ib_conn *conn)
{
    btl_ib_list_t *item = btl_ib_list_first(&backlog->messages);

    while (item != NULL) {
        btl_ib_backlog_entry_t *entry = BTL_IB_CONTAINER(item, btl_ib_backlog_entry_t, link);
        item = btl_ib_list_next(&backlog->messages, item);
        if (entry->conn == conn) {
            btl_ib_list_remove(&entry->link);
            backlog->bytes -= entry->cost;
            btl_ib_backlog_put(backlog, entry);
        }
    }
}

/* ---- segments in parts ---- */

static uint32_t pieces(uint32_t bytes)
{
    return (bytes + BTL_IB_PART_UNIT - 1) / BTL_IB_PART_UNIT;
}

static void discard(const btl_ib_mem_t *mem, btl_ib_refragment_t *parts)
{
    btl_ib_list_remove(&parts->link);
    btl_ib_free(mem, parts);
}

static btl_ib_refragment_t *find_whole(const btl_ib_list_t *list, uint32_t channel, uint32_t seq)
{
    BTL_IB_LIST_FOREACH (btl_ib_refragment_t, parts, list, link) {
        if (parts->channel == channel && parts->seq == seq) {
            return parts;
        }
    }
    return NULL;
}

/* Make room for a segment: the youngest of its channel is dropped, if it is younger than this one.
 * False if there is no room. */
static bool make_room(btl_ib_list_t *list, const btl_ib_mem_t *mem, const btl_ib_view_t *part)
{
    btl_ib_refragment_t *youngest = NULL;
    uint32_t count = 0;

    BTL_IB_LIST_FOREACH (btl_ib_refragment_t, parts, list, link) {
        if (parts->channel == part->channel) {
            count++;
            if (youngest == NULL || btl_ib_seq_before(youngest->seq, parts->seq)) {
                youngest = parts;
            }
        }
    }
    if (count < BTL_IB_PARTS_KEPT) {
        return true;
    }
    if (btl_ib_seq_before(youngest->seq, part->seq)) {
        return false;
    }
    discard(mem, youngest);
    return true;
}

static btl_ib_refragment_t *begin_whole(btl_ib_list_t *list, const btl_ib_mem_t *mem,
                                        const btl_ib_view_t *part)
{
    const uint32_t count = pieces(part->part.total);
    const size_t bytes = ((size_t) part->part.total + 7) & ~(size_t) 7;
    btl_ib_refragment_t *parts;

    if (!make_room(list, mem, part)
        || (parts = btl_ib_zalloc(mem, sizeof(*parts) + bytes + (count + 63) / 64 * 8)) == NULL) {
        return NULL;
    }
    btl_ib_list_init(&parts->link);
    parts->seq = part->seq;
    parts->channel = part->channel;
    parts->type = part->part.type;
    parts->tag = part->part.tag;
    parts->total = part->part.total;
    parts->missing = count;
    parts->have = (uint64_t *) (void *) (parts->data + bytes);
    btl_ib_list_push_tail(list, &parts->link);
    return parts;
}

btl_ib_refragment_result_t btl_ib_refragment_add(btl_ib_list_t *list, const btl_ib_mem_t *mem,
                                                 const btl_ib_view_t *part,
                                                 btl_ib_refragment_t **whole)
{
    btl_ib_refragment_t *parts = find_whole(list, part->channel, part->seq);

    if (parts != NULL
        && (parts->total != part->part.total || parts->type != part->part.type
            || parts->tag != part->part.tag)) { /* what its sender says now is what counts */
        discard(mem, parts);
        parts = NULL;
    }
    if (parts == NULL && (parts = begin_whole(list, mem, part)) == NULL) {
        return BTL_IB_PARTS_RNR;
    }
    const uint32_t first = part->part.offset / BTL_IB_PART_UNIT;
    const uint32_t end = first + pieces(part->size);
    for (uint32_t i = first; i < end; i++) {
        const uint64_t bit = UINT64_C(1) << (i % 64);
        parts->missing -= !(parts->have[i / 64] & bit);
        parts->have[i / 64] |= bit;
    }
    memcpy(parts->data + part->part.offset, part->payload, part->size);
    if (parts->missing > 0) {
        return BTL_IB_PARTS_KEPT_IT;
    }
    btl_ib_list_remove(&parts->link);
    *whole = parts;
    return BTL_IB_PARTS_COMPLETE;
}

void btl_ib_refragment_forget(btl_ib_list_t *list, const btl_ib_mem_t *mem, uint32_t channel,
                              uint32_t seq)
{
    btl_ib_refragment_t *parts = find_whole(list, channel, seq);

    if (parts != NULL) {
        discard(mem, parts);
    }
}

void btl_ib_refragment_drop(btl_ib_list_t *list, const btl_ib_mem_t *mem)
{
    btl_ib_refragment_t *parts;

    while ((parts = BTL_IB_LIST_POP(btl_ib_refragment_t, list, link)) != NULL) {
        btl_ib_free(mem, parts);
    }
}
