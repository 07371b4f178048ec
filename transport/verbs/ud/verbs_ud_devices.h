/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which ports of RDMA devices can be used for UD, and with which of their addresses. */

#ifndef BTL_IB_VERBS_UD_DEVICES_H
#define BTL_IB_VERBS_UD_DEVICES_H

#include "transport.h"

/* devices() of btl_ib_transport_type_t: one for each active port and address, the best address of
 * each port first. iWARP devices, which have no UD, are left out. */
int btl_ib_ud_devices(const btl_ib_search_t *search, btl_ib_device_t **list);

#endif
