/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Facts that ib_info prints of this build and of devices. */

#ifndef BTL_IB_INFO_DEVICES_H
#define BTL_IB_INFO_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_device_plan.h"
#include "btl_ib_info_output.h"

/*
 * Prints what was built, and the devices. The devices are opened and closed again, as by a process
 * that names ib, of a job of `processes` (0: any number); help texts go to stderr. Returns how many
 * devices such a process would use.
 */
uint32_t btl_ib_info_devices(bool parsable, const btl_ib_process_sizes_t *sizes,
                             uint32_t processes);

#endif
