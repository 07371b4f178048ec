/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Limits the memory that a process registers with devices, to its share of a limit for all
 * processes of a host, and to what the kernel lets it pin. */

#ifndef BTL_IB_REGISTRATION_LIMIT_H
#define BTL_IB_REGISTRATION_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"
#include "transport.h"

/* ---- limit ---- */

/*
 * The limit is on the bytes that a process has registered with devices (btl_ib_max_pinned), and on
 * the number of regions (btl_ib_pin_max_regions), of all modules together. Functions that change
 * the counts are called with the component's lock held. No OPAL in here, so that it can be tested
 * by itself.
 */

/* The host's memory, and how many processes share it. */
typedef struct btl_ib_registration_host {
    uint64_t memory; /* bytes of the host */
    uint64_t
        lockable; /* bytes that this process may lock (RLIMIT_MEMLOCK); UINT64_MAX: any number */
    uint32_t processes; /* of the job on this host, at least 1 */
} btl_ib_registration_host_t;

/* Reasons why memory is not registered. */
typedef enum btl_ib_rejection {
    BTL_IB_REJECTED_REGION, /* btl_ib_pin_max_region does not allow so large a region */
    BTL_IB_REJECTED_LIMIT,  /* btl_ib_max_pinned or btl_ib_pin_max_regions is reached */
    BTL_IB_REJECTED_DEVICE, /* the device refuses */
} btl_ib_rejection_t;

/* The limit, and what all modules of the process have registered. */
typedef struct btl_ib_registration_limit {
    uint64_t bytes;       /* registered now */
    uint64_t max;         /* bytes, from btl_ib_max_pinned */
    uint64_t regions;     /* registered now; a piece counts as one */
    uint64_t regions_max; /* from btl_ib_pin_max_regions */
    uint32_t processes;   /* of the job on this host */
    uint64_t lockable;    /* bytes that the system lets the process lock, as far as known */
    uint32_t told;        /* bits: btl_ib_rejection_t that were logged at level 1 */
    btl_ib_list_t caches; /* of all modules */
} btl_ib_registration_limit_t;

/*
 * Computes the bytes that a process may register: its equal share of what all processes of the host
 * may register together, but no more than it may lock. `text` is the sum for the host: bytes, or a
 * share of the host's memory (btl_ib_value_bytes_or_share()). Returns NULL; or what is wrong with
 * `text`, a literal, and *bytes is unchanged.
 */
const char *btl_ib_registration_limit_parse(const char *text,
                                            const btl_ib_registration_host_t *host,
                                            uint64_t *bytes);

/* Initializes the limit, with nothing registered. `text` as for btl_ib_registration_limit_parse();
 * if it is wrong no bytes may be registered. `regions_max` 0: any number of regions. */
void btl_ib_registration_limit_init(btl_ib_registration_limit_t *limit, const char *text,
                                    const btl_ib_registration_host_t *host, uint64_t regions_max);

/* Describes this host, with `processes` of the job on it. */
btl_ib_registration_host_t btl_ib_registration_host(uint32_t processes);

/* Returns how many bytes btl_ib_pin_probe_once() is to try: as many as all processes of the host
 * may register together, but no more than one process may lock. */
static inline uint64_t btl_ib_registration_limit_wanted(const btl_ib_registration_limit_t *limit)
{
    const uint64_t most = limit->lockable;

    return limit->max > most / limit->processes ? most : limit->max * limit->processes;
}

/* Notes how many bytes the probe found. If that is less than it tried, lowers the limit: to an
 * equal share of it, if what it tried was for all processes of the host. */
void btl_ib_registration_limit_found(btl_ib_registration_limit_t *limit, uint64_t found);

/* Counts bytes and regions that are about to be registered, and returns true; or returns false if
 * they would exceed a limit. */
bool btl_ib_registration_limit_reserve(btl_ib_registration_limit_t *limit, uint64_t bytes,
                                       uint32_t regions);

/* Subtracts bytes and regions that are not registered any more. */
static inline void btl_ib_registration_limit_release(btl_ib_registration_limit_t *limit,
                                                     uint64_t bytes, uint32_t regions)
{
    limit->bytes -= bytes;
    limit->regions -= regions;
}

/* Notes that memory was not registered. Returns true if that is to be logged at level 1: the first
 * time for each reason. */
static inline bool btl_ib_registration_limit_rejected(btl_ib_registration_limit_t *limit,
                                                      btl_ib_rejection_t why)
{
    const uint32_t bit = UINT32_C(1) << why;
    const bool first = (limit->told & bit) == 0;

    limit->told |= bit;
    return first;
}

/* ---- probe ---- */

/*
 * Returns how many bytes, up to `wanted`, a device can really register (btl_ib_pin_probe). Finds it
 * by registering the same memory again and again: each time that counts against what the process
 * may lock, and takes room in the device's tables, but no further memory of the host. Of all
 * processes of a host that pass the same `path` one probes while the others wait, and leaves the
 * result in that file; all have to want the same. A process that cannot open the file (or NULL)
 * probes itself.
 */
uint64_t btl_ib_pin_probe_once(btl_ib_transport_t *transport, uint64_t wanted, const char *path);

#endif
