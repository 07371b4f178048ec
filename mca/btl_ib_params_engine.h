/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The engine's settings, as far as parameters decide them. */

#ifndef BTL_IB_PARAMS_ENGINE_H
#define BTL_IB_PARAMS_ENGINE_H

#include "btl_ib_engine.h"
#include "btl_ib_params.h"

/* The longest message: what any limit lets through. ob1 sends no more than eager_limit with the
 * question about a longer one, whatever rndv_eager_limit says. */
uint32_t btl_ib_params_message_max(const mca_btl_base_module_t *limits);

/* The eager limit of a device with `attr`, which moves memory by itself or not. */
size_t btl_ib_params_eager_limit(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                                 const btl_ib_transport_attr_t *attr, bool by_device);

/* Defaults, and what valid parameters say. */
void btl_ib_params_engine(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                          btl_ib_engine_config_t *config);

#endif
