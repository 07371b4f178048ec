/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Forecast of the memory that an RC transport takes. */

#ifndef BTL_IB_VERBS_RC_FORECAST_H
#define BTL_IB_VERBS_RC_FORECAST_H

#include <stdint.h>

#include "transport.h"

/* memory_estimate() of btl_ib_transport_type_t. */
void btl_ib_rc_memory_estimate(const btl_ib_open_params_t *open,
                               const btl_ib_transport_attr_t *attr, uint32_t peers,
                               btl_ib_memory_estimate_t *estimate);

#endif
