/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_RDMA_PRESENT_H
#define BTL_IB_RDMA_PRESENT_H

#include <stdbool.h>

/* Has this host any RDMA device (InfiniBand, RoCE, iWARP, usNIC, EFA), and one with a port that is
 * active? Both ask the kernel (/sys/class/infiniband), before a library is loaded for it: libfabric
 * takes 0.2 s, and finds no datagrams on hardware but those of such devices. */
bool btl_ib_rdma_present(void);
bool btl_ib_rdma_active(void);

#endif
