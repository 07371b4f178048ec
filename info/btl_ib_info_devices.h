/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The devices that transports see here, what each is, and what a job would make of it. */

#ifndef BTL_IB_INFO_DEVICES_H
#define BTL_IB_INFO_DEVICES_H

#include "btl_ib_memory_max.h"
#include "btl_ib_info_out.h"

/*
 * Print them. First devices are opened, and closed again, as a process of a job of `processes` (0:
 * any number) would do that names ib; help texts go to stderr. Returns how many it would use.
 */
uint32_t btl_ib_info_devices(btl_ib_info_out_t *out, const btl_ib_process_sizes_t *sizes,
                             uint32_t processes);

#endif
