/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_pin_limit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

bool btl_ib_pin_limit(const char *text, const btl_ib_pin_host_t *host, uint64_t *bytes)
{
    char *end;

    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || 0 != errno) {
        return false;
    }
    if (0 == strcmp(end, "%") && value <= 100) {
        *bytes = host->memory / 100 * value / host->processes;
    } else if ('\0' == *end) {
        *bytes = value;
    } else {
        return false;
    }
    if (*bytes > host->lockable) {
        *bytes = host->lockable;
    }
    return true;
}

btl_ib_pin_host_t btl_ib_pin_host(uint32_t processes)
{
    struct rlimit locked;
    btl_ib_pin_host_t host = {
        .memory = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE),
        .lockable = UINT64_MAX,
        .processes = processes,
    };

    if (0 == getrlimit(RLIMIT_MEMLOCK, &locked) && RLIM_INFINITY != locked.rlim_cur) {
        host.lockable = locked.rlim_cur;
    }
    return host;
}
