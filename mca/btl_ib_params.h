/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The MCA parameters of the component (btl_ib_param_table.h): their values, made of what the user
 * gave, and whether they can be used; what the engine is told of them.
 */

#ifndef BTL_IB_PARAMS_H
#define BTL_IB_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_ompi_compat.h"
#include "btl_ib_engine.h"
#include "btl_ib_param_table.h"
#include "btl_ib_protection.h"

/* ---- values ---- */

/*
 * Registers all parameters of `component`, those of a module's own fields included, whose defaults
 * are set here; the functions of `limits` are set already, since Open MPI keeps flags only of
 * functions that are there. btl_ib_params_read() comes next.
 */
void btl_ib_params_register(btl_ib_params_t *params, mca_btl_base_module_t *limits,
                            mca_base_component_t *component);

/* True if somebody set the parameter of this name (without btl_ib_); else it is the default. */
bool btl_ib_params_by_user(const btl_ib_params_t *params, const char *name);

/* Returns what is to protect datagrams, as valid parameters say. */
btl_ib_protection_kind_t btl_ib_params_protection(const btl_ib_params_t *params);

/* ---- what the engine is told of them ---- */

/* Returns the longest message: what any limit lets through. ob1 sends no more than eager_limit with
 * the question about a longer one, whatever rndv_eager_limit says. */
uint32_t btl_ib_params_message_max(const mca_btl_base_module_t *limits);

/* Reads the sends of each channel; 0: the transport's default. Returns what is wrong with the text,
 * as btl_ib_param_parse.h does; NULL: nothing. */
const char *btl_ib_params_send_depth(const btl_ib_params_t *params,
                                     uint32_t depths[BTL_IB_QUEUES_MAX]);

/* Returns the eager limit of a device with `attr`, which moves memory by itself or not. */
size_t btl_ib_params_eager_limit(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                                 const btl_ib_transport_attr_t *attr, bool by_device);

/* Defaults, and what valid parameters say. */
void btl_ib_params_engine(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                          btl_ib_engine_config_t *config);

/* ---- what the user gave ---- */

/*
 * Makes values of the texts that the user gave, in place of those that Open MPI made of them. A
 * text that is wrong leaves the default of our own numbers, and btl_ib_params_check() will say so.
 * To be called when all are registered.
 */
void btl_ib_params_read(btl_ib_params_t *params, mca_btl_base_module_t *limits);

/*
 * Checks that every value is in its range, and that they fit together. If not, a help text says
 * which and what was expected. To be called only when ib was asked for.
 */
bool btl_ib_params_check(const btl_ib_params_t *params, const mca_btl_base_module_t *limits);

#endif
