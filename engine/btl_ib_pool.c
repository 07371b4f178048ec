/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_pool.h"

#include "btl_ib_list.h"

#include <assert.h>

/* ---- pool ---- */

/* Bytes: headers and short messages; a datagram of Ethernet's usual MTU of 1500. */
#define BTL_IB_SEGMENT_MEDIUM 1536u

enum {
    SLAB_BYTES = 64 * 1024, /* size of a slab, about */
    SLAB_MIN = 4,           /* segments, if they are large */
    SLAB_MAX = 64,
    ALIGN = 8,
};

typedef struct slab {
    btl_ib_list_t link;
    void *handle;
    btl_ib_segment_t segments[];
} slab_t;

static uint32_t buffer_size(const btl_ib_transport_attr_t *attr, int kind)
{
    static const uint32_t sizes[BTL_IB_SEGMENT_KINDS] = {BTL_IB_SEGMENT_SMALL,
                                                         BTL_IB_SEGMENT_MEDIUM, UINT32_MAX};

    return btl_ib_min_u32(attr->max_datagram, sizes[kind]);
}

void btl_ib_pool_init(btl_ib_pool_t *pool, const btl_ib_mem_t *mem, btl_ib_transport_t *transport,
                      uint32_t limit)
{
    *pool = (btl_ib_pool_t){.mem = mem, .transport = transport, .limit = limit};
    for (int i = 0; i < BTL_IB_SEGMENT_KINDS; i++) {
        pool->kind[i].size = buffer_size(&transport->attr, i);
        btl_ib_list_init(&pool->kind[i].free);
    }
    btl_ib_list_init(&pool->slabs);
}

void btl_ib_pool_fini(btl_ib_pool_t *pool)
{
    slab_t *slab;

    while ((slab = BTL_IB_LIST_POP(slab_t, &pool->slabs, link)) != NULL) {
        if (slab->handle != NULL) {
            pool->transport->ops->mem_deregister(pool->transport, slab->handle);
        }
        btl_ib_free(pool->mem, slab);
    }
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Returns the buffers of a slab, behind its segments. If they are registered, they begin on a
 * page. */
static uint8_t *slab_buffers(slab_t *slab, uint32_t count, uint32_t page)
{
    uintptr_t end = (uintptr_t) &slab->segments[count];

    return (uint8_t *) &slab->segments[count] + (round_up(end, page > 0 ? page : 1) - end);
}

static uint32_t headroom_of(const btl_ib_transport_attr_t *attr)
{
    return (uint32_t) round_up(attr->headroom, ALIGN);
}

/* Returns the bytes from one buffer to the next. */
static uint32_t stride_of(const btl_ib_transport_attr_t *attr, uint32_t size)
{
    return headroom_of(attr) + (uint32_t) round_up(size, ALIGN);
}

/* Returns the segments of a slab, if no more than `left` may be made. */
static uint32_t slab_count(uint32_t stride, uint32_t left)
{
    const uint32_t count = SLAB_BYTES / stride;

    return btl_ib_min_u32(count < SLAB_MIN ? SLAB_MIN : count > SLAB_MAX ? SLAB_MAX : count, left);
}

/* Returns the bytes of a slab's buffers, and of all of it. */
static size_t buffer_bytes(uint32_t count, uint32_t stride, uint32_t page)
{
    return round_up((size_t) count * stride, page > 0 ? page : 1);
}

static size_t slab_bytes(uint32_t count, uint32_t stride, uint32_t page)
{
    return sizeof(slab_t) + count * sizeof(btl_ib_segment_t) + page
           + buffer_bytes(count, stride, page);
}

void btl_ib_pool_memory_estimate(const btl_ib_transport_attr_t *attr, uint32_t limit, bool used,
                                 btl_ib_memory_estimate_t *estimate)
{
    static const char *const names[BTL_IB_SEGMENT_KINDS] = {"small", "medium", "large"};

    for (int kind = 0; kind < BTL_IB_SEGMENT_KINDS; kind++) {
        const uint32_t size = buffer_size(attr, kind);
        const uint32_t stride = stride_of(attr, size);
        const uint32_t count = slab_count(stride, limit);
        /* All go to the first kind that is large enough. */
        const bool apart = kind == 0 || size > buffer_size(attr, kind - 1);
        const uint64_t slab = apart ? slab_bytes(count, stride, attr->registered_page) : 0;

        btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, used ? slab : 0,
                            (limit + count - 1) / count * slab, "segments to send, %s",
                            names[kind]);
    }
}

