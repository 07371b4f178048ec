/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How much memory a process may register: a limit for those of a host together, and how much the
 * kernel lets it pin. */

#ifndef BTL_IB_REGISTRATION_LIMIT_H
#define BTL_IB_REGISTRATION_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"
#include "transport.h"

/* ---- limit ---- */

/*
 * How much memory a process may keep registered with devices (btl_ib_max_pinned), in how many
 * regions (btl_ib_pin_max_regions), and how much it has. No OPAL in here, so that it can be tested
 * by itself. The functions that change the count are called with the component's lock held.
 */

/* What there is to be shared. */
typedef struct btl_ib_registration_host {
    uint64_t memory;    /* bytes of the host */
    uint64_t lockable;  /* bytes that this process may lock, UINT64_MAX: any number */
    uint32_t processes; /* of the job on this host, at least 1 */
} btl_ib_registration_host_t;

/* Why some memory is not registered. */
typedef enum btl_ib_rejection {
    BTL_IB_REJECTED_REGION, /* its region is longer than btl_ib_pin_max_region */
    BTL_IB_REJECTED_LIMIT,  /* the limits below */
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
    uint32_t told;        /* bits: why memory was not registered, as it was told */
    btl_ib_list_t caches; /* whose registrations these are, one of each module */
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

/* Initializes it: nothing is registered; the limits are what `text` says, or 0 bytes if that is
 * wrong, in at most `regions_max` regions (0: any number). */
void btl_ib_registration_limit_init(btl_ib_registration_limit_t *limit, const char *text,
                                    const btl_ib_registration_host_t *host, uint64_t regions_max);

/* Describes this host, as its system tells. */
btl_ib_registration_host_t btl_ib_registration_host(uint32_t processes);

/* Returns how much the probe below is to try: what all processes of the host may register together,
 * if one may lock as much. */
static inline uint64_t btl_ib_registration_limit_wanted(const btl_ib_registration_limit_t *limit)
{
    const uint64_t most = limit->lockable;

    return limit->max > most / limit->processes ? most : limit->max * limit->processes;
}

/* Notes that it found so much. If that is less than all wanted together each has an equal share of
 * it. */
void btl_ib_registration_limit_found(btl_ib_registration_limit_t *limit, uint64_t found);

/* Count so many bytes in so many regions more, if that is within the limits. Returns whether it
 * is. */
bool btl_ib_registration_limit_reserve(btl_ib_registration_limit_t *limit, uint64_t bytes,
                                       uint32_t regions);

/* Notes that they are not registered any more. */
static inline void btl_ib_registration_limit_release(btl_ib_registration_limit_t *limit,
                                                     uint64_t bytes, uint32_t regions)
{
    limit->bytes -= bytes;
    limit->regions -= regions;
}

/* Notes that some memory was not registered. Returns whether that is to be told at level 1, as it
 * is the first time for each reason. */
static inline bool btl_ib_registration_limit_rejected(btl_ib_registration_limit_t *limit,
                                                      btl_ib_rejection_t why)
{
    const uint32_t bit = UINT32_C(1) << why;
    const bool first = (limit->told & bit) == 0;

    limit->told |= bit;
    return first;
}

/* ---- what can be pinned ---- */

/*
 * How much memory can a device really register (btl_ib_pin_probe)? Found by trying: the same memory
 * is registered again and again, which counts each time against what the process may lock and
 * takes room in the device's tables, but none of the host's memory. No OPAL in here.
 */

/*
 * Probes for all processes of a host that name the file `path`, and want as much: one of them
 * probes while the others wait, and leaves the result there. A process that cannot open the file
 * (NULL: there is none) probes by itself.
 */
uint64_t btl_ib_pin_probe_once(btl_ib_transport_t *transport, uint64_t wanted, const char *path);

#endif
