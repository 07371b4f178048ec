/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The rcache evicts with its own lock held; and memory is freed, of which the rcache hears, with
 * our lock held. So an eviction is only recorded (`evicted`), and withdrawn from the device soon
 * after.
 */

#include "btl_ib_registration_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "btl_ib_verbose.h"

static_assert((int) MCA_BTL_REG_FLAG_LOCAL_WRITE == (int) MCA_RCACHE_ACCESS_LOCAL_WRITE
                  && (int) MCA_BTL_REG_FLAG_REMOTE_READ == (int) MCA_RCACHE_ACCESS_REMOTE_READ
                  && (int) MCA_BTL_REG_FLAG_REMOTE_WRITE == (int) MCA_RCACHE_ACCESS_REMOTE_WRITE
                  && (int) MCA_BTL_REG_FLAG_REMOTE_ATOMIC == (int) MCA_RCACHE_ACCESS_REMOTE_ATOMIC,
              "what a BTL is asked for and what the rcache compares are the same bits");

/* What the device knows. It may outlive its registration: see `evicted`. */
typedef struct exposed {
    btl_ib_list_t link; /* in one of the cache's lists */
    atomic_bool fresh;  /* nobody has got it yet */
    void *mem;
    size_t size;
    uint32_t key;
} exposed_t;

struct btl_ib_registration {
    mca_rcache_base_registration_t super; /* first: the rcache casts */
    exposed_t *exposed;
};

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Withdraw from the device what was evicted. Called with the lock held. */
static void withdraw_evicted(btl_ib_registration_cache_t *cache)
{
    btl_ib_list_t *link;

    do {
        pthread_mutex_lock(&cache->lists);
        link = btl_ib_list_pop(&cache->evicted);
        pthread_mutex_unlock(&cache->lists);
        if (NULL != link) {
            exposed_t *exposed = BTL_IB_CONTAINER(link, exposed_t, link);
            cache->transport->ops->rdma->withdraw(cache->transport, exposed->mem);
            btl_ib_registration_limit_release(cache->limit, exposed->size);
            free(exposed);
        }
    } while (NULL != link);
}

/* ---- what the rcache calls ---- */

static uint32_t access_of(int32_t flags)
{
    return (0 != (flags & MCA_RCACHE_ACCESS_REMOTE_READ) ? BTL_IB_RDMA_MAY_READ : 0)
           | (0 != (flags & MCA_RCACHE_ACCESS_REMOTE_WRITE) ? BTL_IB_RDMA_MAY_WRITE : 0)
           | (0 != (flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC) ? BTL_IB_RDMA_MAY_ATOMIC : 0)
           | (0 != (flags & MCA_RCACHE_ACCESS_LOCAL_WRITE) ? BTL_IB_RDMA_READ_INTO : 0);
}

/* Register with the device. Without the lock: gigabytes take seconds, in which peers want
 * answers. */
static int expose(btl_ib_registration_cache_t *cache, void *base, int32_t flags, exposed_t *exposed)
{
    bool fits;
    int rc;

    btl_ib_biased_lock_acquire(cache->lock);
    withdraw_evicted(cache);
    fits = btl_ib_registration_limit_reserve(cache->limit, exposed->size);
    btl_ib_biased_lock_release(cache->lock);
    if (!fits) {
        return -ENOMEM;
    }
    rc = cache->transport->ops->rdma->expose(cache->transport, base, exposed->size,
                                             access_of(flags), &exposed->mem, &exposed->key);
    if (0 != rc) {
        btl_ib_biased_lock_acquire(cache->lock);
        btl_ib_registration_limit_release(cache->limit, exposed->size);
        btl_ib_biased_lock_release(cache->lock);
    }
    return rc;
}

/* On OUT_OF_RESOURCE the rcache evicts an unused registration and calls again. */
static int on_register(void *context, void *base, size_t size,
                       mca_rcache_base_registration_t *registration)
{
    btl_ib_registration_cache_t *cache = context;
    exposed_t *exposed = malloc(sizeof(*exposed));
    int rc;

    if (NULL == exposed) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    btl_ib_list_init(&exposed->link);
    exposed->size = size;
    rc = expose(cache, base, registration->access_flags, exposed);
    if (0 != rc) {
        free(exposed);
        return -ENOMEM == rc ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERROR;
    }
    count(&cache->counts.misses);
    atomic_init(&exposed->fresh, true);
    pthread_mutex_lock(&cache->lists);
    btl_ib_list_push_tail(&cache->registered, &exposed->link);
    pthread_mutex_unlock(&cache->lists);
    ((btl_ib_registration_t *) registration)->exposed = exposed;
    return OPAL_SUCCESS;
}

static int on_evict(void *context, mca_rcache_base_registration_t *registration)
{
    btl_ib_registration_cache_t *cache = context;
    exposed_t *exposed = ((btl_ib_registration_t *) registration)->exposed;
    const bool invalid = 0 != (registration->flags & MCA_RCACHE_FLAGS_INVALID);

    count(invalid ? &cache->counts.unmapped : &cache->counts.evictions);
    pthread_mutex_lock(&cache->lists);
    btl_ib_list_remove(&exposed->link);
    btl_ib_list_push_tail(&cache->evicted, &exposed->link);
    pthread_mutex_unlock(&cache->lists);
    return OPAL_SUCCESS;
}

/* ---- the cache ---- */

