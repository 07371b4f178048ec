/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_registration_cache.h"

#include "btl_ib_help.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>

/* ---- regions of devices ---- */

/* Withdraws a region's pieces from the device, and frees it. */
static void device_region_free(btl_ib_transport_t *transport, btl_ib_device_region_t *region)
{
    for (uint8_t i = 0; i < region->count; ++i) {
        transport->ops->rdma->withdraw(transport, region->piece[i].mem);
    }
    free(region);
}

/* Whole pages are registered. This is the smallest size that pages have. */
enum { PAGE_SHIFT = 12 };

/* Returns how many pieces a region has. */
static size_t region_pieces(uintptr_t base, size_t size, uint8_t shift)
{
    return shift == 0 ? 1 : btl_ib_device_region_piece(base, base + size - 1, shift) + 1;
}

/* Returns the shift for the pieces of a region, 0 for one piece. No piece has more than `piece_max`
 * bytes, unless that would make more than BTL_IB_PIECES_MAX pieces: then they are larger. The
 * result is the same if the region is extended to whole pages. */
static uint8_t region_plan(uintptr_t base, size_t size, uint64_t piece_max)
{
    uint8_t shift = PAGE_SHIFT;

    if (size <= piece_max) {
        return 0;
    }
    while (UINT64_C(2) << shift <= piece_max
           || region_pieces(base, size, shift) > BTL_IB_PIECES_MAX) {
        ++shift;
    }
    return shift;
}

/* Registers all pieces of a region; `access` as for btl_ib_rdma_ops_t.expose(). If that fails
 * returns NULL, and *error is the device's errno. */
static btl_ib_device_region_t *device_region_new(btl_ib_transport_t *transport, void *base,
                                                 size_t size, unsigned access, uint8_t shift,
                                                 int *error)
{
    const uint8_t count = (uint8_t) region_pieces((uintptr_t) base, size, shift);
    const uintptr_t end = (uintptr_t) base + size;
    btl_ib_device_region_t *region = malloc(sizeof(*region) + count * sizeof(region->piece[0]));
    uintptr_t from = (uintptr_t) base;

    *error = ENOMEM;
    if (region == NULL) {
        return NULL;
    }
    btl_ib_list_init(&region->link);
    atomic_init(&region->fresh, 1);
    region->base = from;
    region->size = size;
    region->shift = shift;
    for (region->count = 0; region->count < count; ++region->count) {
        const uintptr_t to = region->count == count - 1 ? end : ((from >> shift) + 1) << shift;
        const int rc = transport->ops->rdma->expose(transport, (void *) from, to - from, access,
                                                    &region->piece[region->count].mem,
                                                    &region->piece[region->count].key);
        if (rc != 0) {
            *error = -rc;
            device_region_free(transport, region);
            return NULL;
        }
        from = to;
    }
    return region;
}

/* ---- cache ---- */

/*
 * The rcache evicts with its own lock held. Memory may be unmapped, which makes the rcache take its
 * lock, while ours is held. So on_evict() must not take our lock: it only records the region
 * (`evicted`), which is withdrawn from the device soon after.
 */

/* Bytes of the smallest piece to be tried when the device refuses larger ones: if it refuses this,
 * size is not the reason. */
static const uint64_t PIECE_MIN = 1 << 20;

static_assert((int) MCA_BTL_REG_FLAG_LOCAL_WRITE == (int) MCA_RCACHE_ACCESS_LOCAL_WRITE
                  && (int) MCA_BTL_REG_FLAG_REMOTE_READ == (int) MCA_RCACHE_ACCESS_REMOTE_READ
                  && (int) MCA_BTL_REG_FLAG_REMOTE_WRITE == (int) MCA_RCACHE_ACCESS_REMOTE_WRITE
                  && (int) MCA_BTL_REG_FLAG_REMOTE_ATOMIC == (int) MCA_RCACHE_ACCESS_REMOTE_ATOMIC,
              "flags of register_mem and of the rcache are the same bits");

struct btl_ib_registration {
    mca_rcache_base_registration_t super; /* first: the rcache casts */
    btl_ib_device_region_t *region;       /* it may outlive this: see `evicted` */
};

