/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The file of btl_ib_stats_file: JSON, as docs/guide/counters.md says. */

#ifndef BTL_IB_STATS_FILE_H
#define BTL_IB_STATS_FILE_H

#include "btl_ib_stats.h"

/* Versions of the components, for the file. */
typedef struct btl_ib_stats_file_info {
    const char *component;
    const char *openmpi;
    uint64_t now; /* us, as in btl_ib_stats_config_t */
} btl_ib_stats_file_info_t;

/* Create the file, empty, to see whether that is possible; and write it, when MPI ends. Return 0 or
 * an errno. */
int btl_ib_stats_file_create(const char *name);
int btl_ib_stats_file_write(const char *name, const btl_ib_stats_t *stats,
                            const btl_ib_stats_file_info_t *info);

#endif
