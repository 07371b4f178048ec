/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Registration of memory: with the engine, which serves it to peers, and with the device, if that
 * can access memory. Open MPI gets a handle, which it sends to peers.
 */

#include "btl_ib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_help.h"
#include "btl_ib_memory_handle.h"
#include "btl_ib_modex.h"
#include "btl_ib_osc.h"

#define REMOTE_ACCESS                                                                              \
    (MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE | MCA_BTL_REG_FLAG_REMOTE_ATOMIC)

/* A region that Open MPI registered, for peers or as local memory of puts and gets. */
typedef struct btl_ib_memory {
    opal_free_list_item_t super;         /* first: Open MPI casts */
    bool remote;                         /* the engine serves it to peers */
    btl_ib_registration_t *registration; /* with the device; NULL: processors move its bytes */
    btl_ib_memory_handle_t handle;
} btl_ib_memory_t;

OBJ_CLASS_INSTANCE(btl_ib_memory_t, opal_free_list_item_t, NULL, NULL);

int btl_ib_register_init(btl_ib_module_t *module)
{
    return btl_ib_free_list_init(&module->memory, sizeof(btl_ib_memory_t),
                                 OBJ_CLASS(btl_ib_memory_t), -1);
}

static uint32_t access_of(uint32_t flags)
{
    return ((flags & MCA_BTL_REG_FLAG_REMOTE_READ) != 0 ? BTL_IB_ACCESS_READ : 0)
           | ((flags & MCA_BTL_REG_FLAG_REMOTE_WRITE) != 0 ? BTL_IB_ACCESS_WRITE : 0)
           | ((flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC) != 0 ? BTL_IB_ACCESS_ATOMIC : 0);
}

/* Registers a region with the device, if that can access memory, and fills in the part of its
 * handle that peers' devices use. This settles whether devices execute its atomics. */
static void register_with_device(btl_ib_module_t *module, btl_ib_memory_t *memory, char *from,
                                 size_t size, uint32_t flags)
{
    btl_ib_memory_handle_t *handle = &memory->handle;

    if (!module->device_atomics) {
        flags &= ~(uint32_t) MCA_BTL_REG_FLAG_REMOTE_ATOMIC;
    }
    memory->registration = btl_ib_registration_get(&module->cache, from, size, flags);
    if (memory->registration != NULL && memory->remote) {
        uint32_t keys[BTL_IB_PIECES_MAX] = {0};
        handle->piece_shift = btl_ib_registration_keys(memory->registration, from, size, keys);
        handle->device_key = keys[0];
        memcpy(handle->more_keys, &keys[1], sizeof(handle->more_keys));
        handle->rail = (uint8_t) module->rail;
        handle->pinned |= (uint8_t) access_of(flags);
        handle->device_atomic = (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC) != 0;
    }
}

/*
 * True if the region is memory of a window. osc/rdma of 4.1, 5.0 and 6.0 registers memory for peers
 * with all rights (MCA_BTL_REG_FLAG_ACCESS_ANY), for any endpoint. ob1 registers a message for one
 * endpoint, and for read or write alone, as it uses no atomics; so does 5.0's detector of dead
 * processes.
 */
static bool is_window(const btl_ib_endpoint_t *endpoint, uint32_t flags)
{
    return endpoint == MCA_BTL_ENDPOINT_ANY && (flags & REMOTE_ACCESS) == REMOTE_ACCESS;
}

/* Returns true once, when the first window is made, if expect_job() is needed: the progress thread
 * is to serve processes that osc/rdma will not add. */
static bool begin_to_expect(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    bool first;

    if (!component->progress_thread.config.enabled || !btl_ib_osc_takes_us_unasked()) {
        return false;
    }
    btl_ib_lock();
    first = !component->expecting.begun;
    component->expecting.begun = true;
    btl_ib_unlock();
    return first;
}

/*
 * Makes connections to all processes of the job, when the first window is made. With osc_rdma_btls
 * osc/rdma adds no processes. One that accesses the window would be unknown to us, and the progress
 * thread may not ask the runtime: the access would wait until this process calls MPI. Here the
 * runtime may be asked. That costs what adding the processes would, as osc/rdma does without
 * osc_rdma_btls.
 */
static void expect_job(void)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    const uint32_t processes = component->processes;
    opal_process_name_t name = component->name;

    for (uint32_t i = 0; i < processes; ++i) {
        btl_ib_modex_t *peer;

        name.vpid = i;
        peer = i == component->name.vpid ? NULL : btl_ib_modex_get(&name, true);
        if (peer != NULL) {
            btl_ib_lock();
            btl_ib_endpoint_expect(&name, peer);
            btl_ib_unlock();
            free(peer);
        }
    }
}

/* Warns once, when the first window is made, if this release's osc/rdma mistakes ranks of this job
 * for others: data then go to wrong ranks, and nothing else says so. Rank 0 warns, as every window
 * over the whole job has it. */
