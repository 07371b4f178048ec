/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What users are told of devices that are opened, and of those that are not. */

#ifndef BTL_IB_DEVICE_REPORT_H
#define BTL_IB_DEVICE_REPORT_H

#include "btl_ib_open_request.h"
#include "btl_ib_rejected_devices.h"
#include "device_filter.h"

/* Transports that were built, at verbose level 1. */
void btl_ib_report_transports(void);

/* Their libraries, the same by one process of a host: after devices were looked for, which loads
 * those that are needed. */
void btl_ib_report_libraries(void);

/* May any transport be used? */
bool btl_ib_any_transport(const btl_ib_params_t *params);

/* Was a provider of libfabric asked for, which only transport ofi has? */
bool btl_ib_named_provider(const btl_ib_params_t *params);

/* There is no device: which were `rejected`, and which of those could not be opened. Only users
 * that asked for ib are told. */
void btl_ib_report_no_device(const btl_ib_open_request_t *request,
                             const btl_ib_rejected_devices_t *rejected,
                             const btl_ib_rejected_devices_t *failed);

/* `count` devices are used; but some could not be opened, or entries of btl_ib_if_include match
 * nothing. */
void btl_ib_report_unused(const btl_ib_open_request_t *request,
                          const btl_ib_opened_device_t *opened, uint32_t count,
                          const btl_ib_device_list_t *include,
                          const btl_ib_rejected_devices_t *rejected,
                          const btl_ib_rejected_devices_t *failed);

/* No port of the range can be had for a device; `error` is the errno. */
void btl_ib_report_ports_taken(const btl_ib_params_t *params, const btl_ib_device_t *device,
                               int error);

#endif
