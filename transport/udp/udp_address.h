/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* An interface that has another address than before: DHCP or an administrator gave it one. */

#ifndef BTL_IB_UDP_ADDRESS_H
#define BTL_IB_UDP_ADDRESS_H

#include "udp_name.h"

#include "transport.h"

/* Has this host no longer the address that a device was opened with, and its interface another one
 * of that family? If so `device` has that. Takes three system calls while the address is there,
 * some dozens else. */
bool btl_ib_udp_address_changed(btl_ib_device_t *device);

#endif
