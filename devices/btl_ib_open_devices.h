/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Opening devices.
 */

#ifndef BTL_IB_OPEN_H
#define BTL_IB_OPEN_H

#include "btl_ib.h"
#include "btl_ib_rejected_devices.h"
#include "device_filter.h"

/*
 * Open the devices that the parameters want, make each a rail of the engine and a module, and describe it in
 * component->self. Returns whether there is at least one module; if not, or if a parameter is wrong, a help text or
 * the verbose output says why. What was made is the caller's to free in either case.
 */
bool btl_ib_open_devices(btl_ib_component_t *component);

/* ---- what users hear of it; btl_ib_device_report.c ---- */

/* May any transport be used? */
bool btl_ib_open_any_transport(const btl_ib_params_t *params);

/* Was a provider of libfabric's asked for, which only transport ofi has? */
bool btl_ib_open_named_provider(const btl_ib_params_t *params);

/* There is no device: what was `seen`, and which of that could not be opened. Only who wanted ib
 * hears of it. */
void btl_ib_open_tell_nothing(const btl_ib_component_t *component, const btl_ib_seen_t *seen,
                              const btl_ib_seen_t *failed);

/* Which entries of btl_ib_if_include matched nothing, although others did; what is used, and
 * what else was `seen`. */
void btl_ib_open_tell_unmatched(const btl_ib_component_t *component,
                                const btl_ib_device_list_t *include, const btl_ib_seen_t *seen);

/* Some devices could not be opened, if there are any in `failed`; modules are made of others. */
void btl_ib_open_tell_failed(const btl_ib_component_t *component, const btl_ib_seen_t *failed);

/* No port of the range could be had for a device; `error` is the errno. */
void btl_ib_open_tell_ports(const btl_ib_params_t *params, const btl_ib_device_t *device,
                            int error);

#endif
