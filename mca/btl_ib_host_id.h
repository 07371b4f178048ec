/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What tells hosts apart. Addresses do not: bridges of containers have the same on each host. Names
 * do not, nor what the runtime calls a node: containers of one machine may share its name and have
 * networks of their own. No OPAL in here.
 */

#ifndef BTL_IB_HOST_ID_H
#define BTL_IB_HOST_ID_H

#include <stdint.h>

/* Numbers that two processes share if, and but for one chance in 2^64 only if, they share what is
 * named; 0: the system does not tell. */
typedef struct btl_ib_host {
    uint64_t machine; /* the running kernel */
    uint64_t network; /* on it the network namespace: the same interfaces, loopback included */
} btl_ib_host_t;

/* Returns the host of this process. Both paths as in BTL_IB_HOST_BOOT_ID, BTL_IB_HOST_NETWORK; a
 * test has others. */
btl_ib_host_t btl_ib_host(const char *boot_id, const char *network);

#define BTL_IB_HOST_BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BTL_IB_HOST_NETWORK "/proc/self/ns/net"

#endif
