/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Registrations of memory with devices, kept for the next use. */

#ifndef BTL_IB_REGISTRATION_CACHE_H
#define BTL_IB_REGISTRATION_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_biased_lock.h"
#include "btl_ib_list.h"
#include "btl_ib_registration_limit.h"
#include "transport.h"
#include "btl_ib_ompi_compat.h"
#include "btl_ib_engine.h"

/* ---- regions of devices ---- */

/*
 * Memory that is registered with a device, so that the device may access it. Devices limit what
 * they register at once, some to 2 GiB; the system may have no room for the tables of a large
 * region; and a user may set a limit, too (btl_ib_pin_max_region). So a region that is too large is
 * registered in pieces, each with keys of its own. Pieces begin at addresses that are multiples of
 * a power of two, so that anybody finds the piece of an address from that power. Processors carry
 * out an operation that lies on two pieces.
 */

/* A region has at most this many pieces: eight parts of it, and one more as both ends may lie
 * within a piece. */
#define BTL_IB_PIECES_MAX 9

typedef struct btl_ib_device_region {
    btl_ib_list_t link; /* in a list of the cache */
    atomic_uint fresh;  /* 1: no request got it yet. (A word, as riscv64 exchanges no bytes.) */
    uintptr_t base;
    size_t size;
    uint8_t shift; /* pieces begin at multiples of 2^shift; 0: there is one piece */
    uint8_t count; /* of pieces */
    struct {
        void *mem; /* the transport's handle */
        uint32_t key;
    } piece[]; /* in the order of addresses */
} btl_ib_device_region_t;

/* Returns the index of the piece that has an address; the piece of `base` is 0. */
static inline size_t btl_ib_device_region_piece(uintptr_t base, uintptr_t address, uint8_t shift)
{
    return (size_t) ((address >> shift) - (base >> shift));
}

/* True if `size` bytes, at least one, lie on one piece. */
static inline bool btl_ib_device_region_is_whole(uintptr_t address, uint64_t size, uint8_t shift)
{
    return shift == 0 || address >> shift == (address + size - 1) >> shift;
}

/* ---- cache ---- */

/*
 * The registration cache of a module. Registering memory with the device pins its pages and takes
 * long, so registrations are kept, in a cache of Open MPI's (rcache, grdma), until the memory is
 * unmapped, or others need their share of the limit. Whole pages are registered.
 */

struct mca_rcache_base_module_t;

/* Counters of requests. Any thread may count. */
typedef struct btl_ib_registration_counts {
    _Atomic uint64_t hits;      /* the memory was registered already */
    _Atomic uint64_t misses;    /* the memory was registered with the device */
    _Atomic uint64_t evictions; /* registrations withdrawn to make room for others */
    _Atomic uint64_t withdrawn; /* registrations withdrawn in all */
    _Atomic uint64_t failures;  /* requests that got nothing: processors copy */
} btl_ib_registration_counts_t;

/* Returns how many registrations were withdrawn because the memory is gone, or needs other rights.
 * Evictions that are under way are included. */
static inline uint64_t btl_ib_registration_unmapped(const btl_ib_registration_counts_t *counts)
{
    /* Read first, as each eviction is counted in `withdrawn` before. */
    const uint64_t evictions = counts->evictions;

    return counts->withdrawn - evictions;
}

/* The cache of one module. */
typedef struct btl_ib_registration_cache {
    struct mca_rcache_base_module_t *rcache; /* NULL: the device does not access memory */
    btl_ib_transport_t *transport;
    btl_ib_biased_lock_t *lock;         /* guards the transport and `limit` */
    btl_ib_registration_limit_t *limit; /* shared by all modules */
    uint64_t region_max;                /* bytes of a piece that btl_ib_pin_max_region allows */
    bool keeps; /* registrations that nobody uses stay (btl_ib_registration_cache) */
    _Atomic uint64_t piece_max; /* bytes of a piece that the device takes, as far as known */
    atomic_int refused;         /* the device's errno for the last request; 0: it took it, or was
                                 * not asked, as the limits were reached */
    btl_ib_list_t sharing;      /* in limit->caches */
    pthread_mutex_t lists;      /* guards the next two; taken last, and briefly */
    btl_ib_list_t registered;   /* regions in the rcache */
    btl_ib_list_t evicted;      /* regions that left the rcache, and are not yet withdrawn */
    btl_ib_registration_counts_t counts;
} btl_ib_registration_cache_t;

typedef struct btl_ib_registration btl_ib_registration_t;

/*
 * Makes the cache of rail `rail`; does nothing if the transport does not access memory. `cache` is
 * all zero; `lock` and `limit` outlive it. Without `keeps` each request registers memory anew, and
 * it is withdrawn as soon as it is given back. Returns an OPAL status.
 */
int btl_ib_registration_cache_init(btl_ib_registration_cache_t *cache, uint32_t rail,
                                   btl_ib_transport_t *transport, btl_ib_biased_lock_t *lock,
                                   btl_ib_registration_limit_t *limit, uint64_t region_max,
                                   bool keeps);

/* Ends a cache: withdraws all registrations, and logs its counters at level 10. Called without the
 * lock, before the transport is closed. May be called twice. */
void btl_ib_registration_cache_fini(btl_ib_registration_cache_t *cache);

/*
 * Lets the device access these bytes, for itself and for peers as `flags` say (MCA_BTL_REG_FLAG_*).
 * The caller gives the registration back by btl_ib_registration_put(). Returns NULL if the memory
 * cannot be registered, so that processors have to copy: there is no cache, the region is too large
 * even in pieces, the limit is reached, or the device refuses. Called without the lock.
 */
btl_ib_registration_t *btl_ib_registration_get(btl_ib_registration_cache_t *cache, void *base,
                                               size_t size, uint32_t flags);

/* Gives a registration back that is no longer needed; NULL is ignored. Called without the lock. */
void btl_ib_registration_put(btl_ib_registration_cache_t *cache,
                             btl_ib_registration_t *registration);

/* Returns the transport's handle of `size` bytes, for the local end of an operation. NULL if
 * `registration` is NULL, or the bytes lie on two pieces. */
void *btl_ib_registration_mem(const btl_ib_registration_t *registration, const void *address,
                              uint64_t size);

/* Lists the keys by which peers' devices access these bytes, one for each piece. Returns the shift
 * of the pieces (btl_ib_device_region_t); 0: there is one. */
uint8_t btl_ib_registration_keys(const btl_ib_registration_t *registration, const void *address,
                                 uint64_t size, uint32_t keys[BTL_IB_PIECES_MAX]);

#endif
