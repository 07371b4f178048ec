/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_UDP_H
#define BTL_IB_UDP_H

#include "transport.h"
#include "udp_name.h"

/*
 * Transport "udp": the kernel's own sockets, for any machine with a network interface. Many
 * datagrams move in one system call (UDP_SEGMENT, UDP_GRO, sendmmsg, recvmmsg), where the kernel
 * has that.
 */

extern const btl_ib_transport_type_t btl_ib_udp_type;

#endif
