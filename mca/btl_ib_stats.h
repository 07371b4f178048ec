/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The line of counters that btl_ib_stats prints when MPI ends. */

#ifndef BTL_IB_STATS_H
#define BTL_IB_STATS_H

#include <stdint.h>

#include "btl_ib_counters.h"

/* `not_registered`: times that memory was not registered with a device. `overflows`: datagrams that
 * found no room in a receive buffer. */
void btl_ib_stats_print(uint32_t rank, const char *host, const btl_ib_counters_t *counters,
                        uint64_t not_registered, uint64_t overflows);

#endif
