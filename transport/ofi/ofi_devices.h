/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_OFI_DEVICES_H
#define BTL_IB_OFI_DEVICES_H

#include "ofi_library.h"
#include "transport.h"

/* The interface of libfabric that this was written to. */
#define BTL_IB_OFI_VERSION FI_VERSION(1, 9)

/* What we can work with, for fi_getinfo(); the caller frees it. NULL if memory is short. */
struct fi_info *btl_ib_ofi_hints(const char *provider);

/* See btl_ib_transport_type_t. A device's handle is its struct fi_info. */
int btl_ib_ofi_devices(const btl_ib_search_t *search, btl_ib_device_t **out);
void btl_ib_ofi_devices_free(btl_ib_device_t *list, int count);
void btl_ib_ofi_facts(const btl_ib_device_t *device, struct btl_ib_facts *facts);
void btl_ib_ofi_describe(const btl_ib_device_t *device, char *out, size_t len);

#endif
