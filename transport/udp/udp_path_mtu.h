/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Finds the largest datagram that a path carries without fragments. All sizes are multiples of 8,
 * so that datagrams in one buffer stay aligned. */

#ifndef BTL_IB_UDP_PATH_MTU_H
#define BTL_IB_UDP_PATH_MTU_H

#include "udp_sockets.h"

enum {
    /* Bytes of the largest datagram to other hosts. Larger ones would save nothing where the kernel
     * offloads segmentation; and socket buffers are counted in powers of two, so that one of 9000
     * bytes takes 16 KiB. */
    BTL_IB_UDP_DATAGRAM_MOST = (9000 - 20 - 8) & ~7,
};

/* Returns the bytes of the largest datagram for an MTU of `mtu` bytes, but at most that used within
 * a host; 0 if nothing fits. */
uint32_t btl_ib_udp_mtu_datagram(sa_family_t family, uint32_t mtu);

/* Returns the bytes of the largest datagram on the path from `own`, an address of this host, to
 * `to`, of the same family. `interfaces` is the largest datagram that the interfaces at both ends
 * carry: it limits paths to other hosts, and is the result if the kernel knows no MTU. */
uint32_t btl_ib_udp_path_datagram(const btl_ib_udp_name_t *own, const btl_ib_udp_name_t *to,
                                  uint32_t interfaces);

#endif
