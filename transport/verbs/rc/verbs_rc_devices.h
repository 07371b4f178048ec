/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which RDMA devices can be reached by rdma_cm. It alone knows which device an IP address belongs
 * to (IPoIB, RoCE and iWARP each find out in their own way), so it is asked about each address of
 * this host.
 */

#ifndef BTL_IB_VERBS_RC_DEVICES_H
#define BTL_IB_VERBS_RC_DEVICES_H

#include "transport.h"

/* devices() of btl_ib_transport_type_t. */
int btl_ib_rc_devices(const btl_ib_search_t *search, btl_ib_device_t **list);

#endif
