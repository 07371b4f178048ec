/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_registration_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include "btl_ib_param_values.h"

enum { WHOLE = 1000000 }; /* shares are in millionths */

const char *btl_ib_registration_limit_parse(const char *text,
                                            const btl_ib_registration_host_t *host, uint64_t *bytes)
{
    uint64_t value;
    bool is_share;
    const char *problem = btl_ib_value_bytes_or_share(text, &value, &is_share);

    if (NULL == problem) {
        if (is_share) {
            value = host->memory / WHOLE * value + host->memory % WHOLE * value / WHOLE;
        }
        value /= host->processes;
        *bytes = value < host->lockable ? value : host->lockable;
    }
    return problem;
}

btl_ib_registration_host_t btl_ib_registration_host(uint32_t processes)
{
    struct rlimit locked;
    btl_ib_registration_host_t host = {
        .memory = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE),
        .lockable = UINT64_MAX,
        .processes = processes,
    };

    if (0 == getrlimit(RLIMIT_MEMLOCK, &locked) && RLIM_INFINITY != locked.rlim_cur) {
        host.lockable = locked.rlim_cur;
    }
    return host;
}

void btl_ib_registration_limit_init(btl_ib_registration_limit_t *limit, const char *text,
                                    const btl_ib_registration_host_t *host, uint64_t regions_max)
{
    *limit = (btl_ib_registration_limit_t){
        .regions_max = 0 != regions_max ? regions_max : UINT64_MAX,
        .processes = host->processes,
        .lockable = host->lockable,
    };
    btl_ib_list_init(&limit->caches);
    (void) btl_ib_registration_limit_parse(text, host, &limit->max); /* it was checked */
}

uint64_t btl_ib_registration_limit_wanted(const btl_ib_registration_limit_t *limit)
{
    const uint64_t most = limit->lockable;

    return limit->max > most / limit->processes ? most : limit->max * limit->processes;
}

void btl_ib_registration_limit_found(btl_ib_registration_limit_t *limit, uint64_t found)
{
    const bool by_all = limit->max <= limit->lockable / limit->processes;
    const uint64_t share = by_all ? found / limit->processes : found;

    if (found < btl_ib_registration_limit_wanted(limit) && share < limit->max) {
        limit->max = share;
    }
}

void btl_ib_registration_limit_join(btl_ib_registration_limit_t *limit, btl_ib_list_t *cache)
{
    btl_ib_list_init(cache);
    btl_ib_list_push_tail(&limit->caches, cache);
}

void btl_ib_registration_limit_leave(btl_ib_list_t *cache)
{
    btl_ib_list_remove(cache);
}

bool btl_ib_registration_limit_reserve(btl_ib_registration_limit_t *limit, uint64_t bytes,
                                       uint32_t regions)
{
    const bool fits = bytes <= limit->max && limit->bytes <= limit->max - bytes
                      && regions <= limit->regions_max
                      && limit->regions <= limit->regions_max - regions;

    if (fits) {
        limit->bytes += bytes;
        limit->regions += regions;
    }
    return fits;
}

void btl_ib_registration_limit_release(btl_ib_registration_limit_t *limit, uint64_t bytes,
                                       uint32_t regions)
{
    limit->bytes -= bytes;
    limit->regions -= regions;
}

bool btl_ib_registration_limit_rejected(btl_ib_registration_limit_t *limit, btl_ib_rejection_t why)
{
    const uint32_t bit = UINT32_C(1) << why;
    const bool first = 0 == (limit->told & bit);

    limit->told |= bit;
    return first;
}
