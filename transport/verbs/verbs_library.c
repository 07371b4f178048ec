/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_library.h"

#include <stdio.h>

/* Macros for inline functions, which call those of the library. */
#undef ibv_query_port
#undef ibv_reg_mr

static struct {
    BTL_IB_VERBS_CALLS(BTL_IB_LIBRARY_POINTER)
} calls;

static const char *const names[] = {BTL_IB_VERBS_CALLS(BTL_IB_LIBRARY_NAME)};

static btl_ib_library_t library = {
    .file = BTL_IB_VERBS_FILE,
    .package = "Debian: libibverbs1, Fedora: libibverbs",
    .names = names,
    .count = sizeof(names) / sizeof(names[0]),
    .calls = &calls,
    .preload = true,
};

BTL_IB_VERBS_CALLS(BTL_IB_LIBRARY_CALL)

void btl_ib_verbs_library(bool load, char *out, size_t len)
{
    char running[192];
    char file[64];

    if (btl_ib_library_check(&library, load, running, sizeof(running))) {
        btl_ib_library_file(&library, file, sizeof(file));
        snprintf(running, sizeof(running), "running %s", file);
    }
    snprintf(out, len, "rdma-core: built with libibverbs " BTL_IB_BUILT_FOR_VERBS ", %s", running);
}

/* ---- librdmacm ---- */

static struct {
    BTL_IB_VERBS_CM_CALLS(BTL_IB_LIBRARY_POINTER)
} cm_calls;

static const char *const cm_names[] = {BTL_IB_VERBS_CM_CALLS(BTL_IB_LIBRARY_NAME)};

static btl_ib_library_t cm_library = {
    .file = BTL_IB_VERBS_CM_FILE,
    .package = "Debian: librdmacm1, Fedora: librdmacm",
    .names = cm_names,
    .count = sizeof(cm_names) / sizeof(cm_names[0]),
    .calls = &cm_calls,
    .preload = true,
};

#define calls cm_calls
BTL_IB_VERBS_CM_CALLS(BTL_IB_LIBRARY_CALL)
#undef calls

bool btl_ib_verbs_load(bool cm, char *why, size_t len)
{
    return btl_ib_library_load(&library, why, len)
           && (!cm || btl_ib_library_load(&cm_library, why, len));
}