int btl_ib_registration_cache_init(btl_ib_registration_cache_t *cache, uint32_t rail,
                                   btl_ib_transport_t *transport, btl_ib_biased_lock_t *lock,
                                   btl_ib_registration_limit_t *limit, uint64_t region_max)
{
    char name[32];
    mca_rcache_base_resources_t resources = {
        .cache_name = name,
        .reg_data = cache,
        .sizeof_reg = sizeof(btl_ib_registration_t),
        .register_mem = on_register,
        .deregister_mem = on_evict,
    };

    if (NULL == transport->ops->rdma) {
        return OPAL_SUCCESS;
    }
    cache->transport = transport;
    cache->lock = lock;
    cache->limit = limit;
    cache->region_max = region_max;
    pthread_mutex_init(&cache->lists, NULL);
    btl_ib_list_init(&cache->registered);
    btl_ib_list_init(&cache->evicted);
    snprintf(name, sizeof(name), "btl_ib.%u", rail);
    cache->rcache = mca_rcache_base_module_create("grdma", cache, &resources);
    if (NULL == cache->rcache) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    btl_ib_registration_limit_join(limit, &cache->sharing);
    return OPAL_SUCCESS;
}

static void print_counts(const btl_ib_registration_cache_t *cache)
{
    const btl_ib_registration_counts_t *counts = &cache->counts;

    BTL_IB_VERBOSE(10,
                   "%s: registration cache: %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
                   " evicted to make room, %" PRIu64 " withdrawn as the memory changed, %" PRIu64
                   " not registered; of all devices there are %" PRIu64 " registrations of %" PRIu64
                   " bytes",
                   cache->transport->name, counts->hits, counts->misses, counts->evictions,
                   counts->unmapped, counts->failures, cache->limit->regions, cache->limit->bytes);
}

void btl_ib_registration_cache_fini(btl_ib_registration_cache_t *cache)
{
    if (NULL == cache->rcache) {
        return;
    }
    print_counts(cache);
    btl_ib_registration_limit_leave(&cache->sharing);
    mca_rcache_base_module_destroy(cache->rcache);
    cache->rcache = NULL;
    btl_ib_list_splice_tail(&cache->evicted, &cache->registered); /* what was never given back */
    btl_ib_biased_lock_acquire(cache->lock);
    withdraw_evicted(cache);
    btl_ib_biased_lock_release(cache->lock);
    pthread_mutex_destroy(&cache->lists);
}

/* Processors copy this memory. Told once for each cause at level 1, later at 10. */
static btl_ib_registration_t *reject(btl_ib_registration_cache_t *cache, size_t size,
                                     const char *cause, uint64_t max)
{
    bool first;

    count(&cache->counts.failures);
    btl_ib_biased_lock_acquire(cache->lock);
    first = btl_ib_registration_limit_rejected(cache->limit, size > cache->region_max);
    BTL_IB_VERBOSE(first ? 1 : 10,
                   "%s: %zu bytes are not registered, so processors move them: %s %" PRIu64
                   " (%" PRIu64 " are registered)",
                   cache->transport->name, size, cause, max, cache->limit->bytes);
    btl_ib_biased_lock_release(cache->lock);
    return NULL;
}

/* The limits are for all devices together, each of which has a cache: let another one evict what
 * is unused. Returns whether one did. Called without the lock. */
static bool evict_elsewhere(const btl_ib_registration_cache_t *cache)
{
    BTL_IB_LIST_FOREACH (btl_ib_registration_cache_t, other, &cache->limit->caches, sharing) {
        if (other != cache && other->rcache->rcache_evict(other->rcache)) {
            btl_ib_biased_lock_acquire(other->lock);
            withdraw_evicted(other);
            btl_ib_biased_lock_release(other->lock);
            return true;
        }
    }
    return false;
}

btl_ib_registration_t *btl_ib_registration_get(btl_ib_registration_cache_t *cache, void *base,
                                               size_t size, uint32_t flags)
{
    mca_rcache_base_registration_t *super = NULL;
    btl_ib_registration_t *registration;
    int rc;

    if (NULL == cache->rcache || 0 == size) {
        return NULL;
    }
    if (size > cache->region_max) {
        return reject(cache, size, "btl_ib_pin_max_region is", cache->region_max);
    }
    if (size > cache->limit->max) { /* the rcache would evict everything in vain */
        return reject(cache, size, "btl_ib_max_pinned allows", cache->limit->max);
    }
    do {
        rc = cache->rcache->rcache_register(cache->rcache, base, size, 0,
                                            (int32_t) flags & MCA_RCACHE_ACCESS_ANY, &super);
    } while (OPAL_ERR_OUT_OF_RESOURCE == rc && evict_elsewhere(cache));
    if (OPAL_SUCCESS != rc) {
        return reject(cache, size, "the device refused, or with btl_ib_max_pinned the limit is",
                      cache->limit->max);
    }
    registration = (btl_ib_registration_t *) super;
    if (!atomic_exchange_explicit(&registration->exposed->fresh, false, memory_order_relaxed)) {
        count(&cache->counts.hits);
    }
    return registration;
}

void btl_ib_registration_put(btl_ib_registration_cache_t *cache,
                             btl_ib_registration_t *registration)
{
    bool any;

    if (NULL == registration || NULL == cache->rcache) {
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

void *btl_ib_registration_mem(const btl_ib_registration_t *registration)
{
    return NULL != registration ? registration->exposed->mem : NULL;
}

uint32_t btl_ib_registration_key(const btl_ib_registration_t *registration)
{
    return registration->exposed->key;
}