static void count_event(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Withdraws evicted regions from the device. Called with the lock held. */
static void withdraw_evicted(btl_ib_registration_cache_t *cache)
{
    btl_ib_list_t *link;

    do {
        pthread_mutex_lock(&cache->lists);
        link = btl_ib_list_pop(&cache->evicted);
        pthread_mutex_unlock(&cache->lists);
        if (link != NULL) {
            btl_ib_device_region_t *region = BTL_IB_CONTAINER(link, btl_ib_device_region_t, link);
            btl_ib_registration_limit_release(cache->limit, region->size, region->count);
            device_region_free(cache->transport, region);
        }
    } while (link != NULL);
}

/* ---- callbacks of the rcache ---- */

static uint32_t access_of(int32_t flags)
{
    return ((flags & MCA_RCACHE_ACCESS_REMOTE_READ) != 0 ? BTL_IB_RDMA_MAY_READ : 0)
           | ((flags & MCA_RCACHE_ACCESS_REMOTE_WRITE) != 0 ? BTL_IB_RDMA_MAY_WRITE : 0)
           | ((flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC) != 0 ? BTL_IB_RDMA_MAY_ATOMIC : 0)
           | ((flags & MCA_RCACHE_ACCESS_LOCAL_WRITE) != 0 ? BTL_IB_RDMA_READ_INTO : 0);
}

/* Registers memory with the device, without the lock, as gigabytes take seconds, in which peers
 * want answers. Sets cache->refused. Returns NULL if it fails. */
static btl_ib_device_region_t *expose_region(btl_ib_registration_cache_t *cache, void *base,
                                             size_t size, int32_t flags)
{
    const uint8_t shift = region_plan((uintptr_t) base, size, cache->piece_max);
    const uint8_t pieces = (uint8_t) region_pieces((uintptr_t) base, size, shift);
    btl_ib_device_region_t *region = NULL;
    int error = 0;
    bool fits;

    btl_ib_biased_lock_acquire(cache->lock);
    withdraw_evicted(cache);
    fits = btl_ib_registration_limit_reserve(cache->limit, size, pieces);
    btl_ib_biased_lock_release(cache->lock);
    if (fits) {
        region = device_region_new(cache->transport, base, size, access_of(flags), shift, &error);
        if (region == NULL) {
            btl_ib_biased_lock_acquire(cache->lock);
            btl_ib_registration_limit_release(cache->limit, size, pieces);
            btl_ib_biased_lock_release(cache->lock);
        }
    }
    cache->refused = error;
    return region;
}

/* Registers memory for the rcache. If there is no room returns TEMP_OUT_OF_RESOURCE: after
 * OUT_OF_RESOURCE the rcache would evict by itself, and evictions could not be told from memory
 * that is gone, to count them (Open MPI 5.0 marks both as invalid). */
static int on_register(void *context, void *base, size_t size,
                       mca_rcache_base_registration_t *registration)
{
    btl_ib_registration_cache_t *cache = context;
    btl_ib_device_region_t *region = expose_region(cache, base, size, registration->access_flags);

    if (region == NULL) {
        return cache->refused == 0 || cache->refused == ENOMEM ? OPAL_ERR_TEMP_OUT_OF_RESOURCE
                                                               : OPAL_ERROR;
    }
    count_event(&cache->counts.misses);
    pthread_mutex_lock(&cache->lists);
    btl_ib_list_push_tail(&cache->registered, &region->link);
    pthread_mutex_unlock(&cache->lists);
    ((btl_ib_registration_t *) registration)->region = region;
    return OPAL_SUCCESS;
}

/* Records a region that leaves the rcache, for whatever reason. */
static int on_evict(void *context, mca_rcache_base_registration_t *registration)
{
    btl_ib_registration_cache_t *cache = context;
    btl_ib_device_region_t *region = ((btl_ib_registration_t *) registration)->region;

    count_event(&cache->counts.withdrawn);
    pthread_mutex_lock(&cache->lists);
    btl_ib_list_remove(&region->link);
    btl_ib_list_push_tail(&cache->evicted, &region->link);
    pthread_mutex_unlock(&cache->lists);
    return OPAL_SUCCESS;
}

/* ---- life of a cache ---- */

int btl_ib_registration_cache_init(btl_ib_registration_cache_t *cache, uint32_t rail,
                                   btl_ib_transport_t *transport, btl_ib_biased_lock_t *lock,
                                   btl_ib_registration_limit_t *limit, uint64_t region_max,
                                   bool keeps)
{
    char name[32];
    mca_rcache_base_resources_t resources = {
        .cache_name = name,
        .reg_data = cache,
        .sizeof_reg = sizeof(btl_ib_registration_t),
        .register_mem = on_register,
        .deregister_mem = on_evict,
    };

    if (transport->ops->rdma == NULL) {
        return OPAL_SUCCESS;
    }
    cache->transport = transport;
    cache->lock = lock;
    cache->limit = limit;
    cache->region_max = region_max;
    cache->keeps = keeps;
    cache->piece_max = region_max;
    if (transport->attr.rdma_region_max != 0 && transport->attr.rdma_region_max < region_max) {
        cache->piece_max = transport->attr.rdma_region_max;
    }
    pthread_mutex_init(&cache->lists, NULL);
    btl_ib_list_init(&cache->registered);
    btl_ib_list_init(&cache->evicted);
    snprintf(name, sizeof(name), "btl_ib.%u", rail);
    cache->rcache = mca_rcache_base_module_create("grdma", cache, &resources);
    if (cache->rcache == NULL) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    btl_ib_list_init(&cache->sharing);
    btl_ib_list_push_tail(&limit->caches, &cache->sharing);
    return OPAL_SUCCESS;
}

void btl_ib_registration_cache_fini(btl_ib_registration_cache_t *cache)
{
    const btl_ib_registration_counts_t *counts = &cache->counts;

    if (cache->rcache == NULL) {
        return;
    }
    BTL_IB_VERBOSE(10,
                   "%s: registration cache: %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
                   " evicted to make room, %" PRIu64 " withdrawn as the memory changed, %" PRIu64
                   " not registered; of all devices there are %" PRIu64 " registrations of %" PRIu64
                   " bytes",
                   cache->transport->name, counts->hits, counts->misses, counts->evictions,
                   btl_ib_registration_unmapped(counts), counts->failures, cache->limit->regions,
                   cache->limit->bytes);
    btl_ib_list_remove(&cache->sharing);
    mca_rcache_base_module_destroy(cache->rcache);
    cache->rcache = NULL;
    btl_ib_list_splice_tail(&cache->evicted, &cache->registered); /* regions never given back */
    btl_ib_biased_lock_acquire(cache->lock);
    withdraw_evicted(cache);
    btl_ib_biased_lock_release(cache->lock);
    pthread_mutex_destroy(&cache->lists);
}

/* ---- requests ---- */

/* Counts and logs a request that gets nothing, for the reason `why`: the first one for each reason
 * at level 1, later ones at 10. Returns NULL, the answer to the request. */
static btl_ib_registration_t *reject_request(btl_ib_registration_cache_t *cache, size_t size,
                                             btl_ib_rejection_t why)
{
    btl_ib_registration_limit_t *limit = cache->limit;
    char cause[160];
    bool first;

    count_event(&cache->counts.failures);
    btl_ib_biased_lock_acquire(cache->lock);
    first = btl_ib_registration_limit_rejected(limit, why);
    if (why == BTL_IB_REJECTED_REGION) {
        snprintf(cause, sizeof(cause), "btl_ib_pin_max_region is %" PRIu64 ", in %d pieces",
                 cache->region_max, BTL_IB_PIECES_MAX - 1);
    } else if (why == BTL_IB_REJECTED_LIMIT) {
        snprintf(cause, sizeof(cause),
                 "btl_ib_max_pinned leaves %" PRIu64 " bytes to this process, in %" PRIu64
                 " regions (btl_ib_pin_max_regions)",
                 limit->max, limit->regions_max);
    } else {
        snprintf(cause, sizeof(cause),
                 "the device says: %s (%" PRIu64 " bytes may be locked: ulimit -l)",
                 strerror(cache->refused), limit->lockable);
    }
    BTL_IB_VERBOSE(first ? 1 : 10,
                   "%s: %zu bytes are not registered, so processors move them: %s; %" PRIu64
                   " bytes are in %" PRIu64 " regions",
                   cache->transport->name, size, cause, limit->bytes, limit->regions);
    btl_ib_biased_lock_release(cache->lock);
    return NULL;
}

/* Lowers cache->piece_max after the device refused a region. Returns whether the region may be
 * tried again: the device refused it, and the pieces are neither too small nor too many. */
static bool cut_smaller(btl_ib_registration_cache_t *cache, const void *base, size_t size)
{
    const uint8_t shift = region_plan((uintptr_t) base, size, cache->piece_max);
    uint64_t piece = shift != 0 ? UINT64_C(1) << (shift - 1) : PIECE_MIN;

    while (shift == 0 && piece * 4 <= size) { /* the largest power of two of at most half of it */
        piece *= 2;
    }
    if (cache->refused == 0 || piece < PIECE_MIN || piece * 2 > size
        || size > piece * (BTL_IB_PIECES_MAX - 1)) {
        return false;
    }
    BTL_IB_VERBOSE(10, "%s: %zu bytes cannot be registered at once: %s; in pieces of %" PRIu64,
                   cache->transport->name, size, strerror(cache->refused), piece);
    cache->piece_max = piece;
    return true;
}

/* True if btl_ib_pin_max_region allows a region of that size, whole or in pieces, at any
 * address. */
static bool region_allowed(const btl_ib_registration_cache_t *cache, size_t size)
{
    const uint64_t most = cache->region_max;
    uint8_t shift = PAGE_SHIFT;

    while (UINT64_C(2) << shift <= most) {
        ++shift;
    }
    return size <= most
           || (UINT64_C(1) << shift <= most && size <= (BTL_IB_PIECES_MAX - UINT64_C(1)) << shift);
}

/* Evicts the registration that has been unused for longest. Returns false if all are in use. */
static bool evict_one(btl_ib_registration_cache_t *cache)
{
    if (!cache->rcache->rcache_evict(cache->rcache)) {
        return false;
    }
    count_event(&cache->counts.evictions);
    btl_ib_biased_lock_acquire(cache->lock);
    withdraw_evicted(cache);
    btl_ib_biased_lock_release(cache->lock);
    return true;
}

/* Evicts a registration of this cache; or, if all of its are in use, of another one, as the limits
 * are common. Returns whether one was evicted. Called without the lock. */
static bool make_room(btl_ib_registration_cache_t *cache)
{
    if (evict_one(cache)) {
        return true;
    }
    BTL_IB_LIST_FOREACH (btl_ib_registration_cache_t, other, &cache->limit->caches, sharing) {
        if (other != cache && evict_one(other)) {
            return true;
        }
    }
    return false;
}

btl_ib_registration_t *btl_ib_registration_get(btl_ib_registration_cache_t *cache, void *base,
                                               size_t size, uint32_t flags)
{
    const uint64_t piece_max = cache->piece_max;
    const uint32_t how = cache->keeps ? 0 : MCA_RCACHE_FLAGS_CACHE_BYPASS;
    mca_rcache_base_registration_t *super = NULL;
    btl_ib_registration_t *registration;
    int rc;

    if (cache->rcache == NULL || size == 0) {
        return NULL;
    }
    if (!region_allowed(cache, size)) {
        return reject_request(cache, size, BTL_IB_REJECTED_REGION);
    }
    if (size > cache->limit->max) { /* else make_room() would evict everything for nothing */
        return reject_request(cache, size, BTL_IB_REJECTED_LIMIT);
    }
    cache->refused = 0;
    do {
        rc = cache->rcache->rcache_register(cache->rcache, base, size, how,
                                            (int32_t) flags & MCA_RCACHE_ACCESS_ANY, &super);
    } while (rc != OPAL_SUCCESS
             && ((rc == OPAL_ERR_TEMP_OUT_OF_RESOURCE && make_room(cache))
                 || cut_smaller(cache, base, size)));
    if (rc != OPAL_SUCCESS) {
        cache->piece_max = piece_max;
        return reject_request(cache, size,
                              cache->refused != 0 ? BTL_IB_REJECTED_DEVICE : BTL_IB_REJECTED_LIMIT);
    }
    registration = (btl_ib_registration_t *) super;
    if (atomic_exchange_explicit(&registration->region->fresh, 0, memory_order_relaxed) == 0) {
        count_event(&cache->counts.hits);
    }
    return registration;
}

void btl_ib_registration_put(btl_ib_registration_cache_t *cache,
                             btl_ib_registration_t *registration)
{
    bool any;

    if (registration == NULL || cache->rcache == NULL) {
        return;
    }
    (void) cache->rcache->rcache_deregister(cache->rcache, &registration->super);
    pthread_mutex_lock(&cache->lists);
    any = !btl_ib_list_empty(&cache->evicted);
    pthread_mutex_unlock(&cache->lists);
    if (any) {
        btl_ib_biased_lock_acquire(cache->lock);
        withdraw_evicted(cache);
        btl_ib_biased_lock_release(cache->lock);
    }
}

void *btl_ib_registration_mem(const btl_ib_registration_t *registration, const void *address,
                              uint64_t size)
{
    const uintptr_t at = (uintptr_t) address;
    const btl_ib_device_region_t *region;

    if (registration == NULL) {
        return NULL;
    }
    region = registration->region;
    if (region->shift == 0) {
        return region->piece[0].mem;
    }
    if (at < region->base || size > region->size || at - region->base > region->size - size
        || !btl_ib_device_region_is_whole(at, size, region->shift)) {
        return NULL;
    }
    return region->piece[btl_ib_device_region_piece(region->base, at, region->shift)].mem;
}

uint8_t btl_ib_registration_keys(const btl_ib_registration_t *registration, const void *address,
                                 uint64_t size, uint32_t keys[BTL_IB_PIECES_MAX])
{
    const btl_ib_device_region_t *region = registration->region;
    const uintptr_t at = (uintptr_t) address;
    const size_t first =
        region->shift == 0 ? 0 : btl_ib_device_region_piece(region->base, at, region->shift);
    const uint8_t pieces = (uint8_t) region_pieces(at, size, region->shift);

    for (uint8_t i = 0; i < pieces; ++i) {
        keys[i] = region->piece[first + i].key;
    }
    return pieces > 1 ? region->shift : 0;
}
