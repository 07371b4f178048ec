/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The largest datagram that a path carries without fragments. All sizes are multiples of 8, so that
 * datagrams in one buffer stay aligned. */

#ifndef BTL_IB_UDP_PATH_MTU_H
#define BTL_IB_UDP_PATH_MTU_H

#include "udp_sockets.h"

enum {
    /* To other hosts. Larger datagrams save nothing where the kernel offloads segmentation, and
     * socket buffers are counted in powers of two: one of 9000 bytes takes 16 KiB. */
    BTL_IB_UDP_DATAGRAM_MOST = (9000 - 20 - 8) & ~7,
};

/* Returns the largest datagram of a path with an MTU of `mtu` bytes, at most the largest that is
 * used within a host; 0 if nothing fits. */
uint32_t btl_ib_udp_mtu_datagram(sa_family_t family, uint32_t mtu);

/* Returns the largest datagram of the path from `own`, an address of this host, to `to`, of the
 * same family. `interfaces` is the largest that the interfaces at both ends carry, which limits
 * paths to other hosts; it is also the answer if the kernel knows nothing. */
uint32_t btl_ib_udp_path_datagram(const btl_ib_udp_name_t *own, const btl_ib_udp_name_t *to,
                                  uint32_t interfaces);

#endif
