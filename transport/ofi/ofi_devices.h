/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Finds devices that an ofi transport can be opened on (fi_getinfo(3)). */

#ifndef BTL_IB_OFI_DEVICES_H
#define BTL_IB_OFI_DEVICES_H

#include "ofi_library.h"
#include "transport.h"

/* The version of libfabric's interface that ofi uses. */
#define BTL_IB_OFI_VERSION FI_VERSION(1, 9)

struct btl_ib_facts; /* net_interfaces.h */

/* Does devices(), devices_free() and facts() of btl_ib_transport_type_t. A device's handle is its
 * struct fi_info. */
int btl_ib_ofi_devices(const btl_ib_search_t *search, btl_ib_device_t **out);
void btl_ib_ofi_devices_free(btl_ib_device_t *list, int count);
void btl_ib_ofi_facts(const btl_ib_device_t *device, struct btl_ib_facts *facts);

#endif
