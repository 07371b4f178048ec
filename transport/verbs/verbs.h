/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Transport "verbs": RDMA devices through rdma-core (libibverbs). Over UD queue pairs datagrams as
 * the network has them, one for each port; what iWARP, which has no UD, and hardware RDMA need are
 * connections (RC).
 */

#ifndef BTL_IB_VERBS_H
#define BTL_IB_VERBS_H

#include "transport.h"

extern const btl_ib_transport_type_t btl_ib_verbs_ud_type;
extern const btl_ib_transport_type_t btl_ib_verbs_rc_type;

#endif
