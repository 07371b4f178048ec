/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Network interfaces as devices of transport "udp"; see btl_ib_transport_type_t. */

#ifndef BTL_IB_UDP_DEVICES_H
#define BTL_IB_UDP_DEVICES_H

#include "transport.h"

int btl_ib_udp_devices(const btl_ib_search_t *search, btl_ib_device_t **list);
void btl_ib_udp_devices_free(btl_ib_device_t *list, int count);
void btl_ib_udp_facts(const btl_ib_device_t *device, struct btl_ib_facts *facts);
void btl_ib_udp_describe(const btl_ib_device_t *device, char *out, size_t len);

/* The largest datagram that the device's interface carries without fragments, 0 if unknown. */
uint32_t btl_ib_udp_device_datagram(const btl_ib_device_t *device);

#endif
