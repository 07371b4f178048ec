/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * How much memory a process may keep registered with devices (btl_ib_max_pinned), and how much it
 * has. No OPAL in here, so that it can be tested by itself. The functions that change the count are
 * called with the component's lock held.
 */

#ifndef BTL_IB_REGISTRATION_LIMIT_H
#define BTL_IB_REGISTRATION_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* What there is to be shared. */
typedef struct btl_ib_registration_host {
    uint64_t memory;    /* bytes of the host */
    uint64_t lockable;  /* bytes that this process may lock, UINT64_MAX: any number */
    uint32_t processes; /* of the job on this host, at least 1 */
} btl_ib_registration_host_t;

/* Registered by all modules of a process. */
typedef struct btl_ib_registration_limit {
    uint64_t bytes;    /* registered now */
    uint64_t max;      /* as btl_ib_max_pinned says */
    uint64_t rejected; /* times that memory was not registered */
    bool told_region;  /* that a region is longer than btl_ib_pin_max_region */
    bool told_max;     /* that `max` was reached */
} btl_ib_registration_limit_t;

/*
 * Bytes that a process may register. `text` is a number of bytes (0 to 2^64 - 1, also with a unit,
 * see btl_ib_param_values.h), or a share of the host's memory that is divided among its processes,
 * as "50%" (0% to 100%) or "0.5" (0.0 to 1.0). Never more than it may lock. Returns NULL; or what
 * is wrong with `text`, a literal, and *bytes is unchanged.
 */
const char *btl_ib_registration_limit_parse(const char *text,
                                            const btl_ib_registration_host_t *host,
                                            uint64_t *bytes);

/* Nothing is registered; the limit is what `text` says, or 0 bytes if that is wrong. */
void btl_ib_registration_limit_init(btl_ib_registration_limit_t *limit, const char *text,
                                    const btl_ib_registration_host_t *host);

/* This host, as its system tells. */
btl_ib_registration_host_t btl_ib_registration_host(uint32_t processes);

/* Count so many bytes more, if they are within the limit. Returns whether they are. */
bool btl_ib_registration_limit_reserve(btl_ib_registration_limit_t *limit, uint64_t bytes);

static inline void btl_ib_registration_limit_release(btl_ib_registration_limit_t *limit,
                                                     uint64_t bytes)
{
    limit->bytes -= bytes;
}

/* Some memory was not registered: because its region is too long, or for another reason. Returns
 * whether that is to be told at level 1, as it is the first time. */
bool btl_ib_registration_limit_rejected(btl_ib_registration_limit_t *limit, bool too_long);

#endif
