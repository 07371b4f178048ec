/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_footprint.h"

#include <stdio.h>

#include "addr_table.h"
#include "footprint.h"
#include "udp_rail.h"
#include "udp_socket.h"

/* What the kernel grants of a socket's buffer; `unknown` if it does not tell its limit. It counts
 * twice as much. */
static uint64_t granted(const char *limit, uint32_t wanted)
{
    FILE *file = fopen(limit, "re");
    unsigned long long most = 0;

    if (file != NULL) {
        if (fscanf(file, "%llu", &most) != 1) {
            most = 0;
        }
        (void) fclose(file);
    }
    return 2 * (most > 0 && most < wanted ? most : wanted);
}

void btl_ib_udp_footprint(const btl_ib_open_params_t *open, const btl_ib_transport_attr_t *attr,
                          uint32_t peers, btl_ib_footprint_t *footprint)
{
    const uint32_t wanted = btl_ib_udp_socket_wanted(open->socket_buffer);
    const uint64_t socket = granted("/proc/sys/net/core/rmem_max", wanted)
                            + granted("/proc/sys/net/core/wmem_max", wanted);
    const uint64_t shared = open->bulk_lane ? 2 : 1;
    const uint64_t table =
        btl_ib_addr_table_places(peers) * (sizeof(btl_ib_udp_peer_t) + sizeof(uint32_t));
    uint64_t connected = open->connected_max;

    (void) attr;
    connected = connected < BTL_IB_UDP_CONNECTED_MAX ? connected : BTL_IB_UDP_CONNECTED_MAX;
    connected = connected < peers ? connected : peers;
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS, sizeof(btl_ib_udp_t), 0, "transport");
    /* The socket's own buffer is what queues stand for; these only take what a call gets of it. */
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS,
                         peers > 0 ? sizeof(btl_ib_udp_buffer_t) : 0,
                         (uint64_t) BTL_IB_UDP_BUFFERS_MAX * sizeof(btl_ib_udp_buffer_t),
                         "receive buffers of 64 KiB");
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS, table, 0, "addresses of peers");
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_KERNEL, shared * socket,
                         (shared + connected) * socket, "buffers of sockets");
}
