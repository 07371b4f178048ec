/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What memory a device takes, opened as planned: the transport, the engine and the component's free
 * lists. Both btl_ib_memory_report and ib_info tell what this computes. */

#ifndef BTL_IB_DEVICE_FOOTPRINT_H
#define BTL_IB_DEVICE_FOOTPRINT_H

#include "btl_ib_device_plan.h"
#include "footprint.h"

/* What is alike for all devices of a process. */
typedef struct btl_ib_process_sizes {
    const btl_ib_params_t *params;
    const mca_btl_base_module_t *limits;
    size_t fragment; /* bytes of a fragment without data, its room for headers included */
} btl_ib_process_sizes_t;

/* Add it, with so many peers. With several devices the engine's own part counts only once, as a
 * little too much. */
void btl_ib_device_footprint(const btl_ib_process_sizes_t *sizes,
                             const btl_ib_transport_type_t *type,
                             const btl_ib_device_plan_t *plan, uint32_t peers,
                             btl_ib_footprint_t *footprint);

/* Print it for a device that was opened: each part now, with `peers`, and at most. */
void btl_ib_device_footprint_report(const btl_ib_process_sizes_t *sizes,
                                    const btl_ib_transport_type_t *type, const char *name,
                                    const btl_ib_device_plan_t *plan, uint32_t peers);

#endif
