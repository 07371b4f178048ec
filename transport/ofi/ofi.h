/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The transport `ofi`: libfabric's datagram endpoints (FI_EP_DGRAM), over any provider that has
 * them: usnic, efa, verbs (UD), udp. See fi_endpoint(3), fi_cq(3), fi_av(3).
 */

#ifndef BTL_IB_OFI_H
#define BTL_IB_OFI_H

#include "transport.h"

extern const btl_ib_transport_type_t btl_ib_ofi_type;

#endif
