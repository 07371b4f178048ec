/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* footprint() of btl_ib_transport_type_t, of transport "verbs", wire RC. */

#ifndef BTL_IB_VERBS_RC_FOOTPRINT_H
#define BTL_IB_VERBS_RC_FOOTPRINT_H

#include "transport.h"

void btl_ib_rc_footprint(const btl_ib_open_params_t *open, const btl_ib_transport_attr_t *attr,
                         uint32_t peers, struct btl_ib_footprint *footprint);

#endif
