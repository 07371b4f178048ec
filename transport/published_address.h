/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Addresses that peers use instead of those of our interfaces (btl_ib_udp_address). */

#ifndef BTL_IB_PUBLISHED_ADDRESS_H
#define BTL_IB_PUBLISHED_ADDRESS_H

#include <stdbool.h>

#include "transport.h"

/*
 * Sets device->published to the address that `text` has for its interface, or to none:
 *
 *   text  := entry { ',' entry }
 *   entry := [ interface '=' ] address [ ':' port ]; an IPv6 address with a port is in brackets
 *
 * `text` may be NULL or empty. `ports`: a port is allowed. Returns NULL; or what is wrong with the
 * text, a literal: then `device` is as before.
 */
const char *btl_ib_published_address(const char *text, bool ports, btl_ib_device_t *device);

#endif
