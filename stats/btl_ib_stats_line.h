/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The line of counters that btl_ib_stats prints. */

#ifndef BTL_IB_STATS_LINE_H
#define BTL_IB_STATS_LINE_H

#include <stdint.h>

#include "btl_ib_stats_values.h"

/* `when` stands behind the host: "", or for instance " after 10 s,". */
void btl_ib_stats_print(uint32_t rank, const char *host, const char *when,
                        const btl_ib_process_counters_t *counters);

#endif
