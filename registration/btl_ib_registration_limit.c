/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_registration_limit.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "btl_ib_param_values.h"

const char *btl_ib_pin_limit(const char *text, const btl_ib_pin_host_t *host, uint64_t *bytes)
{
    static const btl_ib_value_range_t any = {BTL_IB_VALUE_BYTES, 0, UINT64_MAX};
    static const btl_ib_value_range_t parts = {BTL_IB_VALUE_COUNT, 0, 100};
    const size_t len = strlen(text);
    char number[32];
    uint64_t value = 0;
    const char *problem;

    if (0 == len || '%' != text[len - 1]) {
        problem = btl_ib_value_number(text, &any, &value);
    } else if (len > sizeof(number)) {
        problem = "it is too long";
    } else {
        memcpy(number, text, len - 1);
        number[len - 1] = '\0';
        problem = btl_ib_value_number(number, &parts, &value);
        value = host->memory / 100 * value / host->processes;
    }
    if (NULL == problem) {
        *bytes = value < host->lockable ? value : host->lockable;
    }
    return problem;
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
