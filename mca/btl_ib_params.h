/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Registers the MCA parameters of btl_ib_param_table.h with Open MPI. */

#ifndef BTL_IB_PARAMS_H
#define BTL_IB_PARAMS_H

#include "btl_ib_compat.h"
#include "btl_ib_guard.h"
#include "btl_ib_param_table.h"

/*
 * Register all parameters of `component`, those of a module's own fields included, whose defaults
 * are set here; the functions of `limits` are set already, since Open MPI keeps flags only of
 * functions that are there. btl_ib_params_read() comes next.
 */
void btl_ib_params_register(btl_ib_params_t *params, mca_btl_base_module_t *limits,
                            mca_base_component_t *component);

/* Does Open MPI refuse what was read of its own values (params->registered)? */
void btl_ib_params_verify(btl_ib_params_t *params, mca_btl_base_module_t *limits);

/* Did somebody set the parameter of this name (without btl_ib_), or is it the default? */
bool btl_ib_params_by_user(const btl_ib_params_t *params, const char *name);

/* What is to protect datagrams, as valid parameters say. */
btl_ib_guard_kind_t btl_ib_params_guard(const btl_ib_params_t *params);

#endif
