/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "ofi_library.h"

#include <stdio.h>

static struct {
    BTL_IB_OFI_CALLS(BTL_IB_LIBRARY_POINTER)
} calls;

static const char *const names[] = {BTL_IB_OFI_CALLS(BTL_IB_LIBRARY_NAME)};

static btl_ib_library_t library = {
    .file = BTL_IB_OFI_FILE,
    .package = "Debian: libfabric1, Fedora: libfabric",
    .names = names,
    .count = sizeof(names) / sizeof(names[0]),
    .calls = &calls,
    .preload = true,
};

BTL_IB_OFI_CALLS(BTL_IB_LIBRARY_CALL)

void btl_ib_ofi_library(bool load, char *out, size_t len)
{
    char running[192];

    if (btl_ib_library_check(&library, load, running, sizeof(running))) {
        const uint32_t version = fi_version();
        snprintf(running, sizeof(running), "running %u.%u", FI_MAJOR(version), FI_MINOR(version));
    }
    snprintf(out, len, "libfabric: built with %u.%u, %s", FI_MAJOR_VERSION, FI_MINOR_VERSION,
             running);
}

bool btl_ib_ofi_load(char *why, size_t len)
{
    return btl_ib_library_load(&library, why, len);
}
