/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What a report of a fault should tell of versions and devices: verbose level 1, one process of a host. */

#ifndef BTL_IB_ABOUT_H
#define BTL_IB_ABOUT_H

#include "btl_ib.h"

/* Our version and Open MPI's, the transports that were built, their libraries: a line each. */
void btl_ib_about_versions(void);

/* A device that became `rail`: its driver, firmware, link speed, MTU. */
void btl_ib_about_device(const btl_ib_transport_type_t *type, const btl_ib_device_t *device,
                         uint32_t rail);

#endif
