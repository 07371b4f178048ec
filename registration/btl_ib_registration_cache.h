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
 * Memory that a device may access. Devices have limits on what they register at once, in some
 * cases of 2 GiB, and the system may find no room for the tables of a large region; a user may set
 * a limit, too (btl_ib_pin_max_region). So what is too large is registered in pieces, each with
 * keys of its own, that begin at multiples of a power of two of the process's addresses: from an
 * address and that power anybody can tell the piece. An operation that lies on two pieces is for
 * processors.
 */

/* Pieces of a region at most: of an eighth of it, where both ends may lie within one. */
#define BTL_IB_PIECES_MAX 9

typedef struct btl_ib_device_region {
    btl_ib_list_t link; /* in a list of the caller's */
    atomic_uint fresh;  /* 1: nobody has got it yet; a word, as riscv64 exchanges no bytes */
    uintptr_t base;
    size_t size;
    uint8_t shift; /* pieces begin at multiples of 2^shift; 0: there is one */
    uint8_t count; /* of pieces */
    struct {
        void *mem; /* the transport's handle */
        uint32_t key;
    } piece[]; /* in the order of addresses */
} btl_ib_device_region_t;

/* Returns which piece an address lies on, counted from the piece of `base`. */
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
 * The registration cache: memory that a module's device may access by itself. It has to be
 * registered with the device, which pins its pages and takes long. So registrations are kept in a
 * cache of Open MPI's (rcache, grdma) until the memory is unmapped or others need their share of
 * the limit. Whole pages are registered.
 */

struct mca_rcache_base_module_t;

/* Counters of requests, by whatever thread made them. */
typedef struct btl_ib_registration_counts {
    _Atomic uint64_t hits;      /* the memory was registered already */
    _Atomic uint64_t misses;    /* the memory was registered with the device */
    _Atomic uint64_t evictions; /* registrations withdrawn to make room for others */
    _Atomic uint64_t withdrawn; /* registrations withdrawn in all */
    _Atomic uint64_t failures;  /* requests that got nothing: processors copy */
} btl_ib_registration_counts_t;

/* Returns how many registrations were withdrawn as the memory is gone, or needs other rights;
 * evictions under way count, too. */
static inline uint64_t btl_ib_registration_unmapped(const btl_ib_registration_counts_t *counts)
{
    const uint64_t evictions = counts->evictions; /* each is counted after `withdrawn` */

    return counts->withdrawn - evictions;
}

/* The cache of one module. */
typedef struct btl_ib_registration_cache {
    struct mca_rcache_base_module_t *rcache; /* NULL: the device does not access memory */
    btl_ib_transport_t *transport;
    btl_ib_biased_lock_t *lock;         /* guards the transport and `limit` */
    btl_ib_registration_limit_t *limit; /* on all modules together */
    uint64_t region_max;                /* bytes of a piece, as btl_ib_pin_max_region says */
    bool keeps;                         /* registrations that nobody uses (registration_cache) */
    _Atomic uint64_t piece_max; /* bytes that the device registers at once, as far as known */
    atomic_int refused;         /* errno of the device's last refusal, 0: the limits refused */
    btl_ib_list_t sharing;      /* in limit->caches */
    pthread_mutex_t lists;      /* guards the next two, briefly; innermost */
    btl_ib_list_t registered;   /* regions in the rcache */
    btl_ib_list_t evicted;      /* regions that the rcache evicted, and the device still knows */
    btl_ib_registration_counts_t counts;
} btl_ib_registration_cache_t;

typedef struct btl_ib_registration btl_ib_registration_t;

/*
 * Makes the cache of rail `rail`, if the transport accesses memory. `cache` is all zero; `lock` and
 * `limit` outlive it. If it does not keep registrations each request registers memory anew, and
 * what is given back is withdrawn at once. Returns an OPAL status.
 */
int btl_ib_registration_cache_init(btl_ib_registration_cache_t *cache, uint32_t rail,
                                   btl_ib_transport_t *transport, btl_ib_biased_lock_t *lock,
                                   btl_ib_registration_limit_t *limit, uint64_t region_max,
                                   bool keeps);

/* Ends a cache: nothing stays registered; logs its counters, at level 10. Called before the
 * transport is closed, without the lock. */
void btl_ib_registration_cache_fini(btl_ib_registration_cache_t *cache);

/*
 * Lets the device access these bytes, and peers as `flags` say (MCA_BTL_REG_FLAG_*). Returns NULL
 * if it cannot: there is no cache, the region is too large even in pieces, all together would be,
 * or the device refuses; then processors copy. Called without the lock.
 */
btl_ib_registration_t *btl_ib_registration_get(btl_ib_registration_cache_t *cache, void *base,
                                               size_t size, uint32_t flags);

/* Gives a registration back that is no longer needed; NULL is ignored. Called without the lock. */
void btl_ib_registration_put(btl_ib_registration_cache_t *cache,
                             btl_ib_registration_t *registration);

/* Returns the transport's handle for `size` bytes of a registration as the local end of an
 * operation. NULL if there is no registration, or if they lie on two pieces. */
void *btl_ib_registration_mem(const btl_ib_registration_t *registration, const void *address,
                              uint64_t size);

/* Lists the keys that peers' devices use for these bytes of a registration, one for each piece.
 * Returns where pieces begin (btl_ib_device_region_t.shift), 0: there is one. */
uint8_t btl_ib_registration_keys(const btl_ib_registration_t *registration, const void *address,
                                 uint64_t size, uint32_t keys[BTL_IB_PIECES_MAX]);

#endif