/* Adds a slab of segments. False if there is no memory for it. Rarely called, hence not inlined:
 * the common path then saves no registers. */
__attribute__((noinline)) static bool add_slab(btl_ib_pool_t *pool, int kind)
{
    const btl_ib_transport_attr_t *attr = &pool->transport->attr;
    const uint32_t page = attr->registered_page;
    const uint32_t headroom = headroom_of(attr);
    const uint32_t stride = stride_of(attr, pool->kind[kind].size);
    const uint32_t count = slab_count(stride, pool->limit - pool->kind[kind].made);
    const size_t buffers = buffer_bytes(count, stride, page);
    slab_t *slab = btl_ib_zalloc(pool->mem, slab_bytes(count, stride, page));
    if (slab == NULL) {
        return false;
    }
    uint8_t *base = slab_buffers(slab, count, page);
    if (page > 0
        && pool->transport->ops->mem_register(pool->transport, base, buffers, &slab->handle) != 0) {
        btl_ib_free(pool->mem, slab);
        return false;
    }
    btl_ib_list_init(&slab->link);
    btl_ib_list_push_tail(&pool->slabs, &slab->link);
    for (uint32_t i = 0; i < count; i++) {
        btl_ib_segment_t *segment = &slab->segments[i];
        segment->pool = pool;
        segment->mem = slab->handle;
        segment->wire = base + (size_t) i * stride + headroom;
        segment->kind = (uint8_t) kind;
        btl_ib_list_init(&segment->link);
        btl_ib_list_push_tail(&pool->kind[kind].free, &segment->link);
    }
    pool->kind[kind].made += count;
    return true;
}

bool btl_ib_pool_grow(btl_ib_pool_t *pool, int kind)
{
    return pool->kind[kind].made < pool->limit && add_slab(pool, kind);
}

/* Loads a segment into the cache, where it is to be written. Segments come back in any order, so
 * those of a burst lie anywhere; where many are in flight each would be waited for. NULL is
 * allowed, as no address faults that is prefetched. */
static inline void prefetch(const btl_ib_segment_t *segment)
{
    enum { LINE = 64 }; /* bytes */

    for (size_t at = 0; at < sizeof(*segment); at += LINE) {
        __builtin_prefetch((const void *) ((uintptr_t) segment + at), 1);
    }
}

uint32_t btl_ib_pool_take(const btl_ib_segment_t *like, uint32_t size, uint32_t step,
                          btl_ib_segment_t **segments, uint32_t most)
{
    enum {
        FROM = offsetof(btl_ib_segment_t, iov),
        TO = offsetof(btl_ib_segment_t, copies) + sizeof(like->copies),
        AHEAD = 8,
    };
    btl_ib_list_t *free = &like->pool->kind[btl_ib_pool_kind(like->pool, size)].free;
    btl_ib_list_t *item = free->next;
    uint8_t same[TO - FROM]; /* here it stays in registers */
    uint8_t *bytes = like->iov[0].iov_base;
    uint32_t count = 0;

    memcpy(same, (const uint8_t *) like + FROM, sizeof(same));
    while (count < most && item != free) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        btl_ib_list_t *next = item->next;
        prefetch(segment->ahead);
        if (count >= AHEAD) {
            segments[count - AHEAD]->ahead = segment;
        }
        memcpy((uint8_t *) segment + FROM, same, sizeof(same));
        bytes += step;
        segment->iov[0].iov_base = bytes;
        segment->continues = true;
        segments[count++] = segment;
        btl_ib_list_init(item);
        item = next;
    }
    btl_ib_list_join(free, item);
    return count;
}

void btl_ib_pool_sent(btl_ib_segment_t *segment)
{
    segment->busy = false;
    if (segment->done) {
        btl_ib_pool_free(segment);
    }
}
