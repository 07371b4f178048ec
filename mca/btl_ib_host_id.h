/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Identifies hosts. Addresses do not: bridges of containers have the same address on each host.
 * Host names, and what the runtime calls a node, do not either: containers of one machine may share
 * its name and have networks of their own. No OPAL in here.
 */

#ifndef BTL_IB_HOST_ID_H
#define BTL_IB_HOST_ID_H

#include <stdint.h>

/* Hashes: two processes have equal numbers if they share the thing that is named, and only then
 * (but for one chance in 2^64). 0: the system does not tell. */
typedef struct btl_ib_host {
    uint64_t machine; /* the running kernel */
    uint64_t network; /* the network namespace of that kernel: its interfaces, loopback included */
} btl_ib_host_t;

/* Returns the host of this process. The paths are BTL_IB_HOST_BOOT_ID and BTL_IB_HOST_NETWORK,
 * except in tests. */
btl_ib_host_t btl_ib_host(const char *boot_id, const char *network);

#define BTL_IB_HOST_BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BTL_IB_HOST_NETWORK "/proc/self/ns/net"

#endif
