/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The MCA parameters of the component (btl_ib_param_table.h): registers them, makes values of what
 * the user gave, checks these, and configures the engine by them.
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
 * Registers all parameters of `component`, and sets their defaults: in `params`, and in `limits`
 * for fields of a module. The functions of `limits` must be set before, since Open MPI clears the
 * flags of functions that are missing. btl_ib_params_read() comes next.
 */
void btl_ib_params_register(btl_ib_params_t *params, mca_btl_base_module_t *limits,
                            mca_base_component_t *component);

/* True if the user set the parameter of this name (without btl_ib_), even to its default. */
bool btl_ib_params_by_user(const btl_ib_params_t *params, const char *name);

/* Returns the protection of datagrams that valid parameters choose. */
btl_ib_protection_kind_t btl_ib_params_protection(const btl_ib_params_t *params);

/* ---- configuring the engine ---- */

/* Returns the bytes of the longest message that any limit lets through. (rndv_eager_limit does not
 * count: ob1 sends no more than eager_limit with a rendezvous.) */
uint32_t btl_ib_params_message_max(const mca_btl_base_module_t *limits);

/* Reads btl_ib_send_depth: how many sends each channel may have in a device's queue; 0: the
 * transport's default. Returns NULL, or what is wrong with the text, as btl_ib_param_parse.h
 * does. */
const char *btl_ib_params_send_depth(const btl_ib_params_t *params,
                                     uint32_t depths[BTL_IB_QUEUES_MAX]);

/* Returns the eager limit, bytes, of a device with `attr`. `by_device`: it moves memory by
 * itself. */
size_t btl_ib_params_eager_limit(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                                 const btl_ib_transport_attr_t *attr, bool by_device);

/* Fills in *config with defaults and what valid parameters say. */
void btl_ib_params_engine(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                          btl_ib_engine_config_t *config);

/* ---- what the user gave ---- */

/*
 * Replaces the values that Open MPI made of the texts that the user gave by ours. A text that is
 * wrong leaves a default; btl_ib_params_check() will report it. Called when all parameters are
 * registered.
 */
void btl_ib_params_read(btl_ib_params_t *params, mca_btl_base_module_t *limits);

/*
 * Checks that every value is in its range, and that they fit together. If not, shows which is wrong
 * and what was expected, in help texts, and returns false. Called only if ib is to be used.
 */
bool btl_ib_params_check(const btl_ib_params_t *params, const mca_btl_base_module_t *limits);

#endif
