/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The cache calls us with its own lock held when it evicts, and memory is freed, which the cache hears of, with our
 * lock held: so what it evicts is only noted (`evicted`), and withdrawn from the device a moment later.
 */

#include "btl_ib.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert((int) MCA_BTL_REG_FLAG_LOCAL_WRITE == (int) MCA_RCACHE_ACCESS_LOCAL_WRITE
                  && (int) MCA_BTL_REG_FLAG_REMOTE_READ == (int) MCA_RCACHE_ACCESS_REMOTE_READ
                  && (int) MCA_BTL_REG_FLAG_REMOTE_WRITE == (int) MCA_RCACHE_ACCESS_REMOTE_WRITE
                  && (int) MCA_BTL_REG_FLAG_REMOTE_ATOMIC == (int) MCA_RCACHE_ACCESS_REMOTE_ATOMIC,
              "what a BTL is asked for and what the cache compares are the same bits");

/* What the device knows. */
typedef struct pinned {
    btl_ib_list_t link; /* in one of the module's lists */
    void *mem;
    size_t size;
    uint32_t key;
} pinned_t;

struct btl_ib_pin {
    mca_rcache_base_registration_t super; /* first: the cache casts */
    pinned_t *pinned;
};

/* ---- what the cache calls ---- */

/* What was evicted. Called with the lock held. */
static void withdraw_evicted(btl_ib_module_t *module)
{
    btl_ib_pins_t *pins = &module->pins;
    btl_ib_list_t *item;

    do {
        pthread_mutex_lock(&pins->lists);
        item = btl_ib_list_pop(&pins->evicted);
        pthread_mutex_unlock(&pins->lists);
        if (NULL != item) {
            pinned_t *pinned = BTL_IB_CONTAINER(item, pinned_t, link);
            pins->transport->ops->rdma->withdraw(pins->transport, pinned->mem);
            mca_btl_ib_component.pinned -= pinned->size;
            free(pinned);
        }
    } while (NULL != item);
}

static bool any_evicted(btl_ib_pins_t *pins)
{
    bool any;

    pthread_mutex_lock(&pins->lists);
    any = !btl_ib_list_empty(&pins->evicted);
    pthread_mutex_unlock(&pins->lists);
    return any;
}

static uint32_t access_of(int32_t flags)
{
    return (0 != (flags & MCA_RCACHE_ACCESS_REMOTE_READ) ? BTL_IB_RDMA_MAY_READ : 0)
           | (0 != (flags & MCA_RCACHE_ACCESS_REMOTE_WRITE) ? BTL_IB_RDMA_MAY_WRITE : 0)
           | (0 != (flags & MCA_RCACHE_ACCESS_REMOTE_ATOMIC) ? BTL_IB_RDMA_MAY_ATOMIC : 0)
           | (0 != (flags & MCA_RCACHE_ACCESS_LOCAL_WRITE) ? BTL_IB_RDMA_READ_INTO : 0);
}

/* Room for so many bytes more within the limit on all of a process' memory. */
static bool reserve(btl_ib_module_t *module, size_t size)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    bool fits;

    btl_ib_lock();
    withdraw_evicted(module);
    fits = size <= component->pinned_max && component->pinned <= component->pinned_max - size;
    if (fits) {
        component->pinned += size;
    }
    btl_ib_unlock();
    return fits;
}

/* Without the lock: to pin gigabytes takes seconds, in which peers want to be answered. */
static int expose(btl_ib_module_t *module, void *base, int32_t flags, pinned_t *pinned)
{
    btl_ib_transport_t *transport = module->pins.transport;
    int rc;

    if (!reserve(module, pinned->size)) {
        return -ENOMEM;
    }
    rc = transport->ops->rdma->expose(transport, base, pinned->size, access_of(flags), &pinned->mem,
                                      &pinned->key);
    if (0 != rc) {
        btl_ib_lock();
        mca_btl_ib_component.pinned -= pinned->size;
        btl_ib_unlock();
    }
    return rc;
}

/* Where there is no room it evicts one that nobody uses, and asks again. */
static int pin(void *context, void *base, size_t size, mca_rcache_base_registration_t *registration)
{
    btl_ib_module_t *module = context;
    pinned_t *pinned = malloc(sizeof(*pinned));
    int rc;

    if (NULL == pinned) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    btl_ib_list_init(&pinned->link);
    pinned->size = size;
    rc = expose(module, base, registration->access_flags, pinned);
    if (0 != rc) {
        free(pinned);
        return -ENOMEM == rc ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERROR;
    }
    pthread_mutex_lock(&module->pins.lists);
    btl_ib_list_push_tail(&module->pins.pinned, &pinned->link);
    pthread_mutex_unlock(&module->pins.lists);
    ((btl_ib_pin_t *) registration)->pinned = pinned;
    return OPAL_SUCCESS;
}