static void warn_of_mistaken_ranks(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const uint32_t processes = component->processes, hosts = component->osc_ranks.hosts;
    uint32_t rank = 0, other = 0, count;
    bool first;

    if (hosts == 0 || component->name.vpid != 0) {
        return;
    }
    btl_ib_lock();
    first = !component->osc_ranks.reported;
    component->osc_ranks.reported = true;
    btl_ib_unlock();
    count = first ? btl_ib_osc_mistaken_ranks(processes, hosts, &rank, &other) : 0;
    if (count > 0) {
        btl_ib_show_help("ranks mistaken", processes, hosts, opal_version_string, rank, other,
                         hosts, count);
    }
}

/*
 * True if ob1 registers a message that its receiver's device is to fetch, and the peer is reached
 * by several rails. ob1 would fetch it by one GET, over the rail of the highest bandwidth alone. If
 * the registration fails, the receiver asks for PUTs, which ob1 divides among all rails by their
 * bandwidths. (A GET that processors carry out is divided by divide() of btl_ib_rdma.c, and its
 * sender may compute meanwhile: such a registration is not refused.)
 */
static bool is_for_one_get(const btl_ib_module_t *module, const btl_ib_endpoint_t *endpoint,
                           uint32_t flags)
{
    return endpoint != NULL && endpoint != MCA_BTL_ENDPOINT_ANY && endpoint->rails > 1
           && module->cache.rcache != NULL
           && (flags & REMOTE_ACCESS) == MCA_BTL_REG_FLAG_REMOTE_READ
           && (module->super.btl_flags & MCA_BTL_FLAGS_PUT) != 0;
}

/* Lets the engine serve a region to peers. It must not execute atomics on words that only devices
 * change. Returns 0 or a negative errno. */
static int add_region(const btl_ib_module_t *module, btl_ib_memory_t *memory, char *from,
                      size_t size, uint32_t access)
{
    btl_ib_memory_handle_t *handle = &memory->handle;
    int rc;

    if (handle->device_atomic != 0 && !btl_ib_register_is_global(module)) {
        access &= ~(uint32_t) BTL_IB_ACCESS_ATOMIC;
    }
    btl_ib_lock();
    rc = btl_ib_region_add(mca_btl_ib_component.engine, from, size, access, &handle->key);
    btl_ib_unlock();
    return rc;
}

static btl_ib_memory_handle_t *module_register_mem(mca_btl_base_module_t *btl,
                                                   btl_ib_endpoint_t *endpoint, void *base,
                                                   size_t size, uint32_t flags)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    btl_ib_memory_t *memory;
    char *from = base;
    const bool window = is_window(endpoint, flags);
    int rc = 0;

    if (window) {
        warn_of_mistaken_ranks();
        if (begin_to_expect()) {
            expect_job();
        }
    }
    if (is_for_one_get(module, endpoint, flags)) {
        return NULL;
    }
    memory = (btl_ib_memory_t *) opal_free_list_get(&module->memory);
    if (OPAL_UNLIKELY(memory == NULL)) {
        return NULL;
    }
    if ((flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC) != 0) {
        /* With osc_rdma_acc_use_amo=0 osc/rdma changes a small number by a compare-and-swap of the
         * 8 aligned bytes around it, which may reach beyond both ends of the window. Devices that
         * register whole pages allow that. So do we: 8 aligned bytes never belong to two pages. */
        from -= (uintptr_t) from % 8;
        size = (size + (size_t) ((char *) base - from) + 7) / 8 * 8;
    }
    memory->remote = (flags & REMOTE_ACCESS) != 0;
    memset(&memory->handle, 0, sizeof(memory->handle));
    memory->handle.base = (uint64_t) (uintptr_t) from;
    memory->handle.size = size;
    memory->handle.pinned = window ? BTL_IB_ACCESS_WINDOW : 0;
    register_with_device(module, memory, from, size, flags);
    if (memory->remote) {
        rc = add_region(module, memory, from, size,
                        access_of(flags) | (window ? BTL_IB_ACCESS_WINDOW : 0));
    }
    if (OPAL_UNLIKELY(rc != 0)) {
        BTL_IB_VERBOSE(1, "cannot register %zu bytes at %p: %s", size, base, strerror(-rc));
        btl_ib_registration_put(&module->cache, memory->registration);
        opal_free_list_return(&module->memory, &memory->super);
        return NULL;
    }
    btl_ib_memory_handle_seal(&memory->handle);
    return &memory->handle;
}

static int module_deregister_mem(mca_btl_base_module_t *btl, btl_ib_memory_handle_t *handle)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    btl_ib_memory_t *memory = BTL_IB_CONTAINER(handle, btl_ib_memory_t, handle);

    if (memory->remote) {
        btl_ib_lock();
        btl_ib_region_remove(mca_btl_ib_component.engine, &handle->key);
        btl_ib_unlock();
    }
    btl_ib_registration_put(&module->cache, memory->registration);
    opal_free_list_return(&module->memory, &memory->super);
    return OPAL_SUCCESS;
}

void *btl_ib_device_memory_of(const btl_ib_memory_handle_t *handle, const void *address,
                              uint64_t size)
{
    return btl_ib_registration_mem(BTL_IB_CONTAINER(handle, btl_ib_memory_t, handle)->registration,
                                   address, size);
}

void btl_ib_register_functions(mca_btl_base_module_t *module)
{
    module->btl_registration_handle_size = sizeof(btl_ib_memory_handle_t);
    module->btl_register_mem = module_register_mem;
    module->btl_deregister_mem = module_deregister_mem;
}
