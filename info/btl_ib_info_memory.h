/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What receive queues cost, by transport, before any job runs; and which fit a budget. */

#ifndef BTL_IB_INFO_MEMORY_H
#define BTL_IB_INFO_MEMORY_H

#include "btl_ib_memory_max.h"
#include "btl_ib_info_cli.h"

/* Print it. Returns the exit status: 1 if queues are wrong or nothing fits the budget, which is
 * said on stderr. */
int btl_ib_info_memory(btl_ib_info_out_t *out, const btl_ib_process_sizes_t *sizes,
                       const btl_ib_info_args_t *args);

#endif
