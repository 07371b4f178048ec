/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which devices become rails: which transports and wires are tried, in what order, and with what
 * receive queues each device is opened.
 */

#ifndef BTL_IB_OPEN_DEVICES_H
#define BTL_IB_OPEN_DEVICES_H

#include "btl_ib_open_request.h"

/*
 * Open the devices that are wanted, and make rails of them. Returns how many. If there is none, or
 * a parameter is wrong, help texts or the verbose output say why, and 0 is returned; rails that
 * were added before end with the engine.
 */
uint32_t btl_ib_open_devices(const btl_ib_open_request_t *request,
                             btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX]);

#endif
