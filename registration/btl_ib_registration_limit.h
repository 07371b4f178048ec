/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Limits of the memory that a process may register with devices: its share of a limit for all
 * processes of a host, and how much the kernel lets it pin. */

#ifndef BTL_IB_REGISTRATION_LIMIT_H
#define BTL_IB_REGISTRATION_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"
#include "transport.h"

/* ---- limit ---- */

/*
 * The limit is on the memory that a process keeps registered with devices (btl_ib_max_pinned), and
 * on the number of regions (btl_ib_pin_max_regions). No OPAL in here, so that it can be tested by
 * itself. The functions that change the count are called with the component's lock held.
 */

/* The host's memory, and who shares it. */
typedef struct btl_ib_registration_host {
    uint64_t memory;    /* bytes of the host */
    uint64_t lockable;  /* bytes that this process may lock, UINT64_MAX: any number */
    uint32_t processes; /* of the job on this host, at least 1 */
} btl_ib_registration_host_t;

/* Reasons why memory is not registered. */
typedef enum btl_ib_rejection {
    BTL_IB_REJECTED_REGION, /* btl_ib_pin_max_region does not allow its region */
    BTL_IB_REJECTED_LIMIT,  /* btl_ib_max_pinned or btl_ib_pin_max_regions is reached */
    BTL_IB_REJECTED_DEVICE,
} btl_ib_rejection_t;

/* Registered by all modules of a process. */
typedef struct btl_ib_registration_limit {
    uint64_t bytes;       /* registered now */
    uint64_t max;         /* as btl_ib_max_pinned says */
    uint64_t regions;     /* registered now */
    uint64_t regions_max; /* as btl_ib_pin_max_regions says */
    uint32_t processes;   /* of the job on this host */
    uint64_t lockable;    /* bytes that the system lets the process lock, as far as known */
    uint32_t told;        /* bits: btl_ib_rejection_t that were logged at level 1 */
    btl_ib_list_t caches; /* of all modules */
} btl_ib_registration_limit_t;

/*
 * Computes the bytes that a process may register: an equal share of what all processes of the host
 * may together. `text` is that sum: a number of bytes (0 to 2^64 - 1, also with a unit, see
 * btl_ib_param_parse.h), or a part of the host's memory, as "50%" (0% to 100%) or "0.5" (0.0 to
 * 1.0). Never more than the process may lock. Returns NULL; or what is wrong with `text`, a
 * literal, and *bytes is unchanged.
 */
const char *btl_ib_registration_limit_parse(const char *text,
                                            const btl_ib_registration_host_t *host,
                                            uint64_t *bytes);

/* Initializes the limit: nothing is registered; up to as many bytes may be as `text` says, or none
 * if that is wrong, in at most `regions_max` regions (0: any number). */
void btl_ib_registration_limit_init(btl_ib_registration_limit_t *limit, const char *text,
                                    const btl_ib_registration_host_t *host, uint64_t regions_max);

/* Describes this host, as its system tells. */
btl_ib_registration_host_t btl_ib_registration_host(uint32_t processes);

/* Returns how many bytes btl_ib_pin_probe_once() is to try: as many as all processes of the host
 * may register together, if one may lock as much. */
static inline uint64_t btl_ib_registration_limit_wanted(const btl_ib_registration_limit_t *limit)
{
    const uint64_t most = limit->lockable;

    return limit->max > most / limit->processes ? most : limit->max * limit->processes;
}

/* Notes how many bytes the probe found. If that is less than all wanted together each has an equal
 * share of it. */
void btl_ib_registration_limit_found(btl_ib_registration_limit_t *limit, uint64_t found);

/* Counts bytes and regions that are to be registered, if that is within the limits. Returns whether
 * it is. */
bool btl_ib_registration_limit_reserve(btl_ib_registration_limit_t *limit, uint64_t bytes,
                                       uint32_t regions);

/* Uncounts bytes and regions that are not registered any more. */
static inline void btl_ib_registration_limit_release(btl_ib_registration_limit_t *limit,
                                                     uint64_t bytes, uint32_t regions)
{
    limit->bytes -= bytes;
    limit->regions -= regions;
}

/* Notes that memory was not registered. Returns whether that is to be logged at level 1, as it is
 * the first time for each reason. */
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
 * Finds by trying how many bytes, up to `wanted`, a device can really register (btl_ib_pin_probe):
 * the same memory is registered again and again, which counts each time against what the process
 * may lock and takes room in the device's tables, but none of the host's memory. One of the
 * processes of a host that name the file `path`, and want as much, probes while the others wait,
 * and leaves the result there. A process that cannot open the file (NULL: there is none) probes by
 * itself.
 */
uint64_t btl_ib_pin_probe_once(btl_ib_transport_t *transport, uint64_t wanted, const char *path);

#endif
