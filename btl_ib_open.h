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

/*
 * Open the devices that the parameters want, make each a rail of the engine and a module, and describe it in
 * component->self. Returns whether there is at least one module; if not, or if a parameter is wrong, a help text or
 * the verbose output says why. What was made is the caller's to free in either case.
 */
bool btl_ib_open_devices(btl_ib_component_t *component);

#endif
