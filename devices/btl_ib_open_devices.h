/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Opens the devices of this process, and says which it found, took and turned down. */

#ifndef BTL_IB_OPEN_DEVICES_H
#define BTL_IB_OPEN_DEVICES_H

#include "btl_ib_open_request.h"
#include "btl_ib_rejected_devices.h"
#include "device_filter.h"

/* ---- opening ---- */

/*
 * Which devices become rails: which transports and wires are tried, in what order, and with what
 * receive queues each device is opened.
 */

/*
 * Open the devices that are wanted, and make rails of them. Returns how many. If there is none, or
 * a parameter is wrong, help texts or the verbose output say why, and 0 is returned; rails that
 * were added before end with the engine.
 */
uint32_t btl_ib_open_devices(const btl_ib_open_request_t *request,
                             btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX]);

/* ---- what is said of devices ---- */

/* What users are told of devices that are opened, and of those that are not. */

/* Transports that were built, at verbose level 1. */
void btl_ib_report_transports(void);

/* Their libraries, the same by one process of a host: after devices were looked for, which loads
 * those that are needed. */
void btl_ib_report_libraries(void);

/* May any transport be used? */
bool btl_ib_any_transport(const btl_ib_params_t *params);

#endif
