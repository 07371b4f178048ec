/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_hwloc.h"

static struct {
    BTL_IB_HWLOC_CALLS(BTL_IB_LIBRARY_POINTER)
} calls;

static const char *const names[] = {BTL_IB_HWLOC_CALLS(BTL_IB_LIBRARY_NAME)};

static btl_ib_library_t library = {
    .file = BTL_IB_HWLOC_FILE,
    .names = names,
    .count = sizeof(names) / sizeof(names[0]),
    .calls = &calls,
};

BTL_IB_HWLOC_CALLS(BTL_IB_LIBRARY_CALL)

bool btl_ib_hwloc_load(char *why, size_t len)
{
    return btl_ib_library_load(&library, why, len);
}