static int evict(void *context, mca_rcache_base_registration_t *registration)
{
    btl_ib_pins_t *pins = &((btl_ib_module_t *) context)->pins;
    pinned_t *pinned = ((btl_ib_pin_t *) registration)->pinned;

    pthread_mutex_lock(&pins->lists);
    btl_ib_list_remove(&pinned->link);
    btl_ib_list_push_tail(&pins->evicted, &pinned->link);
    pthread_mutex_unlock(&pins->lists);
    return OPAL_SUCCESS;
}

/* ---- beginning and end ---- */

int btl_ib_pins_init(btl_ib_module_t *module, btl_ib_transport_t *transport)
{
    btl_ib_pins_t *pins = &module->pins;
    char name[32];
    mca_rcache_base_resources_t resources = {
        .cache_name = name,
        .reg_data = module,
        .sizeof_reg = sizeof(btl_ib_pin_t),
        .register_mem = pin,
        .deregister_mem = evict,
    };

    if (NULL == transport->ops->rdma) {
        return OPAL_SUCCESS;
    }
    pins->transport = transport;
    pthread_mutex_init(&pins->lists, NULL);
    btl_ib_list_init(&pins->pinned);
    btl_ib_list_init(&pins->evicted);
    snprintf(name, sizeof(name), "btl_ib.%u", module->rail);
    pins->cache = mca_rcache_base_module_create("grdma", module, &resources);
    return NULL == pins->cache ? OPAL_ERR_NOT_AVAILABLE : OPAL_SUCCESS;
}

void btl_ib_pins_fini(btl_ib_module_t *module)
{
    btl_ib_pins_t *pins = &module->pins;

    if (NULL == pins->cache) {
        return;
    }
    mca_rcache_base_module_destroy(pins->cache);
    pins->cache = NULL;
    btl_ib_list_splice_tail(&pins->evicted, &pins->pinned); /* what was never given back */
    btl_ib_lock();
    withdraw_evicted(module);
    btl_ib_unlock();
    pthread_mutex_destroy(&pins->lists);
}

/* ---- using it ---- */

/* It stays with the processors; told once for each cause at level 1, later at 10. */
static void turn_down(btl_ib_module_t *module, size_t size, const char *cause, uint64_t limit,
                      bool *told)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    btl_ib_lock();
    component->not_pinned++;
    BTL_IB_VERBOSE(*told ? 10 : 1,
                   "rail %u (%s): %zu bytes are not pinned, so processors move them: %s %" PRIu64
                   " (%" PRIu64 " are pinned)",
                   module->rail, module->name, size, cause, limit, component->pinned);
    *told = true;
    btl_ib_unlock();
}

btl_ib_pin_t *btl_ib_pin_take(btl_ib_module_t *module, void *base, size_t size, uint32_t flags)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    mca_rcache_base_module_t *cache = module->pins.cache;
    mca_rcache_base_registration_t *registration = NULL;

    if (NULL == cache || 0 == size) {
        return NULL;
    }
    if (size > component->params.pin_max_region) {
        turn_down(module, size, "btl_ib_pin_max_region is", component->params.pin_max_region,
                  &component->told_region);
        return NULL;
    }
    if (size > component->pinned_max) { /* the cache would throw out all it has in vain */
        turn_down(module, size, "btl_ib_max_pinned allows", component->pinned_max,
                  &component->told_pinned);
        return NULL;
    }
    if (OPAL_SUCCESS
        != cache->rcache_register(cache, base, size, 0, (int32_t) flags & MCA_RCACHE_ACCESS_ANY,
                                  &registration)) {
        turn_down(module, size, "the device refused, or with btl_ib_max_pinned the limit is",
                  component->pinned_max, &component->told_pinned);
        return NULL;
    }
    return (btl_ib_pin_t *) registration;
}

void btl_ib_pin_give(btl_ib_module_t *module, btl_ib_pin_t *pinned)
{
    mca_rcache_base_module_t *cache = module->pins.cache;

    if (NULL == pinned || NULL == cache) {
        return;
    }
    (void) cache->rcache_deregister(cache, &pinned->super);
    if (any_evicted(&module->pins)) {
        btl_ib_lock();
        withdraw_evicted(module);
        btl_ib_unlock();
    }
}

void *btl_ib_pin_mem(const btl_ib_pin_t *pinned)
{
    return NULL != pinned ? pinned->pinned->mem : NULL;
}

uint32_t btl_ib_pin_key(const btl_ib_pin_t *pinned)
{
    return pinned->pinned->key;
}
